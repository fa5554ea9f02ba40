"""Several locks at once, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, AsyncMultiLock
from rig.wire import Request
from tests.support.clocks import LeapingClock

from .conftest import LOST
from .test_cancellation import everywhere, held_rows


def key_of(request: Request) -> str:
    key: str = request.body["Key"]["key"]["S"]
    return key


async def until(condition: Any) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


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
    make, rows
):
    rows.put_held("b", expires_at=time.time() + 60, owner="another#1")
    taker = make()
    await Closed(taker.acquire_all(["a", "b"], wait=60), taker)
    await taker.close()
    assert not rows.is_held("a")


async def test_cancelling_the_wait_leaves_nothing(client, rows):
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
async def test_cancelling_at_any_claim_leaves_nothing(held_up, wire, make, rows):
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


async def test_cancelling_a_release_releases_all(wire, make, rows):
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


async def test_many_tasks_in_any_order_never_stand_still(make):
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


@pytest.mark.parametrize("lost", ["nothing", *LOST])
async def test_an_acquire_cancelled_anywhere_leaves_nothing_held(lost, wire, make, engine, table):
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


async def test_a_refused_acquire_cancelled_anywhere_leaves_nothing_held(wire, make, engine, table):
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
async def test_a_last_act_cancelled_anywhere_leaves_nothing_held(name, lost, wire, make, engine, table):
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
