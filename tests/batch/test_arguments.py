"""Invalid batches and settings are refused before anything runs. Also: the handler that sqs_batch makes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes import DynamoDBStreamEvent, KinesisStreamEvent, SQSEvent

from lambda_lock import AsyncLockClient, KeyTemplateError, LockArgumentError, LockClient
from lambda_lock.batch import process_sqs, process_stream, sqs_batch
from rig import events
from rig.events import Event
from tests.support.context import Context

from .conftest import NOTHING, Done, returned

Process = Callable[..., Any]


def must_not_run(record: Event) -> None:
    pytest.fail("must not run")


# Events


@pytest.mark.parametrize("process", [process_sqs, process_stream])
@pytest.mark.parametrize("event", [{}, {"records": []}, {"Records": None}, {"Records": {}}, (), None, "Records", 7])
def test_what_has_no_list_of_records_is_refused(process, event):
    with pytest.raises(LockArgumentError, match=r"event= has no list of Records.*pass on the handler's first argument"):
        process(event, must_not_run, context=Context())


@pytest.mark.parametrize(
    ("process", "name", "text"),
    [
        (process_sqs, "kinesis", "'aws:kinesis': use process_stream, not process_sqs$"),
        (process_sqs, "dynamodb_stream", "'aws:dynamodb': use process_stream, not process_sqs$"),
        (process_sqs, "s3", "'aws:s3', not of aws:sqs: use process_sqs for SQS, and process_stream"),
        (process_stream, "sqs", "'aws:sqs': use process_sqs, not process_stream$"),
        (process_stream, "s3", "'aws:s3', not of aws:kinesis or aws:dynamodb: use process_sqs for SQS, and process_"),
    ],
)
def test_records_of_another_service_are_refused(process, name, text):
    with pytest.raises(LockArgumentError, match=f"record of {text}"):
        process(events.load(name), must_not_run, context=Context())


def test_records_of_sns_are_refused():
    with pytest.raises(LockArgumentError):  # its records have EventSource instead of eventSource
        process_sqs(events.load("sns"), must_not_run, context=Context())


@pytest.mark.parametrize("record", [None, "text", 7, ["list"]])
def test_a_record_that_is_no_mapping_is_refused(record):
    with pytest.raises(LockArgumentError, match=f"event= has a record of '{type(record).__name__}'"):
        process_sqs({"Records": [record]}, must_not_run, context=Context())


@pytest.mark.parametrize(
    ("process", "event", "path"),
    [
        (process_sqs, "sqs", ["messageId"]),
        (process_sqs, "sqs_fifo", ["attributes"]),
        (process_sqs, "sqs_fifo", ["attributes", "MessageGroupId"]),
        (process_stream, "kinesis", ["kinesis"]),
        (process_stream, "kinesis", ["kinesis", "sequenceNumber"]),
        (process_stream, "kinesis", ["kinesis", "partitionKey"]),
        (process_stream, "dynamodb_stream", ["dynamodb", "SequenceNumber"]),
        (process_stream, "dynamodb_stream", ["dynamodb", "Keys"]),
    ],
)
def test_a_record_without_what_names_or_orders_it_is_refused_and_none_is_run(process, event, path):
    batch = events.load(event)
    place = batch["Records"][-1]
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    with pytest.raises(LockArgumentError, match=f"event= has a record from .* without '{path[-1]}|without 'dynamodb'"):
        process(batch, must_not_run, context=Context())


def test_a_record_made_by_hand_may_leave_out_where_it_comes_from(table):
    done, event = Done(1), {"Records": [{"messageId": str(n), "body": f'{{"n": {n}}}'} for n in range(2)]}
    assert returned(process_sqs(event, done.handler, context=Context()), event) == [1]


def test_events_of_powertools_are_batches_and_the_handler_is_given_the_record_itself(table):
    seen: list[Any] = []
    queue, stream, items = events.load("sqs"), events.load("kinesis"), events.load("dynamodb_stream")
    assert process_sqs(SQSEvent(queue), seen.append, context=Context(), lock_key="{messageId}") == NOTHING
    assert process_stream(KinesisStreamEvent(stream), seen.append, context=Context()) == NOTHING
    assert process_stream(DynamoDBStreamEvent(items), seen.append, context=Context()) == NOTHING
    assert seen == [*queue["Records"], *stream["Records"], *items["Records"]]
    assert all(type(record) is dict for record in seen)


@pytest.mark.parametrize("context", [object(), {}, 30])
def test_what_is_no_context_is_refused(context):
    with pytest.raises(TypeError, match="context= must be a Lambda context"):
        process_sqs(events.load("sqs"), must_not_run, context=context)


# Settings


def refused(**options: Any) -> Callable[[], object]:
    return lambda: process_sqs(events.load("sqs"), must_not_run, context=Context(), **options)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"max_workers": 0}, ValueError, "max_workers=0 is out of range: pass 1 or more"),
        ({"max_workers": -3}, ValueError, "max_workers=-3 is out of range"),
        ({"max_workers": True}, TypeError, "max_workers must be an int, not True"),
        ({"max_workers": "2"}, TypeError, "max_workers must be an int, not '2'"),
        ({"max_workers": 2.0}, TypeError, "max_workers must be an int, not 2.0"),
        ({"window": 0.5}, ValueError, "window=0.5 is out of range"),
        ({"result": "pickle"}, TypeError, "result= must be None or 'json'"),
        ({"scope": 7}, TypeError, "scope must be a str"),
        ({"dedup_key": 7}, TypeError, "must be a str or a function"),
        ({"lock_key": 7}, TypeError, "must be a str or a function"),
        ({"dedup_key": "{body.id}"}, KeyTemplateError, "body.id"),
        ({"lock_key": "{}"}, KeyTemplateError, "positional"),
        ({"lock_key": ""}, KeyTemplateError, "empty key"),
        ({"client": "client"}, TypeError, "client= must be a LockClient"),
        ({"locks_key": "k"}, TypeError, "locks_key"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(options, kind, text, wire):
    for attempt in (refused(**options), lambda: sqs_batch(**options)(must_not_run)):
        with pytest.raises(kind, match=text):
            attempt()
    assert wire.operations == []


def test_an_async_client_is_refused():
    with pytest.raises(TypeError, match=r"must_not_run\(\) needs a LockClient"):
        refused(client=AsyncLockClient())()


# Handlers


async def coroutine_function(record: Event) -> None: ...


class AsyncCallable:
    async def __call__(self, record: Event) -> None: ...


def generator(record: Event) -> Iterator[int]:
    yield 1


class Handler:
    @staticmethod
    def static(record: Event) -> None: ...


@pytest.mark.parametrize("handler", [coroutine_function, AsyncCallable(), functools.partial(coroutine_function)])
def test_an_async_handler_is_refused(handler):
    for attempt in (
        lambda: process_sqs(events.load("sqs"), handler, context=Context()),
        lambda: process_stream(events.load("kinesis"), handler, context=Context()),
        lambda: sqs_batch()(handler),
    ):
        with pytest.raises(TypeError, match="record_handler must be a plain function, got an async def function"):
            attempt()


def test_a_generator_is_refused():
    with pytest.raises(TypeError, match="generator, a generator: its body would run after"):
        sqs_batch()(generator)


@pytest.mark.parametrize("handler", [None, "order", Handler, Handler.__dict__["static"]])
def test_what_is_no_function_is_refused(handler):
    with pytest.raises(TypeError):
        sqs_batch()(handler)


@pytest.mark.parametrize("handler", [None, "order", Handler])
@pytest.mark.parametrize("process", [process_sqs, process_stream])
def test_the_refusal_names_the_parameter(process, handler):
    with pytest.raises(TypeError, match="record_handler must be a function of one record, got"):
        process({"Records": []}, handler, context=Context())


@pytest.mark.parametrize("options", [{}, {"dedup_key": None}])
def test_a_record_whose_handler_gave_a_coroutine_was_not_done_and_comes_back(options, table):
    """A plain function that returns the coroutine of an async def function, which would never be awaited."""
    event = events.sqs([{"n": 0}])
    answer = process_sqs(event, lambda record: coroutine_function(record), context=Context(), **options)
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
    remedy = r"called with one record and nothing else, but .*\(\) cannot be called like that. Write it as"
    with pytest.raises(TypeError, match=remedy):
        sqs_batch()(handler)
    for process, event in ((process_sqs, events.load("sqs")), (process_stream, events.load("kinesis"))):
        with pytest.raises(TypeError, match=remedy):
            process(event, handler, context=Context(), dedup_key=None)
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


def test_the_class_of_a_client_is_refused_when_decorating():
    client: Any = LockClient
    with pytest.raises(TypeError, match=r"is the class LockClient, .*: write LockClient\(\.\.\.\)"):
        sqs_batch(client=client)(must_not_run)


def test_bare_sqs_batch_is_refused_with_what_to_write():
    with pytest.raises(TypeError, match=r"write @sqs_batch\(\)"):

        @sqs_batch  # type: ignore[arg-type, call-arg, unused-ignore]
        def handler(record: Event) -> None: ...


class Counter:
    """Handles records and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, record: Event) -> None:
        self.count += 1

    def method(self, record: Event) -> None:
        self.count += 1


