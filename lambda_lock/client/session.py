"""What the locks of one client share: DynamoDB's time, the transport, the open locks, and who is told of events.

An `Operation` is what a method asks of DynamoDB. A session runs it on the calling thread, for clients and locks;
async_runner.py does so for asyncio.
"""

from __future__ import annotations

import os
import sys

from ..core import protocol
from ..core.outcome import ServiceError, is_interrupt
from ..errors import ClientClosedError, LockConfigurationError, LockNotGrantedError, TransportError
from ..observe.log import logger as package_logger
from ..observe.observer import Observer
from ..runtime import invocation
from ..runtime.drive import drive, send
from ..runtime.first_use import FirstUse
from ..runtime.signalsafe import Flag, OpenLocks, UnderWay, given_back
from ..runtime.timeline import SYSTEM, Timeline
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Any, Generic, Protocol, TypeVar

    from ..core.outcome import Reply
    from ..core.protocol import Conversation, Hold, Steps
    from ..core.requests import Place
    from ..errors import LockError
    from ..runtime.heartbeat import Renewals
    from ..transport import BotoTransport, HttpsTransport, Transport
    from ..transport.boto import Mocked

    R = TypeVar("R")
    T = TypeVar("T")

    class Runner(Protocol):
        """What runs operations: a session, or an AsyncRunner, whose methods are awaited."""

        def run(self, operation: Operation[Any]) -> Any: ...
        def tried(self, acquire: Any, *args: Any, **options: Any) -> Any: ...

    class _Typed(Generic[T]):
        """What has a result of type T."""

else:

    class _Typed:
        def __class_getitem__(cls, _):
            return cls


#: What errors, contention, a held lock and its end need. In Lambda each is loaded at its first use, for the cold start.
_LATE = (
    *("client.closing", "client.erase", "client.explain", "client.forget", "client.listing", "client.multi_lock"),
    *("client.noticed", "client.operations", "client.rate_limit", "client.reads", "client.record", "client.resuming"),
    *("client.sleep", "core.sleepers", "core.transaction", "decorators.disabled", "keys.arguments"),
    *("core.forget", "core.handover", "core.permit_queue", "core.permits", "core.queue", "core.rate", "core.several"),
    *("observe.hooks", "observe.keys", "observe.metrics", "observe.timing", "runtime.heartbeat"),
    *("transport.choice", "transport.credentials", "transport.https", "transport.unresolved"),
)
_LATE_STANDARD = ("decimal", "difflib", "inspect", "ssl")
_loaded: list[bool] = []


class Operation(_Typed["T"]):
    """What a method asks of DynamoDB: how it is begun, what its result becomes, and what is undone after an interrupt.

    place: of the lock that errors name.
    steps: its requests, which begin with a reading of the clocks. A subclass has a method instead.
    after_wait: called after each pause of an operation that waits, which close() cuts short. It raises what ends the
        wait. None: for others.
    closed: makes the error if closing the client ends it. None: closing does not wait for it.
    is_urgent: whether it renews or ends a lock, which others may wait for. For asyncio, which has threads for these.
    what: its name in times and traces: "acquire", "release" or "rate".
    patience: for asyncio, seconds for which `undo` may wait for a thread. None: no limit.
    """

    what = ""
    patience: float | None = None
    is_urgent = False
    place: Place
    steps: Callable[[Conversation], Steps[Any]]
    after_wait: Callable[[], None] | None = None
    closed: Callable[[], LockError] | None = None

    def __init__(
        self,
        place: Place,
        steps: Callable[[Conversation], Steps[T]],
        after_wait: Callable[[], None] | None = None,
        *,
        is_urgent: bool = False,
    ) -> None:
        self.place = place
        self.steps = steps
        self.is_urgent = is_urgent
        if after_wait is not None:
            self.after_wait, self.closed = after_wait, given_back

    def begin(self, observer: Observer, talk: Conversation) -> Steps[Any]:
        """Its steps, measured if it has a name in times and traces."""
        steps = self.steps(talk)
        return self.measured(observer, talk, steps) if self.what else steps

    def measured(self, observer: Observer, talk: Conversation, steps: Steps[R]) -> Steps[R]:
        """``steps`` of this operation, with the times and traces that are wanted."""
        if not observer.measures:
            return steps
        from ..observe.timing import timed

        return timed(self, observer, talk, steps)

    def keys(self) -> Sequence[str]:
        """The keys in times and traces."""
        return (self.place.key,)

    def of_hold(self) -> tuple[int | None, float | None]:
        """For times and traces, the fencing token, and when the hold that it ends began, in elapsed seconds.

        None: it is not known, there are several, or no hold ends.
        """
        return None, None

    def outcome(self, done: Any) -> str:
        """The outcome in times and traces, for what its steps returned."""
        raise NotImplementedError

    def result(self, done: Any) -> T:
        """Return what the caller gets, for what its steps returned."""
        result: T = done
        return result

    def leaves(self, error: BaseException) -> bool:
        """Whether there may be something to undo, after an error of its steps or of `result`."""
        return False

    def undo(self) -> None:
        """Undo on this thread what was done. Errors of requests are logged."""

    def give_up(self, error: LockError) -> None:
        """Leave it as it is, and tell that: no thread was free to undo it."""


