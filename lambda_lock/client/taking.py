"""An acquire or adopt, from its first request to the lock that is held."""

from __future__ import annotations

import os

from ..core import acquire as core
from ..core import keep
from ..core.outcome import ServiceError, expected
from ..core.protocol import OUTAGE
from ..errors import (
    DuplicateEventError,
    LockAlreadyReleasedError,
    LockConfigurationError,
    LockError,
    LockNotGrantedError,
    LockTimeoutError,
    TransportError,
)
from ..runtime.drive import check_process
from ..runtime.signalsafe import HELD_HERE, given_back
from .held import HeldLock
from .lock import Lock
from .renewer import leave_to_lease, line_of_execution
from .session import Explained, Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeAlias, TypeVar

    from ..core.protocol import AcquireRequest, Conversation, Hold, Steps
    from ..core.requests import Place
    from .renewer import KeepOptions
    from .session import Session

    T = TypeVar("T")
    #: What an acquire wants: its request, how to keep the lock, and ``cancel_check``.
    Wanted: TypeAlias = tuple[AcquireRequest, KeepOptions, Callable[[], bool] | None]


#: Added to the error if this very process holds the lock: a caller that waits for itself waits in vain.
_OWN = (
    "It is this very client that holds it, in this very thread or task: release that lock first, or pass "
    "reentrant=True to enter it again"
)
_HERE = "It is this very process that holds it, by another client, thread or task. One client is enough for a process"


class Taking(Operation["T"]):
    """Takes a lock that this line of execution does not hold. Its result is the handle, not what its steps return: the
    frames that drive the steps may outlive them in the traceback of an error, and would keep the lock alive.

    What was granted is released after an error, except a resumed hold: the next attempt goes on with it.

    begin: core.acquire, or the function that adopts or resumes, or acquires by holder.
    """

    what, closed = "acquire", staticmethod(given_back)

    def __init__(self, session: Session, wanted: Wanted, begin: Callable[..., Steps[Hold]] = core.acquire) -> None:
        self._session = session
        self._wanted, self._kept, self._cancel_check = wanted
        self._cancelled = False
        self._begin = begin
        self.place = self._wanted.place
        self._places: Sequence[Place] = (self.place,)
        self.granted: list[Hold] = []
        self._locks: list[Any] = []  # handles, kept alive until one is returned: a dropped one logs a warning

    def keys(self) -> Sequence[str]:
        return [place.key for place in self._places]

    def outcome(self, done: object) -> str:
        return "granted"

    def of_hold(self) -> tuple[int | None, None]:
        """The fencing token of what was granted."""
        return (self.granted[-1].token if self.granted else None), None

    def steps(self, talk: Conversation) -> Steps[None]:
        """The requests, and what follows a grant or a refusal."""
        if self._kept.pid != os.getpid():
            check_process(self._kept.pid)
        try:
            self._register((yield from self._grant(talk)), talk)
        except (DuplicateEventError, LockNotGrantedError) as error:
            tell_refused(self._session, error, self._place_of(error), self._kept.line, cancelled=self._cancelled)
            raise
        except (ServiceError, TransportError, LockConfigurationError) as error:
            tell_failed(self._session, self.place, error)
            with Explained(self.place):
                raise
        finally:
            if talk.memory.watch.noticed:
                from .noticed import tell_noticed

                tell_noticed(self._session, talk.memory.watch.noticed)

    def _grant(self, talk: Conversation) -> Steps[Any]:
        return self._begin(self._wanted, talk, keep=self.keep)

    def _place_of(self, error: LockError) -> Place:
        """The lock that a refusal is about."""
        return next((place for place in self._places if place.key == error.key), self.place)

    def result(self, _: object) -> T:
        """Return the handle, and keep it no longer. From here on close() also releases a resumed hold.

        Raises ClientClosedError if close() has left that hold to the next attempt before.
        """
        lock, hold = self._locks.pop(), self.granted[-1]
        if hold.resumed:
            lock.__held__.is_given = True
            if hold.ended and not hold.unclear:  # no release has begun
                self._session.check_open()
        return lock  # type: ignore[no-any-return]

    def after_wait(self) -> None:
        """Raise ClientClosedError or LockTimeoutError if the wait is to end."""
        self._session.check_open()
        if self._cancel_check is not None and self._cancel_check():
            self._cancelled = True
            key = self.place.key
            raise LockTimeoutError(f"waiting for lock {key!r} was cancelled by cancel_check", key=key)

    def leaves(self, error: BaseException) -> bool:
        """Whether anything was granted: an interrupt or close came before the lock was returned."""
        return bool(self.granted)

    def undo(self) -> None:
        """Release on this thread what was granted, the newest first."""
        for hold in self.granted:
            if hold.resumed:
                hold.end()
                self._session.open_locks.discard(hold)
        release_each(self._session, ((hold, None) for hold in reversed(self.granted) if not hold.resumed))

    def keep(self, hold: Hold) -> None:
        """Note a grant. From here on close() releases it."""
        self.granted.append(hold)
        self._session.open_locks.add(hold, self._kept.pid)

    def _register(self, hold: Any, talk: Conversation) -> None:
        """Make the handle of what was granted."""
        held = HeldLock(self._session, hold, self._kept, Lock)
        self._locks.append(held.handle())  # made first: callbacks and hooks are given this one
        held.renewer.start(talk.elapsed)
        self._session.open_locks.attach(hold, held)
        self._session.check_open()  # either close() finds the lock among those held, or the client is found closed here
        held.renewer.tell("granted", "lock %r was granted")


