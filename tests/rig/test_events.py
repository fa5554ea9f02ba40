"""The sample events look like the events that the services send."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parser.models import (
    APIGatewayProxyEventV2Model,
    DynamoDBStreamModel,
    EventBridgeModel,
    KafkaMskEventModel,
    KafkaSelfManagedEventModel,
    KinesisDataStreamModel,
    S3Model,
    SnsModel,
    SnsNotificationModel,
    SqsModel,
)
from pydantic import BaseModel

from rig import events

ITEM = {"order_id": {"S": "o-1"}, "customer_id": {"S": "c-1"}}
OF_SQS = [
    *(events.load(name) for name in events.names() if name.startswith("sqs")),
    events.sqs([{"a": 1}, {"a": 2}]),
    events.sqs_fifo([("g", {"a": 1}), ("g", {"a": 2}), ("h", {"a": 3})]),
    events.sqs([events.sns_envelope({"a": 1}), events.eventbridge({"a": 1})]),
]


SAMPLES: dict[str, type[BaseModel]] = {
    "api_gateway_http": APIGatewayProxyEventV2Model,
    "dynamodb_stream": DynamoDBStreamModel,
    "eventbridge": EventBridgeModel,
    "kafka": KafkaMskEventModel,
    "kinesis": KinesisDataStreamModel,
    "s3": S3Model,
    "schedule": EventBridgeModel,
    "sns": SnsModel,
    "sqs": SqsModel,
    "sqs_eventbridge": SqsModel,
    "sqs_fifo": SqsModel,
    "sqs_sns": SqsModel,
}
MADE: list[tuple[type[BaseModel], Any]] = [
    (EventBridgeModel, events.eventbridge({"a": 1})),
    (SnsModel, events.sns({"a": 1})),
    (SnsNotificationModel, events.sns_envelope({"a": 1})),
    (SqsModel, events.sqs([{"a": 1}])),
    (SqsModel, events.sqs_fifo([("g", {"a": 1})])),
    (KafkaMskEventModel, events.kafka([("t-0", "c-1", {"a": 1}), ("t-1", None, {"a": 2})])),
    (KafkaSelfManagedEventModel, events.kafka([("t-0", "c-1", {"a": 1})], eventSource="SelfManagedKafka")),
    (KinesisDataStreamModel, events.kinesis([("c-1", {"a": 1})])),
    (DynamoDBStreamModel, events.dynamodb_stream([ITEM])),
]


def test_powertools_strict_models_accept_the_samples_and_what_is_made_from_them():
    assert sorted(SAMPLES) == events.names()
    for model, event in [*((model, events.load(name)) for name, model in SAMPLES.items()), *MADE]:
        model.model_validate(event)


@pytest.mark.parametrize("event", OF_SQS)
def test_a_message_carries_the_digest_of_its_body(event):
    for record in event["Records"]:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()  # noqa: S324 - of SQS
    assert len({record["messageId"] for record in event["Records"]}) == len(event["Records"])
    assert len({record["receiptHandle"] for record in event["Records"]}) == len(event["Records"])


@pytest.mark.parametrize(
    "event", [events.load("kinesis"), events.kinesis([("c-1", {"a": 1}), ("c-1", {"a": 2}), ("c-2", {"a": 3})])]
)
def test_kinesis_records_are_known_by_shard_and_a_rising_sequence_number(event):
    numbers = [record["kinesis"]["sequenceNumber"] for record in event["Records"]]
    assert {len(number) for number in numbers} == {56}
    assert all(int(earlier) < int(later) for earlier, later in pairwise(numbers))
    assert [record["eventID"] for record in event["Records"]] == [f"shardId-000000000006:{n}" for n in numbers]


@pytest.mark.parametrize("event", [events.load("dynamodb_stream"), events.dynamodb_stream([ITEM, ITEM])])
def test_records_of_a_table_have_ids_and_rising_sequence_numbers(event):
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in event["Records"]]
    assert all(earlier < later for earlier, later in pairwise(numbers))
    assert len({record["eventID"] for record in event["Records"]}) == len(numbers)


def test_a_partition_of_kafka_goes_on_from_the_lowest_offset_that_is_named():
    event = events.kafka([("t-0", None, {"a": n}) for n in range(3)] + [("t-1", None, {"a": 3})])
    offsets = [record["offset"] for record in event["records"]["t-0"]]

    def after(*identifiers: object) -> object:
        failures = {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}
        return events.kafka_from(event, failures)["records"]

    assert after() == {}
    named = [{"partition": "t-0", "offset": offsets[n]} for n in (2, 1)]
    assert after(*named) == {"t-0": event["records"]["t-0"][1:]}
    for unknown in (
        {"partition": "t-1", "offset": offsets[0]},
        {"partition": "t-9", "offset": offsets[0]},
        "t-0",
        None,
    ):
        assert after(named[0], unknown) == event["records"]


def test_a_fifo_batch_has_groups_and_rising_sequence_numbers():
    event = events.sqs_fifo([("g", {"a": 1}), ("h", {"a": 2}), ("g", {"a": 3})])
    attributes = [record["attributes"] for record in event["Records"]]
    assert [each["MessageGroupId"] for each in attributes] == ["g", "h", "g"]
    assert all(earlier["SequenceNumber"] < later["SequenceNumber"] for earlier, later in pairwise(attributes))
    assert len({each["MessageDeduplicationId"] for each in attributes}) == 3


def test_two_batches_share_no_id():
    def ids() -> set[str]:
        streams = [*events.kinesis([("c", {})])["Records"], *events.dynamodb_stream([ITEM])["Records"]]
        queued = [*events.sqs([{}])["Records"], *events.sqs_fifo([("g", {})])["Records"]]
        sent = [events.sns({})["Records"][0]["Sns"], events.sns_envelope({})]
        return (
            {record["eventID"] for record in streams}
            | {record["messageId"] for record in queued}
            | {notification["MessageId"] for notification in sent}
            | {events.eventbridge({})["id"]}
        )

    assert len(ids() | ids()) == 14


def test_a_message_redelivered_has_its_id_and_one_receive_more():
    first = events.sqs_fifo([("g", {"a": 1})])
    (before,), (after,) = first["Records"], events.redelivered(first)["Records"]
    assert (before["attributes"]["ApproximateReceiveCount"], after["attributes"]["ApproximateReceiveCount"]) == (
        "1",
        "2",
    )
    assert after["receiptHandle"] != before["receiptHandle"]
    for same in ("messageId", "body", "md5OfBody"):
        assert after[same] == before[same]
    assert after["attributes"]["SequenceNumber"] == before["attributes"]["SequenceNumber"]
