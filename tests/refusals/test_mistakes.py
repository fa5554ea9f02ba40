"""Mistakes that people make, each played, with what they are told: what is wrong and what to write instead.

test_where.py has those about Regions and endpoints. test_options.py has values out of range.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
import json
import logging
import threading
from decimal import Decimal
from typing import Any

import pydantic
import pytest

import lambda_lock
from lambda_lock import (
    AsyncLockClient,
    KeyTemplateError,
    LockArgumentError,
    LockClient,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
    current_dedup,
    current_lock,
    deduplicate,
    with_lock,
)
from lambda_lock.batch import process_sqs, process_stream, sqs_batch
from lambda_lock.testing import ManualClock, in_memory

# -- keys ----------------------------------------------------------------------------------------------------------

SQS = {"Records": [{"messageId": "m1", "eventSource": "aws:sqs", "body": json.dumps({"id": 7})}]}
KINESIS = {"Records": [{"eventID": "s:1", "eventSource": "aws:kinesis", "kinesis": {"sequenceNumber": "1"}}]}
STREAM = {"Records": [{"eventID": "1", "eventSource": "aws:dynamodb", "dynamodb": {"SequenceNumber": "1"}}]}


@dataclasses.dataclass
class Order:
    id: str


class Model(pydantic.BaseModel):
    id: str


BATCH = (
    "it has Records. Of a batch, let @sqs_batch() or process_stream() call a function of one record (lambda_lock.batch)"
)


def handler(event: Any, context: Any) -> None: ...


@pytest.mark.parametrize(
    ("event", "keys", "words"),
    [
        (SQS, ["{messageId}", "{body[id]}"], BATCH),
        (KINESIS, ["{eventID}", "{kinesis[data]}"], BATCH),
        (STREAM, ["{eventID}", "{dynamodb[Keys][id][S]}"], BATCH),
    ],
)
def test_a_record_s_field_is_asked_of_a_whole_batch(event, keys, words, client, told):
    for key in keys:
        for decorated in (deduplicate(key)(handler), with_lock(key)(handler)):
            told(KeyTemplateError, lambda decorated=decorated: decorated(event, None), words)


def test_an_event_without_records_is_not_taken_for_a_batch(client, told):
    decorated = with_lock("{messageId}")(handler)
    assert "batch" not in told(KeyTemplateError, lambda: decorated({"id": 7}, None), "has no [messageId]; it has id")


@pytest.mark.parametrize(
    "order", [{"id": "7", "total": 3}, Order("7"), Model(id="7")], ids=["dict", "dataclass", "model"]
)
def test_a_whole_order_in_a_key_is_answered_with_its_fields_and_the_hash(order, client, told):
    @with_lock("order#{order}")
    def charge(order: Any) -> None: ...

    told(
        KeyTemplateError,
        lambda: charge(order),
        "order: the value is",
        "Choose a field or an element of it, or pass payload_hash() as key=",
    )


def test_a_list_in_a_key_is_answered_with_its_elements_and_the_hash(client, told):
    @with_lock("order#{orders}")
    def charge(orders: Any) -> None: ...

    told(KeyTemplateError, lambda: charge(["7"]), "Choose a field or an element of it, or pass payload_hash() as key=")


@pytest.mark.parametrize(
    ("key", "instead"),
    [("{order.id}", "{order[id]}"), ("{detail.customer[0].id}", "{detail[customer][0][id]}")],
)
def test_an_attribute_in_a_template_is_answered_with_brackets(key, instead, told):
    told(KeyTemplateError, lambda: with_lock(key)(handler), f"as in {instead}.")


def test_an_attribute_of_a_plain_object_is_answered_with_a_function(client, told):
    class Service:
        def __init__(self) -> None:
            self.tenant = "acme"

        @with_lock("{self[tenant]}")
        def refresh(self) -> None: ...

        @with_lock(lambda self: f"tenant#{self.tenant}")
        def as_told(self) -> str:
            return "refreshed"

    told(
        KeyTemplateError,
        Service().refresh,
        "To read an attribute, pass a function of the call's arguments as key=",
    )
    assert Service().as_told() == "refreshed"


def test_a_key_function_that_cannot_take_the_call_is_found_when_decorating(told):
    def of_one(record: Any) -> str:
        return "a"

    def of_other_names(order: Any, *, tenant: str) -> str:
        return "a"

    for key in (of_one, of_other_names, lambda: "a"):
        act = lambda key=key: with_lock(key)(handler)  # noqa: E731
        told(TypeError, act, "key= is called with the arguments of handler()", "the same parameters")
    batch = lambda: process_sqs(SQS, lambda record: None, context=None, lock_key=lambda a, b: "a")  # noqa: E731
    told(TypeError, batch, "key= is called with the arguments of", "the same parameters")


@pytest.mark.parametrize(
    "key",
    [lambda event, context: "a", lambda *args: "a", lambda event, context, more=1: "a", lambda *args, **kwargs: "a"],
)
def test_a_key_function_that_can_take_the_call_is_taken(key, client):
    with_lock(key)(handler)({}, None)


# -- names ---------------------------------------------------------------------------------------------------------

any_client: Any = LockClient("locks")
any_async: Any = AsyncLockClient("locks")


def record_handler(record: Any) -> None: ...


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"timeout": 5}, "pass wait=5, in seconds"),
        ({"blocking_timeout": 5}, "pass wait=5, in seconds"),
        ({"ttl": 60}, "pass lease_duration=60, in seconds"),
        ({"lease": 60}, "pass lease_duration=60, in seconds"),
        ({"expire": 60}, "pass lease_duration=60, in seconds"),
        ({"blocking": False}, "pass wait=0 to try once"),
        ({"reentrent": True}, "did you mean reentrant=?"),
    ],
    ids=str,
)
def test_an_option_of_another_lock_is_answered_with_ours(option, words, told):
    (name,) = option
    for act in (
        lambda: any_client.acquire("a", **option),
        lambda: any_client.try_acquire("a", **option),
        lambda: asyncio.run(any_async.acquire("a", **option)),
        lambda: with_lock("a", **option),
    ):
        told(TypeError, act, f"got an unexpected keyword argument {name!r}", words)
    if name != "reentrent":  # several locks are not entered again
        told(TypeError, lambda: any_client.acquire_all(["a"], **option), words)
        told(TypeError, lambda: asyncio.run(any_async.acquire_all(["a"], **option)), words)


@pytest.mark.parametrize("name", ["ttl", "expires_after_seconds"])
def test_a_time_for_which_an_event_is_remembered_is_its_window(name, told):
    option: dict[str, Any] = {name: 3600}
    for act in (
        lambda: deduplicate("{id}", **option),
        lambda: sqs_batch(**option)(record_handler),
        lambda: process_sqs({"Records": []}, record_handler, context=None, **option),
        lambda: process_stream({"Records": []}, record_handler, context=None, **option),
    ):
        told(TypeError, act, f"got an unexpected keyword argument {name!r}", "pass window=3600, in seconds")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"region": "eu-west-1"}, "did you mean region_name=?"),
        ({"table_name": "locks"}, "did you mean table=?"),
        ({"lease": 30}, "pass lease_duration=30, in seconds"),
        ({"endpoint": "http://user:hunter2@host"}, "did you mean endpoint_url=?"),
        ({"heartbeat_perod": 5}, "did you mean heartbeat_period=?"),
    ],
    ids=str,
)
def test_a_setting_of_another_client_is_answered_with_ours(option, words, told):
    for kind in (LockClient, AsyncLockClient):
        act = lambda kind=kind: kind(**option)  # noqa: E731
        said = told(TypeError, act, f"{kind.__name__}.__init__() got an unexpected keyword argument", words)
        assert "hunter2" not in said


def test_the_class_of_another_library_is_answered_with_ours(told):
    def imported() -> None:
        from lambda_lock import DynamoDBLockClient  # noqa: F401

    told(ImportError, imported, "lambda_lock has no DynamoDBLockClient: did you mean LockClient?")


def test_the_method_of_another_library_is_answered_with_ours(told):
    told(AttributeError, lambda: any_client.acquire_lock("a"), "no attribute 'acquire_lock': did you mean acquire?")
    told(AttributeError, lambda: any_async.tryacquire("a"), "no attribute 'tryacquire': did you mean try_acquire?")


def test_what_nobody_could_have_meant_is_left_at_that(told):
    assert told(TypeError, lambda: any_client.acquire("a", colour="red")).endswith("argument 'colour'")
    assert told(TypeError, lambda: with_lock("a", colour="red")).endswith("argument 'colour'")  # type: ignore[call-overload]
    assert told(AttributeError, lambda: any_client.colour).endswith("no attribute 'colour'")
    assert told(AttributeError, lambda: lambda_lock.Colour).endswith("no attribute 'Colour'")
    assert not hasattr(lambda_lock, "colour")


@pytest.mark.parametrize("name", ["lock", "write", "session", "string", "consistent", "cache_time", "metadata"])
def test_a_name_is_not_answered_with_one_that_means_something_else(name, told):
    option: dict[str, Any] = {name: 5}
    for act in (
        lambda: any_client.acquire("a", **option),
        lambda: any_client.release("a", **option),
        lambda: any_client.adopt("a", **option),
        lambda: with_lock("a", **option),
        lambda: sqs_batch(**option)(record_handler),
    ):
        assert told(TypeError, act).endswith(f"argument {name!r}")


def test_who_does_not_want_to_wait_is_not_told_to_wait(told):
    for name in ("nowait", "block"):
        option: dict[str, Any] = {name: True}
        told(TypeError, lambda option=option: any_client.acquire("a", **option), "pass wait=0 to try once")


@pytest.mark.parametrize("function", [process_sqs, process_stream])
def test_an_unknown_option_of_a_batch_is_said_of_the_function_that_was_called(function, told):
    act = lambda: function({"Records": []}, record_handler, context=None, colour="red")  # noqa: E731
    assert told(TypeError, act).startswith(f"{function.__name__}() got an unexpected keyword argument")


def test_private_methods_are_not_what_somebody_meant(told):
    for name in ("begin", "region", "take"):
        assert told(AttributeError, lambda name=name: getattr(any_client, name)).endswith(f"no attribute {name!r}")


def test_the_error_of_a_property_of_a_subclass_comes_through(told):
    class Ours(LockClient):
        @property
        def tenant(self) -> Any:
            return self.invoice.tenant  # type: ignore[attr-defined]

    told(AttributeError, lambda: Ours("locks").tenant, "no attribute 'invoice'")


# -- who holds it -----------------------------------------------------------------------------------------------------


def test_a_second_client_in_the_way_of_the_first_is_told_that_this_process_holds_it(client, clock, told):
    with LockClient(clock=clock, heartbeat_period=0) as other, client.acquire("a"):
        said = told(
            LockNotGrantedError,
            lambda: other.acquire("a", wait=0),
            "this very process that holds it, by another client",
        )
        assert "One client is enough for a process" in said
        assert "reentrant" not in said
        told(LockNotGrantedError, lambda: other.acquire("a", wait=2), "this very process that holds it")


def test_a_holder_in_another_process_is_not_said_to_be_this_one(client, memory, told):
    memory.hold("a")
    assert "process" not in told(LockNotGrantedError, lambda: client.acquire("a", wait=0))
    lock = client.acquire("b")
    lock.release()
    memory.hold("b", owner="somebody else")
    assert "process" not in told(LockNotGrantedError, lambda: client.acquire("b", wait=0))


def test_a_lock_that_was_handed_over_is_not_said_to_be_held_here(client, told):
    lock = client.acquire("a")
    lock.hand_over()
    assert "process" not in told(LockNotGrantedError, lambda: client.acquire("a", wait=0), "is held by")
    assert not lock.is_held


def test_a_call_that_waits_for_its_own_lock_is_told_how_to_enter_it_again(client, told):
    with client.acquire("a"):
        told(
            LockNotGrantedError, lambda: client.acquire("a", wait=0), "this very client that holds it", "reentrant=True"
        )


def test_threads_that_merely_contend_are_not_told_to_be_reentrant(client, told):
    found = []

    def contend() -> None:
        found.append(told(LockNotGrantedError, lambda: client.acquire("a", wait=0), "held by"))

    with client.acquire("a"):
        thread = threading.Thread(target=contend)
        thread.start()
        thread.join()
    (said,) = found
    assert "this very process that holds it, by another client, thread or task" in said
    assert "reentrant" not in said


def test_tasks_that_merely_contend_are_not_told_to_be_reentrant(memory, told):
    async def main() -> str:
        async with AsyncLockClient() as tasks, tasks.acquire("a"):

            async def contend() -> str:
                with pytest.raises(LockNotGrantedError) as caught:
                    await tasks.acquire("a", wait=0)
                return str(caught.value)

            return await asyncio.create_task(contend())

    said = asyncio.run(main())
    assert "thread or task" in said
    assert "reentrant" not in said


def test_after_its_release_a_lock_is_not_said_to_have_a_new_holder(client, told):
    lock = client.acquire("a")
    lock.release()
    said = told(LockLostError, lock.raise_if_lost, "lock 'a' was released", "Ask before its release")
    assert "holder" not in said


def test_a_lock_that_is_lost_is_said_to_have_one(client, memory, told):
    lock = client.acquire("a")
    memory.hold("a", owner="b#1")
    told(LockLostError, lock.heartbeat, "a")
    told(LockLostError, lock.raise_if_lost, "is lost; b#1 has it now", "new holder may be doing the same work")


def test_a_thread_that_a_function_starts_has_no_current_lock_and_is_told_how_to_get_it(client, told):
    found: list[str] = []

    @deduplicate("event")
    @with_lock("a")
    def handler() -> None:
        def work() -> None:
            found.append(told(LookupError, current_lock, "no @with_lock function is running in this thread or task"))
            found.append(told(LookupError, current_dedup, "no @deduplicate function is running in this thread or task"))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    handler()
    assert len(found) == 2
    for said in found:
        assert "pass its lock to threads that it starts" in said
        assert "contextvars.copy_context" in said


# -- with, async with, await ------------------------------------------------------------------------------------------


def test_a_lock_that_was_not_granted_cannot_be_entered_and_nothing_runs(client, memory):
    """Python says so, not we: who asks cannot be told from who enters. docs/troubleshooting.md has Python's words."""
    memory.hold("a")
    with pytest.raises(TypeError), client.try_acquire("a"):
        pytest.fail("runs without the lock")
    with pytest.raises(TypeError), client.try_acquire_all(["a", "b"]):
        pytest.fail("runs without the locks")


