"""The promises of in_memory(): it answers every client, lets a test change the tables, and is undone at the end."""

import asyncio
import contextlib
import os
import threading
from typing import Any

import boto3
import pytest

from lambda_lock import (
    PYTHON,
    AsyncLockClient,
    CommitRefusedError,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockLostError,
    LockNotGrantedError,
    TransportError,
    current_lock,
    deduplicate,
    default_client,
    set_default_client,
    with_lock,
)
from lambda_lock.client import session
from lambda_lock.core.outcome import ServiceError
from lambda_lock.testing import ManualClock, in_memory, lambda_context
from tests.support.elsewhere import in_thread


class Refusing:
    """A transport that fails on any request."""

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        raise AssertionError(f"{operation} went past in_memory()")


@with_lock("order-{id}")
def handler(event: Any, context: Any) -> int:
    return current_lock().fencing_token


ORDER = {"Put": {"TableName": "orders", "Item": {"id": {"S": "1"}}}}
ROW = {"TableName": "locks", "Key": {"key": {"S": "a"}}}


@with_lock("order-{id}", wait=0)
async def async_handler(event: Any, context: Any) -> int:
    return current_lock().fencing_token


# -- the clients that it answers


def test_a_handler_runs_without_environment_and_its_lock_is_released():
    with in_memory() as memory:
        assert handler({"id": 1}, lambda_context()) > 0
        assert memory.requests == ("UpdateItem", "UpdateItem")
        assert [(row.key, row.is_released) for row in memory.rows()] == [("order-1", True)]


def test_several_locks_are_taken_or_none():
    with in_memory() as memory, LockClient() as client:
        with client.acquire_all(["b", "a"]) as locks:
            assert locks.keys == ("a", "b")
        memory.hold("b", owner="somebody else")
        with pytest.raises(LockNotGrantedError) as refused:
            client.acquire_all(["b", "a"], wait=0)
        assert (refused.value.key, refused.value.holder) == ("b", "somebody else")
        assert [row.key for row in memory.rows() if not row.is_released] == ["b"]


@pytest.mark.parametrize(
    "build",
    [
        lambda: LockClient("mine", transport=Refusing()),
        lambda: LockClient("mine", endpoint_url="http://127.0.0.1:9", region_name="eu-west-1"),
        lambda: LockClient("mine", boto3_client=boto3.client("dynamodb", region_name="eu-west-1")),
        lambda: LockClient("mine"),
        lambda: LockClient("arn:aws:dynamodb:eu-west-1:123456789012:table/mine"),
    ],
    ids=["transport", "endpoint", "boto3", "environment", "arn"],
)
@pytest.mark.parametrize("made", ["before", "inside"])
def test_every_client_is_answered_made_before_or_inside(build, made):
    client = build() if made == "before" else None
    with in_memory() as memory:
        client = client or build()
        with client.acquire("a"):
            (row,) = memory.rows("mine")
            assert not row.is_released
        client.close()


def test_asyncio_is_answered_by_the_default_client_and_by_explicit_ones():
    async def run() -> None:
        async with AsyncLockClient(transport=Refusing()) as client, await client.acquire("order-1"):
            with pytest.raises(LockNotGrantedError):
                await async_handler({"id": 1}, lambda_context())
        assert await async_handler({"id": 1}, lambda_context()) > 0
        async with AsyncLockClient().acquire_all(["a", "b"]) as locks:
            assert locks.is_held

    with in_memory() as memory:
        asyncio.run(run())
        assert [(row.key, row.is_released) for row in memory.rows()] == [(key, True) for key in ("order-1", "a", "b")]


def test_threads_share_it_and_never_hold_one_lock_at_once():
    tokens: list[int] = []
    inside = threading.Lock()

    def work() -> None:
        for _ in range(5):
            with default_client().acquire("one", wait=20, refresh_period=0.02) as lock:
                assert inside.acquire(blocking=False), "two at once"
                tokens.append(lock.fencing_token)
                inside.release()

    with in_memory():
        for ended in [in_thread(work) for _ in range(4)]:
            ended()
    assert len(tokens) == 20
    assert tokens == sorted(set(tokens))


