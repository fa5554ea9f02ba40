"""The base class of both clients."""

from __future__ import annotations

from . import checks
from .session import Entered, Session
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec

    from ..transport import Transport
    from .session import Operation

    P = ParamSpec("P")

    def takes(init: Callable[Concatenate[Settings, P], None]) -> Callable[..., Callable[Concatenate[Any, P], None]]:
        """For type checkers: a decorated method takes the arguments of ``init``."""


class Client(Entered):
    """What `LockClient` and `AsyncLockClient` have in common: a session, and what runs their operations."""

    _session: Session
    _runner: Any  # the session, or an AsyncRunner

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
    """Run an operation of a client, for modules of this package. Awaited for an AsyncLockClient."""
    return client._runner.run(operation)
