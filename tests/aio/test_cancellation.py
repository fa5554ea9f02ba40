"""A cancelled task settles the request under way, and leaves nothing held."""

import asyncio
import contextlib
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lambda_lock import AsyncLock, LockAlreadyReleasedError
from rig.engine import Item, Ministack
from rig.wire import Fault
from tests.support.clocks import LeapingClock
from tests.support.instants import at_every_instant
from tests.support.rows import Rows

from .conftest import ended, reading, renewed, start, ticking, until

# When a cancellation comes: the request is on its way, or it was carried out and the reply is on its way.
STAGES = ["hold", "delay_reply"]


@pytest.fixture
def held(engine: Ministack, table: str) -> Callable[[], list[str]]:
    """The keys of all rows that anybody holds."""

    def is_held(row: Item) -> bool:
        return "recordVersionNumber" in row and "isReleased" not in row

    return lambda: [row["key"]["S"] for row in engine.scan(table) if is_held(row)]


async def cancel_in(fault: Fault, task: asyncio.Task[Any], times: int = 1) -> None:
    """Cancel the task while its request meets the fault; it ends only when that request is settled."""
    await until(fault.reached.is_set)
    async with ticking() as ticker:
        for _ in range(times):
            task.cancel()
            await ticker.more()
        assert not task.done(), "the request under way was left to itself"
    fault.release()
    assert isinstance(await ended(task), asyncio.CancelledError)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_claim_is_settled_and_then_released(stage, times, wire, wired, held):
    await cancel_in(getattr(wire, stage)("UpdateItem"), start(wired.acquire("a")), times)
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert [request.delivered for request in wire.requests] == [1, 1]
    assert held() == []
    assert wired.held() == ()
    assert (await wired.acquire("a", wait=0)).is_held


@pytest.mark.parametrize("stage", STAGES)
async def test_a_task_that_is_cancelled_again_while_it_releases_settles_the_release_too(stage, wire, wired, held):
    claim = wire.delay_reply("UpdateItem")
    giving_up = getattr(wire, stage)("UpdateItem")
    taking = start(wired.acquire("a"))
    await until(claim.reached.is_set)
    taking.cancel()
    claim.release()
    await cancel_in(giving_up, taking)
    assert held() == []


async def test_a_cancelled_wait_leaves_the_holder_alone(wire, client, make, rows):
    lock = await client.acquire("a")
    waiting = start(make().acquire("a", wait=60, refresh_period=0.05))
    await until(lambda: wire.count("GetItem") >= 2)
    waiting.cancel()
    assert isinstance(await ended(waiting), asyncio.CancelledError)
    assert rows["a"]["ownerName"]["S"] == lock.owner
    await lock.heartbeat()
    assert await lock.release() is True


@pytest.mark.parametrize("stage", STAGES)
def test_a_loop_that_ends_during_a_claim_leaves_nothing_held(stage, wire, wired, held):
    claim = getattr(wire, stage)("UpdateItem")
    tasks = []

    async def outlive() -> None:
        try:
            await asyncio.Event().wait()
        finally:  # the loop cancels all its tasks; time enough for a release to go before the claim
            async with ticking() as ticker:
                await ticker.more(100)
            claim.release()

    async def main() -> None:
        tasks.append(start(wired.acquire("a")))
        tasks.append(start(outlive()))
        await asyncio.sleep(0)
        await until(claim.reached.is_set)

    asyncio.run(main())
    assert claim.finished.wait(30)
    assert [request.delivered for request in wire.requests] == [1, 1]
    assert held() == []


# The last acts of a lock


ENDS: dict[str, tuple[str, Callable[[AsyncLock, str], Coroutine[Any, Any, Any]]]] = {
    "release": ("UpdateItem", lambda lock, table: lock.release()),
    "hand_over": ("UpdateItem", lambda lock, table: lock.hand_over()),
    "commit": ("TransactWriteItems", lambda lock, table: lock.commit([put_order(table)])),
}


