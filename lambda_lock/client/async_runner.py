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
import os

from ..core.protocol import DECISION
from ..errors import LockNotGrantedError
from ..runtime.drive_async import drive_async, unsent
from ..runtime.threads import Busy, Threads
from ..runtime.timeline import SYSTEM
from .session import Explained, is_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from .session import Operation, Session

    T = TypeVar("T")

LOOK = 0.25  # seconds between two checks whether another thread has released or lost the lock, or closed the client


class AsyncRunner:
    """Runs operations as a session does, for coroutines.

    handles: what makes the handle for asyncio, by the type of a plain one.
    """

    def __init__(self, session: Session, handles: Mapping[type, Callable[[Any, AsyncRunner], Any]]) -> None:
        self._session = session
        self._handles = handles
        self._asking = Threads()  # for acquires and reads
        self._ending = Threads()  # for what ends or renews a lock, which others may be waiting for

    async def run(self, operation: Operation[Any]) -> Any:
        """`Session.run`, awaited. A lock is returned as its handle for asyncio."""
        pid = os.getpid()
        try:
            result = operation.result(await self._drive(operation))
            handle = self._handles.get(type(result))
            return result if handle is None else handle(result, self)
        except GeneratorExit:  # nothing can be awaited while a coroutine is closed
            raise
        except BaseException as error:
            if pid == os.getpid() and operation.leaves(error):
                try:
                    await self._ending.settle(operation.undo, patience=operation.patience)
                except Busy as busy:
                    operation.give_up(unsent(DECISION, busy))
            raise

    async def _drive(self, operation: Operation[Any]) -> Any:
        """`Session.drive`, awaited."""
        session, after_wait, closed = self._session, operation.after_wait, operation.closed
        threads = self._ending if operation.is_urgent else self._asking
        # Choosing it may import boto3, which takes a while.
        transport = session.ready() if session.has_transport else await threads.run(session.ready)

        async def sleep(seconds: float) -> None:
            await self._sleep(seconds)
            if after_wait is not None:
                after_wait()

        made = operation.begin(session.observer, session.talk())
        try:
            if closed is not None:
                session.under_way.begin(made)
            if after_wait is not None:
                session.check_open()  # as in Session.drive
            result = await drive_async(
                made,
                transport,
                session.timeline,
                sleep,
                threads,
                self._ending,
                DECISION,
                session.under_way,
            )
            if closed is not None and not session.under_way.end(made):
                raise closed()
            return result
        except GeneratorExit:  # the coroutine was closed while it waited: closing the client ends the steps
            if closed is not None:
                session.under_way.leave(made)
            raise
        except BaseException:
            session.under_way.end(made)
            with Explained(operation.place):
                raise

    async def tried(self, acquire: Any, *args: Any, **options: Any) -> Any:
        """`Session.tried`, awaited."""
        try:
            return await acquire(*args, **options)
        except LockNotGrantedError as error:
            if not is_contention(error):
                raise
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
