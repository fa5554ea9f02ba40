"""What AsyncLockClient does otherwise than LockClient: tasks, loops, forks. What both do is tested in tests/client."""

import asyncio
import inspect
import os
import threading
import time
from typing import Any

import pytest

from lambda_lock import AsyncLock, AsyncLockClient, ClientClosedError, Lock, LockClient, OwnerMismatchError
from lambda_lock.client.async_runner import AsyncRunner
from lambda_lock.client.closing import close
from lambda_lock.runtime.timeline import SystemClock
from tests.support.elsewhere import in_child, in_thread

from .conftest import ended, renewed, start, until


def public(kind: type) -> set[str]:
    return {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("plain", "awaited", "own"), [(Lock, AsyncLock, {"tick"}), (LockClient, AsyncLockClient, set())]
)
def test_the_async_classes_have_every_public_name_of_the_plain_ones(plain, awaited, own):
    assert public(plain) - own <= public(awaited)


@pytest.mark.parametrize(
    "name", ["heartbeat", "ensure", "release", "commit", "transact_item", "hand_over", "wait_lost"]
)
def test_the_methods_of_a_lock_take_the_same_arguments(name):
    plain, awaited = inspect.signature(getattr(Lock, name)), inspect.signature(getattr(AsyncLock, name))
    assert plain == awaited


@pytest.mark.parametrize("name", ["acquire", "erase", "forget", "get", "rate_limit", "sleep", "prewarm"])
def test_the_methods_of_the_client_name_the_classes_that_applications_know(name):
    method = getattr(AsyncLockClient, name)
    assert method.__qualname__ == f"AsyncLockClient.{name}"
    assert method.__doc__ == f"`LockClient.{name}`, awaited."


# Forks


async def test_a_lock_is_not_released_in_a_forked_child(client, rows):
    lock = await client.acquire("a")

    def child() -> tuple[bool, bool]:
        # A running loop does not survive a fork: the child uses one of its own.
        asyncio._set_running_loop(None)
        with pytest.raises(OwnerMismatchError):
            asyncio.run(lock.release())
        asyncio.run(lock.__aexit__(None, None, None))
        return lock.is_held, lock.lost

    assert in_child(child)() == (False, True)
    assert rows.is_held("a")


class ForkingClock(SystemClock):
    """Forks at its first look after ``armed`` was set, as a signal handler may. Both processes go on."""

    armed = False
    pid = -1

    def monotonic(self) -> float:
        if self.armed and threading.current_thread() is threading.main_thread():
            self.armed = False
            self.pid = os.fork()
        return time.monotonic()