def test_the_first_of_several_keys_that_is_free_is_entered(client, memory):
    memory.hold("slot#1")
    with next(filter(None, map(client.try_acquire, ["slot#1", "slot#2"]))) as lock:
        assert lock.key == "slot#2"


def test_a_lock_that_was_granted_at_once_is_entered(client):
    with client.try_acquire("a") as lock:
        assert lock.is_held


def test_a_lock_that_was_not_granted_is_none_to_who_asks(client, memory):
    memory.hold("a")
    assert client.try_acquire("a") is None
    if lock := client.try_acquire("a"):
        pytest.fail(f"{lock} is held elsewhere")
    assert (lambda: client.try_acquire("a"))() is None
    assert list(map(client.try_acquire, ["a"])) == [None]
    with client.acquire("b"):
        assert client.try_acquire_all(["a"], wait=0) is None


def run(body: Any) -> Any:
    """Run ``body(tasks)`` with an async client of the table in memory."""

    async def main() -> Any:
        async with AsyncLockClient() as tasks:
            return await body(tasks)

    return asyncio.run(main())


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_forgotten_await_is_told_before_anything_runs_without_the_lock(memory, told):
    async def asked(tasks: Any) -> None:
        if tasks.try_acquire("a"):
            pytest.fail("runs without the lock")

    async def used(tasks: Any) -> None:
        lock = tasks.acquire("a")
        lock.raise_if_lost()

    async def passed_on(tasks: Any) -> None:
        print(tasks.try_acquire_all(["a"]).fencing_tokens)

    for body in (asked, used, passed_on):
        told((TypeError, AttributeError), lambda body=body: run(body), "nothing was awaited: write `await`")
    assert memory.rows() == ()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_call_that_was_not_awaited_can_be_copied_and_looked_at(memory):
    async def body(tasks: Any) -> None:
        call = tasks.acquire("a")
        copied = copy.copy(call)
        assert inspect.isawaitable(call)
        assert not hasattr(copied, "cr_frame")
        await asyncio.wait_for(call, 5)

    run(body)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_with_instead_of_async_with_is_told(memory, told):
    async def of_acquire(tasks: Any) -> None:
        with tasks.acquire("a"):
            pytest.fail("runs without the lock")

    async def of_lock(tasks: Any) -> None:
        async with tasks.acquire("a") as lock:
            with lock:
                pytest.fail("is entered the wrong way")

    async def of_several(tasks: Any) -> None:
        async with tasks.acquire_all(["a", "b"]) as locks:
            with locks:
                pytest.fail("is entered the wrong way")

    async def of_client(tasks: Any) -> None:
        with tasks:
            pytest.fail("is entered the wrong way")

    for body in (of_acquire, of_lock, of_several, of_client):
        told(TypeError, lambda body=body: run(body), "Write `async with` instead of `with`")


