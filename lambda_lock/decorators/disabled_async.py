"""The stand-in for async def functions."""

from __future__ import annotations

import asyncio

from .disabled import StandIn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

_LOOK = 0.25  # seconds between two looks; no thread waits, for the loop may have none left to commit with


class AsyncStandIn(StandIn):
    """StandIn with the methods of an AsyncLock."""

    async def wait_lost(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while self.is_held and (end is None or asyncio.get_running_loop().time() < end):
            await asyncio.sleep(_LOOK if timeout is None else min(timeout, _LOOK))
        return False

    async def heartbeat(  # type: ignore[override]
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        super().heartbeat(data=data, delete_data=delete_data, lease_duration=lease_duration)

    async def ensure(self, seconds: float) -> None:  # type: ignore[override]
        super().ensure(seconds)

    async def commit(  # type: ignore[override]
        self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None
    ) -> None:
        self._check_held()
        await self._client._write_unguarded(items, self.key)
        self._completed = True
        self._released.set()

    async def _complete(self, result: str | None) -> bool:  # type: ignore[override]
        return super().release()

    async def hand_over(self, *, lease_duration: float | None = None) -> str:  # type: ignore[override]
        return super().hand_over(lease_duration=lease_duration)

    async def release(  # type: ignore[override]
        self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False
    ) -> bool:
        return super().release(data=data, delete=delete, best_effort=best_effort)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