class Entering(Operation["Lock"]):
    """Enters a lock that this line of execution holds already. Sends nothing."""

    def __init__(self, held: HeldLock, *, event: bool = False) -> None:
        self.place = held.hold.place
        self._held = held
        self._event = event

    def steps(self, talk: Conversation) -> Steps[None]:
        """Nothing is sent."""
        yield from ()

    def result(self, _: object) -> Lock:
        """The lock, entered again. Counting is the last step, because nothing counts down after an interrupt."""
        lock: Lock = self._held.handle()
        self._held.enter_again(event=self._event)
        return lock


def entered_before(
    session: Session, key: str, sort_key: str | None, permits: int | None, take: int = 1, *, event: bool = False
) -> Entering | None:
    """For a re-entrant acquire: return an Entering for the lock that this thread or task holds. None: it holds none.

    take: how many permits are asked for. event: the lock must be an event's. If it is not, the result raises
    LockConfigurationError. So does this if the lock has fewer permits: a hold does not grow.
    """
    place, line = session.settings.place(key, sort_key), line_of_execution()
    for held in session.open_locks.handled():
        is_lock = held.hold.place.permits is None
        if is_lock is not (permits is None):  # a lock and a semaphore: the row will show which is wrong
            continue
        if held.is_held() and held.hold.place.where == place.where and held.options.line == line:
            if held.hold.take < take:  # its caller would believe to have what others hold
                raise LockConfigurationError(
                    f"this call asks for {take} of the permits of {key!r}, and the lock that its thread or task holds "
                    f"already has {held.hold.take}: a hold does not grow. Release that first, or take as many there",
                    key=key,
                )
            return Entering(held, event=event)
    return None


def tell_refused(
    session: Session, error: DuplicateEventError | LockNotGrantedError, place: Place, line: object, *, cancelled: bool
) -> None:
    """Tell that an acquire ended without its lock. If this very process holds it, add that to the error.

    line: the thread and task of the caller.
    """
    holder, event = None, "duplicate"
    if isinstance(error, LockNotGrantedError):
        holder = error.holder
        here = HELD_HERE.get((os.getpid(), holder), lambda: None)()
        if place.permits is None and here is not None and not here.ended:
            lines = [held.options.line for held in session.open_locks.handled() if held.hold.owner == holder]
            error.add(_OWN if line in lines else _HERE)
        event = "too_late" if error.too_late else "cancelled" if cancelled else "not_granted"
    session.observer.tell(event, "%s", error, place=place, subject=lambda: _for_hooks(error), holder=holder)


def _for_hooks(error: DuplicateEventError | LockNotGrantedError) -> LockError:
    """The error as hooks are given it: with the JSON text of a result alone, as `LockRecord.result` has it."""
    if not isinstance(error, DuplicateEventError) or error.result is None:
        return error
    import copy

    from .event_results import result_parts

    told = copy.copy(error)
    told.give(result_parts(error.result)[0])
    return told


def tell_failed(session: Session, place: Place, error: Exception) -> None:
    """Tell that nothing was acquired, because DynamoDB could not be used. Other errors are not told."""
    told = error
    if isinstance(error, ServiceError):
        from .explain import explain

        reason, told = explain(error, place)
    elif isinstance(error, (TransportError, LockConfigurationError)):
        reason = "no_answer" if isinstance(error, TransportError) else "misconfigured"
    else:
        return
    message = "lock %r was not acquired, because DynamoDB could not be used: %s"
    session.observer.tell("failed", message, place.key, told, place=place, reason=reason)


def unsent(hold: Hold) -> TransportError:
    """Return the error for a lock for which nothing was sent, after OUTAGE others in a row got no answer."""
    return TransportError(False, "DynamoDB does not answer, nothing was sent", key=hold.place.key)


def release_each(session: Session, holds: Iterable[tuple[Hold, HeldLock | None]]) -> None:
    """Release holds, each with its HeldLock if it has one, on this thread. After OUTAGE in a row without an answer, the
    others are left to their lease.
    """
    unanswered = 0  # in a row
    for hold, held in holds:
        try:
            if unanswered >= OUTAGE:
                if held is not None:
                    held.abandon()
                raise unsent(hold)
            if held is None:
                release_hold(session, hold)
            else:
                _release(session, held)
            unanswered = 0
        except expected(LockAlreadyReleasedError):
            continue  # its holder just released it
        except expected(LockError) as error:
            leave_to_lease(session, hold, error)
            unanswered = unanswered + 1 if isinstance(error, TransportError) else 0


def _release(session: Session, held: HeldLock) -> None:
    try:
        session.run(held.release())
    except LockAlreadyReleasedError:
        if held.released or not session.under_way.is_interrupted():
            raise
        # A signal handler has interrupted its release here, in between two requests. That may never go on.
        try:
            release_hold(session, held.hold)
        finally:
            held.hold.withdraw()  # if a hand_over goes on, it returns no string
        held.abandon()


def release_hold(session: Session, hold: Hold) -> None:
    """Release a hold that has no handle. Raises what a release raises."""
    session.run(Operation(hold.place, lambda talk: keep.release(hold, talk)))
    session.open_locks.discard(hold)
