"""A real queue of SQS on the engine, and the SQS client that batches use."""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_lock.batch.visibility import sqs_client
from rig import events
from rig.engine import Ministack
from rig.events import Event
from rig.wire import Wire

CHANGE = "ChangeMessageVisibilityBatch"
HOUR = 3600
_FIELDS = ("messageId", "receiptHandle", "body", "attributes")  # of a record, as of a message


def number_of(record: Event) -> int:
    """``n`` in the JSON of a record from a queue, Kinesis or Kafka, or in the new item of a DynamoDB stream."""
    if "dynamodb" in record:
        return int(record["dynamodb"]["NewImage"]["n"]["N"])
    encoded = record["value"] if "value" in record else record.get("kinesis", {}).get("data")
    number: int = json.loads(record["body"] if encoded is None else b64decode(encoded))["n"]
    return number


class RealQueue:
    """A queue on the engine. Messages that were received stay invisible for an hour."""

    def __init__(self, sqs: Any, name: str, **attributes: str) -> None:
        self.sqs = sqs
        attributes = {"VisibilityTimeout": str(HOUR), **attributes}
        self.url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self.arn = sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=json.dumps({"n": number}))

    def receive(self) -> Event:
        """The visible messages, as an event for Lambda."""
        options = {"QueueUrl": self.url, "MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"]}
        sample = events.load("sqs")["Records"][0] | {"eventSourceARN": self.arn}
        records = [
            sample | {field: message[field[0].upper() + field[1:]] for field in _FIELDS}
            for message in self.sqs.receive_message(**options).get("Messages", [])
        ]
        return {"Records": sorted(records, key=number_of)}

    def deliver(self, *numbers: int) -> Event:
        """Send messages, and receive them."""
        self.send(*numbers)
        return self.receive()

    def numbers(self) -> list[int]:
        return [number_of(record) for record in self.receive()["Records"]]


@pytest.fixture(autouse=True)
def new_sqs_client() -> Iterator[None]:
    """Each test gets its own SQS client, because a client is made for an endpoint."""
    sqs_client.cache_clear()
    yield
    sqs_client.cache_clear()


@pytest.fixture
def sqs(engine: Ministack, table: str) -> Iterator[Any]:
    import boto3

    client = boto3.client("sqs", endpoint_url=engine.url)
    yield client
    client.close()


@pytest.fixture
def queue(sqs: Any, table: str) -> Iterator[RealQueue]:
    made = RealQueue(sqs, f"queue-{table}")
    yield made
    sqs.delete_queue(QueueUrl=made.url)


def changes(wire: Wire) -> list[list[int]]:
    """The visibility timeouts that were requested, by request."""
    return [
        [entry["VisibilityTimeout"] for entry in request.body["Entries"]]
        for request in wire.requests
        if request.operation == CHANGE
    ]
