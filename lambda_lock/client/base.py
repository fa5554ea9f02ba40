"""What `LockClient` and `AsyncLockClient` have in common: their settings and the session that they hold."""

from __future__ import annotations

from ..runtime.import_guard import ImportGuard
from . import taking
from .session import Session
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Unpack

    from ..transport import Transport
    from .lock import Lock
    from .options import Order
    from .session import Operation
    from .settings import ClientSettings
    from .taking import Taking


class Client:
    """A client's session, and what both kinds of client do without sending anything."""

    _session: Session

    if TYPE_CHECKING:

        def __init__(self, table: str | None = None, **settings: Unpack[ClientSettings]) -> None: ...

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

    def _fresh(self, made: Order) -> Taking[Lock]:
        """What takes the lock that was ordered."""
        if not made.by_holder:
            return taking.Fresh(self._session, made)
        with ImportGuard():
            from . import resuming

        return resuming.by_holder(self._session, made)

    def _run(self, operation: Operation[Any]) -> Any:
        """The result of an operation. An async client returns an awaitable."""
        raise NotImplementedError

    def _take(self, found: Taking[Any]) -> Any:
        """The lock of an acquire or adopt. An async client returns an awaitable."""
        raise NotImplementedError


def init_of(client: str) -> Any:
    """The ``__init__`` of a client class. It takes the settings, and its TypeErrors name the class ``client``."""
    listed: Any = Settings.__init__
    init = type(listed)(listed.__code__, listed.__globals__, listed.__name__, listed.__defaults__)
    init.__kwdefaults__, init.__annotations__ = listed.__kwdefaults__, listed.__annotations__
    init.__qualname__ = f"{client}.__init__"

    def begin(self: Client, *args: Any, **settings: Any) -> None:
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


def take(client: Client, found: Taking[Any]) -> Any:
    """`Client._take`, for modules of this package."""
    return client._take(found)
