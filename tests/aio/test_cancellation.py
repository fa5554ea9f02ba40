"""A cancelled task settles the request under way, and leaves nothing held."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from types import FrameType
from typing import Any

import pytest

from lambda_lock import AsyncLock, AsyncLockClient, LockAlreadyReleasedError
from lambda_lock.client import async_client, async_lock, async_runner
from lambda_lock.runtime import drive_async
from rig.engine import Ministack
from rig.wire import Fault
from tests.support.clocks import LeapingClock
from tests.support.rows import Rows

from .conftest import LOST, ended, reading, renewed, start, ticking, until

# When a cancellation comes: the request is on its way, or it was carried out and the reply is on its way.
STAGES = ["hold", "delay_reply"]


def held_rows(engine: Ministack, table: str) -> list[str]:
    """The keys of all rows that anybody holds."""
    return [
        item["key"]["S"] for item in engine.scan(table) if "recordVersionNumber" in item and "isReleased" not in item
    ]


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
async def test_a_cancelled_claim_is_settled_and_then_released(stage, times, wire, wired, engine, table):
    claim = getattr(wire, stage)("UpdateItem")
    await cancel_in(claim, start(wired.acquire("a")), times)
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert [request.delivered for request in wire.requests] == [1, 1]
    assert held_rows(engine, table) == []
    assert wired.held() == ()
    assert (await wired.acquire("a", wait=0)).is_held


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_take_over_is_settled_and_then_released(stage, wire, wired, rows, engine, table):
    rows.put_held("a", expires_at=0)
    wire.hold("UpdateItem", seconds=0)  # the claim, which is refused
    taking_over = getattr(wire, stage)("UpdateItem")
    await cancel_in(taking_over, start(wired.acquire("a")))
    assert held_rows(engine, table) == []


@pytest.mark.parametrize("stage", STAGES)
async def test_a_task_that_is_cancelled_again_while_it_releases_settles_the_release_too(
    stage, wire, wired, engine, table
):
    claim = wire.delay_reply("UpdateItem")
    giving_up = getattr(wire, stage)("UpdateItem")
    taking = start(wired.acquire("a"))
    await until(claim.reached.is_set)
    taking.cancel()
    claim.release()
    await cancel_in(giving_up, taking)
    assert held_rows(engine, table) == []


async def test_cancelled_before_it_began_a_claim_leaves_nothing_held(wired, engine, table):
    async def work() -> None:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        await wired.acquire("a")

    assert isinstance(await ended(start(work())), asyncio.CancelledError)
    assert held_rows(engine, table) == []


async def test_a_claim_cancelled_after_its_reply_was_lost_leaves_nothing_held(wire, wired, engine, table):
    wire.drop_reply("UpdateItem", times=1)
    again = wire.hold("UpdateItem")
    await cancel_in(again, start(wired.acquire("a")))
    assert held_rows(engine, table) == []


async def test_a_cancelled_wait_leaves_the_holder_alone(wire, client, make, rows):
    held = await client.acquire("a")
    waiting = start(make().acquire("a", wait=60, refresh_period=0.05))
    await until(lambda: wire.count("GetItem") >= 2)
    waiting.cancel()
    assert isinstance(await ended(waiting), asyncio.CancelledError)
    assert held.is_held
    assert rows["a"]["ownerName"]["S"] == held.owner
    await held.heartbeat()
    assert await held.release() is True


@pytest.mark.parametrize("stage", STAGES)
async def test_a_wait_cancelled_in_the_claim_at_its_end_leaves_nothing_held(stage, wire, client, make, engine, table):
    held = await client.acquire("a")
    waiting = start(make().acquire("a", wait=60, refresh_period=0.02, queue=False))
    await until(lambda: wire.count("GetItem"))
    wire.hold("UpdateItem", seconds=0)  # the release
    claim = getattr(wire, stage)("UpdateItem")
    await held.release()
    await cancel_in(claim, waiting)
    assert held_rows(engine, table) == []


@pytest.mark.parametrize("stage", STAGES)
async def test_a_timeout_around_an_acquire_leaves_nothing_held(stage, wire, wired, engine, table):
    claim = getattr(wire, stage)("UpdateItem")

    async def work() -> None:
        async with asyncio.timeout(None) as limit:
            task = start(wired.acquire("a"))
            await until(claim.reached.is_set)
            limit.reschedule(0)
            await task

    working = start(work())
    await until(claim.reached.is_set)
    async with ticking() as ticker:
        await ticker.more()
        assert not working.done()
    claim.release()
    assert isinstance(await ended(working), TimeoutError)
    assert held_rows(engine, table) == []


async def test_a_sibling_that_fails_takes_the_acquire_with_it(wire, wired, engine, table):
    claim = wire.delay_reply("UpdateItem")

    async def fail() -> None:
        await until(claim.reached.is_set)
        asyncio.get_running_loop().call_later(0.05, claim.release)
        raise ZeroDivisionError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wired.acquire("a"))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
    assert held_rows(engine, table) == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_loop_that_ends_during_a_claim_leaves_nothing_held(stage, wire, wired, engine, table):
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
    assert held_rows(engine, table) == []


async def test_a_cancelled_body_releases_its_lock(client, engine, table):
    entered = asyncio.Event()

    async def work() -> None:
        async with await client.acquire("a"):
            entered.set()
            await asyncio.Event().wait()

    working = start(work())
    await entered.wait()
    assert held_rows(engine, table) == ["a"]
    working.cancel()
    assert isinstance(await ended(working), asyncio.CancelledError)
    assert held_rows(engine, table) == []


# The last acts of a lock


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_release_is_settled(stage, times, wire, wired, engine, table):
    lock = await wired.acquire("a")
    await cancel_in(getattr(wire, stage)("UpdateItem"), start(lock.release()), times)
    assert held_rows(engine, table) == []
    assert not lock.is_held
    assert not lock.lost


@pytest.mark.parametrize("data", [None, b"z"])
async def test_a_cancelled_release_that_did_not_get_through_is_sent_again_as_it_was(data, wire, wired, engine, table):
    lock = await wired.acquire("a", data=b"x")
    lost = wire.drop_request("UpdateItem")
    releasing = start(lock.release(data=data))
    await until(lost.reached.is_set)
    releasing.cancel()
    await ended(releasing)
    assert held_rows(engine, table) == []
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


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_handing_over_leaves_nothing_held(stage, wire, wired, engine, table, caplog):
    lock = await wired.acquire("a")
    await cancel_in(getattr(wire, stage)("UpdateItem"), start(lock.hand_over()))
    assert held_rows(engine, table) == []
    assert not lock.lost
    assert caplog.records == []


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_adopting_leaves_nothing_held(stage, wire, wired, make, engine, table):
    string = await (await wired.acquire("a")).hand_over()
    adopting = getattr(wire, stage)("UpdateItem")
    await cancel_in(adopting, start(make().adopt(string)))  # a new client reads first, so that this one is granted
    assert held_rows(engine, table) == []


async def test_an_adopting_cancelled_before_it_took_the_lock_leaves_it_to_be_adopted(wire, wired, make, engine, table):
    string = await (await wired.acquire("a")).hand_over()
    await cancel_in(wire.delay_reply("GetItem"), start(make().adopt(string)))
    assert held_rows(engine, table) == ["a"]
    assert (await make().adopt(string)).is_held


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_commit_is_settled_and_leaves_nothing_held(stage, wire, wired, rows, table, caplog):
    lock = await wired.acquire("a")
    items = [{"Put": {"TableName": table, "Item": {"key": {"S": "order"}}}}]
    await cancel_in(getattr(wire, stage)("TransactWriteItems"), start(lock.commit(items)))
    assert not rows.is_held("a")
    assert rows.get("order") is not None  # it was on its way
    assert not lock.lost
    assert caplog.records == []


async def test_a_cancelled_commit_that_was_refused_leaves_nothing_held(wire, wired, rows, table):
    rows.put("order")
    lock = await wired.acquire("a")
    put = {
        "TableName": table,
        "Item": {"key": {"S": "order"}},
        "ConditionExpression": "attribute_not_exists(#k)",
        "ExpressionAttributeNames": {"#k": "key"},
    }
    await cancel_in(wire.delay_reply("TransactWriteItems"), start(lock.commit([{"Put": put}])))
    assert not rows.is_held("a")


async def test_a_cancelled_close_releases_what_the_client_holds(wire, wired, engine, table):
    locks = [await wired.acquire(key) for key in ("a", "b", "c")]
    await cancel_in(wire.delay_reply("UpdateItem"), start(wired.close()))
    assert held_rows(engine, table) == []
    assert not any(lock.is_held for lock in locks)


# Renewing


async def beats_again(lock: AsyncLock, rows: Rows) -> None:
    """Renewals go on: the next heartbeat is not kept waiting by one that was cancelled."""
    before = lock.version
    await renewed(lock)
    assert reading(lock).is_held
    assert rows.version("a") == lock.version > before


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_heartbeat_is_settled_and_the_lock_goes_on(stage, wire, wired, rows):
    lock = await wired.acquire("a")
    await cancel_in(getattr(wire, stage)("UpdateItem"), start(lock.heartbeat()))
    assert rows.version("a") == lock.version
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


async def test_after_a_cancelled_heartbeat_renewals_in_the_background_go_on(wire, wired, rows):
    lock = await wired.acquire("a", lease_duration=2)
    await cancel_in(wire.delay_reply("UpdateItem"), start(lock.heartbeat()))
    before = lock.version
    await until(lambda: rows.version("a") > before)
    assert lock.is_held


async def test_a_cancelled_reading_changes_nothing(wire, wired):
    async with await wired.acquire("a") as lock:
        await cancel_in(wire.delay_reply("GetItem"), start(wired.get("a")))
        assert lock.is_held


# Everywhere: at each moment at which the loop goes on with something else


class CancelledAt:
    """Awaits ``work``, and cancels its task when that waits for the ``number``-th time (from 0).

    late: not before what it waits for has come. again: once more at the next wait.
    """

    def __init__(self, work: Coroutine[Any, Any, Any], number: int, *, late: bool, again: bool) -> None:
        self._iterator = work.__await__()
        self._numbers = (number, number + 1) if again else (number,)
        self._late = late
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        resume: Callable[[Any], Any] = self._iterator.send
        value: Any = None
        while True:
            try:
                future = resume(value)
            except StopIteration as end:
                return end.value
            if self.waits in self._numbers:
                if self._late and future is not None:
                    future.add_done_callback(lambda _: task.cancel())  # before the task hears that it is done
                else:
                    task.cancel()
            self.waits += 1
            try:
                resume, value = self._iterator.send, (yield future)
            except BaseException as error:  # noqa: BLE001 - it is for who waits within
                resume, value = self._iterator.throw, error


Prepare = Callable[[], Awaitable[Coroutine[Any, Any, Any]]]


async def everywhere(prepare: Prepare) -> list[Any]:
    """Cancel the work that ``prepare`` gives at each of its waits, once and twice, early and late.

    Gives what the work returned or raised where it was not cancelled any more.
    """
    results: list[Any] = []
    for late in (False, True):
        for again in (False, True):
            number, reached = 0, True
            while reached:
                cancelling = CancelledAt(await prepare(), number, late=late, again=again)
                acting = start(wait_for(cancelling))
                error = await ended(acting)
                reached = cancelling.waits > number
                assert isinstance(error, asyncio.CancelledError) == reached, (number, late, again, error)
                number += 1
            assert number > 1, "it was never cancelled"
            results.append(error or acting.result())
    return results


async def wait_for(work: Awaitable[Any]) -> Any:
    return await work


def _refused(table: str, key: str) -> dict[str, Any]:
    return {
        "Put": {
            "TableName": table,
            "Item": {"key": {"S": key}},
            "ConditionExpression": "attribute_exists(#k)",
            "ExpressionAttributeNames": {"#k": "key"},
        }
    }


LAST_ACTS: dict[str, Callable[[AsyncLock, str], Coroutine[Any, Any, Any]]] = {
    "release": lambda lock, table: lock.release(data=b"z"),
    "leaving it": lambda lock, table: lock.__aexit__(None, None, None),
    "commit": lambda lock, table: lock.commit([{"Put": {"TableName": table, "Item": {"key": {"S": "order"}}}}]),
    "a commit that is refused": lambda lock, table: lock.commit([_refused(table, "no such row")]),
    "hand_over": lambda lock, table: lock.hand_over(),
}


@pytest.mark.parametrize("name", [*LAST_ACTS, "close"])
@pytest.mark.parametrize("lost", LOST)
async def test_a_last_act_cancelled_anywhere_leaves_nothing_held(name, lost, wire, make, engine, table):
    kept: list[AsyncLock] = []

    async def prepare() -> Coroutine[Any, Any, Any]:
        if kept and name != "hand_over":  # whose last one was not cancelled
            assert held_rows(engine, table) == []
        wire.clear()
        client = make(clock=LeapingClock(), heartbeat_period=0)
        kept.append(await client.acquire(str(len(kept))))
        (wire.drop_request if lost == "the request" else wire.drop_reply)(times=2)
        return client.close() if name == "close" else LAST_ACTS[name](kept[-1], table)

    results = await everywhere(prepare)
    for result in results:
        if isinstance(result, str):
            await (await make().adopt(result)).release()
    assert held_rows(engine, table) == []
    assert not any(lock.is_held or lock.lost for lock in kept)


@pytest.mark.parametrize("lost", ["nothing", *LOST])
@pytest.mark.parametrize("dead", [False, True])
async def test_an_acquire_cancelled_anywhere_leaves_nothing_held(dead, lost, wire, make, engine, rows, table):
    keys: list[str] = []

    async def prepare() -> Coroutine[Any, Any, Any]:
        wire.clear()
        keys.append(str(len(keys)))
        if dead:
            rows.put_held(keys[-1], expires_at=0)
        client = make(clock=LeapingClock(), heartbeat_period=0)
        if lost != "nothing":
            (wire.drop_request if lost == "the request" else wire.drop_reply)("UpdateItem", times=2)
        return client.acquire(keys[-1])

    locks = await everywhere(prepare)
    still_dead = [key for key in held_rows(engine, table) if rows[key]["ownerName"] == {"S": "somebody#1"}]
    assert set(held_rows(engine, table)) == {lock.key for lock in locks}.union(still_dead)
    assert dead or not still_dead


async def test_an_adopt_cancelled_anywhere_leaves_the_lock_released_or_to_be_adopted(wire, make, engine, table):
    strings: dict[str, str] = {}

    async def prepare() -> Coroutine[Any, Any, Any]:
        key = str(len(strings))
        strings[key] = await (await make().acquire(key)).hand_over()
        wire.clear()
        wire.drop_reply("UpdateItem")
        return make(clock=LeapingClock(), heartbeat_period=0).adopt(strings[key])

    locks = await everywhere(prepare)
    for lock in locks:
        await lock.release()
    wire.clear()
    for key in held_rows(engine, table):
        await (await make().adopt(strings[key])).release()


RESUMING: dict[str, Callable[[AsyncLockClient, str], Coroutine[Any, Any, Any]]] = {
    "resume": lambda client, string: client.resume(string),
    "acquire by holder": lambda client, string: client.acquire("a", holder="h"),
}


@pytest.mark.parametrize("act", RESUMING)
@pytest.mark.parametrize("lost", ["nothing", *LOST])
async def test_a_resume_cancelled_anywhere_releases_nothing(act, lost, wire, make, engine, table):
    first = await make().acquire("a", holder="h")
    string = await first.hand_over()

    async def prepare() -> Coroutine[Any, Any, Any]:
        assert held_rows(engine, table) == ["a"]
        wire.clear()
        if lost != "nothing":
            (wire.drop_request if lost == "the request" else wire.drop_reply)("UpdateItem", times=2)
        return RESUMING[act](make(clock=LeapingClock(), heartbeat_period=0), string)

    locks = await everywhere(prepare)
    assert {lock.fencing_token for lock in locks} == {first.fencing_token}
    wire.clear()
    newest = await make().resume(string)
    assert newest.fencing_token == first.fencing_token
    await newest.heartbeat()


async def test_handing_over_a_resumed_lock_cancelled_anywhere_leaves_the_hold_to_the_next_attempt(
    wire, make, engine, table
):
    string = await (await make().acquire("a")).hand_over()
    kept: list[AsyncLock] = []

    async def prepare() -> Coroutine[Any, Any, Any]:
        wire.clear()
        kept.append(await make(clock=LeapingClock(), heartbeat_period=0).resume(string))
        wire.drop_reply("UpdateItem", times=2)
        return kept[-1].hand_over()

    await everywhere(prepare)
    wire.clear()
    assert held_rows(engine, table) == ["a"]
    assert not any(lock.is_held or lock.lost for lock in kept)
    assert await (await make().resume(string)).release()


async def test_a_release_by_string_cancelled_anywhere_can_be_repeated(wire, make, engine, table):
    strings: list[str] = []

    async def prepare() -> Coroutine[Any, Any, Any]:
        strings.append(await (await make().acquire(str(len(strings)))).hand_over())
        wire.clear()
        wire.drop_reply("UpdateItem")
        return make(clock=LeapingClock(), heartbeat_period=0).release(strings[-1])

    assert await everywhere(prepare) == [True] * 4
    wire.clear()
    client = make()
    assert all([await client.release(string) for string in strings])
    assert held_rows(engine, table) == []


async def test_a_heartbeat_cancelled_anywhere_leaves_a_lock_that_beats_on(wire, impatient, rows):
    lock = await impatient.acquire("a")

    async def prepare() -> Coroutine[Any, Any, Any]:
        wire.clear()
        await beats_again(lock, rows)
        wire.drop_reply("UpdateItem")
        return lock.heartbeat()

    await everywhere(prepare)
    await beats_again(lock, rows)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # it was interrupted before
@pytest.mark.parametrize("lost", [False, True])
def test_an_acquire_interrupted_at_any_line_leaves_nothing_held(lost, wire, make, engine, table):
    client = make(clock=LeapingClock(), heartbeat_period=0)
    number, reached, locks = 0, True, []

    async def take() -> None:
        locks.append(await client.acquire(str(number)))

    while reached:
        wire.clear()
        if lost:
            wire.drop_reply("UpdateItem")
        loop = asyncio.new_event_loop()
        taking = loop.create_task(take())
        with interrupted(number) as lines, contextlib.suppress(KeyboardInterrupt):
            loop.run_until_complete(taking)
        reached = lines.count > number
        loop.run_until_complete(asyncio.wait([taking]))  # which lets it settle
        if reached:
            assert isinstance(taking.exception(), KeyboardInterrupt)
        loop.close()
        number += 1
    assert number > 20
    assert held_rows(engine, table) == [locks[-1].key]
    assert len(locks) == 1
    gc.collect()  # else what was never awaited is collected, and warned of, in another test


FILES = {module.__file__ for module in (async_client, async_lock, async_runner, drive_async)}


class Lines:
    """How many lines of the async client have run."""

    count = 0


@contextlib.contextmanager
def interrupted(number: int) -> Iterator[Lines]:
    """Raise KeyboardInterrupt before the ``number``-th line (from 0) that the async client runs on this thread."""
    lines, before = Lines(), sys.gettrace()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            lines.count += 1
            if lines.count == number + 1:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)
