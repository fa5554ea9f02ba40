"""An acquire or adopt, from its first request to the lock that is held."""

from __future__ import annotations

from ..core import acquire as core
from ..core import keep
from ..core.outcome import ServiceError
from ..errors import DuplicateEventError, LockConfigurationError, LockError, LockNotGrantedError, TransportError
from ..runtime.drive import check_process
from ..runtime.import_guard import ImportGuard
from .held import HeldLock
from .lock import Lock
from .options import order
from .renewer import leave_to_lease, line_of_execution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeVar, Unpack

    from ..core.lease import ClockReading
    from ..core.protocol import Hold, Steps
    from ..core.requests import Place
    from .options import AcquireOptions, Order
    from .session import Session

    T_co = TypeVar("T_co", covariant=True)

    class Taking(Protocol[T_co]):
        """An operation that leads to a lock. If it is cancelled, `give_back` releases what it has taken.

        The lock is not the result of the steps. It is asked for after them: the frames that drive the steps may outlive
        them in the traceback of an error, and would keep the lock alive.
        """

        @property
        def place(self) -> Place: ...
        @property
        def granted(self) -> list[Hold]: ...

        def steps(self, reading: ClockReading) -> Steps[None]: ...
        def lock(self) -> T_co: ...
        def after_wait(self) -> None: ...
        def give_back(self) -> None: ...


#: What is said of a lock that is held here: its holder waits for itself, unless another thread or task has it.
_OWN = (
    "It is this very client that holds it: release that lock first, or pass reentrant=True if the same thread or task "
    "may enter again"
)


class Fresh:
    """Takes a lock that this line of execution does not hold."""

    def __init__(
        self, session: Session, order: Order, grant: Callable[[ClockReading, Callable[[Hold], None]], Steps[Hold]]
    ) -> None:
        self.place = order.wanted.place
        self._session = session
        self._order = order
        self._grant = grant
        self.granted: list[Hold] = []
        self._locks: list[Lock] = []  # kept alive until it is handed out or given back: it was not dropped

    def steps(self, reading: ClockReading) -> Steps[None]:
        """The requests, and what follows a grant or a refusal."""
        steps = self._steps(reading)
        if not self._session.observer.measures:
            return steps
        with ImportGuard():
            from ..observe.timing import taking

        place = self.place
        return taking(self._session, place.table, (place.key,), reading, steps, lambda: self.granted[-1].token)

    def _steps(self, reading: ClockReading) -> Steps[None]:
        check_process(self._order.kept.pid)
        try:
            hold = yield from self._grant(reading, self._keep)
            self._register(hold)
        except (DuplicateEventError, LockNotGrantedError) as error:
            tell_refused(self._session, error, self.place, cancelled=self._order.cancelled)
            raise
        except (ServiceError, TransportError, LockConfigurationError) as error:
            tell_failed(self._session, error, self.place)
            raise

    def lock(self) -> Lock:
        """The lock that was taken. It is kept no longer."""
        return self._locks.pop()

    def after_wait(self) -> None:
        """Raise ClientClosedError or LockTimeoutError if the wait is to end."""
        self._session.check_open()
        self._order.check_cancelled(self.place.key)

    def give_back(self) -> None:
        """Release on this thread what was granted: an interrupt or close came before the lock was returned."""
        for hold in self.granted:
            try:
                give_back(self._session, hold)
            except LockError as error:
                leave_to_lease(self._session, hold, error)

    def _keep(self, hold: Hold) -> None:
        self.granted.append(hold)
        self._session.open_locks.add(hold, self._order.kept.pid)

    def _register(self, hold: Hold) -> None:
        held = HeldLock(self._session, hold, self._order.kept, Lock)
        self._locks.append(held.handle())  # before anybody is told of it: all are given this one
        held.renewer.start()
        self._session.open_locks.attach(hold, held)
        self._session.check_open()  # either close() finds the lock among those held, or the client is found closed here
        held.signals.tell("granted", "lock %r was granted")


class Again:
    """Enters a lock that this line of execution holds already. Sends nothing."""

    def __init__(self, held: HeldLock, *, event: bool = False) -> None:
        self.place = held.hold.place
        self.granted: list[Hold] = []
        self._held = held
        self._event = event

    def steps(self, reading: ClockReading) -> Steps[None]:
        """Nothing is sent."""
        yield from ()

    def lock(self) -> Lock:
        """The lock, entered again. That is the last step: an interrupt after it would leave a count too many."""
        lock: Lock = self._held.handle()
        self._held.enter_again(event=self._event)
        return lock

    def after_wait(self) -> None:
        """Nothing to check: this never waits."""

    def give_back(self) -> None:
        """Nothing to release: the outer call holds the lock."""


def acquire(
    session: Session, key: str, *, wait: float | None, window: int | None = None, **options: Unpack[AcquireOptions]
) -> Taking[Lock]:
    """Check an acquire. The result runs it.

    window: for an event, the seconds for which it counts as done once it is completed. Running it then raises
        DuplicateEventError too, with the stored text as its result, and LockConfigurationError for a re-entrant one if
        the lock that is held is not an event's.
    """
    if (held := _entered_before(session, key, options)) is not None:
        return Again(held, event=window is not None)
    made = order(session, key, wait=wait, window=window, **options)
    return Fresh(
        session, made, lambda reading, keep: core.acquire(made.wanted, session.memory, session.entropy, reading, keep)
    )


def tell_refused(
    session: Session, error: DuplicateEventError | LockNotGrantedError, place: Place, *, cancelled: bool
) -> None:
    """Tell that an acquire ended without its lock, and its caller if this very client holds it."""
    holder, event = None, "duplicate"
    if isinstance(error, LockNotGrantedError):
        holder = error.holder
        if place.permits is None and session.open_locks.has_owner(holder):
            error.add(_OWN)
        event = "too_late" if error.too_late else "cancelled" if cancelled else "not_granted"
    session.observer.tell(event, error, place.table, "%s", error, key=place.key, holder=holder)


def tell_failed(session: Session, error: ServiceError | TransportError | LockConfigurationError, place: Place) -> None:
    """Tell that an acquire ended because DynamoDB could not be used."""
    with ImportGuard():
        from .explain import explain, reason_of

    told = explain(error, place) if isinstance(error, ServiceError) else error
    message, reason = "lock %r was not acquired, because DynamoDB could not be used: %s", reason_of(error)
    session.observer.tell("failed", None, place.table, message, place.key, told, key=place.key, reason=reason)


def give_back(session: Session, hold: Hold) -> None:
    """Release a hold that has no handle. Raises what a release raises."""
    session.run(hold.place, lambda reading: keep.release(hold, session.memory, session.entropy, reading))
    session.open_locks.discard(hold)


def _entered_before(session: Session, key: str, options: AcquireOptions) -> HeldLock | None:
    """The lock that this thread or task holds already, for a re-entrant acquire."""
    if not options.get("reentrant"):
        return None
    place, line = session.settings.place(key, options.get("sort_key")), line_of_execution()
    for held in session.open_locks.handled():
        is_lock = held.hold.place.permits is None
        if is_lock is not (options.get("permits") is None):  # one of the two is a mistake, which the row will show
            continue
        if held.is_held() and held.hold.place.where == place.where and held.options.line == line:
            found: HeldLock = held
            return found
    return None
