"""The sample events look like the events that the services send."""

from __future__ import annotations

import base64
import hashlib
import json
from itertools import pairwise

import pytest
from aws_lambda_powertools.utilities.data_classes import (
    APIGatewayProxyEventV2,
    DynamoDBStreamEvent,
    EventBridgeEvent,
    KinesisStreamEvent,
    S3Event,
    SNSEvent,
    SQSEvent,
)
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


def test_powertools_strict_models_accept_each_event() -> None:
    checked: dict[str, type[BaseModel]] = {
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
    assert sorted(checked) == events.names()
    for name, model in checked.items():
        model.model_validate(events.load(name))


@pytest.mark.parametrize(
    ("model", "event"),
    [
        (EventBridgeModel, events.eventbridge({"a": 1})),
        (SnsModel, events.sns({"a": 1})),
        (SnsNotificationModel, events.sns_envelope({"a": 1})),
        (SqsModel, events.sqs([{"a": 1}])),
        (SqsModel, events.sqs_fifo([("g", {"a": 1})])),
        (KafkaMskEventModel, events.kafka([("t-0", "c-1", {"a": 1}), ("t-1", None, {"a": 2})])),
        (KafkaSelfManagedEventModel, events.kafka([("t-0", "c-1", {"a": 1})], eventSource="SelfManagedKafka")),
        (KinesisDataStreamModel, events.kinesis([("c-1", {"a": 1})])),
        (DynamoDBStreamModel, events.dynamodb_stream([ITEM])),
    ],
)
def test_powertools_strict_models_accept_what_is_made_from_the_samples(
    model: type[BaseModel], event: events.Event
) -> None:
    model.model_validate(event)


def test_powertools_classes_read_the_fields_that_keys_are_made_of() -> None:
    assert EventBridgeEvent(events.load("eventbridge")).detail["customer_id"] == "c-42"
    assert [r.json_body["customer_id"] for r in SQSEvent(events.load("sqs")).records] == ["c-42", "c-42", "c-7"]
    fifo = SQSEvent(events.load("sqs_fifo")).records
    assert [record.attributes.message_group_id for record in fifo] == ["c-42", "c-42", "c-7"]
    assert APIGatewayProxyEventV2(events.load("api_gateway_http")).path_parameters == {"customer_id": "c-42"}
    assert json.loads(SNSEvent(events.load("sns")).sns_message)["customer_id"] == "c-42"
    stream = KinesisStreamEvent(events.load("kinesis")).records
    assert [record.kinesis.data_as_json()["order_id"] for record in stream] == ["o-4001", "o-4002", "o-4003"]
    assert S3Event(events.load("s3")).object_key == "c-42/invoice o-1001.pdf"


def test_powertools_classes_read_what_sns_and_eventbridge_put_into_a_queue() -> None:
    notifications = [record.decoded_nested_sns_event for record in SQSEvent(events.load("sqs_sns")).records]
    assert [json.loads(notification.message)["customer_id"] for notification in notifications] == ["c-42", "c-7"]
    queued = [EventBridgeEvent(record.json_body) for record in SQSEvent(events.load("sqs_eventbridge")).records]
    assert [event.detail["customer_id"] for event in queued] == ["c-42", "c-7"]
    assert queued[0].raw_event == events.load("eventbridge")


def test_a_stream_tells_of_a_row_that_is_made_changed_and_deleted() -> None:
    records = list(DynamoDBStreamEvent(events.load("dynamodb_stream")).records)
    made, changed, deleted = (record.dynamodb for record in records)
    assert [record.raw_event["eventName"] for record in records] == ["INSERT", "MODIFY", "REMOVE"]
    assert made is not None
    assert changed is not None
    assert deleted is not None
    assert made.keys == changed.keys == deleted.keys == {"order_id": "o-5001"}
    assert (made.old_image, deleted.new_image) == ({}, {})
    assert made.new_image == changed.old_image
    assert changed.new_image == deleted.old_image


@pytest.mark.parametrize("event", OF_SQS)
def test_a_message_carries_the_digest_of_its_body(event: events.Event) -> None:
    for record in event["Records"]:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()  # noqa: S324 - of SQS
    assert len({record["messageId"] for record in event["Records"]}) == len(event["Records"])
    assert len({record["receiptHandle"] for record in event["Records"]}) == len(event["Records"])


@pytest.mark.parametrize(
    "event", [events.load("kinesis"), events.kinesis([("c-1", {"a": 1}), ("c-1", {"a": 2}), ("c-2", {"a": 3})])]
)
def test_kinesis_records_are_known_by_shard_and_a_rising_sequence_number(event: events.Event) -> None:
    numbers = [record["kinesis"]["sequenceNumber"] for record in event["Records"]]
    assert {len(number) for number in numbers} == {56}
    assert all(int(earlier) < int(later) for earlier, later in pairwise(numbers))
    assert [record["eventID"] for record in event["Records"]] == [f"shardId-000000000006:{n}" for n in numbers]


@pytest.mark.parametrize("event", [events.load("dynamodb_stream"), events.dynamodb_stream([ITEM, ITEM])])
def test_records_of_a_table_have_ids_and_rising_sequence_numbers(event: events.Event) -> None:
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in event["Records"]]
    assert all(earlier < later for earlier, later in pairwise(numbers))
    assert len({record["eventID"] for record in event["Records"]}) == len(numbers)


