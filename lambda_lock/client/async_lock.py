"""The handle of a lock for asyncio."""

from __future__ import annotations

import asyncio

from ..errors import LockAlreadyReleasedError
from .lock import Handle, held_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

    from .async_runner import AsyncRunner
    from .lock import Lock

_LOOK = 0.25  # seconds between two checks whether another thread has released or lost the lock
_LEAST = 0.01  # seconds


class AsyncLock(Handle):
    """`Lock` for asyncio. Methods that send requests are awaited; everything else is the same.

    Use it in an ``async with`` block, which releases it at its end. Parameters, results and errors are those of `Lock`.

    Example::

        async with client.acquire("invoice#7") as lock:
            await lock.heartbeat(data=b"page 7")
    """

    def __init__(self, lock: Lock, runner: AsyncRunner) -> None:
        super().__init__(held_by(lock))
        self._lock = lock  # kept, so that all callbacks and hooks are given this one
        self._runner = runner

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """`Lock.wait_lost`, awaited.

        Example: ``if await lock.wait_lost(10): stop_work()``
        """
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while not self.lost:
            left = 1.0 if end is None else end - asyncio.get_running_loop().time()
            if left <= 0 or self._held.hold.ended:
                return False
            await asyncio.sleep(min(left, max(self.remaining, _LEAST), _LOOK))
        return True

    async def heartbeat(
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        """`Lock.heartbeat`, awaited.

        Example: ``await lock.heartbeat(data=b"page 7")``
        """
        await self._runner.run_first(self._held.heartbeat(data, delete_data, lease_duration))

    async def ensure(self, seconds: float) -> None:
        """`Lock.ensure`, awaited.

        Example: ``await lock.ensure(30)``
        """
        await self._runner.run_first(self._held.ensure(seconds))

    async def release(
        self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False
    ) -> bool:
        """`Lock.release`, awaited. If the task is cancelled, the lock is released before the CancelledError propagates.

        Example: ``await lock.release(data=b"done")``
        """
        operation = self._held.release(data, delete, best_effort)
        return await self._runner.run_last(self._held, operation, again=operation[1])

    async def commit(
        self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None
    ) -> None:
        """`Lock.commit`, awaited. If the task is cancelled, the commit may have been carried out; the lock is released.

        Example: ``await lock.commit([{"Put": {"TableName": "orders", "Item": {"id": {"S": "7"}}}}])``
        """
        await self._runner.run_last(self._held, self._held.commit(items, data, result))

    async def hand_over(self, *, lease_duration: float | None = None) -> str:
        """`Lock.hand_over`, awaited. If the task is cancelled, the string is lost, and the lock is released; a resumed
        one is left to the next attempt.

        Example: ``token = await lock.hand_over(lease_duration=300)``
        """
        operation = self._held.hand_over(lease_duration)
        return await self._runner.run_last(self._held, operation, again=self._held.stop_handing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._held.ends_with_block():
            return
        try:
            await self.release(best_effort=True)
        except LockAlreadyReleasedError:  # another task releases it at this moment
            return

    async def _complete(self, result: str | None) -> bool:
        operation = self._held.complete(result)
        return await self._runner.run_last(self._held, operation, again=operation[1])
