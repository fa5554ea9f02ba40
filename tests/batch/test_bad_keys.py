"""Records of which no key can be built: they come back, or are skipped if that is asked for. And texts that lead on."""

from __future__ import annotations

import json
import logging

import pytest

from lambda_lock import KeyTemplateError, LockArgumentError, with_lock
from lambda_lock.batch import kafka_batch, process_kafka, process_sqs, process_stream, sqs_batch
from rig import events
from rig.events import Event
from tests.support.context import Context

from .conftest import NOTHING, Done, must_not_run, number_of, returned

#: What S3 sends when notifications are set up, and an order.
MIXED: list[Event] = [{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "orders"}, {"n": 1, "order": "o-1"}]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "keys",
    [
        {"lock_key": "order#{body[order]}"},
        {"lock_key": "order#{body[order]}", "dedup_key": None},
        {"lock_key": ["{body[n]}", "order#{body[order]}"]},
        {"dedup_key": "{body[order]}"},
        {"dedup_key": lambda record: json.loads(record["body"]).get("order", "")},
        {"rate": ("api#{body[order]}", 1000, 1)},
        {"validate": ["body[order]"], "dedup_key": "{messageId}"},
    ],
)
@pytest.mark.usefixtures("table")
def test_a_record_without_a_key_is_skipped_if_that_is_asked_for(keys, workers, caplog):
    done, event = Done(), events.sqs(MIXED)
    options: Event = {"context": Context(), "max_workers": workers, **keys}
    assert returned(process_sqs(event, done.handler, **options), event) == [0]
    assert process_sqs(event, done.handler, on_bad_key="skip", **options) == NOTHING
    assert set(done.started) == {1}
    (told,) = [record for record in caplog.records if record.__dict__.get("lock_event") == "record_skipped"]
    assert told.levelno == logging.WARNING
    assert event["Records"][0]["messageId"] in told.getMessage()
    assert "does not come back" in told.getMessage()


@pytest.mark.usefixtures("table")
def test_only_the_keys_of_the_record_are_skipped_and_not_those_that_its_handler_needs():
    @with_lock("stock#{item}")
    def take(item: str | None) -> None: ...

    def handler(record: Event) -> None:
        if "order" in record["body"]:
            take(None)
        raise KeyTemplateError("of the handler's own")

    event = events.sqs([{"n": 0}, {"n": 1, "order": "o"}])
    for workers in (1, 2):
        answer = process_sqs(event, handler, context=Context(), on_bad_key="skip", max_workers=workers)
        assert returned(answer, event) == [0, 1]


@pytest.mark.usefixtures("table")
def test_a_key_function_that_fails_in_another_way_lets_the_record_come_back():
    event = events.sqs(MIXED)
    options: Event = {"dedup_key": lambda record: json.loads(record["body"])["order"], "on_bad_key": "skip"}
    assert returned(process_sqs(event, lambda record: None, context=Context(), **options), event) == [0]


@pytest.mark.usefixtures("table")
def test_what_follows_a_skipped_record_goes_on():
    done: list[int] = []
    fifo = events.sqs_fifo([("A", MIXED[0]), ("A", MIXED[1])])
    options: Event = {"context": Context(), "on_bad_key": "skip"}
    process_sqs(fifo, lambda record: done.append(number_of(record)), lock_key="{body[order]}", **options)
    kafka = events.kafka([("orders-0", None, {"n": 0}), ("orders-0", "k", {"n": 1})])
    assert process_kafka(kafka, lambda record: done.append(2), lock_key="{key}", **options) == NOTHING
    items = events.dynamodb_stream([{"order_id": {"S": "o"}}, {"order_id": {"S": "o"}, "n": {"S": "x"}}])
    key = "{dynamodb[NewImage][n][S]}"
    assert process_stream(items, lambda record: done.append(3), lock_key=key, **options) == NOTHING
    assert done == [1, 2, 3]


@pytest.mark.parametrize("wrong", ["return", None, True, lambda record, error: None])
def test_an_on_bad_key_that_is_neither_raise_nor_skip_is_refused(wrong):
    with pytest.raises(TypeError, match=r"on_bad_key= of sqs_batch must be 'raise' or 'skip', got"):
        sqs_batch(on_bad_key=wrong)(must_not_run)


def test_errors_name_the_function_that_was_called():
    wrong: Event = {"on_badkey": "skip"}
    for name, call in (
        ("sqs_batch", lambda: sqs_batch(**wrong)(must_not_run)),
        ("kafka_batch", lambda: kafka_batch(**wrong)(must_not_run)),
        ("process_kafka", lambda: process_kafka([], must_not_run, context=None, **wrong)),
    ):
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an .*'on_badkey': did you mean on_bad_key=\?"):
            call()


# Texts that lead to the right function

BROKER = {"eventSourceArn": "arn:aws:mq:us-west-2:123456789012:broker:test:b-1"}


@pytest.mark.parametrize("process", [process_sqs, process_stream, process_kafka])
@pytest.mark.parametrize(
    ("event", "text"),
    [
        (events.load("sns"), r" 'aws:sns', SNS, which .*@deduplicate\('\{Records\[0\]\[Sns\]\[MessageId\]\}'\)"),
        (BROKER | {"eventSource": "aws:amq", "messages": [{}]}, "is from 'aws:amq', a broker .* for each message"),
        (BROKER | {"eventSource": "aws:mq", "messages": [{}]}, "is from 'aws:mq', a broker .* with @deduplicate"),
        (BROKER | {"eventSource": "aws:rmq", "rmqMessagesByQueue": {}}, "is from 'aws:rmq', a broker of Amazon MQ"),
        ([BROKER | {"eventSource": "aws:amq", "messageID": "ID:1"}], "a record of 'aws:amq', a broker of Amazon MQ"),
        (
            events.load("s3"),
            "'aws:s3', not of .*: use process_sqs for SQS, and process_stream for Kinesis and DynamoDB "
            "streams, and process_kafka for Kafka. For any other service, decorate the handler with @deduplicate",
        ),
    ],
)
def test_the_events_of_other_services_are_refused_with_what_to_do(process, event, text):
    with pytest.raises(LockArgumentError, match=text):
        process(event, must_not_run, context=Context())


def test_the_events_of_other_services_are_refused_with_those_of_the_function():
    for process, services in ((process_sqs, "aws:sqs"), (process_stream, "aws:kinesis or aws:dynamodb")):
        with pytest.raises(LockArgumentError, match=f"a record of 'aws:s3', not of {services}: use process_sqs"):
            process(events.load("s3"), must_not_run, context=Context())
