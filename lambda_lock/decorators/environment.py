"""What decorators take from their environment: the default client, and the switch that disables all locks."""

from __future__ import annotations

import os
from contextlib import suppress  # the Lambda runtime has it loaded

from ..client.lock_client import LockClient
from ..client.session import Client, session_of
from ..observe.log import logger, tell
from ..runtime.invocation import initializing
from .functions import acquire_of, is_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..client.async_client import AsyncLockClient

VARIABLE = "LAMBDA_LOCK_DISABLED"
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")

# "client": as set, or made at its first use. "async client": as set. "async over": made over "client", and dropped with
# it. No lock guards this: setdefault is atomic, and building a client twice does no harm.
_default: dict[str, Any] = {}


def default_client() -> LockClient:
    """The client of decorators that were given none. The first call makes it, from LAMBDA_LOCK_TABLE.

    Raises nothing. If the table, the Region or the credentials are missing, the first acquire says so.

    Example: ``default_client().prewarm()``
    """
    client: LockClient | None = _default.get("client")
    return _default.setdefault("client", LockClient()) if client is None else client


def default_async_client() -> AsyncLockClient:
    """As default_client(), for async def functions. It has the settings and connections of that client."""
    client: AsyncLockClient | None = _default.get("async client") or _default.get("async over")
    if client is not None:
        return client
    from ..client.async_client import AsyncLockClient

    made: AsyncLockClient = _default.setdefault("async over", AsyncLockClient.over(default_client()))
    return made


def prepare(client: Any, func: object, *, permits: bool = False, several: bool = False) -> None:
    """In Lambda's INIT, load what the first lock of ``func`` will need. Elsewhere that lock loads it.

    client: the client that the decorator was given. None: the default client.
    permits: whether the lock is a permit of a semaphore. several: whether there are several locks.

    Raises nothing. What fails here fails again at the first lock, which raises it.
    """
    if not initializing():
        return
    with suppress(Exception):
        if permits:
            from ..core import permits as _permits  # noqa: F401
        if several:
            from ..client import multi_lock  # noqa: F401
        if several and is_async(func):
            from ..client import async_lock  # noqa: F401
        client = client or (default_async_client() if is_async(func) else default_client())
        if isinstance(client, Client):
            session_of(client).prepare()


def set_default_client(client: LockClient | AsyncLockClient | None) -> None:
    """Use ``client`` for decorators that were given none, from their next call on.

    client: None: a client made from the environment. A LockClient serves plain functions, and async def functions as
        well, unless an AsyncLockClient is set for these.

    Raises TypeError for an object that is not a lock client.

    Example: ``set_default_client(LockClient("locks", lease_duration=60))``
    """
    if client is None:
        _default.clear()
        return
    if is_async(acquire_of(client)):
        _default["async client"] = client
    else:
        _default["client"] = client
        _default.pop("async over", None)
    prepare(client, None)


def remember_default_clients() -> Callable[[], None]:
    """Return a function that restores the default clients of this moment."""
    before = dict(_default)

    def restore() -> None:
        _default.clear()
        _default.update(before)

    return restore


def disabled() -> bool:
    """Whether LAMBDA_LOCK_DISABLED is set, read at each call. Functions run unprotected then: the last resort.

    A value that means neither yes nor no counts as no, with a warning.
    """
    text = os.environ.get(VARIABLE, "")
    word = text.strip().lower()
    if word in _YES:
        return True
    if word not in _NO:
        message = "%s=%r is neither yes nor no, so locks stay on: write 1 to disable them, or remove it"
        tell(logger, "switch_unreadable", message, VARIABLE, text)
    return False