def test_of_nested_ones_the_innermost_acts():
    with in_memory() as outer, LockClient() as client:
        lock = client.acquire("a")
        with in_memory() as inner:
            other = client.acquire("a", wait=0)
        assert (lock.is_held, other.is_held) == (True, False)
        lock.release()
        assert len(inner.rows()) == len(outer.rows()) == 1
        assert (inner.requests, outer.requests) == (("UpdateItem",), ("UpdateItem", "UpdateItem"))


def test_a_disabled_lock_sends_nothing_and_its_commit_still_writes(monkeypatch):
    pay = with_lock("a")(lambda context: current_lock().commit([ORDER]))
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")
    with in_memory(tables={"orders": "id"}) as memory:
        pay(lambda_context())
        assert memory.requests == ("TransactWriteItems",)
        assert memory.items("orders") == ({"id": {"S": "1"}},)


def test_as_a_decorator_it_gives_each_call_a_new_one():
    @deduplicate("{id}", scope="")
    def count(event: Any, context: Any) -> int:
        return 1

    @in_memory()
    def plain() -> int | None:
        return count({"id": 1}, lambda_context())

    @in_memory()
    async def awaited() -> int | None:
        await asyncio.sleep(0)
        return count({"id": 1}, lambda_context())

    assert [plain(), plain(), asyncio.run(awaited())] == [1, 1, 1]
    with pytest.raises(TypeError, match="generator"):

        @in_memory()
        def generator() -> Any:
            yield


# -- undone at the end


def test_all_is_undone_at_the_end_and_after_an_error():
    made = LockClient("another")

    def fail() -> None:
        assert os.environ["LAMBDA_LOCK_TABLE"] == "locks"
        set_default_client(made)
        raise ZeroDivisionError

    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), in_memory():
        fail()
    assert dict(os.environ) == before
    assert session._stand_in is None
    assert default_client() is not made
    with pytest.raises(LockConfigurationError, match="no lock table"):
        default_client().acquire("a")


