"""The sample events look like the events that the services send."""

import hashlib
from itertools import pairwise
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parser import models
from pydantic import BaseModel

from rig import events

ITEM = {"order_id": {"S": "o-1"}, "customer_id": {"S": "c-1"}}
DATA = {"a": 1}
FIFO = [("g", DATA), ("h", {"a": 2}), ("g", {"a": 3})]
SAMPLES: dict[str, type[BaseModel]] = {
    "api_gateway_http": models.APIGatewayProxyEventV2Model,
    "dynamodb_stream": models.DynamoDBStreamModel,
    **dict.fromkeys(("eventbridge", "schedule"), models.EventBridgeModel),
    "kafka": models.KafkaMskEventModel,
    "kinesis": models.KinesisDataStreamModel,
    "s3": models.S3Model,
    "sns": models.SnsModel,
    **dict.fromkeys(("sqs", "sqs_eventbridge", "sqs_fifo", "sqs_sns"), models.SqsModel),
}
MADE: list[tuple[type[BaseModel], Any]] = [
    (models.EventBridgeModel, events.eventbridge(DATA)),
    (models.SnsModel, events.sns(DATA)),
    (models.SnsNotificationModel, events.sns_envelope(DATA)),
    (models.SqsModel, events.sqs([events.sns_envelope(DATA), events.eventbridge(DATA)])),
    (models.SqsModel, events.sqs_fifo(FIFO)),
    (models.KafkaMskEventModel, events.kafka([("t-0", "c-1", DATA), ("t-1", None, {"a": 2})])),
    (models.KafkaSelfManagedEventModel, events.kafka([("t-0", "c-1", DATA)], eventSource="SelfManagedKafka")),
    (models.KinesisDataStreamModel, events.kinesis([("c-1", DATA), ("c-1", {"a": 2}), ("c-2", {"a": 3})])),
    (models.DynamoDBStreamModel, events.dynamodb_stream([ITEM, ITEM])),
]
ALL = [*((model, events.load(name)) for name, model in SAMPLES.items()), *MADE]


def test_powertools_strict_models_accept_the_samples_and_what_is_made_from_them():
    assert sorted(SAMPLES) == events.names()
    for model, event in ALL:
        model.model_validate(event)


@pytest.mark.parametrize("event", [event for model, event in ALL if model is models.SqsModel])
def test_a_message_carries_the_digest_of_its_body_and_ids_of_its_own(event):
    for record in event["Records"]:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()  # noqa: S324 - of SQS
    for name in ("messageId", "receiptHandle"):
        assert len({record[name] for record in event["Records"]}) == len(event["Records"])


@pytest.mark.parametrize(
    "event", [event for model, event in ALL if model in (models.KinesisDataStreamModel, models.DynamoDBStreamModel)]
)
def test_records_of_a_stream_have_ids_and_rising_sequence_numbers(event):
    records = event["Records"]
    numbers = [(record.get("kinesis") or record["dynamodb"]) for record in records]
    numbers = [part.get("sequenceNumber") or part["SequenceNumber"] for part in numbers]
    assert all(int(earlier) < int(later) for earlier, later in pairwise(numbers))
    assert len({record["eventID"] for record in records}) == len(records)
    if "kinesis" in records[0]:
        assert {len(number) for number in numbers} == {56}
        assert [record["eventID"] for record in records] == [f"shardId-000000000006:{n}" for n in numbers]


def test_a_partition_of_kafka_goes_on_from_the_lowest_offset_that_is_named():
    event = events.kafka([("t-0", None, {"a": n}) for n in range(3)] + [("t-1", None, {"a": 3})])
    offsets = [record["offset"] for record in event["records"]["t-0"]]

    def after(*identifiers: object) -> object:
        failures = {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}
        return events.kafka_from(event, failures)["records"]

    assert after() == {}
    named = [{"partition": "t-0", "offset": offsets[n]} for n in (2, 1)]
    assert after(*named) == {"t-0": event["records"]["t-0"][1:]}
    for unknown in (*({"partition": place, "offset": offsets[0]} for place in ("t-1", "t-9")), "t-0", None):
        assert after(named[0], unknown) == event["records"]


def test_a_message_redelivered_has_its_id_and_one_receive_more():
    first = events.sqs_fifo(FIFO[:1])
    (before,), (after,) = first["Records"], events.redelivered(first)["Records"]
    changed = after | {"receiptHandle": before["receiptHandle"], "attributes": before["attributes"]}
    assert changed == before
    assert after["receiptHandle"] != before["receiptHandle"]
    assert after["attributes"] == before["attributes"] | {"ApproximateReceiveCount": "2"}
