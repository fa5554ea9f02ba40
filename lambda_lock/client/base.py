"""The base class of both clients."""

from __future__ import annotations

from . import checks
from .session import Entered, Session
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

    from ..transport import Transport
    from .session import Operation

    P = ParamSpec("P")
    T_co = TypeVar("T_co", covariant=True)

    class Running(Protocol[T_co]):
        """For type checkers: a client that returns seconds, as a float or an awaitable of one."""

        _session: Session

        @property
        def _seconds(self) -> T_co: ...
        def _run(self, operation: Operation[Any], after_wait: Callable[[], None] | None = None, /) -> Any: ...

    class Resting(Protocol[T_co]):
        """For type checkers: a client that returns nothing, as None or an awaitable of it."""

        _session: Session

        @property
        def _done(self) -> T_co: ...
        def _run(self, operation: Operation[Any], after_wait: Callable[[], None] | None = None, /) -> Any: ...

    def takes(init: Callable[Concatenate[Settings, P], None]) -> Callable[..., Callable[Concatenate[Any, P], None]]:
        """For type checkers: a decorated method takes the arguments of ``init``."""


class Client(Entered):
    """What `LockClient` and `AsyncLockClient` have in common: a session, and how they run what is asked of it."""

    _session: Session

    if TYPE_CHECKING:

        @takes(Settings.__init__)
        def __init__(self) -> None: ...

        def _run(self, operation: Operation[Any], after_wait: Callable[[], None] | None = None, /) -> Any:
            """The result of an operation. An async client returns an awaitable. after_wait: as for `Session.run`."""

        def _take(self, taking: Any) -> Any:
            """The lock of a `Taking`. An async client returns an awaitable."""

    else:

        def __getattr__(self, name: str) -> Any:
            from .explain import meant

            ours = "" if name[:1] == "_" else meant(name, [known for known in dir(type(self)) if known[0] != "_"])
            if not ours or hasattr(type(self), name):  # a property raised it: show that error
                return object.__getattribute__(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: did you mean {ours}?")

    def _begin(self, session: Session) -> None:
        self._session = session

    def rate_limit(
        self: Running[T_co],
        key: str,
        limit: int,
        *,
        per: float = 1.0,
        burst: int = 1,
        n: int = 1,
        wait: float | None = None,
        reserve: float | None = None,
        sort_key: str | None = None,
        context: object = None,
    ) -> T_co:
        """Wait for a start of the rate limit ``key``: at most ``limit`` in ``per`` seconds, in order.

        key, sort_key, reserve, context: as for `LockClient.acquire`. A key is a rate limit or a lock, never both.
        limit: starts, 1 or more. Pass the same limit, per and burst everywhere.
        per: seconds, above 0: at most one start in a microsecond, and a year for ``burst`` of them.
        burst: how many may start at once after a pause, 1 or more. Only 1 keeps the limit: with more, up to
            limit + burst - 1 start in some ``per`` seconds.
        n: how many starts this call is, 1 to ``burst``.
        wait: seconds to wait, 0 to 86,400. None: as for `acquire`. 0: start now or not at all.

        Returns how many seconds it waited. Begin at once: the slot does not wait.
        Raises RateLimitedError at once if no start is free within the wait, LockNotGrantedError if less than a second
        is left, LockFormatError for the row of a lock or semaphore, LockConfigurationError also for the schemas GO and
        PYTHON, and otherwise what `acquire` raises. An interrupted call gives its start back.

        Example: ``client.rate_limit("api", 10)``
        """
        from .lockless import rate_limit

        session, times = self._session, {"reserve": reserve, "sort_key": sort_key, "context": context}
        waited: T_co = self._run(rate_limit(session, key, limit, per, burst, n, wait, **times), session.check_open)
        return waited

    def sleep(
        self: Resting[T_co],
        key: str,
        *,
        holder: str,
        task_token: str,
        permits: int | None = None,
        sort_key: str | None = None,
    ) -> T_co:
        """Let a state machine sleep until the lock ``key`` is free for it. Call it after an acquire was refused.

        The table's waker (``LockTable(wake=...)``) takes the lock for the one that has slept longest, and calls it. The
        state then ends, and ``acquire(key, holder=holder, wait=0)`` goes on with what was taken. Being called proves
        nothing: acquire decides. The one that is called has 60 s for that.

        key, sort_key, permits: as for that acquire.
        holder: the name that acquires, such as the execution's. A second call of it replaces the first.
        task_token: of a state with ``.waitForTaskToken``, 1 to 2,048 characters.

        Raises LockNotGrantedError if 256 sleep already, LockConfigurationError also for other schemas than JAVA and
        where the table has no waker (``LAMBDA_LOCK_WAKE`` is not set), and otherwise what `get` raises. After an
        error, call it again.

        Example: ``client.sleep("report", holder=event["execution"], task_token=event["token"])``
        """
        from .lockless import sleep

        done: T_co = self._run(sleep(self._session, key, holder, task_token, permits, sort_key))
        return done

    @property
    def transport(self) -> Transport:
        """How requests are sent. Its ``name`` and ``reason`` say which transport was chosen, and why.

        Raises LockConfigurationError if none can be created, because the Region or the credentials are missing, or
        because boto3 is needed and not installed.

        Example: ``print(client.transport.reason)``
        """
        return self._session.transport


def init_of(client: str) -> Any:
    """The ``__init__`` of a client class. It takes the settings, and its TypeErrors name the class ``client``."""
    listed: Any = Settings.__init__
    init = type(listed)(listed.__code__, listed.__globals__, listed.__name__, listed.__defaults__)
    init.__kwdefaults__, init.__annotations__ = listed.__kwdefaults__, listed.__annotations__
    init.__qualname__ = f"{client}.__init__"

    def begin(self: Client, *args: Any, **settings: Any) -> None:
        known = {"table", *listed.__kwdefaults__}
        checks.options(init.__qualname__, init, {name: settings[name] for name in settings if name not in known})
        made = Settings.__new__(Settings)
        init(made, *args, **settings)
        self._begin(Session(made))

    begin.__wrapped__ = init  # type: ignore[attr-defined]  # inspect.signature shows the settings
    begin.__name__, begin.__qualname__ = init.__name__, init.__qualname__
    begin.__doc__ = Settings.__doc__
    return begin


def session_of(client: Client) -> Session:
    """The session of a client, for modules of this package."""
    return client._session


def run(client: Client, operation: Operation[Any]) -> Any:
    """`Client._run`, for modules of this package."""
    return client._run(operation)


def take(client: Client, taking: Any) -> Any:
    """`Client._take`, for modules of this package."""
    return client._take(taking)
