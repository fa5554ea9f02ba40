"""`LockClient.erase`: the row of a key that nobody uses is deleted. Loaded when it is used.

It reads the row, and deletes it under the condition that it is still as seen: every attribute that a claim, a release
or a completion writes has the same value, or is absent as before. So a late or second copy of the delete is refused by
a row that came afterwards, because versions and tokens of grants differ.

Two holders cannot be (tests/simulation/erasing.py): a row that is free has no holder, nor have permits whose expiry has
passed by the Date, and a claim after the read changes what the condition compares. A late copy of a claim may find no
row and make one. That is a lock that nobody believes in, as after ``release(delete=True)``, and it ends with its stored
expiry.

The tokens of a new row start above the time at which its claim was sent, and so above those of the erased row, which
started at an earlier time and rose by one a grant. That fails for a late claim from before the erased row was made, and
with a wrong clock.
"""

from __future__ import annotations

from ..core import requests
from ..core.outcome import ConditionFailed, Reply, unknown
from ..core.row import OF_SLEEPERS
from ..core.sleepers import NEWEST
from ..errors import LockFormatError, LockNotGrantedError
from . import checks
from .record import LockRecord
from .session import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.outcome import Item
    from ..core.protocol import Conversation, Steps
    from ..core.requests import Place
    from .session import Session

#: Fields of the schema that change under one and the same grant, or that no claim goes by.
_NOT_COMPARED = ("data", "result", "waiters", "ttl", "held_ms")


def erase(session: Session, key: str, scope: str, sort_key: str | None, force: bool) -> Operation[bool]:
    """The operation of `LockClient.erase`."""
    checks.flag("force", force)
    place = place_of(session, key, scope, sort_key)
    return Operation(place, lambda talk: steps(place, force, talk))


def steps(place: Place, force: bool, talk: Conversation) -> Steps[bool]:
    """Read the row, and delete it as it was seen. force: also a row that is in use."""
    reply = yield from talk.ask(requests.read(place))
    if not reply.item:
        return False
    if not force:
        row = place.row(reply.item)  # raises for a row of another schema
        assert row is not None, "there is an item"
        refuse_used(LockRecord(row, place, reply.date))
    return (yield from delete(place, reply.item, talk))


def place_of(session: Session, key: str, scope: str, sort_key: str | None) -> Place:
    """Where the row to erase is. Raises what `LockClient.erase` raises for its arguments."""
    place = session.settings.place(checks.in_scope(scope, key), sort_key)
    session.check_open()
    return place


def refuse_used(record: LockRecord) -> None:
    """Raise LockNotGrantedError for a row that somebody uses, and LockFormatError for one that cannot be judged."""
    key, now = record.key, record.read_at or 0
    if record.unreadable or (record.version is None and record.fencing_token is None and record.rate is None):
        what = f"has {', '.join(record.unreadable)} that cannot be read" if record.unreadable else "was never a lock's"
        raise LockFormatError(
            f"row {key!r} was not erased: it {what}, so nobody can tell whether it is in use. Look at it, and pass "
            "force=True once nobody works under it",
            key=key,
        )
    if record.rate is not None and (record.next_at or 0) > now:
        used = f"starts of this rate limit are taken for another {(record.next_at or 0) - now:.3g} s"
    elif record.sleepers:
        used = f"{record.sleepers} sleep until it is free"
    elif not record.is_released:
        holders = ", ".join(str(holder.owner) for holder in record.holders) or record.owner or "somebody"
        used = f"it is held by {holders}"
        if record.is_expired:
            used = f"the lease of {record.owner} has ended, but it was not released"
    else:
        return
    raise LockNotGrantedError(
        f"row {key!r} was not erased: {used}. Erase it again afterwards, or stop whoever uses it and pass force=True",
        key=key,
        holder=record.owner or next((holder.owner for holder in record.holders), None),
    )


def delete(place: Place, item: Item, talk: Conversation) -> Steps[bool]:
    """Delete the row of ``item``, only as it was seen. Return whether this did it, and not somebody else."""
    schema, update = place.schema, requests.Update(place)
    left_out = {getattr(schema, field) for field in _NOT_COMPARED}
    own = [*schema.attribute_names(), *schema.foreign_versions]
    if place.key.endswith(OF_SLEEPERS):
        own.append(NEWEST)  # changes with each that lies down
    for number, name in enumerate(name for name in own if name is not None and name not in left_out):
        placeholder = update.name(name)
        if name in item:
            update.require(f"{placeholder} = :seen{number}", **{f"seen{number}": item[name]})
        else:
            update.require(f"attribute_not_exists({placeholder})")
    outcome, unclear = yield from talk.exchange(update.request("DeleteItem"))
    if isinstance(outcome, Reply):
        return True
    if not isinstance(outcome, ConditionFailed):
        if not unclear:
            raise outcome
        raise unknown(f"row {place.key!r} was erased: no clear answer came. Erase it again", place.key, outcome)
    if not outcome.item:
        return unclear  # this delete's first copy did it, or somebody else's
    raise LockNotGrantedError(
        f"row {place.key!r} was not erased: somebody took or renewed it meanwhile. Look at it, and erase it again",
        key=place.key,
        holder=place.view(outcome.item).owner,
    )
