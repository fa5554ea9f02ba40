"""Async tests, each in a loop of its own, on the real engine."""

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lambda_lock import AsyncLock, AsyncLockClient
from rig.wire import Wire
from tests.support.clients import KeepingAsyncClient
from tests.support.clocks import LeapingClock
from tests.support.fresh import fresh_process
from tests.support.rows import rows
from tests.support.waiting import DEADLINE

__all__ = ["fresh_process", "rows"]

Make = Callable[..., AsyncLockClient]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests: no plugin is needed for that."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def make(table: str) -> Iterator[Make]:
    """Creates clients, and closes them with the test. Their locks stay in the table."""
    clients: list[AsyncLockClient] = []

    def build(*arguments: Any, **options: Any) -> AsyncLockClient:
        clients.append(KeepingAsyncClient(*arguments, **options))
        return clients[-1]

    yield build
    for client in clients:
        asyncio.run(client.close(release=False))


@pytest.fixture
def client(make: Make) -> AsyncLockClient:
    return make()


@pytest.fixture
def wired(wire: Wire, make: Make) -> AsyncLockClient:
    """A client whose requests go over the wire."""
    return make()


@pytest.fixture
def impatient(wire: Wire, make: Make) -> AsyncLockClient:
    """A client whose requests go over the wire. Pauses between its requests take no time."""
    return make(clock=LeapingClock(), heartbeat_period=0)


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true, by polling it. The loop is not blocked meanwhile."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.005)


async def ended(task: asyncio.Task[Any]) -> BaseException | None:
    """Wait for a task. Returns its error, or None."""
    done, _ = await asyncio.wait([task], timeout=DEADLINE)
    assert done, "the task did not end"
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def renewed(lock: AsyncLock, times: int = 1) -> None:
    """Renew in so many tasks at once. Fails if they wait for each other, and cancels them, so that the loop can end."""
    beating = [start(lock.heartbeat()) for _ in range(times)]
    done, stuck = await asyncio.wait(beating, timeout=DEADLINE)
    for task in stuck:
        task.cancel()
    assert len(done) == times, "renewals wait for each other"
    for task in done:
        task.result()


def start(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a task. asyncio does not report its error beside the failure of a test."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


class Ticker:
    """Counts ticks: none comes while the loop is blocked."""

    def __init__(self) -> None:
        self.ticks = 0

    async def more(self, ticks: int = 20) -> None:
        """Wait for so many ticks more."""
        goal = self.ticks + ticks
        await until(lambda: self.ticks >= goal)


@asynccontextmanager
async def ticking() -> AsyncIterator[Ticker]:
    ticker = Ticker()

    async def tick() -> None:
        while True:
            await asyncio.sleep(0)
            ticker.ticks += 1
            await asyncio.sleep(0.001)

    task = start(tick())
    try:
        yield ticker
    finally:
        task.cancel()


@asynccontextmanager
async def occupied() -> AsyncIterator[asyncio.Future[bool]]:
    """Fill the loop's default executor until the end of the block. Gives the future of that work."""
    over = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    work = loop.run_in_executor(None, over.wait, 4 * DEADLINE)
    try:
        yield work
    finally:
        over.set()
        await work


def reading(lock: AsyncLock) -> AsyncLock:
    """The same lock. To type checkers its properties may have changed."""
    return lock
