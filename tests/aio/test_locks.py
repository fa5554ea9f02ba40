"""AsyncLockClient and AsyncLock do what LockClient and Lock do."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from typing import Any

import pytest

from lambda_lock import (
    AsyncLock,
    AsyncLockClient,
    ClientClosedError,
    CommitRefusedError,
    Lock,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockClient,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
    OwnerMismatchError,
    SessionMonitorNotSetError,
    TransportError,
)
from lambda_lock.client.async_runner import AsyncRunner
from lambda_lock.client.closing import close
from lambda_lock.runtime.timeline import SystemClock
from rig.engine import Ministack
from rig.wire import Wire
from tests.support.elsewhere import in_child
from tests.support.rows import Rows

from .conftest import Make, ended, reading, renewed, start, until


def public(kind: type) -> dict[str, Any]:
    return {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if not name.startswith("_") and base is not object
    }


@pytest.mark.parametrize(
    ("plain", "awaited", "own"), [(Lock, AsyncLock, {"tick"}), (LockClient, AsyncLockClient, set())]
)
def test_the_async_classes_have_every_public_name_of_the_plain_ones(plain: type, awaited: type, own: set[str]) -> None:
    assert set(public(plain)) - own <= set(public(awaited))


@pytest.mark.parametrize(
    "name", ["heartbeat", "ensure", "release", "commit", "transact_item", "hand_over", "wait_lost"]
)
def test_the_methods_of_a_lock_take_the_same_arguments(name: str) -> None:
    plain, awaited = inspect.signature(getattr(Lock, name)), inspect.signature(getattr(AsyncLock, name))
    assert plain == awaited


# Taking and giving back


@pytest.mark.parametrize("name", ["acquire", "erase", "forget", "get", "rate_limit", "sleep", "prewarm"])
def test_the_methods_of_the_client_name_the_classes_that_applications_know(name: str) -> None:
    method = getattr(AsyncLockClient, name)
    assert method.__qualname__ == f"AsyncLockClient.{name}"
    assert method.__doc__ == f"`LockClient.{name}`, awaited."


async def test_an_uncontended_lock_costs_one_request_to_acquire_and_one_to_release(
    wire: Wire, wired: AsyncLockClient, rows: Rows
) -> None:
    lock = await wired.acquire("a")
    assert wire.operations == ["UpdateItem"]
    assert rows.is_held("a")
    assert await lock.release() is True
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert not rows.is_held("a")


async def test_the_handle_says_what_it_holds(client: AsyncLockClient, rows: Rows) -> None:
    lock = await client.acquire("a", lease_duration=30, data=b"x", attributes={"colour": "red"}, safe_time=5)
    assert (lock.key, lock.sort_key, lock.data, lock.attributes) == ("a", None, b"x", {"colour": "red"})
    assert lock.lease_duration == 30
    assert lock.owner == rows["a"]["ownerName"]["S"]
    assert lock.version == rows.version("a")
    assert str(lock.fencing_token) == rows["a"]["fencingToken"]["N"]
    assert 20 < lock.remaining <= 30
    assert (lock.is_held, lock.is_expired, lock.is_almost_expired, lock.lost) == (True, False, False, False)
    lock.raise_if_lost()
    assert repr(lock).startswith("<AsyncLock 'a' held for")
    await lock.release()
    assert (reading(lock).is_held, reading(lock).is_expired, lock.remaining) == (False, True, 0)


async def test_a_lock_without_safe_time_does_not_know_when_it_almost_ends(client: AsyncLockClient) -> None:
    lock = await client.acquire("a")
    with pytest.raises(SessionMonitorNotSetError):
        _ = lock.is_almost_expired


async def test_leaving_the_lock_releases_it_also_on_an_error(client: AsyncLockClient, rows: Rows) -> None:
    async with await client.acquire("a") as lock:
        assert rows.is_held("a")
        assert lock.is_held
    assert not rows.is_held("a")
    with pytest.raises(ZeroDivisionError):
        async with await client.acquire("a"):
            raise ZeroDivisionError
    assert not rows.is_held("a")


async def test_leaving_a_lock_that_was_released_inside_is_no_error(client: AsyncLockClient) -> None:
    async with await client.acquire("a") as lock:
        await lock.release()
    with pytest.raises(LockAlreadyReleasedError):
        await lock.release()


async def test_a_release_can_store_data_or_delete_the_row(client: AsyncLockClient, rows: Rows) -> None:
    await (await client.acquire("a")).release(data=b"z")
    assert rows["a"]["data"] == {"B": "eg=="}
    await (await client.acquire("a")).release(delete=True)
    assert rows.get("a") is None


async def test_a_release_that_fails_raises_or_is_logged_and_may_be_tried_again(
    wire: Wire, wired: AsyncLockClient, rows: Rows
) -> None:
    lock = await wired.acquire("a")
    wire.answer(400, "AccessDeniedException", times=2)
    with pytest.raises(Exception, match="AccessDenied"):
        await lock.release()
    assert await lock.release(best_effort=True) is False
    assert await lock.release() is True
    assert not rows.is_held("a")


async def test_the_release_of_a_lost_lock_says_so(client: AsyncLockClient, rows: Rows) -> None:
    lock = await client.acquire("a")
    rows.delete("a")
    assert await lock.release() is False
    assert lock.lost


async def test_a_lost_reply_is_no_failure(wire: Wire, wired: AsyncLockClient, rows: Rows) -> None:
    wire.drop_reply("UpdateItem")
    lock = await wired.acquire("a")
    wire.drop_reply("UpdateItem")
    assert await lock.release() is True
    assert wire.count("UpdateItem") == 4
    assert not rows.is_held("a")


async def test_bad_input_is_refused_before_anything_is_sent(wire: Wire, wired: AsyncLockClient) -> None:
    with pytest.raises(TypeError, match="key must be a str"):
        await wired.acquire(5)  # type: ignore[arg-type]
    with pytest.raises(LockArgumentError, match="wait="):
        await wired.acquire("a", wait=-1)
    with pytest.raises(TypeError, match="waits"):
        await wired.acquire("a", waits=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        AsyncLockClient(lease=5)  # type: ignore[call-arg]
    assert wire.operations == []


async def test_an_outage_is_a_transport_error_that_names_the_lock(wire: Wire, impatient: AsyncLockClient) -> None:
    wire.unavailable(times=float("inf"))
    with pytest.raises(TransportError) as caught:
        await impatient.acquire("a", wait=0)
    assert caught.value.key == "a"


async def test_a_lock_is_not_released_in_a_forked_child(client: AsyncLockClient, rows: Rows) -> None:
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
async def test_a_child_forked_in_the_middle_of_an_acquire_does_not_get_its_parents_lock(
    before: bool, client: AsyncLockClient, make: Make, rows: Rows
) -> None:
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


# Contention


async def test_a_held_lock_is_refused_to_other_tasks_in_one_request(
    wire: Wire, wired: AsyncLockClient, make: Make
) -> None:
    held = await wired.acquire("a")
    wire.clear()
    with pytest.raises(LockNotGrantedError) as caught:
        await wired.acquire("a", wait=0)
    assert wire.operations == ["UpdateItem"]
    assert caught.value.holder == held.owner
    assert await wired.try_acquire("a") is None
    assert await make().try_acquire("a", wait=0.05) is None


async def test_try_acquire_gives_the_lock_where_it_is_free_and_takes_a_dead_one(
    client: AsyncLockClient, rows: Rows
) -> None:
    rows.put_held("a", expires_at=0)
    for key in ("a", "b"):
        lock = await client.try_acquire(key)
        assert lock is not None
        assert lock.is_held


async def test_too_little_time_is_no_contention(client: AsyncLockClient) -> None:
    class Context:
        def get_remaining_time_in_millis(self) -> int:
            return 500

    with pytest.raises(LockNotGrantedError):
        await client.try_acquire("a", context=Context())


async def test_a_wait_that_runs_out_names_the_holder(client: AsyncLockClient, make: Make) -> None:
    held = await client.acquire("a")
    with pytest.raises(LockTimeoutError) as caught:
        await make().acquire("a", wait=0.2, refresh_period=0.05)
    assert caught.value.holder == held.owner


async def test_tasks_take_turns_and_lose_no_increment(client: AsyncLockClient) -> None:
    inside, most, count, tokens = 0, 0, 0, []

    async def work() -> None:
        nonlocal inside, most, count
        async with await client.acquire("a", wait=60, refresh_period=0.02) as lock:
            inside += 1
            most = max(most, inside)
            before = count
            await asyncio.sleep(0)
            count = before + 1
            tokens.append(lock.fencing_token)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(10)))
    assert (most, count) == (1, 10)
    assert tokens == sorted(set(tokens))


async def test_tasks_and_threads_contend_for_the_same_lock(client: AsyncLockClient, table: str) -> None:
    with LockClient(table) as plain:
        async with await client.acquire("a"):
            assert plain.try_acquire("a") is None
        with plain.acquire("a"):
            assert await client.try_acquire("a") is None


# Re-entrancy, by task


async def test_the_same_task_enters_again_and_the_last_release_counts(
    wire: Wire, wired: AsyncLockClient, rows: Rows
) -> None:
    outer = await wired.acquire("a", reentrant=True)
    inner = await wired.acquire("a", reentrant=True)
    assert (inner.owner, inner.fencing_token) == (outer.owner, outer.fencing_token)
    assert await inner.release() is True
    assert outer.is_held
    assert rows.is_held("a")
    assert await outer.release() is True
    assert not rows.is_held("a")
    assert wire.count() == 2


async def test_without_reentrant_the_same_task_contends_with_itself(client: AsyncLockClient) -> None:
    await client.acquire("a", reentrant=True)
    assert await client.try_acquire("a") is None


async def test_a_child_task_contends_although_it_has_the_parents_context(client: AsyncLockClient) -> None:
    async with await client.acquire("a", reentrant=True):
        child = start(client.try_acquire("a", reentrant=True))
        assert await child is None
        assert await client.try_acquire("a", reentrant=True) is not None


# Reading


async def test_get_and_list_read_without_taking(wire: Wire, wired: AsyncLockClient) -> None:
    assert await wired.get("a") is None
    lock = await wired.acquire("a", data=b"x")
    await (await wired.acquire("b")).release()
    wire.clear()
    record = await wired.get("a")
    assert wire.operations == ["GetItem"]
    assert record is not None
    assert (record.owner, record.data, record.is_released) == (lock.owner, b"x", False)
    records = {record.key: record.is_released async for record in wired.list()}
    assert records == {"a": False, "b": True}


async def test_a_row_that_cannot_be_read_does_not_end_the_list(wired: AsyncLockClient, rows: Rows) -> None:
    await wired.acquire("a")
    rows.put("b", recordVersionNumber={"S": "v"}, leaseDuration={"S": "9" * 400}, fencingToken={"S": "7"})
    await wired.acquire("c")
    records = {record.key: record.unreadable async for record in wired.list()}
    assert records == {"a": (), "b": ("leaseDuration", "fencingToken"), "c": ()}


async def test_list_asks_for_one_partition_of_a_table_with_a_sort_key(engine: Ministack, make: Make) -> None:
    engine.create_table("async-sorted", "key", "part")
    client = make("async-sorted", sort_key_name="part")
    for part in ("1", "2"):
        await client.acquire("a", sort_key=part)
    await client.acquire("b", sort_key="1")
    assert [record.sort_key async for record in client.list(key="a")] == ["1", "2"]
    record = await client.get("a", sort_key="2")
    assert record is not None
    assert record.sort_key == "2"


async def test_held_lists_what_is_held_now(client: AsyncLockClient) -> None:
    first, second = await client.acquire("a"), await client.acquire("b")
    assert {lock.owner for lock in client.held()} == {first.owner, second.owner}
    [handle] = [lock for lock in client.held() if lock.key == "a"]
    assert await handle.release() is True  # another handle, the same lock
    assert not first.is_held
    assert [lock.key for lock in client.held()] == ["b"]


async def test_prewarm_opens_the_connection_that_the_first_lock_uses(wire: Wire, wired: AsyncLockClient) -> None:
    await wired.prewarm()
    assert wire.operations == ["GetItem"]
    await wired.acquire("a")
    assert wire.connections == 1


# Renewing by hand


async def test_heartbeat_renews_with_data_and_another_lease(client: AsyncLockClient, rows: Rows) -> None:
    lock = await client.acquire("a", data=b"x", lease_duration=5)
    before = lock.version
    await lock.heartbeat(data=b"y", lease_duration=30)
    assert (lock.data, lock.lease_duration) == (b"y", 30)
    assert lock.version == rows.version("a") > before
    assert rows["a"]["data"] == {"B": "eQ=="}
    assert 20 < lock.remaining <= 30
    await lock.heartbeat(delete_data=True)
    assert reading(lock).data is None
    with pytest.raises(LockArgumentError):
        await lock.heartbeat(data=b"z", delete_data=True)


async def test_ensure_renews_only_where_less_is_left(wire: Wire, wired: AsyncLockClient) -> None:
    lock = await wired.acquire("a", lease_duration=20)
    wire.clear()
    await lock.ensure(5)
    assert wire.operations == []
    await lock.ensure(40)
    assert wire.operations == ["UpdateItem"]
    assert lock.remaining >= 40


async def test_a_heartbeat_whose_reply_is_lost_is_sent_again(
    wire: Wire, impatient: AsyncLockClient, rows: Rows
) -> None:
    lock = await impatient.acquire("a")
    wire.clear()
    wire.drop_reply("UpdateItem")
    await lock.heartbeat()
    assert wire.count("UpdateItem") == 2
    assert rows.version("a") == lock.version


async def test_a_heartbeat_of_a_lock_that_was_taken_is_refused(client: AsyncLockClient, rows: Rows) -> None:
    lock = await client.acquire("a")
    rows.put_held("a", expires_at=0, owner="somebody#1")
    with pytest.raises(LockLostError, match="somebody#1"):
        await lock.heartbeat()
    assert lock.lost
    assert await lock.wait_lost() is True
    with pytest.raises(LockLostError):
        lock.raise_if_lost()


async def test_wait_lost_ends_with_the_release_and_with_the_timeout(client: AsyncLockClient) -> None:
    lock = await client.acquire("a")
    assert await lock.wait_lost(0.02) is False
    waiting = start(lock.wait_lost())
    await asyncio.sleep(0)
    await lock.release()
    assert await waiting is False


async def test_heartbeats_of_many_tasks_come_one_after_the_other(wire: Wire, make: Make, rows: Rows) -> None:
    lock = await make(heartbeat_period=0).acquire("a")  # so that all renewals are theirs
    await renewed(lock, times=60)  # more than a loop has threads
    assert lock.is_held
    assert rows.version("a") == lock.version
    assert wire.count("UpdateItem") == 61


async def test_the_signals_come_on_a_thread_of_their_own_with_the_plain_lock(client: AsyncLockClient) -> None:
    told: list[tuple[str, str, bool]] = []

    def tell(signal: str) -> Any:
        return lambda lock: told.append((signal, lock.key, threading.current_thread() is threading.main_thread()))

    lock = await client.acquire("a", lease_duration=20, safe_time=19.99, on_danger=tell("danger"), on_lost=tell("lost"))
    await until(lambda: told)
    assert lock.is_held
    assert told == [("danger", "a", False)]


# Handing over and committing


async def test_a_lock_is_handed_over_to_another_client(client: AsyncLockClient, make: Make, rows: Rows) -> None:
    lock = await client.acquire("a", data=b"x")
    string = await lock.hand_over()
    assert not lock.is_held
    assert rows.is_held("a")
    adopted = await make().adopt(string)
    assert (adopted.key, adopted.owner, adopted.data) == ("a", lock.owner, b"x")
    assert adopted.fencing_token == lock.fencing_token + 1
    await adopted.heartbeat()
    assert await adopted.release() is True
    assert not rows.is_held("a")


async def test_a_string_is_adopted_once_and_only_as_it_was_given(client: AsyncLockClient, make: Make) -> None:
    string = await (await client.acquire("a")).hand_over()
    with pytest.raises(LockFormatError):
        await client.adopt(string[:-1])
    await make().adopt(string)
    with pytest.raises(LockLostError):
        await make().adopt(string)


async def test_leaving_a_lock_that_was_handed_over_leaves_it_to_who_adopts(client: AsyncLockClient, rows: Rows) -> None:
    async with await client.acquire("a") as lock:
        string = await lock.hand_over()
    assert rows.is_held("a")
    async with await client.adopt(string):
        assert rows.is_held("a")
    assert not rows.is_held("a")


async def test_plain_and_async_clients_adopt_from_each_other(client: AsyncLockClient, table: str) -> None:
    with LockClient(table) as plain:
        lock = plain.adopt(await (await client.acquire("a")).hand_over())
        again = await client.adopt(lock.hand_over())
    assert again.is_held


def put(table: str, key: str, **condition: str) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": {"key": {"S": key}, "total": {"N": "1"}}, **condition}}


async def test_a_commit_writes_and_releases_at_once(client: AsyncLockClient, table: str, rows: Rows) -> None:
    async with await client.acquire("a") as lock:
        await lock.commit([put(table, "order")], data=b"done")
        assert not lock.is_held
    assert rows["order"]["total"] == {"N": "1"}
    assert not rows.is_held("a")
    record = await client.get("a")
    assert record is not None
    assert record.data == b"done"


async def test_a_commit_after_the_loss_writes_nothing(client: AsyncLockClient, table: str, rows: Rows) -> None:
    lock = await client.acquire("a")
    rows.put_held("a", expires_at=0, owner="somebody#1")
    with pytest.raises(LockLostError):
        await lock.commit([put(table, "order")])
    assert rows.get("order") is None


async def test_a_commit_that_the_applications_own_condition_refuses_releases(
    client: AsyncLockClient, table: str, rows: Rows
) -> None:
    rows.put("order")
    async with await client.acquire("a") as lock:
        with pytest.raises(CommitRefusedError) as caught:
            await lock.commit([put(table, "order", ConditionExpression="attribute_not_exists(#k)", **NAMES)])
    assert caught.value.reasons == ("ConditionalCheckFailed",)
    assert not rows.is_held("a")


NAMES: dict[str, Any] = {"ExpressionAttributeNames": {"#k": "key"}}


async def test_a_transact_item_guards_a_transaction_of_ones_own(
    client: AsyncLockClient, engine: Ministack, table: str, rows: Rows
) -> None:
    lock = await client.acquire("a")
    guard = lock.transact_item()
    engine.dynamodb("TransactWriteItems", {"TransactItems": [guard, put(table, "first")]})
    assert lock.is_held
    await lock.release()
    with pytest.raises(Exception, match="ransaction"):
        engine.dynamodb("TransactWriteItems", {"TransactItems": [guard, put(table, "second")]})
    assert rows.get("first")
    assert rows.get("second") is None


# The client's end


async def test_leaving_the_client_releases_what_it_holds(rows: Rows, table: str) -> None:
    async with AsyncLockClient() as client:
        locks = [await client.acquire("a"), await client.acquire("b", delete_on_release=True)]
    assert not rows.is_held("a")
    assert rows.get("b") is None
    assert not any(lock.is_held for lock in locks)
    await client.close()  # a second time: nothing
    with pytest.raises(ClientClosedError):
        await client.acquire("a")
    with pytest.raises(ClientClosedError):
        await client.get("a")


async def test_closing_without_release_leaves_the_rows_to_their_lease(make: Make, rows: Rows) -> None:
    client = make()
    lock = await client.acquire("a")
    await client.close(release=False)
    assert not lock.is_held
    assert rows.is_held("a")


async def test_a_close_ends_those_who_wait(wire: Wire, make: Make, client: AsyncLockClient) -> None:
    waiter = make()
    held = await client.acquire("a", lease_duration=3600)
    waiting = [start(waiter.acquire("a", wait=3600, refresh_period=3600)) for _ in range(3)]
    await until(lambda: wire.count("GetItem") >= 3)
    await waiter.close()
    for task in waiting:
        assert isinstance(await ended(task), ClientClosedError)
    assert held.is_held


async def test_a_close_wakes_who_would_sleep_for_long(client: AsyncLockClient) -> None:
    sleeping = start(AsyncRunner(client.__session__, {})._sleep(3600))  # pauses grow to that only after a while
    await asyncio.sleep(0)
    await client.close()
    assert await ended(sleeping) is None


async def test_a_close_during_a_claim_leaves_nothing_held(wire: Wire, wired: AsyncLockClient, rows: Rows) -> None:
    claim = wire.delay_reply("UpdateItem")
    taking = start(wired.acquire("a"))
    await until(claim.reached.is_set)
    await wired.close()
    claim.release()
    assert isinstance(await ended(taking), ClientClosedError)
    assert not rows.is_held("a")


# Loops


def test_a_client_serves_one_loop_after_the_other(make: Make, rows: Rows) -> None:
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


def test_closing_in_an_outage_is_bounded_however_many_tasks_wait_in_a_loop_that_stands_still(
    wire: Wire, make: Make, wired: AsyncLockClient, rows: Rows
) -> None:
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


def test_two_loops_at_once_share_a_client(make: Make, rows: Rows) -> None:
    client = make()
    results: list[bool] = []

    async def work(turns: int) -> None:
        for _ in range(turns):
            async with await client.acquire("a", wait=60, refresh_period=0.02) as lock:
                results.append(lock.is_held)

    threads = [threading.Thread(target=lambda: asyncio.run(work(5))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [True] * 10
    assert not rows.is_held("a")


def test_an_async_client_can_be_made_over_a_plain_one(table: str, rows: Rows) -> None:
    with LockClient(owner_prefix="shared") as plain:
        client = AsyncLockClient.over(plain)

        lock = asyncio.run(client.acquire("a"))
        assert lock.owner.startswith("shared#")
        assert client.transport is plain.transport
        assert [held.key for held in plain.held()] == ["a"]
    assert not rows.is_held("a")