def test_methods_callable_objects_and_partial_functions_handle_records(table):
    counter, seen, event = Counter(), [], events.load("sqs")

    def handler(prefix: str, record: Event) -> None:
        seen.append(prefix + record["messageId"])

    for one in (counter, counter.method, functools.partial(handler, "x")):
        answer = process_sqs(event, one, context=Context(), lock_key="{messageId}", scope=repr(one), max_workers=2)
        assert answer == NOTHING
    assert counter.count == 2 * len(event["Records"])
    assert sorted(seen) == sorted("x" + record["messageId"] for record in event["Records"])


# The decorator


@sqs_batch(lock_key="order#{body[order_id]}")
def order(record: Event) -> None:
    """Do one order."""


def test_a_decorated_handler_keeps_its_name_and_takes_what_lambda_gives():
    assert (order.__name__, order.__qualname__, order.__module__, order.__doc__) == (
        "order",
        "order",
        __name__,
        "Do one order.",
    )
    assert list(inspect.signature(order).parameters) == ["event", "context"]
    assert sqs_batch()(functools.partial(must_not_run)).__name__ == "handler"


def test_a_decorated_handler_is_decorated_once_for_all_batches(wire):
    assert order(events.load("sqs"), Context()) == NOTHING
    assert order(events.load("sqs"), Context()) == NOTHING
    count = len(events.load("sqs")["Records"])
    assert wire.operations == ["UpdateItem"] * (4 + 1) * count


def test_the_decorated_handler_shares_its_events_with_process_sqs(table):
    done, event = [], events.sqs([{"n": 0}])

    def handler(record: Event) -> None:
        done.append(record["messageId"])

    assert sqs_batch()(handler)(event, Context()) == NOTHING
    assert process_sqs(event, handler, context=Context()) == NOTHING
    assert len(done) == 1
