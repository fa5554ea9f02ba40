"""Waiting for a lock does not hold up the loop, and what holds up the loop does not keep a lock from being renewed."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lambda_lock import AsyncLock, AsyncLockClient, LockTimeoutError, transport
from tests.support.clocks import LeapingClock
from tests.support.waiting import DEADLINE, wait_until

from .conftest import ended, occupied, start, ticking, until

Act = Callable[[AsyncLockClient, AsyncLock], Coroutine[Any, Any, Any]]


async def _list(client: AsyncLockClient, lock: AsyncLock) -> None:
    assert [record.key async for record in client.list()] == ["held"]


async def _commit(client: AsyncLockClient, lock: AsyncLock) -> None:
    request = {"TableName": lock.__held__.hold.place.table, "Item": {"key": {"S": "order"}}}
    await lock.commit([{"Put": request}])


async def _adopt(client: AsyncLockClient, lock: AsyncLock) -> None:
    await client.adopt(await lock.hand_over())


_ACTS: dict[str, Act] = {
    "acquire": lambda client, lock: client.acquire("other"),
    "try_acquire": lambda client, lock: client.try_acquire("other"),
    "get": lambda client, lock: client.get("held"),
    "list": _list,
    "prewarm": lambda client, lock: client.prewarm(),
    "heartbeat": lambda client, lock: lock.heartbeat(),
    "ensure": lambda client, lock: lock.ensure(100),
    "release": lambda client, lock: lock.release(),
    "commit": _commit,
    "hand_over": lambda client, lock: lock.hand_over(),
    "adopt": _adopt,
    "close": lambda client, lock: client.close(),
}


@pytest.mark.parametrize("name", _ACTS)
async def test_the_loop_goes_on_while_dynamodb_takes_its_time_and_work_that_fills_its_executor_holds_nothing_up(
    name, wire, wired
):
    async with occupied() as work, ticking() as ticker:
        lock = await asyncio.wait_for(wired.acquire("held"), DEADLINE)
        slow = wire.delay_reply()
        acting = start(_ACTS[name](wired, lock))
        await until(slow.reached.is_set)
        await ticker.more()
        assert not acting.done()
        slow.release()
        assert await ended(acting) is None
        assert not work.done()


async def test_a_clock_of_ones_own_sleeps_off_the_loop_and_off_its_executor(make, rows):
    sleepers: set[str] = set()

    class Noted(LeapingClock):
        def sleep(self, seconds: float) -> None:  # type: ignore[override]
            sleepers.add(threading.current_thread().name)
            super().sleep(seconds)

    rows.put_held("a", expires_at=time.time() + 1000)
    waiter = make(clock=Noted())
    async with occupied() as work:
        assert isinstance(await ended(start(waiter.acquire("a", wait=5))), LockTimeoutError)
        assert not work.done()
    assert sleepers
    assert threading.current_thread().name not in sleepers


async def test_the_loop_goes_on_while_a_task_waits_for_a_lock(wire, client, make):
    held = await client.acquire("a")
    async with ticking() as ticker:
        waiting = start(make().acquire("a", wait=60, refresh_period=0.05))
        polls = wire.count("GetItem")
        while wire.count("GetItem") < polls + 5:
            await ticker.more(1)
        await ticker.more()
        assert not waiting.done()
        await held.release()
        assert (await waiting).is_held


async def test_a_lock_is_renewed_while_the_loop_is_busy(client, rows):
    lock = await client.acquire("a", lease_duration=2)
    before = rows.expiry("a")
    wait_until(lambda: rows.expiry("a") > before + 2)  # never yields to the loop, for longer than the lease
    assert lock.is_held
    assert await lock.release() is True


async def test_a_renewal_under_way_does_not_hold_up_the_loop_and_a_heartbeat_waits_for_it(wire, wired, rows):
    lock = await wired.acquire("a", lease_duration=2)
    renewal = wire.delay_reply("UpdateItem")
    await until(renewal.reached.is_set)
    async with ticking() as ticker:
        beating = start(lock.heartbeat(lease_duration=30))
        await ticker.more()
        assert not beating.done()
        assert wire.count("UpdateItem") == 2
        renewal.release()
        assert await ended(beating) is None
    assert lock.lease_duration == 30
    assert rows.version("a") == lock.version


async def test_a_client_of_boto3_is_made_off_the_loop(wire, make, monkeypatch):
    makers: list[threading.Thread] = []
    choose = transport.choose

    def noted(**options: Any) -> Any:
        makers.append(threading.current_thread())
        return choose(**options)

    monkeypatch.setattr(transport, "choose", noted)
    async with await make().acquire("a"):
        pass
    assert len(makers) == 1
    assert makers[0] is not threading.current_thread()
