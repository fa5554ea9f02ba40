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
from ..runtime.under_way import Act, released, unclear
from .session import Explained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ..errors import LockError
    from .held import Begin
    from .session import Ending, Operation, Session

    T = TypeVar("T")


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
        """`Session.run_last`, awaited. Cancelling the task is an interrupt, too."""
        try:
            return await self._drive(operation, self._ending, ends=released if again is operation[1] else unclear)
        except (Exception, GeneratorExit):  # nothing can be awaited while a coroutine is closed
            raise
        except BaseException:
            try:
                await self._ending.settle(functools.partial(held.give_up, again), patience=_GIVING_BACK)
            except Busy as error:
                held.tell_not_released(unsent(_GIVING_BACK, error))
            raise

    async def settle(self, function: Callable[[], T]) -> T:
        """Run a function on a thread. If the task is cancelled, the function ends before that propagates."""
        return await self._ending.settle(function)

    async def _drive(
        self,
        operation: Operation[T],
        threads: Threads,
        after_wait: Callable[[], None] | None = None,
        *,
        ends: Callable[[], LockError] | None = None,
    ) -> T:
        session, (place, steps) = self._session, operation
        if not session.has_transport:
            await threads.run(getattr, session, "transport")  # it may import boto3, which takes a while

        async def sleep(seconds: float) -> None:
            await self._sleep(seconds)
            if after_wait is not None:
                after_wait()

        made = steps(session.timeline.reading())
        with Explained(place), Act(session.under_way, made, takes=after_wait is not None, ends=ends):
            if after_wait is not None:
                session.check_open()  # as in Session.run
            return await drive_async(
                made,
                session.transport,
                session.timeline,
                sleep,
                threads,
                self._ending,
                _GIVING_BACK,
                session.under_way,
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
