"""Holds that outlive an invocation: resume, adopt, release by string, acquire by holder. Loaded when they are used."""

from __future__ import annotations

from ..core import handover, resume
from ..core.row import TOKEN_DIGITS, base_of
from ..errors import LockArgumentError, LockConfigurationError, LockError
from ..runtime.import_guard import ImportGuard
from . import checks
from .lock import held_by
from .options import order, unknown_option
from .renewer import leave_to_lease
from .taking import Fresh, give_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never

    from ..core.handover import Handover
    from ..core.lease import ClockReading
    from ..core.protocol import Hold, Steps
    from ..core.requests import Place
    from .lock import Callback, Lock
    from .options import Order
    from .session import Operation, Session
    from .taking import Taking


class Adoption(Fresh):
    """Takes a lock that was handed over. token: of the hold."""

    def __init__(self, session: Session, order: Order, token: int) -> None:
        super().__init__(session, order)
        self._token = token

    def _grant(self, reading: ClockReading) -> Steps[Hold]:
        wanted, session = self._order.wanted, self._session
        return handover.adopt(wanted, self._token, session.memory, session.entropy, reading, keep=self.keep)


class Resumption(Fresh):
    """Takes a lock that an earlier attempt may have had. What was resumed is not given back: the next one goes on.

    token: of the hold. None: the lock is acquired if the holder does not have it.
    """

    def __init__(self, session: Session, order: Order, token: int | None) -> None:
        super().__init__(session, order)
        self._token = token

    def _grant(self, reading: ClockReading) -> Steps[Hold]:
        wanted, session = self._order.wanted, self._session
        if self._token is None:
            return resume.acquire(wanted, session.memory, session.entropy, reading, self.keep)
        return resume.resume(wanted, self._token, session.memory, session.entropy, reading, keep=self.keep)

    def lock(self) -> Lock:
        """As the base class. From here on close() releases it. Raises ClientClosedError if close() came before."""
        lock: Lock = super().lock()
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


def named(
    session: Session,
    method: str,
    string: object,
    key: str | None,
    sort_key: str | None,
    owner: str | None,
    fencing_token: int | None,
) -> tuple[Handover, bool]:
    """Return the hold that a string or its parts name, and whether it was parts. The lease of parts may be 0: none."""
    parts = {"key": key, "sort_key": sort_key, "owner": owner, "fencing_token": fencing_token}
    given = [f"{name}=" for name, value in parts.items() if value is not None]
    if string is not None and given:
        raise LockArgumentError(
            f"{method} takes the string or its parts, not both: leave {', '.join(given)} out, or the string"
        )
    table = session.settings.names()[0]
    if not given:
        return handover.read_handover(string, table, method), False
    if key is None or owner is None or fencing_token is None:
        missing = [f"{name}=" for name, value in parts.items() if value is None and name != "sort_key"]
        raise LockArgumentError(
            f"{method} was not given {', '.join(missing)}: a hold without its string is named by key=, owner= and "
            "fencing_token= together"
        )
    checks.key_text("key", key)
    checks.key_text("owner", owner)
    if "#" not in owner:
        raise LockArgumentError(
            f"owner={owner!r} has no '#': pass lock.owner, which is prefix#nonce, or the row's ownerName", key=key
        )
    checks.whole("fencing_token", fencing_token, least=0)
    if fencing_token >= 10**TOKEN_DIGITS:
        raise LockArgumentError(f"fencing_token={fencing_token!r} is out of range: pass lock.fencing_token", key=key)
    base = base_of(owner)
    assert base is not None
    return handover.Handover(table, key, sort_key, base, fencing_token, 0), True


def taken(
    session: Session,
    method: str,
    string: object,
    /,
    *,
    key: str | None = None,
    sort_key: str | None = None,
    owner: str | None = None,
    fencing_token: int | None = None,
    lease_duration: float | None = None,
    safe_time: float | None = None,
    on_danger: Callback | None = None,
    on_lost: Callback | None = None,
    context: object = None,
    **unknown: Never,
) -> Taking[Lock]:
    """Check a resume or adopt (``method``). The result runs it.

    The owner of its order is an attempt's; for an adopt by string, it is the hold's.
    """
    if unknown:
        raise unknown_option(method, unknown)
    hold, by_parts = named(session, method, string, key, sort_key, owner, fencing_token)
    by_string = method == "adopt" and not by_parts
    made = order(
        session,
        hold.key,
        None,
        hold.owner if by_string else None,
        f"{hold.owner}/",
        wait=0,
        sort_key=hold.sort_key,
        lease_duration=hold.lease_ms / 1000 if lease_duration is None and not by_parts else lease_duration,
        safe_time=safe_time,
        on_danger=on_danger,
        on_lost=on_lost,
        context=context,
    )
    if not by_string:
        _check_kept(made.wanted.place)
    return (Adoption if method == "adopt" else Resumption)(session, made, hold.token)


def released(
    session: Session,
    string: object,
    /,
    *,
    key: str | None = None,
    sort_key: str | None = None,
    owner: str | None = None,
    fencing_token: int | None = None,
    lease_duration: float | None = None,
    **unknown: Never,
) -> Operation[bool]:
    """The operation of `LockClient.release`."""
    if unknown:
        raise unknown_option("release", unknown)
    hold, _ = named(session, "release", string, key, sort_key, owner, fencing_token)
    if lease_duration is not None:
        checks.lease_duration(lease_duration)
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
            from ..observe.timing import timed

        def how(done: bool) -> tuple[str, int | None]:
            return "released" if done else "lost", hold.token

        keys, acting = (place.key,), steps(reading)
        return timed(session.observer, "release", place.table, keys, reading, acting, how, hold.token)

    return place, timed


def by_holder(session: Session, made: Order) -> Taking[Lock]:
    """Check an acquire by holder. The result runs it."""
    _check_kept(made.wanted.place)
    return Resumption(session, made, None)


def _check_kept(place: Place) -> None:
    """Refuse a schema whose rows are deleted on release."""
    if place.schema.released is None:
        raise LockConfigurationError(
            f"lock {place.key!r} cannot be resumed: rows of the schema {place.schema.name} are deleted on release, and "
            "a late copy of a claim could bring one back with the same owner and token. Use a client with the schema "
            "JAVA or GO, and a table of its own",
            key=place.key,
        )
