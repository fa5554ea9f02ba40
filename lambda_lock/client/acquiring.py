"""What the methods of AsyncLockClient return that lead to a lock: to be awaited, or entered with ``async with``."""

from __future__ import annotations

import functools
from collections.abc import Coroutine  # asyncio has it loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType
    from typing import Any, ParamSpec, Protocol, Self, TypeVar

    class Entered(Protocol):
        async def __aenter__(self) -> Self: ...
        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None: ...

    P = ParamSpec("P")
    E = TypeVar("E", bound=Entered)


class Acquiring(Coroutine["Any", "Any", "E"]):
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

    async def __aenter__(self) -> E:
        self._lock = await self._coroutine
        return await self._lock.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None, "it was entered"
        await self._lock.__aexit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._coroutine!r}>"


def entered_too(method: Callable[P, Coroutine[Any, Any, E]]) -> Callable[P, Acquiring[E]]:
    """Let what an async method returns be entered with ``async with``, besides being awaited."""

    @functools.wraps(method)
    def acquiring(*args: P.args, **kwargs: P.kwargs) -> Acquiring[E]:
        return Acquiring(method(*args, **kwargs))

    acquiring.is_awaited = True  # type: ignore[attr-defined]  # decorators ask what kind of client it is
    return acquiring
