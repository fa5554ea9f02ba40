"""Invalid batches and settings are refused before anything runs. Also: the handler that sqs_batch makes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes import DynamoDBStreamEvent, KafkaEvent, KinesisStreamEvent, SQSEvent
from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecords

from lambda_lock import AsyncLockClient, KeyTemplateError, LockArgumentError
from lambda_lock.batch import kafka_batch, process_kafka, process_sqs, process_stream, sqs_batch
from rig import events
from rig.events import Event
from tests.support.context import Context

from .conftest import NOTHING, Done, must_not_run, records_of, returned

# Events


FORMS = {process_sqs: "list of Records", process_stream: "list of Records", process_kafka: "dict of records"}


@pytest.mark.parametrize("process", FORMS)
@pytest.mark.parametrize(
    "event",
    [{}, {"Records": None}, {"Records": {}}, {"records": []}, {"records": None}, {"records": {"t-0": {}}}, (), None,
     "Records", 7],
    ids=repr,
)  # fmt: skip
def test_what_has_no_records_is_refused(process, event):
    with pytest.raises(
        LockArgumentError, match=f"event= has no {FORMS[process]}.*pass on the handler's first argument"
    ):
        process(event, must_not_run, context=Context())


SERVICES = {
    "sqs": ("aws:sqs", process_sqs),
    "kinesis": ("aws:kinesis", process_stream),
    "dynamodb_stream": ("aws:dynamodb", process_stream),
    "kafka": ("aws:kafka", process_kafka),
}


@pytest.mark.parametrize("process", FORMS)
@pytest.mark.parametrize("name", SERVICES)
def test_an_event_of_each_service_is_taken_by_its_function_and_refused_by_the_others(process, name, table):
    service, right = SERVICES[name]
    for event in (events.load(name), events.piped(events.load(name))):
        if process is right:
            assert process(event, lambda record: None, context=Context()) == NOTHING
            continue
        with pytest.raises(LockArgumentError, match=f"'{service}': use {right.__name__}, not {process.__name__}$"):
            process(event, must_not_run, context=Context())


@pytest.mark.parametrize("record", [None, "text", 7, ["list"]], ids=repr)
def test_a_record_that_is_no_mapping_is_refused(record):
    for process, event in ((process_sqs, {"Records": [record]}), (process_kafka, {"records": {"orders-0": [record]}})):
        with pytest.raises(LockArgumentError, match=f"event= has a record of '{type(record).__name__}'"):
            process(event, must_not_run, context=Context())


@pytest.mark.parametrize("value", ["missing", None, ""], ids=repr)
@pytest.mark.parametrize(
    ("process", "event", "path"),
    [
        (process_sqs, "sqs", ["messageId"]),
        (process_sqs, "sqs_fifo", ["attributes"]),
        (process_sqs, "sqs_fifo", ["attributes", "MessageGroupId"]),
        (process_stream, "kinesis", ["kinesis", "sequenceNumber"]),
        (process_stream, "kinesis", ["kinesis", "partitionKey"]),
        (process_stream, "dynamodb_stream", ["dynamodb"]),
        (process_stream, "dynamodb_stream", ["dynamodb", "SequenceNumber"]),
        (process_stream, "dynamodb_stream", ["dynamodb", "Keys"]),
        (process_kafka, "kafka", ["topic"]),
        (process_kafka, "kafka", ["partition"]),
    ],
)
def test_what_identifies_or_orders_a_record_is_never_missing_or_null(process, event, path, value):
    """Else the answer would name the record "None"."""
    batch = events.load(event)
    place = records_of(batch)[-1]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    if value == "missing":
        del place[path[-1]]
    match = f"without '{path[-1]}', which is missing or null: pass on the event as Lambda delivers it"
    with pytest.raises(LockArgumentError, match=match):
        process(batch, must_not_run, context=Context())


def test_a_record_made_by_hand_may_leave_out_where_it_comes_from(table):
    done, event = Done(1), {"Records": [{"messageId": str(n), "body": f'{{"n": {n}}}'} for n in range(2)]}
    assert returned(process_sqs(event, done.handler, context=Context()), event) == [1]


@pytest.mark.parametrize(
    ("process", "kind", "source", "options"),
    [
        (process_sqs, SQSEvent, "sqs", {"lock_key": "{messageId}"}),
        (process_stream, KinesisStreamEvent, "kinesis", {}),
        (process_stream, DynamoDBStreamEvent, "dynamodb_stream", {}),
        *((process_kafka, kind, "kafka", {}) for kind in (KafkaEvent, ConsumerRecords)),
    ],
)
def test_events_of_powertools_are_batches_and_the_handler_is_given_the_record_itself(
    process, kind, source, options, table
):
    seen: list[Any] = []
    event = events.load(source)
    assert process(kind(event), seen.append, context=Context(), **options) == NOTHING
    assert seen == records_of(event)
    assert all(type(record) is dict for record in seen)


@pytest.mark.parametrize("context", [object(), {}, 30])
def test_what_is_no_context_is_refused(context):
    with pytest.raises(TypeError, match="context= must be a Lambda context"):
        process_sqs(events.load("sqs"), must_not_run, context=context)


# Settings

NUMBERS = ("wait", "reserve", "lease_duration", "refresh_period")
A_LOCK: Event = {"dedup_key": None, "lock_key": "stock"}


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        *(({"max_workers": n}, ValueError, f"max_workers={n} is out of range: pass 1 or more") for n in (0, -3)),
        *(({"max_workers": n}, TypeError, f"max_workers must be an int, not {n!r}") for n in (True, "2", 2.0)),
        ({"window": 0.5}, ValueError, "window=0.5 is out of range"),
        *(({name: -1, **keys}, ValueError, f"{name}=-1 is out of range") for name in NUMBERS for keys in ({}, A_LOCK)),
        ({"result": "pickle"}, TypeError, "result= must be None or 'json'"),
        ({"scope": 7}, TypeError, "scope must be a str"),
        *(({key: 7}, TypeError, "must be a str or a function") for key in ("dedup_key", "lock_key")),
        ({"dedup_key": "{body.id}"}, KeyTemplateError, "body.id"),
        ({"lock_key": ""}, KeyTemplateError, "empty key"),
        ({"client": "client"}, TypeError, "client= must be a LockClient"),
        ({"client": AsyncLockClient()}, TypeError, r"must_not_run\(\) needs a LockClient"),
        ({"locks_key": "k"}, TypeError, "locks_key"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(options, kind, text, wire):
    with pytest.raises(kind, match=text):
        process_sqs(events.load("sqs"), must_not_run, context=Context(), **options)
    with pytest.raises(kind, match=text):
        sqs_batch(**options)(must_not_run)
    assert wire.operations == []


# Handlers


async def coroutine_function(record: Event) -> None: ...


class AsyncCallable:
    async def __call__(self, record: Event) -> None: ...


def generator(record: Event) -> Iterator[int]:
    yield 1


class Handler:
    @staticmethod
    def static(record: Event) -> None: ...


NO_FUNCTION = "record_handler must be a function of one record, got"
ASYNC = "record_handler must be a plain function, got an async def function"


@pytest.mark.parametrize(
    ("handler", "match"),
    [
        (coroutine_function, ASYNC),
        (AsyncCallable(), ASYNC),
        (functools.partial(coroutine_function), ASYNC),
        (generator, "cannot (decorate|call) generator, a generator: its body would run after"),
        (None, NO_FUNCTION),
        ("order", NO_FUNCTION),
        (Handler, NO_FUNCTION),
        (Handler.__dict__["static"], "staticmethod"),
    ],
)
def test_what_is_no_plain_function_is_refused(handler, match):
    for attempt in (
        lambda: process_sqs(events.load("sqs"), handler, context=Context()),
        lambda: process_stream({"Records": []}, handler, context=Context()),
        lambda: sqs_batch()(handler),
    ):
        with pytest.raises(TypeError, match=match):
            attempt()


@pytest.mark.parametrize("made", [coroutine_function, lambda record: map(print, [record])])
def test_a_record_whose_handler_returned_what_has_not_run_yet_comes_back_without_a_dedup_too(made, table):
    event = events.sqs([{"n": 0}])
    answer = process_sqs(event, lambda record: made(record), context=Context(), dedup_key=None)
    assert returned(answer, event) == [0]


@pytest.mark.parametrize(
    "handler",
    [
        lambda event, context: None,
        lambda record, *, context: None,
        lambda: None,
        lambda *, record: None,
        functools.partial(lambda record: None, {}),
    ],
)
def test_what_cannot_be_called_with_one_record_is_refused_before_a_record_is_done(handler, wire):
    for attempt, remedy in (
        (lambda: sqs_batch()(handler), "it calls process_sqs, or @sqs_batch makes it$"),
        (lambda: process_sqs(events.load("sqs"), handler, context=Context()), "it calls process_sqs, or "),
        (lambda: process_stream(events.load("kinesis"), handler, context=Context()), "it calls process_stream$"),
        (lambda: kafka_batch()(handler), "it calls process_kafka, or @kafka_batch makes it$"),
    ):
        said = (
            rf"called with one record and nothing else, but .*\(\) cannot be called like that. Write it as .*{remedy}"
        )
        with pytest.raises(TypeError, match=said):
            attempt()
    assert wire.operations == []


@pytest.mark.parametrize(
    "handler",
    [
        lambda record, context=None: None,
        lambda *records: None,
        lambda record, **options: None,
        functools.partial(lambda prefix, record: None, "x"),
        functools.wraps(lambda record, context: None)(lambda record: None),
        dict.fromkeys,
    ],
)
def test_what_can_be_called_with_one_record_is_taken(handler):
    assert callable(sqs_batch()(handler))


@pytest.mark.parametrize("decorator", [sqs_batch, kafka_batch])
def test_a_bare_decorator_is_refused_with_what_to_write(decorator):
    name = decorator.__name__
    with pytest.raises(TypeError, match=rf"{name} takes its settings .*write @{name}\(\)"):
        decorator(must_not_run)


# The decorator


@sqs_batch(lock_key="order#{body[order_id]}")
def order(record: Event) -> None:
    """Do one order."""


def test_a_decorated_handler_keeps_its_name_and_takes_what_lambda_gives():
    assert [order.__name__, order.__qualname__, order.__module__] == ["order", "order", __name__]
    assert order.__doc__ == "Do one order."
    assert list(inspect.signature(order).parameters) == ["event", "context"]
    assert sqs_batch()(functools.partial(must_not_run)).__name__ == "handler"


def test_a_decorated_handler_is_decorated_once_for_all_batches(wire):
    assert order(events.load("sqs"), Context()) == NOTHING
    assert order(events.load("sqs"), Context()) == NOTHING
    count = len(events.load("sqs")["Records"])
    assert wire.operations == ["UpdateItem"] * (4 + 1) * count


def test_the_decorated_handler_shares_its_events_with_process_sqs(table):
    done, event = Done(), events.sqs([{"n": 0}])
    assert sqs_batch()(done.handler)(event, Context()) == NOTHING
    assert process_sqs(event, done.handler, context=Context()) == NOTHING
    assert done.started == [0]
