"""Several locks at once, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, AsyncMultiLock, LockNotGrantedError, LockTimeoutError, MultiLock
from rig.engine import Ministack
from rig.wire import Request, Wire
from tests.support.clocks import LeapingClock
from tests.support.rows import Rows

from .conftest import LOST, Make
from .test_cancellation import everywhere, held_rows


def key_of(request: Request) -> str:
    key: str = request.body["Key"]["key"]["S"]
    return key


async def until(condition: Any) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def test_they_are_taken_in_order_and_released_at_the_end_of_the_block(wire: Wire, wired: AsyncLockClient) -> None:
    async with await wired.acquire_all(["b", "a"]) as locks:
        assert isinstance(locks, AsyncMultiLock)
        assert locks.keys == ("a", "b")
        assert locks.is_held
        assert [lock.key for lock in wired.held()] == ["a", "b"]
        await locks.heartbeat()
    assert [key_of(request) for request in wire.requests] == ["a", "b", "a", "b", "b", "a"]
    assert not locks.is_held


async def test_try_acquire_all_returns_none_and_leaves_nothing(client: AsyncLockClient, rows: Rows) -> None:
    async with await client.acquire("b"):
        assert await client.try_acquire_all(["a", "b"]) is None
        assert not rows.is_held("a")
        with pytest.raises(LockNotGrantedError) as refused:
            await client.acquire_all(["a", "b"], wait=0)
        assert refused.value.key == "b"
    locks = await client.try_acquire_all(["a", "b"])
    assert locks is not None
    assert await locks.release() is True


class Closed:
    """Awaits a coroutine until it has taken a lock, and then closes it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], client: AsyncLockClient) -> None:
        self.coroutine = coroutine
        self.client = client

    def __await__(self) -> Generator[Any, None, None]:
        while not self.client.__session__.open_locks.holds():
            yield self.coroutine.send(None)
        self.coroutine.close()


async def test_a_coroutine_that_is_closed_in_its_wait_awaits_nothing_and_closing_the_client_releases_what_it_took(
    make: Make, rows: Rows
) -> None:
    rows.put_held("b", expires_at=time.time() + 60, owner="another#1")
    taker = make()
    await Closed(taker.acquire_all(["a", "b"], wait=60), taker)
    await taker.close()
    assert not rows.is_held("a")


