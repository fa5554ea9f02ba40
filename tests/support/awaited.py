"""AsyncLockClient and its handles, as tests of LockClient use them: each call is awaited, in a loop of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

from lambda_lock import AsyncLock, AsyncMultiLock

from .elsewhere import in_thread

_HANDLES = (AsyncLock, AsyncMultiLock)
_OVER = object()


class Awaited:
    """A client or handle for asyncio, without an await. So is what its calls return."""

    def __init__(self, behind: Any) -> None:
        self.behind = behind

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.behind, name)
        if not inspect.ismethod(found):
            return _plain(found)
        return lambda *args, **options: _plain(found(*args, **options))

    def __enter__(self) -> Awaited:
        _run(self.behind.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        _run(self.behind.__aexit__(*error))

    def __eq__(self, other: object) -> bool:
        """Whether it is a handle of the same lock, as callbacks are given it, or the same client."""
        return _subject(self.behind) is _subject(other.behind if isinstance(other, Awaited) else other)

    def __hash__(self) -> int:
        return hash(_subject(self.behind))

    def __repr__(self) -> str:
        return repr(self.behind)


def _subject(of: Any) -> Any:
    return getattr(of, "__held__", of)


def _plain(value: Any) -> Any:
    """The value, awaited and without anything to await in it."""
    if inspect.isawaitable(value):
        return _plain(_run(value))
    if inspect.isasyncgen(value):
        return _each(value)
    if type(value) is tuple:  # not a record
        return tuple(map(_plain, value))
    return Awaited(value) if isinstance(value, _HANDLES) else value


def _run(value: Any) -> Any:
    async def main() -> Any:
        return await value

    # A check or callback may be called in the loop of another call: it gets a thread.
    return in_thread(lambda: asyncio.run(main()))() if asyncio._get_running_loop() else asyncio.run(main())


def _each(values: AsyncIterator[Any]) -> Iterator[Any]:
    while (value := _run(anext(values, _OVER))) is not _OVER:
        yield value
