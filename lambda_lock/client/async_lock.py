"""The handles of locks for asyncio, and what runs their operations.

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
from contextlib import suppress

from ..core import protocol
from ..core.outcome import expected
from ..errors import LockAlreadyReleasedError
from ..runtime.drive_async import drive_async, unsent
from ..runtime.signalsafe import given_back
from ..runtime.threads import Busy, Threads
from ..runtime.timeline import SYSTEM
from .lock import Handle, ensure, heartbeat, held_by
from .multi_lock import MultiHandle, group_of
from .session import Entered, Explained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self, TypeVar

    from ..errors import LockError
    from .held import LastAct, LastActs
    from .lock import Lock
    from .multi_lock import MultiLock
    from .session import Operation, Session

    T = TypeVar("T")

_LOOK = 0.25  # seconds between two checks whether another thread has released or lost the lock, or closed the client
_LEAST = 0.01  # seconds
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
        made = steps(session.timeline.reading())
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

    async def settle(self, function: Callable[[], T]) -> T:
        """Run a function on a thread. If the task is cancelled, the function ends before that propagates."""
        return await self._ending.settle(function)

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


class AsyncWithBlock(Entered):
    """`WithBlock` for ``async with``."""

    _held: Any  # as in `WithBlock`
    _runner: AsyncRunner

    async def __aenter__(self) -> Self:
        self._held.check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held.ends_with_block():
            with suppress(LockAlreadyReleasedError):  # another task releases it at this moment
                await self._runner.run_last(self._held, self._held.release(best_effort=True))


class AsyncLock(Handle, AsyncWithBlock):
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
        await self._runner.run(heartbeat(self._held, data, delete_data, lease_duration), first=True)

    async def ensure(self, seconds: float) -> None:
        """`Lock.ensure`, awaited.

        Example: ``await lock.ensure(30)``
        """
        await self._runner.run(ensure(self._held, seconds), first=True)

    async def release(
        self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False
    ) -> bool:
        """`Lock.release`, awaited. If the task is cancelled, the lock is released before the CancelledError propagates.

        Example: ``await lock.release(data=b"done")``
        """
        return await self._runner.run_last(self._held, self._held.release(data, delete, best_effort))

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
        return await self._runner.run_last(self._held, self._held.hand_over(lease_duration))

    async def _complete(self, result: str | None) -> bool:
        return await self._runner.run_last(self._held, self._held.release(complete=True, result=result))


class AsyncMultiLock(MultiHandle, AsyncWithBlock):
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
        await self._runner.run(self._held.heartbeat(), first=True)

    async def release(self) -> bool:
        """`MultiLock.release`, awaited. If the task is cancelled, the locks are released before the CancelledError
        propagates.

        Example: ``await locks.release()``
        """
        return await self._runner.run_last(self._held, self._held.release())

    async def commit(self, items: Sequence[Mapping[str, Any]]) -> None:
        """`MultiLock.commit`, awaited. If the task is cancelled, the commit may have been carried out; the locks are
        released.

        Example: ``await locks.commit([{"Update": take_from_one}, {"Update": give_to_the_other}])``
        """
        await self._runner.run_last(self._held, self._held.commit(items))
