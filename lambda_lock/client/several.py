"""An acquire of several locks, from its first request to the handle. core/several.py has the rules."""

from __future__ import annotations

from ..core import keep, protocol
from ..core import several as core
from ..errors import (
    LockAlreadyReleasedError,
    LockError,
    TransportError,
)
from . import checks
from .held import HeldLock
from .lock import Lock
from .multi_lock import Group, MultiLock
from .renewer import KeepOptions, leave_to_lease
from .session import Explained
from .taking import Fresh, give_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from ..core.lease import ClockReading
    from ..core.protocol import AcquireRequest, Hold, Steps
    from ..core.requests import Place
    from .options import Order
    from .session import Session


class Several(Fresh):
    """Takes several locks, under the options of ``order``. It is the `Keeper` of the locks meanwhile.

    keys: in the order in which they are taken.
    """

    def __init__(self, session: Session, order: Order, keys: Sequence[str], sort_key: str | None) -> None:
        super().__init__(session, order)
        self._places = [session.settings.place(key, sort_key) for key in keys]
        self._held: dict[Hold, HeldLock] = {}  # kept alive, so that they are renewed
        self._groups: list[Group] = []  # the one of this round

    # -- as a Taking ------------------------------------------------------------------------------------------------

    def keys(self) -> Sequence[str]:
        return [place.key for place in self._places]

    def token(self) -> None:
        return None

    def _grant(self, reading: ClockReading) -> Steps[Any]:
        return core.acquire_all(self, self._session.memory, self._session.entropy, reading)

    def _place_of(self, error: LockError) -> Place:
        return next((place for place in self._places if place.key == error.key), self.place)

    def lock(self) -> MultiLock:
        """The handle of the locks that were taken. They are kept no longer."""
        self._held.clear()  # the group has them now
        self._groups.clear()
        lock: MultiLock = super().lock()
        return lock

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

    def _register(self, holds: Any) -> None:
        group = self._groups[0]
        self._locks.append(group.handle())  # before anybody is told of it: all are given this one
        self._session.check_open()
        for member in group.members:
            member.renewer.quiet = False
            member.renewer.keep_period(self._order.kept.heartbeat_period)
            member.is_timed = True
            member.renewer.tell("granted", "lock %r was granted")
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

    def watch(self, hold: Hold) -> None:
        """Renew it, without a word to the application, which gets all locks or none."""
        group, kept = self._groups[0], self._order.kept
        own = KeepOptions(
            kept.full_lease,
            # The lock may be waited for long, and is renewed meanwhile, also where the user wants no renewals.
            None if self._order.wanted.waits and kept.heartbeat_period == 0 else kept.heartbeat_period,
            kept.safe_time,
            group.signal("danger", kept.on_danger),
            group.signal("lost", kept.on_lost),
        )
        own.pid = kept.pid
        self._held[hold] = held = HeldLock(self._session, hold, own, Lock)
        group.members.append(held)
        held.is_timed = False
        held.renewer.quiet = True  # the caller may not get this lock, because it still takes others
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


def names(keys: Iterable[str]) -> list[str]:
    """The keys in the order in which everybody takes them, each one once. Raises LockArgumentError or TypeError."""
    return core.ordered(checks.several_keys(keys, core.MOST_KEYS))


def _unsent(hold: Hold) -> TransportError:
    return TransportError(False, "DynamoDB does not answer, nothing was sent", key=hold.place.key)


def _like(wanted: AcquireRequest, place: Place, owner: str) -> AcquireRequest:
    """The same request for another lock."""
    made = protocol.AcquireRequest.__new__(protocol.AcquireRequest)
    vars(made).update(vars(wanted))
    made.place, made.owner = place, owner
    return made