def test_async_with_instead_of_with_is_told_and_nothing_stays_held(memory, told):
    plain: Any = LockClient()

    async def of_lock(_: Any) -> None:
        async with plain.acquire("a"):
            pytest.fail("is entered the wrong way")

    async def of_several(_: Any) -> None:
        async with plain.acquire_all(["a", "b"]):
            pytest.fail("is entered the wrong way")

    async def of_client(_: Any) -> None:
        async with plain:
            pytest.fail("is entered the wrong way")

    for body in (of_lock, of_several, of_client):
        told(TypeError, lambda body=body: run(body), "write `with`, or use an AsyncLockClient")
    assert [record.key for record in memory.rows() if not record.is_released] == []


def test_an_async_lock_that_was_not_granted_is_entered(memory, told):
    memory.hold("a")

    async def body(tasks: Any) -> None:
        async with tasks.try_acquire("a"):
            pytest.fail("runs without the lock")

    told(TypeError, lambda: run(body), "try_acquire gave None, which `async with` cannot enter: ask first")


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        {"Put": {"TableName": "orders", "Item": {"key": "7"}}},
        {"Put": {"TableName": "orders", "Item": {"key": {"S": "7"}, "total": {"N": 42}}}},
        {"Put": {"TableName": "orders", "Item": {"key": {"S": "7"}, "total": Decimal(42)}}},
        {"Put": {"TableName": "orders", "Item": {"key": {"S": "7"}, "lines": {"L": [1, 2]}}}},
        {"Delete": {"TableName": "orders", "Key": {"key": "7"}}},
        {
            "Update": {
                "TableName": "orders",
                "Key": {"key": {"S": "7"}},
                "UpdateExpression": "SET total = :total",
                "ExpressionAttributeValues": {":total": 42},
            }
        },
    ],
    ids=["text", "number", "decimal", "list", "key", "value of an expression"],
)
def test_plain_python_in_a_commit_is_the_same_error_in_memory_and_on_an_engine(write, engine, table, told, monkeypatch):
    words = (
        "item 0 of the commit has a plain Python value",
        "write DynamoDB JSON, as in {'S': 'text'}",
        "TypeSerializer",
    )
    with LockClient(table) as real, real.acquire("a") as lock:
        found = told(LockArgumentError, lambda: lock.commit([write]), *words)
        assert lock.is_held
    with in_memory(), LockClient(table) as client, client.acquire("a") as lock:
        assert told(LockArgumentError, lambda: lock.commit([write]), *words) == found


