"""Keys of what the Parser makes of events: its models hold dates, bytes, sets, and undeclared fields."""

from __future__ import annotations

import pytest
from aws_lambda_powertools.utilities.parser.models import (
    DynamoDBStreamRecordModel,
    EventBridgeModel,
    KinesisDataStreamRecord,
    SqsRecordModel,
)
from pydantic import BaseModel, ConfigDict

from lambda_lock import current_lock, payload_hash, with_lock
from rig import events


class Open(BaseModel):
    """A model that keeps what it is given beyond its fields."""

    model_config = ConfigDict(extra="allow")
    customer_id: str


@pytest.mark.parametrize("key", [{"key": "{order_id}"}, {"key_jmespath": "order_id"}], ids=["template", "jmespath"])
def test_a_key_can_be_made_of_a_field_that_a_model_allows_and_does_not_declare(key):
    @with_lock(**key)
    def handler(event: Open) -> str:
        return current_lock().key

    assert handler(Open(customer_id="c-1", order_id="o-1")) == "o-1"  # type: ignore[call-arg]


def test_events_that_differ_in_an_undeclared_field_are_not_one_event():
    first, second = (Open(customer_id="c-1", order_id=name) for name in ("o-1", "o-2"))  # type: ignore[call-arg]
    assert payload_hash()(first) != payload_hash()(second)
    assert payload_hash()(first) == payload_hash()({"customer_id": "c-1", "order_id": "o-1"})


@pytest.mark.parametrize(
    ("model", "event"),
    [
        (EventBridgeModel, events.load("eventbridge")),
        (SqsRecordModel, events.load("sqs")["Records"][0]),
        (KinesisDataStreamRecord, events.load("kinesis")["Records"][0]),
        (DynamoDBStreamRecordModel, events.load("dynamodb_stream")["Records"][0]),
    ],
    ids=["eventbridge", "sqs", "kinesis", "streams"],
)
def test_a_whole_model_can_be_hashed(model, event):
    assert payload_hash()(model.model_validate(event)) == payload_hash()(model.model_validate(event))
