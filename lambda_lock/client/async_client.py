"""The client for asyncio: the same locks, awaited. An acquire is awaited, or entered with ``async with``."""

from __future__ import annotations

import functools
import os
from collections.abc import Coroutine  # asyncio has it loaded

from . import record
from .async_lock import AsyncLock, AsyncMultiLock, AsyncRunner
from .base import Client, init_of, session_of
from .closing import close
from .lock_client import LockClient
from .multi_lock import MultiLock
from .session import Entered
from .taking import Uncontended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterable
    from types import TracebackType
    from typing import Any, ParamSpec, Self, TypeAlias, TypeVar, Unpack

    from .options import AcquireOptions, HoldOptions, HoldParts, SeveralOptions
    from .record import LockRecord
    from .session import Operation, Session
    from .taking import Taking

    P = ParamSpec("P")
    E = TypeVar("E", bound=AsyncLock | AsyncMultiLock)
    T = TypeVar("T")
    Method: TypeAlias = Callable[..., Coroutine[Any, Any, T]]


# Methods of LockClient that end with a call of their client's `_take`: with an async client, they return an awaitable.
# They are bound here once, because an application may wrap LockClient's own later, to trace calls.
_plain: Any = LockClient
_acquire: Method[AsyncLock] = _plain.acquire
_acquire_all: Method[AsyncMultiLock] = _plain.acquire_all
_adopt: Method[AsyncLock] = _plain.adopt
_resume: Method[AsyncLock] = _plain.resume


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