def test_events_made_from_the_samples_carry_what_was_asked_for() -> None:
    event = events.eventbridge({"customer_id": "c-1"}, "e-1")
    assert event["detail"] == {"customer_id": "c-1"}
    assert event["id"] == "e-1"
    assert event["source"] == events.load("eventbridge")["source"]
    assert json.loads(events.sqs([{"a": 1}])["Records"][0]["body"]) == {"a": 1}
    assert json.loads(events.sns({"a": 1})["Records"][0]["Sns"]["Message"]) == {"a": 1}
    assert json.loads(events.sns_envelope({"a": 1})["Message"]) == {"a": 1}
    (record,) = events.kinesis([("c-1", {"a": 1})])["Records"]
    assert record["kinesis"]["partitionKey"] == "c-1"
    assert json.loads(base64.b64decode(record["kinesis"]["data"])) == {"a": 1}
    (record,) = events.dynamodb_stream([ITEM])["Records"]
    assert record["dynamodb"]["NewImage"] == ITEM
    assert record["dynamodb"]["Keys"] == {"order_id": {"S": "o-1"}}


def test_a_kafka_batch_has_its_records_by_partition_with_rising_offsets() -> None:
    event = events.kafka([("t-0", "c-1", {"a": 1}), ("t-1", None, {"a": 2}), ("t-0", "c-1", None)])
    assert {place: len(records) for place, records in event["records"].items()} == {"t-0": 2, "t-1": 1}
    first, tombstone = event["records"]["t-0"]
    assert (first["topic"], first["partition"]) == ("t", 0)
    assert first["offset"] < tombstone["offset"]
    assert base64.b64decode(first["key"]) == b"c-1"
    assert json.loads(base64.b64decode(first["value"])) == {"a": 1}
    assert "value" not in tombstone
    assert "key" not in event["records"]["t-1"][0]


def test_a_partition_of_kafka_goes_on_from_the_lowest_offset_that_is_named() -> None:
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


def test_a_fifo_batch_has_groups_and_rising_sequence_numbers() -> None:
    event = events.sqs_fifo([("g", {"a": 1}), ("h", {"a": 2}), ("g", {"a": 3})])
    attributes = [record["attributes"] for record in event["Records"]]
    assert [each["MessageGroupId"] for each in attributes] == ["g", "h", "g"]
    assert all(earlier["SequenceNumber"] < later["SequenceNumber"] for earlier, later in pairwise(attributes))
    assert len({each["MessageDeduplicationId"] for each in attributes}) == 3


def test_two_batches_share_no_id() -> None:
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


def test_a_message_redelivered_has_its_id_and_one_receive_more() -> None:
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
