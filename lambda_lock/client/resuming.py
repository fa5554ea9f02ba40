"""Holds that outlive an invocation: resume, adopt, release by string, acquire by holder. Loaded when they are used."""

from __future__ import annotations

from ..core import handover, resume
from ..core.row import TOKEN_DIGITS, base_of
from ..errors import LockArgumentError, LockConfigurationError, LockError
from ..runtime.import_guard import ImportGuard
from . import checks
from .lock import held_by
from .options import order
from .renewer import leave_to_lease
from .taking import Fresh, give_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Unpack

    from ..core.handover import Handover
    from ..core.lease import ClockReading
    from ..core.protocol import Steps
    from ..core.requests import Place
    from .lock import Lock
    from .options import AcquireOptions, HoldOptions, Order
    from .session import Operation, Session
    from .taking import Taking

_HOLDER_LIMIT = 512  # bytes, as of an owner's prefix
_PARTS = ("key", "sort_key", "owner", "fencing_token")
_NOT_BY_HOLDER = {
    "permits": "a permit is not resumed",
    "delete_on_release": "a late copy of its claim could bring a deleted row back",
    "replace": "a hold that is resumed keeps its row",
    "reentrant": "each attempt is a handle of its own",
}


class Resumption(Fresh):
    """Takes a lock that an earlier attempt may have had. What was resumed is not given back: the next one goes on."""

    def lock(self) -> Lock:
        """As the base class. From here on close() releases it. Raises ClientClosedError if close() came before."""
        lock = super().lock()
        held = held_by(lock)
        held.is_given = True
        if held.hold.ended and not held.hold.unclear:  # close() left it to the next attempt: no release has begun
            self._session.check_open()
        return lock

    def give_back(self) -> None:
        for hold in self.granted:
            if hold.resumed:
                hold.end()
                self._session.open_locks.discard(hold)
                continue
            try:
                give_back(self._session, hold)
            except LockError as error:
                leave_to_lease(self._session, hold, error)


def named(session: Session, method: str, string: object, options: Mapping[str, Any]) -> tuple[Handover, bool]:
    """Return the hold that a string or its parts name, and whether it was parts. The lease of parts may be 0: none."""
    given = [name for name in _PARTS if options.get(name) is not None]
    if string is not None and given:
        raise LockArgumentError(
            f"{method} takes the string or its parts, not both: leave {', '.join(f'{name}=' for name in given)} out, "
            "or the string"
        )
    if not given:
        return handover.read_handover(string, session.settings.names()[0], method), False
    missing = [f"{name}=" for name in ("key", "owner", "fencing_token") if options.get(name) is None]
    if missing:
        raise LockArgumentError(
            f"{method} was not given {', '.join(missing)}: a hold without its string is named by key=, owner= and "
            "fencing_token= together"
        )
    key, owner, token = checks.key_text("key", options["key"]), options["owner"], options["fencing_token"]
    checks.key_text("owner", owner)
    if "#" not in owner:
        raise LockArgumentError(
            f"owner={owner!r} has no '#': pass lock.owner, which is prefix#nonce, or the row's ownerName", key=key
        )
    checks.whole("fencing_token", token, least=0)
    if token >= 10**TOKEN_DIGITS:
        raise LockArgumentError(f"fencing_token={token!r} is out of range: pass lock.fencing_token", key=key)
    base = base_of(owner)
    assert base is not None
    table = session.settings.names()[0]
    return handover.Handover(table, key, options.get("sort_key"), base, token, 0), True


