"""Runs the operations of one session for coroutines.

Requests are sent on a few threads of the client's own (threads.py). So the loop keeps running, and work that the
application runs on the loop's default executor does not delay a lock. Requests that end or renew a lock have threads of
their own, and never wait for acquires and reads. Renewals in the background use the session's own threads
(heartbeat.py). Nothing here is bound to a loop: a client may serve one loop after another.

If a task is cancelled while a request is under way, that request is settled first (at most one timeout).
What it may have taken is released before the CancelledError propagates.
"""

from __future__ import annotations

import asyncio
import functools

from ..core import protocol
from ..runtime.drive_async import drive_async, unsent
from ..runtime.threads import Busy, Threads
from ..runtime.timeline import SYSTEM
from .session import Explained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeVar

    from ..errors import LockError
    from .held import Begin
    from .session import Operation, Session

    T = TypeVar("T")

    class Ending(Protocol):
        """What a last act ends: a HeldLock, or a Group of them."""

        def give_up(self, last_act: Begin[bool] | None = None) -> None: ...
        def tell_not_released(self, error: LockError) -> None: ...


_LOOK = 0.25  # seconds between two checks whether the client was closed
_GIVING_BACK = protocol.DECISION  # seconds. If no thread is free for so long, what may be held is left to its lease


class AsyncRunner:
    """`Session.run` for coroutines."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asking = Threads()  # for acquires and reads
        self._ending = Threads()  # for what ends or renews a lock, which others may be waiting for

    async def run(self, operation: Operation[T], after_wait: Callable[[], None] | None = None) -> T:
        """`Session.run`, awaited."""
        return await self._drive(operation, self._asking, after_wait)

    async def run_first(self, operation: Operation[T]) -> T:
        """As `run`, for what renews or ends a lock."""
        return await self._drive(operation, self._ending)

    async def run_last(self, held: Ending, operation: Operation[T], again: Begin[bool] | None = None) -> T:
        """Run a last act. If the task is cancelled, the lock is released before the CancelledError propagates: whatever
        the act did, no other code would release it.

        again: the steps to release it by. None: those of a plain release.
        """
        try:
            return await self.run_first(operation)
        except asyncio.CancelledError:
            try:
                await self._ending.settle(functools.partial(held.give_up, again), patience=_GIVING_BACK)
            except Busy as error:
                held.tell_not_released(unsent(_GIVING_BACK, error))
            raise

    async def settle(self, function: Callable[[], T]) -> T:
        """Run a function on a thread. If the task is cancelled, the function ends before that propagates."""
        return await self._ending.settle(function)

    async def _drive(
        self, operation: Operation[T], threads: Threads, after_wait: Callable[[], None] | None = None
    ) -> T:
        session, (place, steps) = self._session, operation
        if not session.has_transport:
            await threads.run(getattr, session, "transport")  # it may import boto3, which takes a while

        async def sleep(seconds: float) -> None:
            await self._sleep(seconds)
            if after_wait is not None:
                after_wait()

        with Explained(place):
            return await drive_async(
                steps(session.timeline.look()),
                session.transport,
                session.timeline,
                sleep,
                threads,
                self._ending,
                _GIVING_BACK,
            )

    async def _sleep(self, seconds: float) -> None:
        """Sleep. Closing the client, on any thread or loop, ends the sleep within _LOOK."""
        session = self._session
        if session.timeline is not SYSTEM:
            await self._asking.run(session.timeline.clock.sleep, seconds)
            return
        now = asyncio.get_running_loop().time
        end = now() + seconds
        while (left := end - now()) > 0:
            await asyncio.sleep(min(left, _LOOK))
            if session.closed.is_set:
                return