@pytest.mark.parametrize("before", [True, False], ids=["before the request", "after the answer"])
async def test_a_child_forked_in_the_middle_of_an_acquire_does_not_get_its_parents_lock(before, client, make, rows):
    inner, clock = client.__session__.transport, ForkingClock()

    class Arming:
        def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
            reply = inner.send(operation, request, timeout=timeout)
            clock.armed = not before and clock.pid == -1
            return reply

    forking = make(transport=Arming(), clock=clock, heartbeat_period=0)
    clock.armed = before
    lock, refused = None, False
    try:
        lock = await forking.acquire("a")
    except (OwnerMismatchError, RuntimeError):  # asyncio: no running event loop
        refused = forking.held() == ()
    finally:
        if clock.pid == 0:
            os._exit(7 if refused else 1)
    _, status = os.waitpid(clock.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert lock is not None
    assert lock.is_held
    assert rows.is_held("a")
    assert await lock.release() is True


# Re-entrancy, by task


async def test_the_same_task_enters_again_and_the_last_release_counts(wire, wired, rows):
    outer = await wired.acquire("a", reentrant=True)
    inner = await wired.acquire("a", reentrant=True)
    assert (inner.owner, inner.fencing_token) == (outer.owner, outer.fencing_token)
    assert await inner.release() is True
    assert outer.is_held
    assert rows.is_held("a")
    assert await outer.release() is True
    assert not rows.is_held("a")
    assert wire.count() == 2


async def test_without_reentrant_a_task_contends_with_itself_and_a_child_task_always_although_it_has_its_context(
    client,
):
    async with await client.acquire("a", reentrant=True):
        assert await client.try_acquire("a") is None
        assert await start(client.try_acquire("a", reentrant=True)) is None
        assert await client.try_acquire("a", reentrant=True) is not None


# Renewing by hand


async def test_heartbeats_of_many_tasks_come_one_after_the_other(wire, make, rows):
    lock = await make(heartbeat_period=0).acquire("a")  # so that all renewals are theirs
    await renewed(lock, times=60)  # more than a loop has threads
    assert lock.is_held
    assert rows.version("a") == lock.version
    assert wire.count("UpdateItem") == 61


# Beside a plain client


async def test_plain_and_async_clients_adopt_from_each_other(client, table):
    with LockClient(table) as plain:
        lock = plain.adopt(await (await client.acquire("a")).hand_over())
        again = await client.adopt(lock.hand_over())
    assert again.is_held


# The client's end


async def test_a_close_wakes_who_would_sleep_for_long(client):
    sleeping = start(AsyncRunner(client.__session__, {})._sleep(3600))  # pauses grow to that only after a while
    await asyncio.sleep(0)
    await client.close()
    assert await ended(sleeping) is None


# Loops


def test_a_client_serves_one_loop_after_the_other(make, rows):
    client = make(lease_duration=2)

    async def take() -> AsyncLock:
        return await client.acquire("a")

    async def go_on(lock: AsyncLock) -> None:
        await lock.heartbeat()
        assert await client.try_acquire("a") is None
        before = lock.version
        await until(lambda: lock.version > before)  # renewed in the background, whichever loop runs
        await lock.release()
        async with await client.acquire("a"):
            assert rows.is_held("a")

    lock = asyncio.run(take())
    version = lock.version
    asyncio.run(until(lambda: lock.version > version))
    asyncio.run(go_on(lock))
    assert not rows.is_held("a")


def test_closing_in_an_outage_is_bounded_however_many_tasks_wait_in_a_loop_that_stands_still(wire, make, wired, rows):
    async def begin() -> None:
        await make().acquire("a", lease_duration=3600)
        waiting.extend(start(wired.acquire("a", wait=3600, refresh_period=3600)) for _ in range(9))
        await until(lambda: len(rows["a"].get("waiters", {"L": []})["L"]) == 9)

    waiting: list[asyncio.Task[Any]] = []
    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    wire.clear()
    outage = wire.unavailable("UpdateItem", times=float("inf"))
    close(wired.__session__, release=True)  # as at the end of a process
    assert outage.reached.is_set()
    assert wire.count("UpdateItem") == 2  # after two in a row without an answer the other places are left
    for task in waiting:
        assert isinstance(loop.run_until_complete(ended(task)), ClientClosedError)
    loop.close()


def test_two_loops_at_once_share_a_client(make, rows):
    client = make()
    results: list[bool] = []

    async def work(turns: int) -> None:
        for _ in range(turns):
            async with await client.acquire("a", wait=60, refresh_period=0.02) as lock:
                results.append(lock.is_held)

    for result in [in_thread(lambda: asyncio.run(work(5))) for _ in range(2)]:
        result()
    assert results == [True] * 10
    assert not rows.is_held("a")


def test_an_async_client_can_be_made_over_a_plain_one(table, rows):
    with LockClient(owner_prefix="shared") as plain:
        client = AsyncLockClient.over(plain)
        lock = asyncio.run(client.acquire("a"))
        assert lock.owner.startswith("shared#")
        assert client.transport is plain.transport
        assert [held.key for held in plain.held()] == ["a"]
    assert not rows.is_held("a")