def put_order(table: str) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": {"key": {"S": "order"}}}}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("end", ENDS)
async def test_a_cancelled_end_of_a_lock_is_settled_and_leaves_nothing_held(
    end, stage, times, wire, wired, rows, table, caplog
):
    lock = await wired.acquire("a")
    operation, act = ENDS[end]
    await cancel_in(getattr(wire, stage)(operation), start(act(lock, table)), times)
    assert not rows.is_held("a")
    assert not lock.is_held
    assert not lock.lost
    assert (rows.get("order") is not None) == (end == "commit")  # it was on its way
    assert caplog.records == []


@pytest.mark.parametrize("data", [None, b"z"])
async def test_a_cancelled_release_that_did_not_get_through_is_sent_again_as_it_was(data, wire, wired, held):
    lock = await wired.acquire("a", data=b"x")
    lost = wire.drop_request("UpdateItem")
    releasing = start(lock.release(data=data))
    await until(lost.reached.is_set)
    releasing.cancel()
    await ended(releasing)
    assert held() == []
    record = await wired.get("a")
    assert record is not None
    assert record.data == (data or b"x")


async def test_after_a_cancelled_release_there_is_nothing_left_to_release(wire, wired):
    lock = await wired.acquire("a")
    await cancel_in(wire.delay_reply("UpdateItem"), start(lock.release()))
    wire.clear()
    await lock.__aexit__(None, None, None)
    for again in (lock.release, lock.__aenter__):
        with pytest.raises(LockAlreadyReleasedError):
            await again()
    assert wire.operations == []


# Renewing


async def beats_again(lock: AsyncLock, rows: Rows) -> None:
    """Renewals go on: the next heartbeat is not kept waiting by one that was cancelled."""
    before = lock.version
    await renewed(lock)
    assert reading(lock).is_held
    assert rows.version("a") == lock.version > before


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_heartbeat_is_settled_and_the_lock_goes_on(stage, wire, wired, rows):
    lock = await wired.acquire("a", lease_duration=2)
    await cancel_in(getattr(wire, stage)("UpdateItem"), start(lock.heartbeat()))
    before = lock.version
    await until(lambda: rows.version("a") > before)  # in the background, too
    await beats_again(lock, rows)


async def test_a_heartbeat_cancelled_while_it_waits_for_another_lets_renewals_go_on(wire, wired, rows):
    lock = await wired.acquire("a")
    slow = wire.delay_reply("UpdateItem")
    first = start(lock.heartbeat())
    await until(slow.reached.is_set)
    second = start(lock.heartbeat())
    async with ticking() as ticker:
        await ticker.more()
        second.cancel()
        await ticker.more()
    slow.release()
    assert await ended(first) is None
    assert isinstance(await ended(second), asyncio.CancelledError)
    await beats_again(lock, rows)


# An interrupt comes wherever Python runs signal handlers. Cancellations of all operations at each of their waits are
# swept by tests/drivers, also where the network loses requests or replies.


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # it was interrupted before
@pytest.mark.parametrize("lost", [False, True])
def test_an_acquire_interrupted_at_any_instant_leaves_nothing_held(lost, wire, make, held):
    client = make(clock=LeapingClock(), heartbeat_period=0)
    locks: list[AsyncLock] = []

    async def take() -> None:
        locks.append(await client.acquire("a"))

    def act() -> None:
        wire.clear()
        if lost:
            wire.drop_reply("UpdateItem")
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            taking = loop.create_task(take())
            try:
                loop.run_until_complete(taking)
            finally:
                loop.run_until_complete(asyncio.wait([taking]))  # which lets it settle

    for instant in at_every_instant(act, within=("client/async_", "runtime/drive_async.py")):
        while locks:
            asyncio.run(locks.pop().release())
        assert held() == [], instant
    gc.collect()  # else what was never awaited is collected, and warned of, in another test
