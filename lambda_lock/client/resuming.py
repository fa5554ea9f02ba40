"""Holds that outlive an invocation: resume, adopt, release by string, acquire by holder. Loaded when they are used."""

from __future__ import annotations

from ..core import handover, resume
from ..core.row import TOKEN_DIGITS, base_of
from ..errors import LockArgumentError, LockConfigurationError
from . import checks
from .options import ACQUIRE, Terms, checked, wanted
from .session import Operation
from .taking import Taking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.handover import Handover
    from ..core.protocol import Conversation, Steps
    from ..core.requests import Place
    from ..observe.observer import Observer
    from .lock import Callback, Lock
    from .session import Session
    from .taking import Wanted


def named(
    session: Session,
    method: str,
    string: object,
    key: str | None,
    sort_key: str | None,
    owner: str | None,
    fencing_token: int | None,
    permits: int | None,
) -> tuple[Handover, bool]:
    """Return the hold that a string or its parts name, and whether it was parts. Then its lease is 0: not known."""
    parts = {"key": key, "owner": owner, "fencing_token": fencing_token, "sort_key": sort_key, "permits": permits}
    given = [f"{name}=" for name, value in parts.items() if value is not None]
    if string is not None and given:
        raise LockArgumentError(
            f"{method} takes the string or its parts, not both: leave {', '.join(given)} out, or the string"
        )
    table = session.settings.names()[0]
    if not given:
        return handover.read_handover(string, table, method), False
    if key is None or owner is None or fencing_token is None:
        missing = [f"{name}=" for name, value in list(parts.items())[:3] if value is None]
        raise LockArgumentError(
            f"{method} was not given {', '.join(missing)}: a hold without its string is named by key=, owner= and "
            "fencing_token= together"
        )
    checks.lock_key("key", key)
    checks.key_text("owner", owner)
    if "#" not in owner:
        raise LockArgumentError(
            f"owner={owner!r} has no '#': pass lock.owner, which is prefix#nonce, or the row's ownerName", key=key
        )
    checks.whole("fencing_token", fencing_token, least=0)
    if fencing_token >= 10**TOKEN_DIGITS:
        raise LockArgumentError(f"fencing_token={fencing_token!r} is out of range: pass lock.fencing_token", key=key)
    if permits is not None:
        checks.permit_count(permits, key)
    base = base_of(owner)
    assert base is not None
    return handover.Handover(table, key, sort_key, base, fencing_token, 0, permits), True


def taken(
    session: Session,
    method: str,
    named_hold: tuple[Handover, bool],
    lease_duration: float | None,
    safe_time: float | None,
    on_danger: Callback | None,
    on_lost: Callback | None,
    context: object,
) -> Taking[Lock]:
    """Check a resume or adopt (``method``) of what `named` returned. The result runs it.

    Its request has the owner of a new attempt; for an adopt by string, that of the hold.
    """
    hold, by_parts = named_hold
    by_string = method == "adopt" and not by_parts
    given = {
        "wait": 0,
        "sort_key": hold.sort_key,
        "permits": hold.permits,
        "lease_duration": hold.lease_ms / 1000 if lease_duration is None and not by_parts else lease_duration,
        "safe_time": safe_time,
        "on_danger": on_danger,
        "on_lost": on_lost,
        "context": context,
    }
    terms = Terms(session.settings, checked(ACQUIRE, given), hold.key)
    made = wanted(session, terms, hold.key, owner=hold.owner if by_string else None, prefix=f"{hold.owner}/")
    if not by_string:
        _check_kept(made[0].place)
    begin = handover.adopt if method == "adopt" else resume.resume
    return Taking(session, made, lambda wanted, talk, keep: begin(wanted, hold.token, talk, keep=keep))


def released(
    session: Session,
    string: object,
    /,
    *,
    key: str | None = None,
    sort_key: str | None = None,
    owner: str | None = None,
    fencing_token: int | None = None,
    permits: int | None = None,
    lease_duration: float | None = None,
    **unknown: Any,
) -> Operation[bool]:
    """The operation of `LockClient.release`."""
    checks.options("release", released.__kwdefaults__ or (), unknown)
    if lease_duration is not None:  # not used: the parts are the same as for resume
        checks.lease_duration(lease_duration)
    hold, _ = named(session, "release", string, key, sort_key, owner, fencing_token, permits)
    place = session.settings.place(hold.key, hold.sort_key)
    _check_kept(place)
    if hold.permits is not None:
        from ..core.permits import PermitPlace

        checks.permits(hold.permits, place.schema, hold.key)
        place = PermitPlace(place, hold.permits, hold.owner)
    session.check_open()

    return _Releasing(session.observer, place, hold)


class _Releasing(Operation[bool]):
    """Releases a hold without a handle."""

    what, is_urgent = "release", True

    def __init__(self, observer: Observer, place: Place, hold: Handover) -> None:
        self.place = place
        self._observer = observer
        self._hold = hold

    def steps(self, talk: Conversation) -> Steps[bool]:
        key, owner, token = self._hold.key, self._hold.owner, self._hold.token
        done = yield from resume.release(self.place, owner, token, talk)
        if done:
            tell, message = self._observer.tell, "lock %r was released by its string"
            tell("released", message, key, place=self.place, owner=owner, fencing_token=token)
        return done

    def of_hold(self) -> tuple[int, None]:
        return self._hold.token, None

    def outcome(self, done: bool) -> str:
        return "released" if done else "lost"


def by_holder(session: Session, made: Wanted) -> Taking[Lock]:
    """Check an acquire by holder. The result runs it."""
    _check_kept(made[0].place)
    return Taking(session, made, resume.acquire)


def _check_kept(place: Place) -> None:
    """Refuse a schema whose rows are deleted on release."""
    if place.schema.released is None:
        raise LockConfigurationError(
            f"lock {place.key!r} cannot be resumed: rows of the schema {place.schema.name} are deleted on release, and "
            "a late copy of a claim could bring one back with the same owner and token. Use a client with the schema "
            "JAVA or GO, and a table of its own",
            key=place.key,
        )