class AsyncLockClient(Client):
    """`LockClient` for asyncio. It has the same settings and methods; those that send requests are awaited.

    Parameters, results and errors are those of `LockClient`.

    Example::

        async with client.acquire("invoice#7") as lock:
            ...
    """

    _seconds: Coroutine[Any, Any, float]  # declared for type checkers: what rate_limit and sleep return
    _done: Coroutine[Any, Any, None]
    if not TYPE_CHECKING:
        __init__ = init_of("AsyncLockClient")

    def _begin(self, session: Session) -> None:
        self._runner = AsyncRunner(session)
        super()._begin(session)

    @classmethod
    def over(cls, client: LockClient) -> Self:
        """Return an async client with the settings, connections and locks of ``client``.

        Example: ``client = AsyncLockClient.over(default_client())``
        """
        made = cls.__new__(cls)
        made._begin(session_of(client))
        return made

    @entered_too
    async def acquire(self, key: str, *, wait: float | None = None, **options: Unpack[AcquireOptions]) -> AsyncLock:
        """`LockClient.acquire`, awaited or entered. Cancelling the task ends the wait and leaves nothing held.

        Example: ``async with client.acquire("invoice#7", wait=10) as lock: ...``, or ``await client.acquire("a")``
        """
        return await _acquire(self, key, wait=wait, **options)

    async def try_acquire(self, key: str, *, wait: float = 0, **options: Unpack[AcquireOptions]) -> AsyncLock | None:
        """`LockClient.try_acquire`, awaited.

        Example: ``if lock := await client.try_acquire("report"): ...``
        """
        with Uncontended():
            return await self.acquire(key, wait=wait, **options)
        return None

    @entered_too
    async def acquire_all(
        self,
        keys: Iterable[str],
        *,
        wait: float | None = None,
        sort_key: str | None = None,
        **options: Unpack[SeveralOptions],
    ) -> AsyncMultiLock:
        """`LockClient.acquire_all`, awaited or entered. Cancelling the task ends the wait and leaves nothing held.

        Example: ``async with client.acquire_all(["account#1", "account#2"], wait=10) as locks: ...``
        """
        return await _acquire_all(self, keys, wait=wait, sort_key=sort_key, **options)

    async def try_acquire_all(
        self, keys: Iterable[str], *, wait: float = 0, sort_key: str | None = None, **options: Unpack[SeveralOptions]
    ) -> AsyncMultiLock | None:
        """`LockClient.try_acquire_all`, awaited.

        Example: ``if locks := await client.try_acquire_all(["account#1", "account#2"]): ...``
        """
        with Uncontended():
            return await self.acquire_all(keys, wait=wait, sort_key=sort_key, **options)
        return None

    @entered_too
    async def adopt(
        self, token: str | None = None, *, context: object = None, **options: Unpack[HoldOptions]
    ) -> AsyncLock:
        """`LockClient.adopt`, awaited or entered.

        Example: ``async with client.adopt(event["lock"]) as lock: ...``
        """
        return await _adopt(self, token, context=context, **options)

    @entered_too
    async def resume(
        self, string: str | None = None, *, context: object = None, **options: Unpack[HoldOptions]
    ) -> AsyncLock:
        """`LockClient.resume`, awaited or entered. Cancelling the task releases nothing: resume again.

        Example: ``lock = await client.resume(event["lock"])``
        """
        return await _resume(self, string, context=context, **options)

    async def release(self, string: str | None = None, **parts: Unpack[HoldParts]) -> bool:
        """`LockClient.release`, awaited.

        Example: ``await client.release(event["lock"])``
        """
        from .resuming import released

        return await self._runner.run(released(self._session, string, **parts), first=True)

    async def forget(
        self, key: str, *, scope: str = "", sort_key: str | None = None, wait: float | None = 0, context: object = None
    ) -> bool:
        """`LockClient.forget`, awaited.

        Example: ``await client.forget("token", scope="billing", wait=10)``
        """
        from .lockless import forget

        session = self._session
        return await self._run(forget(session, key, scope, sort_key, wait, context), session.check_open)

    async def get(self, key: str, *, sort_key: str | None = None) -> LockRecord | None:
        """`LockClient.get`, awaited.

        Example: ``record = await client.get("invoice#7")``
        """
        return await self._run(record.get(self._session, key, sort_key))

    async def list(self, *, key: str | None = None) -> AsyncIterator[LockRecord]:
        """`LockClient.list`, for ``async for``.

        Example: ``held = [record.key async for record in client.list() if not record.is_released]``
        """
        from .lockless import pages_of

        pages = pages_of(self._session, key)
        while (request := pages.request()) is not None:
            for found in pages.take(await self._run(record.ask(self._session, pages.place, request))):
                yield found

    async def prewarm(self) -> None:
        """`LockClient.prewarm`, awaited.

        Example: ``await client.prewarm()``
        """
        await self._run(record.prewarm(self._session))

    def held(self) -> tuple[AsyncLock, ...]:
        """`LockClient.held`. The handles are new ones for the same locks.

        Example: ``keys = [lock.key for lock in client.held()]``
        """
        open_locks = self._session.open_locks.handled()
        return tuple(AsyncLock(held.handle(), self._runner) for held in open_locks if held.is_held())

    async def close(self, *, release: bool = True) -> None:
        """`LockClient.close`, awaited.

        Example: ``await client.close()``
        """
        await self._runner.settle(functools.partial(close, self._session, release=release))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, operation: Operation[T], after_wait: Callable[[], None] | None = None, /) -> T:
        return await self._runner.run(operation, after_wait)

    async def _take(self, taking: Taking[Any]) -> AsyncLock | AsyncMultiLock:
        pid = os.getpid()
        try:
            await self._runner.run((taking.place, taking.steps), taking.after_wait)
            lock = taking.lock()
            return (AsyncMultiLock if isinstance(lock, MultiLock) else AsyncLock)(lock, self._runner)
        except BaseException:
            if taking.granted and pid == os.getpid():  # in a forked child, as in LockClient, the lock is the parent's
                await self._runner.settle(taking.give_back)
            raise


for _name in ("try_acquire", "try_acquire_all"):  # so that `if` without `await` raises, and is not just true
    setattr(AsyncLockClient, _name, entered_too(getattr(AsyncLockClient, _name)))
