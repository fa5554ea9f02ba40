"""Mistakes that people make, each played, with what they are told: what is wrong and what to write instead.

test_where.py has those about Regions and endpoints. test_options.py has values out of range.
"""

import asyncio
import copy
import dataclasses
import functools
import inspect
import json
import logging
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
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
    deduplicate,
    with_lock,
)
from lambda_lock.batch import process_sqs, process_stream, sqs_batch
from lambda_lock.testing import in_memory
from tests.support.elsewhere import in_thread

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
    ("event", "key"),
    [
        *((SQS, key) for key in ("{messageId}", "{body[id]}")),
        *((KINESIS, key) for key in ("{eventID}", "{kinesis[data]}")),
        *((STREAM, key) for key in ("{eventID}", "{dynamodb[Keys][id][S]}")),
    ],
)
def test_a_record_s_field_is_asked_of_a_whole_batch(event, key, client, told):
    for decorator in (deduplicate, with_lock):
        told(KeyTemplateError, functools.partial(decorator(key)(handler), event, None), BATCH)


def test_an_event_without_records_is_not_taken_for_a_batch(client, told):
    decorated = with_lock("{messageId}")(handler)
    assert "batch" not in told(KeyTemplateError, lambda: decorated({"id": 7}, None), "has no [messageId]; it has id")


@pytest.mark.parametrize("order", [{"id": "7", "total": 3}, Order("7"), Model(id="7"), ["7"]], ids=type)
def test_a_whole_order_in_a_key_is_answered_with_its_fields_and_the_hash(order, client, told):
    charge = with_lock("order#{order}")(lambda order: None)
    words = ("order: the value is", "Choose a field or an element of it, or pass payload_hash() as key=")
    told(KeyTemplateError, lambda: charge(order), *words)


def test_an_attribute_of_a_plain_object_is_answered_with_a_function(client, told):
    service = SimpleNamespace(tenant="acme")
    refresh = with_lock("{self[tenant]}")(lambda self: "refreshed")
    as_told = with_lock(lambda self: f"tenant#{self.tenant}")(lambda self: "refreshed")
    words = "To read an attribute, pass a function of the call's arguments as key="
    told(KeyTemplateError, lambda: refresh(service), words)
    assert as_told(service) == "refreshed"


NO_KEYS: list[Any] = [lambda record: "a", lambda order, *, tenant: "a", lambda: "a"]


@pytest.mark.parametrize("key", NO_KEYS)
def test_a_key_function_that_cannot_take_the_call_is_found_when_decorating(key, told):
    words = ("key= is called with the arguments of", "the same parameters")
    told(TypeError, lambda: with_lock(key)(handler), *words, "handler()")
    if key not in NO_KEYS[:1]:  # which takes a record
        told(TypeError, lambda: process_sqs(SQS, record_handler, context=None, lock_key=key), *words)


# -- names ---------------------------------------------------------------------------------------------------------

any_client: Any = LockClient("locks")
any_async: Any = AsyncLockClient("locks")


def record_handler(record: Any) -> None: ...