def test_a_time_out_of_range_is_told_in_numbers_that_people_read(client, told):
    said = told(LockArgumentError, lambda: client.acquire("a", wait=1e9), "pass 0 to 31536000 seconds (365 days)")
    assert "e+" not in said
    told(LockArgumentError, lambda: LockClient(lease_duration=1e9), "pass 1 to 31622400 seconds (366 days)")
    told(LockArgumentError, lambda: deduplicate("{id}", window=1e9), "pass 1 to 315360000 seconds (3650 days)")


def test_a_duplicate_that_is_given_none_says_once_what_to_write(client, caplog):
    @deduplicate("{id}")
    def handler(event: Any) -> dict[str, int]:
        return {"statusCode": 200}

    with caplog.at_level(logging.WARNING, logger="lambda_lock"):
        assert [handler({"id": 1}), handler({"id": 1}), handler({"id": 1})] == [{"statusCode": 200}, None, None]
    (said,) = [record for record in caplog.records if getattr(record, "lock_event", "") == "result_missing"]
    assert said.getMessage().endswith(
        "returns something, but duplicates are given None: pass result='json', or on_duplicate="
    )
    assert getattr(said, "lock_key", "").endswith("#1")


def test_a_time_to_try_again_is_whole_seconds_and_never_none_of_them(client, memory):
    client.acquire("fast").release()  # held for no time at all
    memory.hold("fast")
    memory.hold("slow", lease_duration=600)
    for key in ("fast", "slow"):
        with pytest.raises(LockNotGrantedError) as caught:
            client.acquire(key, wait=0)
        found: Any = caught.value.retry_after
        assert isinstance(found, int)
        assert found >= 1
        assert str(found).isdigit()  # as the header Retry-After


def test_the_retry_after_of_an_event_that_cannot_be_forgotten_now_is_a_whole_number(client):
    with client.acquire("event"), pytest.raises(LockNotGrantedError) as caught:
        client.forget("event", scope="", wait=0)
    assert isinstance(caught.value.retry_after, int)


def test_a_client_that_asks_for_its_own_lock_is_told_so():
    clock = ManualClock()
    with in_memory(clock=clock), LockClient(clock=clock) as client, LockClient(clock=clock) as other:
        lock = client.acquire("a")
        with pytest.raises(LockNotGrantedError, match=r"this very client that holds it.*reentrant=True"):
            client.acquire("a", wait=0)
        with pytest.raises(LockTimeoutError, match="this very client that holds it"):
            client.acquire("a", wait=3)
        with pytest.raises(LockNotGrantedError, match="this very client that holds it"):
            client.acquire_all(["a", "b"], wait=0)
        with pytest.raises(LockNotGrantedError) as refused:
            other.acquire("a", wait=0)
        assert "very client" not in str(refused.value)
        lock.release()