class Session:
    """What the locks of one client share. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        if not _loaded and not os.environ.get("AWS_LAMBDA_FUNCTION_NAME"):
            _load_all()
        self.settings = settings
        self.timeline = SYSTEM if settings.clock is None else Timeline(settings.clock)
        self.log = settings.logger or package_logger
        self.observer = Observer(self.log, self.timeline.clock.wall, self.timeline.elapsed, settings.hooks)
        self.memory = protocol.ClientMemory(settings.observation_cache_size)
        self.entropy = protocol.Entropy(_nonce, _jitter)
        self.open_locks = OpenLocks()
        self.under_way = UnderWay()
        self.closed = Flag()
        self._next_slot = 0.0
        self._renewals: Renewals | None = None
        self._chosen: HttpsTransport | BotoTransport | None = None
        self._mocked: Mocked[HttpsTransport | BotoTransport] | None = None
        self._prepared: tuple[int, HttpsTransport | BotoTransport] | None = None  # with its `_environment`

    def talk(self) -> Conversation:
        """A new conversation with DynamoDB, with a fresh reading of the clocks."""
        return protocol.Conversation(self.memory, self.entropy, self.timeline.reading())

    # -- sending ----------------------------------------------------------------------------------------------------

    def run(self, operation: Operation[T]) -> T:
        """Run an operation on this thread and return its result. If an error leaves something, that is undone first."""
        pid = os.getpid()
        try:
            return operation.result(self.drive(operation))
        except BaseException as error:
            if pid == os.getpid() and operation.leaves(error):  # in a child that was forked meanwhile, the parent does
                operation.undo()
            raise

    def tried(self, acquire: Callable[..., T], *args: Any, **options: Any) -> T | None:
        """Return what ``acquire`` returns, or None in case of contention."""
        try:  # no context: an interrupt in its end would drop the lock
            return acquire(*args, **options)
        except LockNotGrantedError as error:
            if not is_contention(error):
                raise
        return None

    def drive(self, operation: Operation[Any]) -> Any:
        """Return what the steps of an operation return. Nothing is undone."""
        timeline, after_wait, closed = self.timeline, operation.after_wait, operation.closed

        def sleep(seconds: float) -> None:
            if after_wait is None:
                timeline.clock.sleep(seconds)
                return
            if timeline is SYSTEM:
                self.closed.wait(seconds)
            else:
                timeline.clock.sleep(seconds)
            after_wait()

        made = operation.begin(self.observer, self.talk())
        try:
            if closed is not None:
                self.under_way.begin(made)
            if after_wait is not None:
                self.check_open()  # either close() finds the steps under way, or the client is found closed here
            result = drive(made, self.ready(), timeline, sleep)
            if closed is not None and not self.under_way.end(made):
                raise closed()
            return result
        except BaseException:
            self.under_way.end(made)
            with Explained(operation.place):
                raise
        finally:
            if self.under_way.endings:
                # A signal handler closed the client in a request, which DynamoDB may have got after these: repeat them.
                for request in self.under_way.endings.pop(made, ()):
                    send(request, self.transport)

    @property
    def transport(self) -> Transport:
        """How requests are sent. Raises LockConfigurationError if none can be created."""
        if (transport_of := _stand_in) is not None and (given := transport_of(self)) is not None:
            return given
        if self.settings.transport is not None:
            return self.settings.transport
        if "moto.core.models" in sys.modules and (mocked := self._answered_by_moto()) is not None:
            return mocked
        if self._chosen is None:
            with FirstUse():
                if self._chosen is None:
                    ready, self._prepared = self._prepared, None
                    chosen = ready[1] if ready is not None and ready[0] == _environment() else self._new_transport()
                    # A signal handler, or a thread that stopped waiting for the guard, may have chosen one meanwhile.
                    if self._chosen is None:
                        self._chosen = chosen
        assert self._chosen is not None
        return self._chosen

    def ready(self) -> Transport:
        """`transport`. If none can be created, one that says so at the first request, as an answer of its own."""
        try:
            return self.transport
        except (LockConfigurationError, TransportError) as error:
            return Missing(self, error)

    @property
    def has_transport(self) -> bool:
        """Whether `transport` returns at once. Otherwise it may load boto3, which takes a while."""
        return _stand_in is not None or self.settings.transport is not None or self._chosen is not None

    def _new_transport(self) -> HttpsTransport | BotoTransport:
        from ..transport import choose

        settings = self.settings
        return choose(
            region_name=settings.region_name,
            endpoint_url=settings.endpoint_url,
            boto3_client=settings.boto3_client,
            boto3_session=settings.boto3_session,
            now=lambda: self.memory.server.now(self.timeline.latest),
            logger=self.log,
        )

    def _answered_by_moto(self) -> Transport | None:
        """The transport while moto's mock_aws() is active, None otherwise.

        Once it has ended, or has forgotten its tables, everything that was learned from it is forgotten before anything
        is sent again.
        """
        from ..transport import boto

        used = self._mocked
        if used is not None and not (boto.is_moto_active() and used.has_its_tables()):
            self.forget_since(used.before)
            used.transport.close()
            self._mocked = used = None
        if used is None and boto.is_moto_active():
            self._mocked = used = boto.Mocked(self._new_transport(), self.open_locks.holds())
        return None if used is None else used.transport

    def prepare(self) -> None:
        """Load what the first request will need, in Lambda's INIT. Nothing is sent, and no connection is opened.

        The transport is chosen, and its certificates are loaded. The first request chooses again if the environment has
        changed since. Before a snapshot, only modules are loaded. Making a TLS context draws random numbers, and a
        client of boto3 fetches credentials: both would be copied.

        Raises what `transport` raises. The first request raises it again.
        """
        settings = self.settings
        if self.has_transport or self._prepared is not None:
            return
        if invocation.snapstart_initializing():
            from ..transport.choice import load

            boto3 = settings.boto3_client is not None or settings.boto3_session is not None
            load(region_name=settings.region_name, endpoint_url=settings.endpoint_url, boto3=boto3)
            return
        environment, made = _environment(), self._new_transport()
        made.prepare()
        self._prepared = environment, made

    # -- renewals ---------------------------------------------------------------------------------------------------

    @property
    def renewals(self) -> Renewals:
        """The threads that send the renewals of this client's locks."""
        if self._renewals is None or self._renewals.pid != os.getpid():  # a forked child has none of these threads
            from ..runtime.heartbeat import Renewals

            self._renewals = Renewals(self)
        return self._renewals

    def heartbeat_slot(self, now: float) -> float:
        """Take a slot under ``heartbeat_rate``, and return the time at which the renewal may be sent.

        Only the heartbeat's thread calls this.
        """
        rate = self.settings.heartbeat_rate
        if rate is None:
            return now
        slot = max(now, self._next_slot)
        self._next_slot = slot + 1 / rate
        return slot

    # -- its end ----------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise ClientClosedError if the client was closed."""
        if self.closed.is_set:
            raise ClientClosedError("this LockClient was closed: create a new one")

    def disconnect(self) -> None:
        """Close connections and end the threads for renewals, after all locks were released or abandoned."""
        if self.observer.unended:
            from ..observe.timing import write_unended

            write_unended(self.observer)
        if self._renewals is not None:
            self._renewals.close()
        for transport in (self._chosen, None if self._mocked is None else self._mocked.transport):
            if transport is not None:
                transport.close()

    def forget_since(self, before: frozenset[Hold]) -> None:
        """Forget DynamoDB's time and other holders, and leave the locks that are not among ``before`` to their lease.

        For in_memory() and moto: nothing that was learned from a stand-in may outlast it.
        """
        self.memory = protocol.ClientMemory(self.settings.observation_cache_size)
        self.open_locks.abandon(but=before)


