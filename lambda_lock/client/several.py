"""An acquire of several locks, from its first request to the handle. core/several.py has the rules."""

from __future__ import annotations

from ..core import keep, protocol
from ..core import several as core
from ..core.outcome import ServiceError
from ..errors import (
    LockAlreadyReleasedError,
    LockConfigurationError,
    LockError,
    LockNotGrantedError,
    TransportError,
)
from ..runtime.drive import check_process
from ..runtime.import_guard import ImportGuard
from . import checks
from .held import HeldLock
from .lock import Lock
from .multi_lock import Group, MultiLock
from .options import order
from .renewer import KeepOptions, leave_to_lease
from .session import Explained
from .taking import give_back, tell_failed, tell_refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Unpack

    from ..core.lease import ClockReading
    from ..core.protocol import AcquireRequest, Hold, Steps
    from ..core.requests import Place
    from .options import Order, SeveralOptions
    from .session import Session


class Several:
    """Takes several locks. This is a `Taking`, whose lock is a MultiLock, and the `Keeper` of the locks meanwhile."""

    def __init__(self, session: Session, order: Order, places: list[Place]) -> None:
        self.place = places[0]  # the one that is being taken
        self.granted: list[Hold] = []
        self._session = session
        self._order = order
        self._places = places
        self._held: dict[Hold, HeldLock] = {}  # kept alive, so that they are renewed
        self._groups: list[Group] = []  # the one of this round
        self._locks: list[MultiLock] = []  # kept alive until it is handed out or given back

    # -- as a Taking ------------------------------------------------------------------------------------------------

    def steps(self, reading: ClockReading) -> Steps[None]:
        """The requests, and what follows a grant or a refusal."""
        session, steps = self._session, self._steps(reading)
        if not session.observer.measures:
            return steps
        with ImportGuard():
            from ..observe.timing import taking

        keys = [place.key for place in self._places]
        return taking(session, self.place.table, keys, reading, steps, lambda: None)

    def _steps(self, reading: ClockReading) -> Steps[None]:
        session = self._session
        check_process(self._order.kept.pid)
        try:
            yield from core.acquire_all(self, session.memory, session.entropy, reading)
            self._hand_out()
        except LockNotGrantedError as error:
            place = next((place for place in self._places if place.key == error.key), self.place)
            tell_refused(session, error, place, cancelled=self._order.cancelled)
            raise
        except (ServiceError, TransportError, LockConfigurationError) as error:
            tell_failed(session, error, self.place)
            with Explained(self.place):
                raise

    def lock(self) -> MultiLock:
        """The handle of the locks that were taken. They are kept no longer."""
        self._held.clear()  # the group has them now
        self._groups.clear()
        return self._locks.pop()

    def after_wait(self) -> None:
        """Raise ClientClosedError or LockTimeoutError if the wait is to end."""
        self._session.check_open()
        self._order.check_cancelled(self.place.key)

    def give_back(self) -> None:
        """Release on this thread what is still held: an interrupt or close came before the handle was returned."""
        unanswered = 0  # in a row
        for hold in reversed(self.granted):
            try:
                if unanswered == core.OUTAGE:
                    raise _unsent(hold)
                give_back(self._session, hold)
                unanswered = 0
            except LockError as error:
                leave_to_lease(self._session, hold, error)
                unanswered = min(unanswered + 1, core.OUTAGE) if isinstance(error, TransportError) else 0

    def _hand_out(self) -> None:
        group = self._groups[0]
        self._locks.append(group.handle())  # before anybody is told of it: all are given this one
        self._session.check_open()
        for member in group.members:
            member.signals.quiet = False
            member.renewer.keep_period(self._order.kept.heartbeat_period)
            member.is_timed = True
            member.signals.tell("granted", "lock %r was granted")
        group.is_lost()  # what was lost meanwhile is told now

    # -- as the Keeper ----------------------------------------------------------------------------------------------

    def each_wanted(self) -> Iterator[AcquireRequest]:
        """One for each lock, all under a new owner."""
        first = self._order.wanted
        prefix, _, _ = first.owner.rpartition("#")
        owner = f"{prefix}#{self._session.entropy.nonce()}"
        self._groups[:] = [Group(self._session, self._order.kept.pid)]
        for place in self._places:
            self.place = place
            yield _like(first, place, owner)

    def keep(self, hold: Hold) -> None:
        """From here on close() releases it."""
        self.granted.append(hold)
        self._session.open_locks.add(hold, self._order.kept.pid)

    def watch(self, hold: Hold) -> None:
        """Renew it, without a word to the application, which gets all locks or none."""
        group, kept = self._groups[0], self._order.kept
        own = KeepOptions(
            kept.full_lease,
            # The lock may be waited for long, and is renewed meanwhile, also where the user wants no renewals.
            None if self._order.wanted.patient and kept.heartbeat_period == 0 else kept.heartbeat_period,
            kept.safe_time,
            group.signal("danger", kept.on_danger),
            group.signal("lost", kept.on_lost),
        )
        own.pid = kept.pid
        self._held[hold] = held = HeldLock(self._session, hold, own, Lock)
        group.members.append(held)
        held.is_timed = False
        held.signals.quiet = True  # the caller may not get this lock, because it still takes others
        held.renewer.start()
        self._session.open_locks.attach(hold, held)
        self._session.check_open()  # either close() finds the lock among those held, or the client is found closed here

    def renew(self, hold: Hold, reading: ClockReading) -> Steps[None]:
        """Once, and not beside the heartbeat."""
        return self._held[hold].renewer.once(reading)

    def release(self, hold: Hold, reading: ClockReading) -> Steps[bool]:
        """Release a lock that the application never had. Returns whether DynamoDB answered."""
        session, held, answered = self._session, self._held.get(hold), True
        try:
            with Explained(hold.place):
                if held is not None:
                    yield from held.release()[1](reading)
                else:
                    yield from keep.release(hold, session.memory, session.entropy, reading)
        except LockAlreadyReleasedError:  # by close(), at this moment
            pass
        except LockError as error:
            leave_to_lease(session, hold, error)
            answered = not isinstance(error, TransportError)
        self._drop(hold)
        return answered

    def leave(self, hold: Hold) -> None:
        """Leave it to its lease: DynamoDB does not answer."""
        if hold in self._held:
            self._held[hold].abandon()
        leave_to_lease(self._session, hold, _unsent(hold))
        self._drop(hold)

    def _drop(self, hold: Hold) -> None:
        self._session.open_locks.discard(hold)
        self.granted[:] = [other for other in self.granted if other is not hold]  # an interrupt may bring it here twice
        self._held.pop(hold, None)


def acquire_all(
    session: Session,
    keys: Iterable[str],
    *,
    wait: float | None,
    sort_key: str | None = None,
    **options: Unpack[SeveralOptions],
) -> Several:
    """Check an acquire of several locks. The result runs it."""
    names = core.ordered(checks.several_keys(keys, core.MOST_KEYS))
    given: Any = options  # the callbacks get a MultiLock
    made = order(session, names[0], wait=wait, sort_key=sort_key, **given)
    return Several(session, made, [session.settings.place(name, sort_key) for name in names])


def _unsent(hold: Hold) -> TransportError:
    return TransportError(False, "DynamoDB does not answer, nothing was sent", key=hold.place.key)


def _like(wanted: AcquireRequest, place: Place, owner: str) -> AcquireRequest:
    """The same request for another lock."""
    made = protocol.AcquireRequest.__new__(protocol.AcquireRequest)
    for name in protocol.AcquireRequest.__slots__:
        setattr(made, name, getattr(wanted, name))
    made.place, made.owner = place, owner
    return made