def taken(
    session: Session, method: str, string: object, *, context: object, **options: Unpack[HoldOptions]
) -> tuple[Order, int]:
    """Check what a resume or adopt asks for. Returns the order, and the fencing token of the hold.

    The owner of the order is an attempt's; for an adopt by string, it is the hold's.
    """
    hold, by_parts = named(session, method, string, options)
    lease_duration = options.get("lease_duration")
    if lease_duration is None and not by_parts:
        lease_duration = hold.lease_ms / 1000
    by_string = method == "adopt" and not by_parts
    made = order(
        session,
        hold.key,
        wait=0,
        sort_key=hold.sort_key,
        context=context,
        owner=hold.owner if by_string else None,
        prefix=f"{hold.owner}/",
        lease_duration=lease_duration,
        safe_time=options.get("safe_time"),
        on_danger=options.get("on_danger"),
        on_lost=options.get("on_lost"),
    )
    if not by_string:
        _check_kept(made.wanted.place)
    return made, hold.token


def adopted(session: Session, token: object, *, context: object, **options: Unpack[HoldOptions]) -> Taking[Lock]:
    """Check an adopt. The result runs it."""
    made, number = taken(session, "adopt", token, context=context, **options)
    return Fresh(
        session,
        made,
        lambda reading, keep: handover.adopt(made.wanted, number, session.memory, session.entropy, reading, keep=keep),
    )


def resumed(session: Session, string: object, *, context: object, **options: Unpack[HoldOptions]) -> Taking[Lock]:
    """Check a resume. The result runs it."""
    made, token = taken(session, "resume", string, context=context, **options)
    return Resumption(
        session,
        made,
        lambda reading, keep: resume.resume(made.wanted, token, session.memory, session.entropy, reading, keep=keep),
    )


def released(session: Session, string: object, options: Mapping[str, Any]) -> Operation[bool]:
    """The operation of `LockClient.release`."""
    hold, _ = named(session, "release", string, options)
    if options.get("lease_duration") is not None:
        checks.lease_duration(options["lease_duration"])
    place = session.settings.place(hold.key, hold.sort_key)
    _check_kept(place)
    session.check_open()

    def steps(reading: ClockReading) -> Steps[bool]:
        done = yield from resume.release(place, hold.owner, hold.token, session.memory, session.entropy, reading)
        if done:
            session.observer.tell(
                "released",
                None,
                place.table,
                "lock %r was released by its string",
                hold.key,
                key=hold.key,
                owner=hold.owner,
                fencing_token=hold.token,
            )
        return done

    if not session.observer.measures:
        return place, steps

    def timed(reading: ClockReading) -> Steps[bool]:
        with ImportGuard():
            from ..observe.timing import ending

        def how(done: bool) -> str:
            return "released" if done else "lost"

        return ending(session, place.table, (place.key,), reading, steps(reading), how, hold.token)

    return place, timed


def acquired(session: Session, key: str, *, wait: float | None, **options: Unpack[AcquireOptions]) -> Taking[Lock]:
    """Check an acquire by holder. The result runs it."""
    holder: object = options.get("holder")
    if not isinstance(holder, str):
        raise TypeError(f"holder must be a str, not {holder!r} ({type(holder).__name__})")
    if not holder:
        raise LockArgumentError(
            "holder is empty: pass a name that only this work has, such as the execution's", key=key
        )
    checks.key_text("holder", holder, _HOLDER_LIMIT)
    for option, why in _NOT_BY_HOLDER.items():
        if options.get(option):
            value = options.get(option)
            raise LockArgumentError(
                f"{option}={value!r} is not possible with holder={holder!r}: {why}. Leave one of the two out", key=key
            )
    options["queue"] = False
    made = order(session, key, wait=wait, prefix=f"{holder}#", **options)
    _check_kept(made.wanted.place)
    return Resumption(
        session, made, lambda reading, keep: resume.acquire(made.wanted, session.memory, session.entropy, reading, keep)
    )


def _check_kept(place: Place) -> None:
    """Refuse a schema whose rows are deleted on release."""
    if place.schema.released is None:
        raise LockConfigurationError(
            f"lock {place.key!r} cannot be resumed: rows of the schema {place.schema.name} are deleted on release, and "
            "a late copy of a claim could bring one back with the same owner and token. Use a client with the schema "
            "JAVA or GO, and a table of its own",
            key=place.key,
        )
