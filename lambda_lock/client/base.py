"""The base class of both clients, and what runs the operations of one on the calling thread."""

from __future__ import annotations

import os

from . import checks
from .session import Entered, Session
from .settings import Settings
from .taking import Uncontended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec, TypeVar

    from ..transport import Transport
    from .session import Operation
    from .taking import Taking

    P = ParamSpec("P")
    T = TypeVar("T")

    def takes(init: Callable[Concatenate[Settings, P], None]) -> Callable[..., Callable[Concatenate[Any, P], None]]:
        """For type checkers: a decorated method takes the arguments of ``init``."""


class Runner:
    """Runs what is asked of a `LockClient`. async_runner.py has its counterpart for asyncio."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, operation: Operation[T], after_wait: Callable[[], None] | None = None, *, first: bool = False) -> T:
        """Return the result of an operation. after_wait: as for `Session.run`. first: has no meaning here."""
        return self._session.run(*operation, after_wait)

    def take(self, taking: Taking[T]) -> T:
        """Return the lock of ``taking``."""
        pid = os.getpid()
        try:
            self._session.run(taking.place, taking.steps, taking.after_wait)
            return taking.lock()
        except BaseException:
            if pid == os.getpid():  # in a child that was forked meanwhile, the lock is its parent's
                taking.give_back()
            raise

    def tried(self, acquire: Callable[..., T], *args: Any, **options: Any) -> T | None:
        """Return what ``acquire`` returns, or None in case of contention."""
        with Uncontended():
            return acquire(*args, **options)
        return None


class Client(Entered):
    """What `LockClient` and `AsyncLockClient` have in common: a session, and what runs their operations."""

    _session: Session
    _runner: Any  # a Runner or an AsyncRunner

    if TYPE_CHECKING:

        @takes(Settings.__init__)
        def __init__(self) -> None: ...

    else:

        def __getattr__(self, name: str) -> Any:
            from .explain import meant

            ours = "" if name[:1] == "_" else meant(name, [known for known in dir(type(self)) if known[0] != "_"])
            if not ours or hasattr(type(self), name):  # a property raised it: show that error
                return object.__getattribute__(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: did you mean {ours}?")

    def _begin(self, session: Session) -> None:
        self._session = session

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
    """Run an operation of a client, for modules of this package."""
    return client._runner.run(operation)


def take(client: Client, taking: Any) -> Any:
    """Take a lock by a client, for modules of this package."""
    return client._runner.take(taking)
