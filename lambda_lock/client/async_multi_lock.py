"""The handle of several locks for asyncio."""

from __future__ import annotations

from ..errors import LockAlreadyReleasedError
from .multi_lock import MultiHandle, group_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

    from .async_runner import AsyncRunner
    from .multi_lock import MultiLock


class AsyncMultiLock(MultiHandle):
    """`MultiLock` for asyncio. Methods that send requests are awaited; everything else is the same.

    Example::

        async with client.acquire_all(["account#1", "account#2"]) as locks:
            locks.raise_if_lost()
    """

    def __init__(self, locks: MultiLock, runner: AsyncRunner) -> None:
        super().__init__(group_of(locks))
        self._locks = locks  # kept, so that all callbacks are given this one
        self._runner = runner

    async def heartbeat(self) -> None:
        """`MultiLock.heartbeat`, awaited.

        Example: ``await locks.heartbeat()``
        """
        await self._runner.run_first(self._group.heartbeat())

    async def release(self) -> bool:
        """`MultiLock.release`, awaited. If the task is cancelled, the locks are released before the CancelledError
        propagates.

        Example: ``await locks.release()``
        """
        operation = self._group.release()
        return await self._runner.run_last(self._group, operation, again=operation[1])

    async def commit(self, items: Sequence[Mapping[str, Any]]) -> None:
        """`MultiLock.commit`, awaited. If the task is cancelled, the commit may have been carried out; the locks are
        released.

        Example: ``await locks.commit([{"Update": take_from_one}, {"Update": give_to_the_other}])``
        """
        await self._runner.run_last(self._group, self._group.commit(items))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group.released or not self._group.is_in_this_process():
            return
        try:
            operation = self._group.release(best_effort=True)
            await self._runner.run_last(self._group, operation, again=operation[1])
        except LockAlreadyReleasedError:  # another task releases them at this moment
            return
