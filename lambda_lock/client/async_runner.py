"""What runs the operations of a client for asyncio.

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
from ..core.outcome import expected
from ..runtime.drive_async import drive_async, unsent
from ..runtime.signalsafe import given_back
from ..runtime.threads import Busy, Threads
from ..runtime.timeline import SYSTEM
from .session import Explained
from .taking import Uncontended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..errors import LockError
    from .held import LastAct, LastActs
    from .session import Operation, Session

    T = TypeVar("T")

LOOK = 0.25  # seconds between two checks whether another thread has released or lost the lock, or closed the client
_GIVING_BACK = protocol.DECISION  # seconds. If no thread is free for so long, what may be held is left to its lease


class AsyncRunner:
    """`Session.run` for coroutines."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asking = Threads()  # for acquires and reads
        self._ending = Threads()  # for what ends or renews a lock, which others may be waiting for

    async def run(
        self,
        operation: Operation[T],
        after_wait: Callable[[], None] | None = None,
        *,
        first: bool = False,
        ends: Callable[[], LockError] | None = None,
    ) -> T:
        """`Session.run`, awaited. first: on the threads for what renews or ends a lock."""
        session, (place, steps) = self._session, operation
        threads = self._ending if first else self._asking
        # Choosing it may import boto3, which takes a while.
        transport = session.ready() if session.has_transport else await threads.run(session.ready)

        async def sleep(seconds: float) -> None:
            await self._sleep(seconds)
            if after_wait is not None:
                after_wait()

        if after_wait is not None:
            ends = given_back
        made = steps(session.talk())
        try:
            if ends is not None:
                session.under_way.begin(made)
            if after_wait is not None:
                session.check_open()  # as in Session.run
            result = await drive_async(
                made,
                transport,
                session.timeline,
                sleep,
                threads,
                self._ending,
                _GIVING_BACK,
                session.under_way,
            )
            if ends is not None and not session.under_way.end(made):
                raise ends()
            return result
        except GeneratorExit:  # the coroutine was closed while it waited: closing the client ends the steps
            if ends is not None:
                session.under_way.leave(made)
            raise
        except BaseException:
            session.under_way.end(made)
            with Explained(place):
                raise

    async def run_last(self, held: LastActs, act: LastAct[T]) -> T:
        """`LastActs.run_last`, awaited. Cancelling the task is an interrupt, too."""
        place, steps, ends, again = act
        try:
            return await self.run((place, steps), first=True, ends=ends)
        except expected(Exception, GeneratorExit):  # nothing can be awaited while a coroutine is closed
            raise
        except BaseException:
            try:
                await self._ending.settle(functools.partial(held.give_up, again), patience=_GIVING_BACK)
            except Busy as error:
                held.tell_not_released(unsent(_GIVING_BACK, error))
            raise

    async def tried(self, acquire: Any, *args: Any, **options: Any) -> Any:
        """`Runner.tried`, awaited."""
        with Uncontended():
            return await acquire(*args, **options)
        return None

    async def settle(self, function: Callable[[], T]) -> T:
        """Run a function on a thread. If the task is cancelled, the function ends before that propagates."""
        return await self._ending.settle(function)

    async def _sleep(self, seconds: float) -> None:
        """Sleep. Closing the client, on any thread or loop, ends the sleep within LOOK."""
        session = self._session
        if session.timeline is not SYSTEM:
            await self._asking.run(session.timeline.clock.sleep, seconds)
            return
        now = asyncio.get_running_loop().time
        end = now() + seconds
        while (left := end - now()) > 0:
            await asyncio.sleep(min(left, LOOK))
            if session.closed.is_set:
                return
