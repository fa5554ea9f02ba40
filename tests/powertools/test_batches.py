"""@with_lock and @deduplicate on the record handlers of Powertools' batch processors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    async_process_partial_response,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.parser.models import (
    DynamoDBStreamRecordModel,
    KinesisDataStreamRecord,
    SqsRecordModel,
)
from pydantic import BaseModel, Json

from lambda_lock import (
    AsyncLock,
    current_dedup,
    current_lock,
    deduplicate,
    register_lambda_context,
    with_lock,
)
from rig import events

from .conftest import REMAINING, Context

Event = dict[str, Any]


class Order(BaseModel):
    customer_id: str


class OrderRecord(SqsRecordModel):
    body: Json[Order]


def order(customer: str) -> Event:
    return {"order_id": f"of-{customer}", "customer_id": customer}


def item(order_id: str) -> dict[str, dict[str, str]]:
    return {"order_id": {"S": order_id}, "customer_id": {"S": "c-1"}, "state": {"S": "new"}}


SQS = lambda: events.sqs([order("a"), order("b")])  # noqa: E731
FIFO = lambda: events.sqs_fifo([("g-1", order("a")), ("g-2", order("b"))])  # noqa: E731
KINESIS = lambda: events.kinesis([("a", order("a")), ("b", order("b"))])  # noqa: E731
STREAM = lambda: events.dynamodb_stream([item("a"), item("b")])  # noqa: E731

CUSTOMER, MESSAGE, EVENT_ID, SHARD_KEY = "{body[customer_id]}", "{messageId}", "{eventID}", "{kinesis[partitionKey]}"
MODEL_KEY = "{dynamodb[Keys][order_id]}"  # models have DynamoDB's types taken off


def of(kind: EventType, model: Any = None) -> Callable[[], BatchProcessor]:
    return lambda: BatchProcessor(kind, model=model)


# The processor's making, its batch of the orders a and b, the key of an order in it, and that of an event.
SOURCES = {
    "sqs": (of(EventType.SQS), SQS, CUSTOMER, MESSAGE),
    "sqs as models": (of(EventType.SQS, SqsRecordModel), SQS, CUSTOMER, MESSAGE),
    "sqs with a model of the body": (of(EventType.SQS, OrderRecord), SQS, CUSTOMER, MESSAGE),
    "fifo": (SqsFifoPartialProcessor, FIFO, CUSTOMER, MESSAGE),
    "fifo as models": (lambda: SqsFifoPartialProcessor(OrderRecord), FIFO, CUSTOMER, MESSAGE),
    "kinesis": (of(EventType.KinesisDataStreams), KINESIS, SHARD_KEY, EVENT_ID),
    "kinesis as models": (of(EventType.KinesisDataStreams, KinesisDataStreamRecord), KINESIS, SHARD_KEY, EVENT_ID),
    "streams": (of(EventType.DynamoDBStreams), STREAM, "{dynamodb[Keys][order_id][S]}", EVENT_ID),
    "streams as models": (of(EventType.DynamoDBStreams, DynamoDBStreamRecordModel), STREAM, MODEL_KEY, EVENT_ID),
}
each_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def process(processor: Any, event: Event, record_handler: Callable[..., Any], context: Any = None) -> list[str]:
    """The identifiers of the records that failed."""
    handle = async_process_partial_response if isinstance(processor, AsyncBatchProcessor) else process_partial_response
    answer = handle(event=event, record_handler=record_handler, processor=processor, context=context)
    return [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]


def identifiers(event: Event) -> list[str]:
    """What each record is called in a list of failures."""

    def called(record: Event) -> str:
        if "messageId" in record:
            return str(record["messageId"])
        return str(record["kinesis"]["sequenceNumber"] if "kinesis" in record else record["dynamodb"]["SequenceNumber"])

    return [called(record) for record in event["Records"]]


class Noted:
    """A record handler under a lock. It notes the key and the lease of each record that it was called with."""

    def __init__(self, key: Any, **options: Any) -> None:
        self.keys: list[str] = []
        self.leases: list[float] = []
        self.handler = with_lock(key, **options)(self._handle)

    def _handle(self, record: Any) -> None:
        self.keys.append(current_lock().key)
        self.leases.append(current_lock().lease_duration)


# Locks


@each_source
def test_each_record_runs_under_its_own_lock_that_ends_with_the_invocation(source, rows, context):
    processor, batch, key, _ = source
    leases: dict[str, float] = {}

    @with_lock(key)
    def record_handler(record: Any, lambda_context: Context) -> None:
        assert rows.is_held(current_lock().key)
        assert lambda_context is context
        leases[current_lock().key] = current_lock().lease_duration

    assert process(processor(), batch(), record_handler, context) == []
    assert list(leases) == ["a", "b"]
    assert all(0 < lease <= REMAINING for lease in leases.values())
    assert not rows.is_held("a")


@each_source
def test_a_record_whose_lock_is_held_elsewhere_is_a_partial_failure(source, other):
    processor, batch, key, _ = source
    event, noted = batch(), Noted(key, wait=0)
    with other.acquire("b"):
        assert process(processor(), event, noted.handler) == identifiers(event)[1:]
    assert noted.keys == ["a"]


@pytest.mark.parametrize(
    ("skips", "groups", "held", "back", "done"),
    [(False, ["g", "g", "g"], "b", [1, 2], ["a"]), (True, ["g-1", "g-1", "g-2"], "a", [0, 1], ["c"])],
    ids=["as a whole", "or its group where that is asked for"],
)
def test_a_fifo_batch_stops_at_a_record_whose_lock_is_held_elsewhere(skips, groups, held, back, done, other):
    event = events.sqs_fifo([(group, order(name)) for group, name in zip(groups, "abc", strict=True)])
    noted, processor = Noted(CUSTOMER, wait=0), SqsFifoPartialProcessor(skip_group_on_error=skips)
    with other.acquire(held):
        assert process(processor, event, noted.handler) == [identifiers(event)[place] for place in back]
    assert noted.keys == done


def test_a_batch_that_is_all_contended_can_be_a_partial_failure_too(other):
    event, processor = SQS(), BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    with other.acquire("one for all"):
        assert process(processor, event, Noted("one for all", wait=0).handler) == identifiers(event)


# Events


@each_source
def test_a_record_that_comes_again_is_not_done_again(source, context):
    processor, batch, _, key = source
    event, done = batch(), []

    @deduplicate(key)
    def record_handler(record: Any, lambda_context: Any) -> None:
        done.append(current_dedup().lease_duration)

    for _ in range(2):
        assert process(processor(), event, record_handler, context) == []
    assert len(done) == 2
    assert max(done) <= REMAINING


def test_a_record_in_progress_elsewhere_or_that_failed_comes_again_and_its_neighbours_do_not(other):
    event, done = SQS(), []
    first, second = identifiers(event)

    @deduplicate("{messageId}", scope="")
    def record_handler(record: Any) -> None:
        done.append(record.message_id)
        if done == [second, first]:
            raise ValueError(first)

    with other.acquire(first):
        assert process(BatchProcessor(EventType.SQS), event, record_handler) == [first]
    assert process(BatchProcessor(EventType.SQS), event, record_handler) == [first]
    assert process(BatchProcessor(EventType.SQS), events.redelivered(event), record_handler) == []
    assert done == [second, first, first]


# Contexts


def test_without_a_context_the_lease_is_the_clients(context):
    noted = Noted(MESSAGE)
    assert process(BatchProcessor(EventType.SQS), SQS(), noted.handler, context) == []
    assert noted.leases == [20, 20]


@pytest.mark.parametrize("registered", [True, False], ids=["registered", "of a handler that has a lock"])
def test_a_context_reaches_record_handlers_that_do_not_name_it(registered, context):
    noted = Noted(MESSAGE)

    def handler(event: Event, context: Context) -> list[str]:
        return process(BatchProcessor(EventType.SQS), event, noted.handler)

    if registered:
        register_lambda_context(context)
    else:
        handler = with_lock("one batch at a time")(handler)
    assert handler(SQS(), context) == []
    assert max(noted.leases) <= REMAINING


# The async processor


@pytest.mark.parametrize("model", [None, SqsRecordModel])
def test_async_records_of_one_key_run_one_after_another_and_others_side_by_side(model, context):
    event = events.sqs([order(name) for name in "aab"])
    inside: list[str] = []
    met = asyncio.Event()

    @with_lock("{body[customer_id]}", refresh_period=0.1)
    async def record_handler(record: Any, lambda_context: Any) -> None:
        key = current_lock(AsyncLock).key
        assert key not in inside
        assert current_lock(AsyncLock).lease_duration <= REMAINING
        inside.append(key)
        if {"a", "b"} <= set(inside):
            met.set()
        await met.wait()
        inside.remove(key)

    assert process(AsyncBatchProcessor(EventType.SQS, model=model), event, record_handler, context) == []


@pytest.mark.parametrize("in_lambda", [False, True])
def test_async_records_are_done_once_batch_after_batch(in_lambda, monkeypatch):
    if in_lambda:  # where Powertools keeps one event loop, instead of a new one for each batch
        monkeypatch.setenv("LAMBDA_TASK_ROOT", "/var/task")
        asyncio.set_event_loop(asyncio.new_event_loop())
    event, done = SQS(), []

    @deduplicate("{messageId}")
    async def record_handler(record: Any) -> None:
        await asyncio.sleep(0)
        done.append(json.loads(record.body)["customer_id"])

    for _ in range(2):
        assert process(AsyncBatchProcessor(EventType.SQS), event, record_handler) == []
    assert sorted(done) == ["a", "b"]
    if in_lambda:
        asyncio.get_event_loop().close()
        asyncio.set_event_loop(None)


def test_an_async_record_whose_lock_is_held_elsewhere_is_a_partial_failure_and_a_batch_of_them_fails(other):
    event = SQS()

    @with_lock(CUSTOMER, wait=0)
    async def record_handler(record: Any) -> None: ...

    with other.acquire("a"):
        assert process(AsyncBatchProcessor(EventType.SQS), event, record_handler) == identifiers(event)[:1]
        with other.acquire("b"), pytest.raises(BatchProcessingError, match="LockNotGrantedError"):
            process(AsyncBatchProcessor(EventType.SQS), event, record_handler)
