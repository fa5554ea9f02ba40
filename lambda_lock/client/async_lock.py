"""The handles of locks for asyncio."""

from __future__ import annotations

import asyncio
import functools

from ..core.outcome import expected
from ..errors import LockAlreadyReleasedError
from .async_runner import LOOK
from .lock import Handle, HandleBase, Lock
from .multi_lock import MultiHandle, MultiLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType
    from typing import Any, Concatenate, ParamSpec, Self, TypeVar

    from .async_runner import AsyncRunner

    P = ParamSpec("P")
    T = TypeVar("T")

_LEAST = 0.01  # seconds


def awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same method, to be awaited. It ends with a call of a method of its object that returns an awaitable here.

    It is bound here, because an application may wrap the other class's own later, to trace calls.
    """
    plain: Any = method

    async def called(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        return await plain(self, *args, **options)  # type: ignore[no-any-return]  # one line: an interrupt finds no other

    functools.update_wrapper(called, plain)
    owner, name = plain.__qualname__.split(".")
    called.__qualname__ = f"Async{owner}.{name}"
    called.__doc__ = f"`{owner}.{name}`, awaited."
    return called


class AsyncWithBlock(HandleBase):
    """`WithBlock` for ``async with``."""

    __runner__: AsyncRunner

    async def __aenter__(self) -> Self:
        self.__held__.check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.__held__.is_released_by_block():
            try:
                await self.__runner__.run(self.__held__.release(best_effort=True))
            except expected(LockAlreadyReleasedError):
                pass  # another task releases it at this moment


class AsyncLock(Handle, AsyncWithBlock):
    """`Lock` for asyncio. Methods that send requests are awaited; everything else is the same.

    Use it in an ``async with`` block, which releases it at its end. Parameters, results and errors are those of `Lock`.
    If a task is cancelled in a release or commit, the lock is released before the CancelledError propagates; the commit
    may have been carried out. In `hand_over`, the string is lost then; a resumed lock is left to the next attempt.

    Example::

        async with client.acquire("invoice#7") as lock:
            await lock.heartbeat(data=b"page 7")
    """

    def __init__(self, lock: Lock, runner: AsyncRunner) -> None:
        super().__init__(lock.__held__, runner)
        self._lock = lock  # kept, so that all callbacks and hooks are given this one

    heartbeat = awaited(Lock.heartbeat)
    ensure = awaited(Lock.ensure)
    release = awaited(Lock.release)
    commit = awaited(Lock.commit)
    hand_over = awaited(Lock.hand_over)

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """`Lock.wait_lost`, awaited.

        Example: ``if await lock.wait_lost(10): stop_work()``
        """
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while not self.lost:
            left = 1.0 if end is None else end - asyncio.get_running_loop().time()
            if left <= 0 or self.__held__.hold.ended:
                return False
            await asyncio.sleep(min(left, max(self.remaining, _LEAST), LOOK))
        return True


class AsyncMultiLock(MultiHandle, AsyncWithBlock):
    """`MultiLock` for asyncio. Methods that send requests are awaited; everything else is the same, as for `AsyncLock`.

    Example::

        async with client.acquire_all(["account#1", "account#2"]) as locks:
            locks.raise_if_lost()
    """

    def __init__(self, locks: MultiLock, runner: AsyncRunner) -> None:
        super().__init__(locks.__held__, runner)
        self._locks = locks  # kept, so that all callbacks are given this one

    heartbeat = awaited(MultiLock.heartbeat)
    release = awaited(MultiLock.release)
    commit = awaited(MultiLock.commit)