async def test_cancelling_the_wait_leaves_nothing(client: AsyncLockClient, rows: Rows) -> None:
    async with await client.acquire("b") as holder:
        task = asyncio.create_task(client.acquire_all(["a", "b"], wait=60))
        await until(lambda: rows.is_held("a"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not rows.is_held("a")
        assert [lock.key for lock in client.held()] == ["b"]
        assert holder.is_held


@pytest.mark.parametrize("held_up", ["a", "b", "c"])
async def test_cancelling_at_any_claim_leaves_nothing(held_up: str, wire: Wire, make: Make, rows: Rows) -> None:
    client = make()
    fault = wire.hold("UpdateItem", when=lambda request: key_of(request) == held_up)
    task = asyncio.create_task(client.acquire_all(["a", "b", "c"], wait=60))
    await until(fault.reached.is_set)
    task.cancel()
    await asyncio.sleep(0)
    fault.release()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(rows.is_held(key) for key in "abc")


async def test_cancelling_a_release_releases_all(wire: Wire, make: Make, rows: Rows) -> None:
    client = make()
    locks = await client.acquire_all(["a", "b"])
    fault = wire.hold("UpdateItem")
    task = asyncio.create_task(locks.release())
    await until(fault.reached.is_set)
    task.cancel()
    await asyncio.sleep(0)
    fault.release()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not rows.is_held("a")
    assert not rows.is_held("b")


async def test_commit_writes_under_all_of_them(client: AsyncLockClient, rows: Rows) -> None:
    locks = await client.acquire_all(["a", "b"])
    await locks.commit([{"Put": {"TableName": rows.table, "Item": {"key": {"S": "written"}}}}])
    assert rows.get("written") is not None
    assert not rows.is_held("a")
    assert not rows.is_held("b")


async def test_the_first_loss_is_told_with_one_multi_lock(make: Make, rows: Rows) -> None:
    lost: list[MultiLock] = []
    client = make(lease_duration=1.0)
    locks = await client.acquire_all(["a", "b"], on_lost=lost.append)
    rows.put_held("a", expires_at=time.time() + 60)
    await until(lambda: lost)
    assert locks.lost
    assert lost[0].keys == ("a", "b")
    assert await locks.release() is False


async def test_many_tasks_in_any_order_never_stand_still(make: Make) -> None:
    client, inside = make(), 0

    async def work(keys: list[str]) -> None:
        nonlocal inside
        for _ in range(3):
            async with await client.acquire_all(keys, wait=60):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(*(work(keys) for keys in (["a", "b"], ["b", "a"], ["b", "c", "a"], ["a", "b"])))


async def test_a_wait_that_runs_out_is_a_timeout(client: AsyncLockClient, rows: Rows) -> None:
    async with await client.acquire("b"):
        with pytest.raises(LockTimeoutError) as refused:
            await client.acquire_all(["a", "b"], wait=0.3)
    assert refused.value.key == "b"
    assert not rows.is_held("a")


async def test_unknown_options_and_bad_keys_are_errors(client: AsyncLockClient) -> None:
    with pytest.raises(TypeError, match="acquire_all"):
        await client.acquire_all(["a"], data=b"")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="list of keys"):
        await client.acquire_all("ab")


@pytest.mark.parametrize("lost", ["nothing", *LOST])
async def test_an_acquire_cancelled_anywhere_leaves_nothing_held(
    lost: str, wire: Wire, make: Make, engine: Ministack, table: str
) -> None:
    turns: list[list[str]] = []

    async def prepare() -> Coroutine[Any, Any, Any]:
        wire.clear()
        turns.append([f"{len(turns)}-a", f"{len(turns)}-b"])
        client = make(clock=LeapingClock(), heartbeat_period=0)
        if lost != "nothing":
            (wire.drop_request if lost == "the request" else wire.drop_reply)("UpdateItem", times=2)
        return client.acquire_all(turns[-1])

    taken = await everywhere(prepare)
    assert set(held_rows(engine, table)) == {key for locks in taken for key in locks.keys}


async def test_a_refused_acquire_cancelled_anywhere_leaves_nothing_held(
    wire: Wire, make: Make, engine: Ministack, table: str
) -> None:
    holder = await make().acquire("z")

    async def prepare() -> Coroutine[Any, Any, Any]:
        wire.clear()
        wire.drop_reply("UpdateItem")
        return make(clock=LeapingClock(), heartbeat_period=0).try_acquire_all(["a", "b", "z"])

    assert await everywhere(prepare) == [None] * 4
    assert held_rows(engine, table) == ["z"]
    assert holder.is_held


LAST_ACTS: dict[str, Callable[[AsyncMultiLock, str], Coroutine[Any, Any, Any]]] = {
    "release": lambda locks, table: locks.release(),
    "leaving it": lambda locks, table: locks.__aexit__(None, None, None),
    "commit": lambda locks, table: locks.commit([{"Put": {"TableName": table, "Item": {"key": {"S": "order"}}}}]),
}


@pytest.mark.parametrize("name", LAST_ACTS)
@pytest.mark.parametrize("lost", LOST)
async def test_a_last_act_cancelled_anywhere_leaves_nothing_held(
    name: str, lost: str, wire: Wire, make: Make, engine: Ministack, table: str
) -> None:
    kept: list[AsyncMultiLock] = []

    async def prepare() -> Coroutine[Any, Any, Any]:
        assert held_rows(engine, table) == []
        wire.clear()
        client = make(clock=LeapingClock(), heartbeat_period=0)
        kept.append(await client.acquire_all([f"{len(kept)}-a", f"{len(kept)}-b"]))
        (wire.drop_request if lost == "the request" else wire.drop_reply)(times=2)
        return LAST_ACTS[name](kept[-1], table)

    await everywhere(prepare)
    assert held_rows(engine, table) == []
    assert not any(locks.is_held or locks.lost for locks in kept)
