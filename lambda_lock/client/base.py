"""The base class of both clients.

Clients and locks are the application's, and have only the public names that it may use. What other modules of this
package use of them has a name between double underscores: ``__session__``, ``__runner__``, and ``__held__`` of a lock.
"""

from __future__ import annotations

from . import checks
from .session import Entered, Session
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec

    from ..transport import Transport
    from .session import Runner

    P = ParamSpec("P")

    def takes(init: Callable[Concatenate[Settings, P], None]) -> Callable[..., Callable[Concatenate[Any, P], None]]:
        """For type checkers: a decorated method takes the arguments of ``init``."""


class Client(Entered):
    """What `LockClient` and `AsyncLockClient` have in common.

    ``__session__``: what their locks share. ``__runner__``: what runs their operations.
    """

    __session__: Session
    __runner__: Runner

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
        self.__session__ = session

    @property
    def transport(self) -> Transport:
        """How requests are sent. Its ``name`` and ``reason`` say which transport was chosen, and why.

        Raises LockConfigurationError if none can be created, because the Region or the credentials are missing, or
        because boto3 is needed and not installed.

        Example: ``print(client.transport.reason)``
        """
        return self.__session__.transport


def init_of(client: str) -> Any:
    """The ``__init__`` of a client class. It takes the settings, and its TypeErrors name the class ``client``."""
    listed: Any = Settings.__init__
    name = f"{client}.{listed.__name__}"

    def begin(self: Client, *args: Any, **settings: Any) -> None:
        checks.options(name, {"table", *listed.__kwdefaults__}, settings)
        try:
            made = Settings(*args, **settings)
        except TypeError as error:  # Python names the function that was called
            if not str(error).startswith(listed.__qualname__):
                raise
            raise TypeError(str(error).replace(listed.__qualname__, name, 1)) from None
        self._begin(Session(made))

    begin.__wrapped__ = listed  # type: ignore[attr-defined]  # inspect.signature shows the settings
    begin.__name__, begin.__qualname__ = listed.__name__, name
    begin.__doc__ = Settings.__doc__
    return begin


def session_in(client: object) -> Session | None:
    """The session of what a decorator was given as its client. None: it has none, as a client of another kind.

    A mock may say that it is a client of ours, and have none.
    """
    session = getattr(client, "__session__", None)
    return session if isinstance(session, Session) else None


def settings_of(client: object) -> Settings | None:
    """The settings of `session_in`. None: there is none."""
    session = session_in(client)
    return None if session is None else session.settings
