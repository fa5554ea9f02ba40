"""The sample events have the form in which the services send them."""

from __future__ import annotations

import hashlib
import json

import pytest
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2, EventBridgeEvent, SQSEvent
from aws_lambda_powertools.utilities.parser.models import APIGatewayProxyEventV2Model, EventBridgeModel, SqsModel
from pydantic import BaseModel

from rig import events


def test_powertools_strict_models_accept_each_event() -> None:
    checked: dict[str, type[BaseModel]] = {
        "api_gateway_http": APIGatewayProxyEventV2Model,
        "eventbridge": EventBridgeModel,
        "schedule": EventBridgeModel,
        "sqs": SqsModel,
        "sqs_fifo": SqsModel,
    }
    assert sorted(checked) == events.names()
    for name, model in checked.items():
        model.model_validate(events.load(name))


def test_powertools_classes_read_the_fields_that_keys_are_made_of() -> None:
    assert EventBridgeEvent(events.load("eventbridge")).detail["customer_id"] == "c-42"
    assert [r.json_body["customer_id"] for r in SQSEvent(events.load("sqs")).records] == ["c-42", "c-42", "c-7"]
    assert APIGatewayProxyEventV2(events.load("api_gateway_http")).path_parameters == {"customer_id": "c-42"}


@pytest.mark.parametrize("event", [events.load("sqs"), events.load("sqs_fifo"), events.sqs([{"a": 1}, {"a": 2}])])
def test_a_message_carries_the_digest_of_its_body(event: events.Event) -> None:
    for record in event["Records"]:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()
    assert len({record["messageId"] for record in event["Records"]}) == len(event["Records"])


def test_an_event_can_be_made_from_the_sample() -> None:
    event = events.eventbridge({"customer_id": "c-1"}, "e-1")
    assert event["detail"] == {"customer_id": "c-1"}
    assert event["id"] == "e-1"
    assert event["source"] == events.load("eventbridge")["source"]
    assert json.loads(events.sqs([{"a": 1}])["Records"][0]["body"]) == {"a": 1}
