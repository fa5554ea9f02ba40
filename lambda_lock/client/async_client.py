"""The client for asyncio: the same locks, awaited. An acquire is awaited, or entered with ``async with``."""

from __future__ import annotations

import functools
from collections.abc import Coroutine  # asyncio has it loaded

from . import reads
from .async_lock import AsyncLock, AsyncMultiLock, awaited
from .async_runner import AsyncRunner
from .base import Client, init_of
from .closing import close
from .lock import Lock
from .lock_client import OURS, LockClient
from .multi_lock import MultiLock
from .session import Entered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from types import TracebackType
    from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

    from .record import LockRecord
    from .session import Session

    P = ParamSpec("P")
    E = TypeVar("E", bound=AsyncLock | AsyncMultiLock | None)
    T = TypeVar("T")
    Method: TypeAlias = Callable[Concatenate[Any, P], "Acquiring[E]"]


class Acquiring(Entered, Coroutine["Any", "Any", "E"]):
    """A coroutine that ends with a lock. ``async with`` awaits it, and releases the lock at the end of the block.

    Example::

        async with client.acquire("invoice#7") as lock: ...
        lock = await client.acquire("invoice#7")
    """

    __slots__ = ("_coroutine", "_lock")

    def __init__(self, coroutine: Coroutine[Any, Any, E]) -> None:
        self._coroutine = coroutine
        self._lock: E | None = None

    def __await__(self) -> Generator[Any, Any, E]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __bool__(self) -> bool:
        raise TypeError(f"this is no answer yet, because nothing was awaited: write `await` before {self._coroutine!r}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"no {name!r} here, because nothing was awaited: write `await` before the call")

    async def __aenter__(self) -> E:
        self._lock = await self._coroutine
        if self._lock is None:
            raise TypeError("try_acquire gave None, which `async with` cannot enter: ask first, or write acquire")
        return self._lock

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None, "it was entered"
        await self._lock.__aexit__(kind, error, trace)


def entered_too(method: Callable[P, Coroutine[Any, Any, E]]) -> Callable[P, Acquiring[E]]:
    """Let what an async method returns be entered with ``async with``, besides being awaited."""

    @functools.wraps(method)
    def acquiring(*args: P.args, **kwargs: P.kwargs) -> Acquiring[E]:
        return Acquiring(method(*args, **kwargs))

    acquiring.is_awaited = True  # type: ignore[attr-defined]  # decorators ask for it
    return acquiring


def entered(method: Callable[Concatenate[LockClient, P], object], _: type[E]) -> Method[P, E]:
    """A method of LockClient that ends with a lock. Here it is awaited, or entered with ``async with``."""
    acquire: Any = awaited(method)
    return entered_too(acquire)


if TYPE_CHECKING:

    def tried(method: Callable[Concatenate[LockClient, P], object], _: type[E]) -> Method[P, E | None]:
        """`entered`, for a method that may end without a lock."""

else:
    tried = entered


class AsyncLockClient(Client):
    """`LockClient` for asyncio. It has the same settings and methods; those that send requests are awaited.

    Parameters, results and errors are those of `LockClient`. Cancelling a task ends its wait and leaves nothing held,
    except what is resumed: resume that again.

    Example::

        async with client.acquire("invoice#7") as lock:
            ...
    """

    __runner__: AsyncRunner

    if not TYPE_CHECKING:
        __init__ = init_of("AsyncLockClient")

    acquire = entered(LockClient.acquire, AsyncLock)
    try_acquire = tried(LockClient.try_acquire, AsyncLock)
    acquire_all = entered(LockClient.acquire_all, AsyncMultiLock)
    try_acquire_all = tried(LockClient.try_acquire_all, AsyncMultiLock)
    adopt = entered(LockClient.adopt, AsyncLock)
    resume = entered(LockClient.resume, AsyncLock)
    release = awaited(LockClient.release)
    forget = awaited(LockClient.forget)
    erase = awaited(LockClient.erase)
    rate_limit = awaited(LockClient.rate_limit)
    sleep = awaited(LockClient.sleep)
    get = awaited(LockClient.get)
    prewarm = awaited(LockClient.prewarm)

    def _begin(self, session: Session) -> None:
        self.__runner__ = AsyncRunner(session, {Lock: AsyncLock, MultiLock: AsyncMultiLock})
        super()._begin(session)

    @classmethod
    def over(cls, client: LockClient) -> Self:
        """Return an async client with the settings, connections and locks of ``client``.

        Example: ``client = AsyncLockClient.over(default_client())``
        """
        made = cls.__new__(cls)
        made._begin(client.__session__)
        return made

    async def list(self, *, key: str | None = None) -> AsyncIterator[LockRecord]:
        """`LockClient.list`, for ``async for``.

        Example: ``held = [record.key async for record in client.list() if not record.is_released]``
        """
        from .listing import pages_of

        pages = pages_of(self.__session__, key)
        while (request := pages.request()) is not None:
            for found in pages.records(await self.__runner__.run(reads.ask(self.__session__, pages.place, request))):
                yield found

    def held(self) -> tuple[AsyncLock, ...]:
        """`LockClient.held`. The handles are new ones for the same locks.

        Example: ``keys = [lock.key for lock in client.held()]``
        """
        open_locks = self.__session__.open_locks.handled()
        return tuple(AsyncLock(held.handle(), self.__runner__) for held in open_locks if held.is_held())

    async def close(self, *, release: bool = True) -> None:
        """`LockClient.close`, awaited.

        Example: ``await client.close()``
        """
        await self.__runner__.settle(functools.partial(close, self.__session__, release=release))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


OURS.update((AsyncLockClient.acquire, AsyncLockClient.acquire_all, AsyncLockClient.rate_limit))