class Missing:
    """The transport of a session that could not create one. The first send raises why, the others try again.

    So the steps get to know of it, and end as they do when a request fails: told, and in an outage tried again.
    """

    __slots__ = ("_error", "_session")

    def __init__(self, session: Session, error: LockConfigurationError | TransportError) -> None:
        self._session = session
        self._error: Exception | None = error

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        error, self._error = self._error, None
        if isinstance(error, LockConfigurationError):
            error.is_unsent = True
        if error is not None:
            raise error
        return self._session.transport.send(operation, request, timeout=timeout)


class Explained:
    """A context that raises DynamoDB's refusals in the user's words, and completes other errors."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        """There is nothing to begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ServiceError):
            from .explain import explain

            raise explain(error, self._place)[1] from error
        if isinstance(error, TransportError) and error.key is None and self._place.key:  # a list may have none
            error.about(self._place.key)
        if isinstance(error, LockNotGrantedError) and error.retry_after is not None:
            error.retry_after = max(1, int(-(-error.retry_after // 1)))  # as headers and visibility timeouts take it


def is_contention(error: LockNotGrantedError) -> bool:
    """Whether try_acquire returns None instead of it: not if too little time is left."""
    return not (error.too_late or is_interrupt(error))


class Entered:
    """Raises a TypeError that says what to write if ``with`` is used instead of ``async with``, or the other way round.

    Each subclass defines the methods of its own kind of block, and inherits the others from here. A Lock in an ``async
    with`` is held already, so it is released before the error is raised.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # so that type checkers report it, too

        def __enter__(self) -> None:
            raise TypeError(f"with {type(self).__name__} awaits nothing. Write `async with` instead of `with`")

        def __aenter__(self) -> None:
            self.__exit__(None, None, None)
            raise TypeError(f"async with {type(self).__name__}: write `with`, or use an AsyncLockClient")

        __exit__ = __aexit__ = None


def _environment() -> int:
    """A number for the variables from which a transport is chosen. It keeps none of them: some are secret.

    Variables that begin with "_" are the runtime's own. One of them changes with each invocation.
    """
    return hash(frozenset(variable for variable in os.environ.items() if not variable[0].startswith("_")))


def _load_all() -> None:
    """Load what is needed later: a long-lived process may have no file descriptor left then, or its files replaced.

    Raises LockConfigurationError if that is so already.
    """
    from importlib import import_module

    package = __name__.partition(".")[0]
    try:
        for name in (*(f"{package}.{late}" for late in _LATE), *_LATE_STANDARD):
            import_module(name)
    except (ImportError, OSError) as error:
        raise LockConfigurationError(
            f"a module of {package} cannot be loaded: {error}. Either its files were changed after this process began, "
            "as by an upgrade: restart it. Or no file descriptor is left: raise the limit (ulimit -n)"
        ) from error
    _loaded.append(True)


_stand_in: Callable[[Session], Transport | None] | None = None


def stand_in(transport_of: Callable[[Session], Transport | None] | None) -> None:
    """Use ``transport_of(session)`` as the transport of every session, from its next request on. None: end that."""
    global _stand_in
    _stand_in = transport_of


def _nonce() -> str:
    return os.urandom(16).hex()


def _jitter() -> float:
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)