@pytest.mark.parametrize(
    ("option", "words"),
    [
        *(({name: 5}, "pass wait=5, in seconds") for name in ("timeout", "blocking_timeout")),
        *(({name: 60}, "pass lease_duration=60, in seconds") for name in ("ttl", "lease", "expire")),
        *(
            ({name: value}, "pass wait=0 to try once")
            for name, value in (("blocking", False), ("nowait", True), ("block", True))
        ),
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
        said = told(
            TypeError,
            functools.partial(kind, **option),
            f"{kind.__name__}.__init__() got an unexpected keyword argument",
            words,
        )
        assert "hunter2" not in said


def test_the_names_of_another_library_are_answered_with_ours(told):
    imported = functools.partial(exec, "from lambda_lock import DynamoDBLockClient")
    told(ImportError, imported, "lambda_lock has no DynamoDBLockClient: did you mean LockClient?")
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


def test_who_waits_for_a_lock_of_its_own_client_or_process_is_told_so(client, clock, told):
    with LockClient(clock=clock, heartbeat_period=0) as other, client.acquire("a"):
        own = "this very client that holds it"
        told(LockNotGrantedError, lambda: client.acquire("a", wait=0), own, "reentrant=True")
        told(LockTimeoutError, lambda: client.acquire("a", wait=3), own)
        told(LockNotGrantedError, lambda: client.acquire_all(["a", "b"], wait=0), own)
        words = ("this very process that holds it, by another client", "One client is enough for a process")
        for wait in (0, 2):
            said = told(LockNotGrantedError, lambda wait=wait: other.acquire("a", wait=wait), *words)
            assert "reentrant" not in said
            assert "very client" not in said


def test_a_holder_in_another_process_is_not_said_to_be_this_one(client, memory, told):
    client.acquire("b").release()
    for key in ("a", "b"):
        memory.hold(key, owner="somebody else")
        assert "process" not in told(LockNotGrantedError, lambda key=key: client.acquire(key, wait=0))


def test_a_lock_that_was_handed_over_is_not_said_to_be_held_here(client, told):
    lock = client.acquire("a")
    lock.hand_over()
    assert "process" not in told(LockNotGrantedError, lambda: client.acquire("a", wait=0), "is held by")
    assert not lock.is_held


def test_threads_and_tasks_that_merely_contend_are_not_told_to_be_reentrant(client, memory, told):
    async def main() -> str:
        async with AsyncLockClient() as tasks, tasks.acquire("b"):

            async def contend() -> None:
                await tasks.acquire("b", wait=0)

            with pytest.raises(LockNotGrantedError) as caught:
                await asyncio.create_task(contend())
            return str(caught.value)

    with client.acquire("a"):
        of_thread = in_thread(lambda: told(LockNotGrantedError, lambda: client.acquire("a", wait=0), "held by"))()
    for said in (of_thread, asyncio.run(main())):
        assert "this very process that holds it, by another client, thread or task" in said
        assert "reentrant" not in said


def test_a_lock_that_is_lost_is_said_to_have_a_new_holder_and_one_that_was_released_is_not(client, memory, told):
    released, lost = client.acquire("a"), client.acquire("b")
    released.release()
    words = ("lock 'a' was released", "Ask before its release")
    assert "holder" not in told(LockLostError, released.raise_if_lost, *words)
    memory.hold("b", owner="c#1")
    told(LockLostError, lost.heartbeat, "b")
    told(LockLostError, lost.raise_if_lost, "is lost; c#1 has it now", "new holder may be doing the same work")


# -- with, async with, await ------------------------------------------------------------------------------------------


def test_a_lock_that_was_not_granted_cannot_be_entered_and_nothing_runs(client, memory):
    """Python says so, not we: who asks cannot be told from who enters. docs/troubleshooting.md has Python's words."""
    memory.hold("a")
    with pytest.raises(TypeError), client.try_acquire("a"):
        pytest.fail("runs without the lock")
    with pytest.raises(TypeError), client.try_acquire_all(["a", "b"]):
        pytest.fail("runs without the locks")


def test_a_lock_that_was_not_granted_is_none_to_who_asks_and_one_that_was_is_entered(client, memory):
    memory.hold("slot#1")
    assert client.try_acquire("slot#1") is None
    with next(filter(None, map(client.try_acquire, ["slot#1", "slot#2"]))) as lock:
        assert lock.key == "slot#2"
        assert lock.is_held
        assert client.try_acquire_all(["slot#1"], wait=0) is None


def run(body: Any) -> Any:
    """Run ``body(tasks)`` with an async client of the table in memory."""

    async def main() -> Any:
        async with AsyncLockClient() as tasks:
            return await body(tasks)

    return asyncio.run(main())


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    "use",
    [
        lambda tasks: bool(tasks.try_acquire("a")),
        lambda tasks: tasks.acquire("a").raise_if_lost(),
        lambda tasks: tasks.try_acquire_all(["a"]).fencing_tokens,
    ],
)
def test_a_forgotten_await_is_told_before_anything_runs_without_the_lock(use, memory, told):
    async def body(tasks: Any) -> None:
        use(tasks)

    told((TypeError, AttributeError), lambda: run(body), "nothing was awaited: write `await`")
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
@pytest.mark.parametrize("take", [lambda tasks: tasks.acquire("a"), lambda tasks: tasks.acquire_all(["a", "b"])])
def test_with_instead_of_async_with_is_told(take, memory, told):
    async def before(tasks: Any) -> None:
        enter(take(tasks))

    async def after(tasks: Any) -> None:
        enter(await take(tasks))

    async def of_client(tasks: Any) -> None:
        enter(tasks)

    for body in (before, after, of_client):
        told(TypeError, lambda body=body: run(body), "Write `async with` instead of `with`")


def enter(what: Any) -> None:
    with what:
        pytest.fail("is entered the wrong way")


def test_async_with_instead_of_with_is_told_and_nothing_stays_held(memory, told):
    plain: Any = LockClient()

    async def body(make: Callable[[], Any]) -> None:
        async with make():
            pytest.fail("is entered the wrong way")

    for make in (lambda: plain.acquire("a"), lambda: plain.acquire_all(["a", "b"]), lambda: plain):
        told(TypeError, lambda make=make: asyncio.run(body(make)), "write `with`, or use an AsyncLockClient")
    assert all(record.is_released for record in memory.rows())


def test_an_async_lock_that_was_not_granted_is_entered(memory, told):
    memory.hold("a")

    async def body(tasks: Any) -> None:
        async with tasks.try_acquire("a"):
            pytest.fail("runs without the lock")

    told(TypeError, lambda: run(body), "try_acquire gave None, which `async with` cannot enter: ask first")


# -- values -----------------------------------------------------------------------------------------------------------


SET = {"UpdateExpression": "SET total = :total", "ExpressionAttributeValues": {":total": 42}}


@pytest.mark.parametrize(
    ("action", "write"),
    [
        ("Put", {"Item": {"key": "7"}}),
        *(
            ("Put", {"Item": {"key": {"S": "7"}, "x": wrong}})
            for wrong in ({"N": 42}, {"N": Decimal(42)}, {"L": [1, 2]})
        ),
        ("Delete", {"Key": {"key": "7"}}),
        ("Update", {"Key": {"key": {"S": "7"}}, **SET}),
    ],
    ids=["text", "number", "decimal", "list", "key", "value of an expression"],
)
def test_plain_python_in_a_commit_is_the_same_error_in_memory_and_on_an_engine(action, write, engine, table, told):
    item = {action: {"TableName": "orders", **write}}
    words = ("item 0 of the commit has a plain Python value", "write DynamoDB JSON, as in {'S': 'text'}")
    with LockClient(table) as real, real.acquire("a") as lock:
        found = told(LockArgumentError, lambda: lock.commit([item]), *words, "TypeSerializer")
        assert lock.is_held
    with in_memory(), LockClient(table) as client, client.acquire("a") as lock:
        assert told(LockArgumentError, lambda: lock.commit([item])) == found


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
    for act in (client.acquire, functools.partial(client.forget, scope="")):
        for key in ("fast", "slow"):
            with pytest.raises(LockNotGrantedError) as caught:
                act(key, wait=0)
            found: Any = caught.value.retry_after
            assert isinstance(found, int)
            assert found >= 1
            assert str(found).isdigit()  # as the header Retry-After