@pytest.mark.parametrize("value", ["", "orders-locks"])
def test_a_table_in_the_environment_and_a_default_client_that_was_set_stay(value, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", value)
    client = LockClient("mine", transport=Refusing())
    with in_memory() as memory:
        handler({"id": 1}, lambda_context())
        assert len(memory.rows(value or "locks")) == len(memory.rows()) == 1
    assert os.environ["LAMBDA_LOCK_TABLE"] == value
    set_default_client(client)
    with in_memory() as memory:
        handler({"id": 1}, lambda_context())
        assert len(memory.rows("mine")) == 1
        set_default_client(None)
    assert default_client() is client


def test_a_lock_left_behind_is_neither_renewed_nor_released_elsewhere_and_the_time_is_forgotten():
    client = LockClient("mine", transport=Refusing())
    with in_memory(clock=ManualClock(1_000_000_000.0)):
        lock = client.acquire("a")
    assert not lock.is_held
    assert client.held() == ()
    with in_memory() as memory:
        client.acquire("a").release()
        assert memory.requests == ("UpdateItem", "UpdateItem")
    client.close()


def test_one_block_is_entered_once():
    block = in_memory()
    with block, pytest.raises(RuntimeError, match="entered before"), block:
        pass


# -- the methods for tests


def test_a_dead_holders_lock_is_taken_over_at_once_also_by_a_fail_fast_call():
    with in_memory() as memory, LockClient() as client:
        memory.hold("a", lease_duration=3600)
        token = memory.rows()[0].fencing_token or 0
        assert client.try_acquire("a") is None
        assert client.try_acquire_all(["b", "a"]) is None
        memory.expire("a")
        with client.acquire_all(["b", "a"], wait=0) as locks:
            assert locks.fencing_tokens["a"] == token + 1


def test_the_dead_holders_of_a_semaphore_are_replaced_at_once():
    with in_memory() as memory, LockClient() as client:
        held = [client.acquire("api", permits=2) for _ in range(2)]
        assert client.try_acquire("api", permits=2) is None
        with pytest.raises(LockArgumentError, match="is a semaphore"):
            memory.hold("api")
        memory.expire("api")
        with client.acquire("api", permits=2, wait=0) as lock:
            (row,) = memory.rows()
            assert [holder.owner for holder in row.holders] == [lock.owner]
        with pytest.raises(LockLostError):
            held[0].heartbeat()


def test_hold_takes_the_lock_from_its_holder_who_then_has_lost_it_and_names_who_else_holds_it():
    with in_memory(tables={"orders": "id"}) as memory, LockClient() as client:
        lock = client.acquire("a")
        memory.hold("a", owner="report#7", data=b"x")
        with pytest.raises(LockLostError) as lost:
            lock.commit([ORDER])
        with pytest.raises(LockNotGrantedError) as refused:
            client.acquire("a", wait=0)
        assert lost.value.holder == refused.value.holder == "report#7"
        assert memory.items("orders") == ()
        (row,) = memory.rows()
        assert (row.data, row.lease_duration) == (b"x", 20.0)


@pytest.mark.parametrize("keys", ["a", ["a", "b"]])
def test_a_waiter_outlives_a_held_lease_on_a_manual_clock_without_waiting(keys):
    clock = ManualClock()
    with in_memory(clock=clock) as memory, LockClient(clock=clock) as client:
        memory.hold("a", lease_duration=3600)
        before = clock.monotonic()
        lock = client.acquire(keys, wait=7200) if keys == "a" else client.acquire_all(keys, wait=7200)
        assert lock.remaining > 17
        assert 3600 <= clock.monotonic() - before <= 3700


def test_a_dedup_window_ends_with_the_clock_whose_dates_are_cut_to_whole_seconds():
    clock = ManualClock(1_800_000_000.75)
    with in_memory(clock=clock) as memory, LockClient(clock=clock) as client:
        once = deduplicate("{id}", scope="", window=60, result="json", client=client)(lambda event: clock.wall())
        first = once({"id": 1})
        record = client.get("1")
        assert record is not None
        assert record.read_at == memory.rows()[0].read_at == 1_800_000_000
        clock.advance(59)
        assert once({"id": 1}) == first
        clock.advance(3)
        assert once({"id": 1}) == clock.wall()


def test_a_lost_reply_is_sent_again_and_done_once():
    with in_memory(tables={"orders": "id"}) as memory, LockClient() as client:
        memory.put("orders", {"id": {"S": "1"}, "n": {"N": "0"}, "b": {"B": b"x"}})
        lock = client.acquire("a")
        memory.lose_reply(2)
        update = {"TableName": "orders", "Key": {"id": {"S": "1"}}, "UpdateExpression": "SET n = n + :one"}
        lock.commit([{"Update": update | {"ExpressionAttributeValues": {":one": {"N": "1"}}}}])
        assert memory.requests == ("UpdateItem", *["TransactWriteItems"] * 3)
        assert memory.items("orders") == ({"id": {"S": "1"}, "n": {"N": "1"}, "b": {"B": "eA=="}},)


@pytest.mark.parametrize(
    ("operation", "request_"),
    [("GetItem", ROW), ("DeleteItem", ROW), ("DeleteItem", ROW | {"ConditionExpression": "attribute_exists(no)"})],
)
def test_what_lost_its_reply_was_carried_out_and_is_ambiguous_whatever_it_said(operation, request_):
    with in_memory() as memory, LockClient() as client:
        client.acquire("a").release()
        memory.lose_reply()
        with pytest.raises(TransportError) as lost:
            client.transport.send(operation, request_, timeout=1)
        assert lost.value.ambiguous
        assert len(memory.rows()) == (0 if (operation, request_) == ("DeleteItem", ROW) else 1)


@pytest.mark.parametrize(("failure", "is_sent"), [("throttled", True), ("unreachable", False)])
def test_a_failure_passes_or_is_no_contention_and_where_dynamodb_is_unreachable_nothing_is_sent(failure, is_sent):
    clock = ManualClock()
    with in_memory(clock=clock) as memory, LockClient(clock=clock) as client:
        memory.fail(failure, times=2)
        client.acquire("b", wait=0).release()
        assert memory.requests == ("UpdateItem",) * (4 if is_sent else 2)
    with in_memory(clock=clock) as memory, LockClient(clock=clock) as client:
        memory.fail(failure, times=None)
        with pytest.raises(TransportError, match="ThrottlingException" if is_sent else "nothing was sent") as refused:
            client.acquire("a", wait=0)
        assert not refused.value.ambiguous
        assert bool(memory.requests) == is_sent


def test_a_denied_permission_is_named_not_asked_for_again_and_concerns_its_operation_until_its_count_ends():
    with in_memory(tables={"orders": "id"}) as memory, LockClient() as client:
        memory.fail("denied")
        with pytest.raises(LockConfigurationError, match="permission dynamodb:UpdateItem on table 'locks' is missing"):
            client.acquire("a")
        assert memory.requests == ("UpdateItem",)
        memory.fail("denied", operation="TransactWriteItems")
        memory.fail("denied", operation="GetItem", times=2)
        with pytest.raises(LockConfigurationError, match=r"PutItem on arn:aws:dynamodb:.*:table/orders is missing"):
            client.acquire("a").commit([ORDER])
        for _ in range(2):
            with pytest.raises(LockConfigurationError):
                client.get("a")
        assert client.get("a") is not None


def test_a_client_token_is_remembered_for_ten_minutes():
    clock = ManualClock()

    def put(number: str) -> None:
        items = [{"Put": {"TableName": "orders", "Item": {"id": {"N": number}}}}]
        request = {"TransactItems": items, "ClientRequestToken": "token"}
        LockClient().transport.send("TransactWriteItems", request, timeout=1)

    with in_memory(tables={"orders": "id"}, clock=clock):
        put("1")
        clock.advance(599)
        with pytest.raises(ServiceError, match="IdempotentParameterMismatch"):
            put("2")
        clock.advance(1)
        put("2")


@pytest.mark.parametrize(
    ("number", "is_stored"), [("1E-130", True), ("9.9E-131", False), ("9.9E125", True), ("1E126", False)]
)
def test_a_number_has_a_magnitude_that_dynamodb_stores(number, is_stored):
    request = {"TableName": "orders", "Item": {"id": {"N": "1"}, "n": {"N": number}}}
    refused = contextlib.nullcontext() if is_stored else pytest.raises(ServiceError, match="magnitude")
    with in_memory(tables={"orders": "id"}) as memory:
        memory.put("orders", {"id": {"N": "1.0"}})  # an equal number is the same key
        with refused:
            LockClient().transport.send("PutItem", request, timeout=1)
        assert [("n" in item) for item in memory.items("orders")] == [is_stored]


def test_a_commit_writes_all_tables_or_none():
    tables = {"orders": "id", "lines": ("order", "line")}
    line = {"order": {"S": "1"}, "line": {"N": "1"}}
    order = {"Put": {**ORDER["Put"], "ConditionExpression": "attribute_not_exists(id)"}}
    with in_memory(tables=tables) as memory, LockClient() as client:
        client.acquire_all(["a", "b"]).commit([{"Put": {"TableName": "lines", "Item": line}}, order])
        assert (memory.items("lines"), memory.items("orders")) == ((line,), ({"id": {"S": "1"}},))
        with pytest.raises(CommitRefusedError):
            client.acquire_all(["a", "b"], wait=0).commit([{"Delete": {"TableName": "lines", "Key": line}}, order])
        assert memory.items("lines") == (line,)
        assert all(row.is_released for row in memory.rows())


def test_a_table_with_a_sort_key_and_another_schema_is_served():
    with in_memory(schema=PYTHON) as memory, LockClient(schema=PYTHON) as client:
        memory.hold("a")
        assert client.try_acquire("a") is None
        memory.expire("a")
        with client.acquire("a", wait=0):
            assert [(row.key, row.sort_key) for row in memory.rows()] == [("a", "-")]
        assert memory.rows() == ()
    with in_memory(tables={"locks": ("pk", "sk")}) as memory:
        memory.hold("a", sort_key="1")
        keys: Any = {"partition_key_name": "pk", "sort_key_name": "sk"}
        with LockClient(**keys) as client:
            assert client.try_acquire("a", sort_key="1") is None
            locks = [client.try_acquire("a", sort_key="2"), client.try_acquire("b", sort_key="3")]
            assert all(locks)
            assert [row.sort_key for row in client.list(key="a")] == ["1", "2"]
