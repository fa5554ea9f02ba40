"""Sample events from events/, in the form in which the services send them."""

from __future__ import annotations

import base64
import copy
import hashlib
import itertools
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from .engine import ROOT, Item

Event = dict[str, Any]

FOLDER = ROOT / "events"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> Event:
    """The event of events/<name>.json, a new copy each time."""
    event: Event = json.loads((FOLDER / f"{name}.json").read_text())
    return event


def eventbridge(detail: Event, event_id: str | None = None) -> Event:
    """The sample event of EventBridge with this detail and id, a new one where it is None."""
    return load("eventbridge") | {"id": event_id or str(uuid.uuid4()), "detail": detail}


def sns(message: Event) -> Event:
    """A notification from SNS with this JSON message and a new id. SNS sends one at a time."""
    event = load("sns")
    event["Records"][0]["Sns"] |= {"MessageId": str(uuid.uuid4()), "Message": json.dumps(message)}
    return event


def sns_envelope(message: Event) -> Event:
    """The body that SNS puts into a queue for this JSON message, with a new id: one for ``sqs``."""
    sample: Event = json.loads(load("sqs_sns")["Records"][0]["body"])
    return sample | {"MessageId": str(uuid.uuid4()), "Message": json.dumps(message)}


def sqs(bodies: list[Event]) -> Event:
    """A batch of messages from SQS with these JSON bodies, each with an id of its own.

    What EventBridge puts into a queue is the event itself: ``sqs([eventbridge(detail)])``.
    """
    sample = load("sqs")["Records"][0]
    return {"Records": [_message(sample, json.dumps(body)) for body in bodies]}


def sqs_fifo(messages: list[tuple[str, Event]]) -> Event:
    """A batch from a FIFO queue: the group and the JSON body of each, in the order in which they were sent."""
    sample = load("sqs_fifo")["Records"][0]
    records = [_message(sample, json.dumps(body)) for _, body in messages]
    numbers = _rising(sample["attributes"]["SequenceNumber"])
    for record, (group, _), number in zip(records, messages, numbers, strict=False):
        record["attributes"] |= {
            "SequenceNumber": number,
            "MessageGroupId": group,
            "MessageDeduplicationId": record["messageId"],
        }
    return {"Records": records}


def redelivered(event: Event) -> Event:
    """The same messages from SQS as they come the next time: another receipt handle, one receive more."""
    again = copy.deepcopy(event)
    for record in again["Records"]:
        receives = int(record["attributes"]["ApproximateReceiveCount"]) + 1
        record["attributes"]["ApproximateReceiveCount"] = str(receives)
        record["receiptHandle"] = f"receipt-{uuid.uuid4()}"
    return again


def kinesis(messages: list[tuple[str, Event]]) -> Event:
    """A batch of one shard of a Kinesis stream: the partition key and the JSON data of each, in order."""
    sample = load("kinesis")["Records"][0]
    shard = sample["eventID"].partition(":")[0]
    records = []
    for (key, data), number in zip(messages, _rising(sample["kinesis"]["sequenceNumber"]), strict=False):
        record = copy.deepcopy(sample) | {"eventID": f"{shard}:{number}"}
        encoded = base64.b64encode(json.dumps(data).encode()).decode()
        record["kinesis"] |= {"partitionKey": key, "sequenceNumber": number, "data": encoded}
        records.append(record)
    return {"Records": records}


def dynamodb_stream(items: list[Item]) -> Event:
    """A batch of a DynamoDB stream that tells of these new items, in order; they have the sample's key ``order_id``."""
    sample = load("dynamodb_stream")["Records"][0]
    records = []
    for item, number in zip(items, _rising(sample["dynamodb"]["SequenceNumber"]), strict=False):
        record = copy.deepcopy(sample) | {"eventID": uuid.uuid4().hex}
        keys = {name: item[name] for name in sample["dynamodb"]["Keys"]}
        record["dynamodb"] |= {"Keys": keys, "NewImage": item, "SequenceNumber": number}
        records.append(record)
    return {"Records": records}


def kafka(records: Sequence[tuple[str, str | None, Event | None]], **event: str) -> Event:
    """A batch from Kafka: the topic-partition ("orders-0"), key and JSON value of each record, in order.

    A key of None is left out, and so is the value of a tombstone. event: more of the event, ``eventSource`` say.
    """
    batch, sample = load("kafka") | {"records": {}} | event, load("kafka")["records"]["orders-0"][0]
    offsets = itertools.count(time.time_ns() // 1000)  # from the clock, so that later batches have higher ones
    for place, key, value in records:
        topic, _, partition = place.rpartition("-")
        record = copy.deepcopy(sample) | {"topic": topic, "partition": int(partition), "offset": next(offsets)}
        del record["key"], record["value"]
        if key is not None:
            record["key"] = base64.b64encode(key.encode()).decode()
        if value is not None:
            record["value"] = base64.b64encode(json.dumps(value).encode()).decode()
        batch["records"].setdefault(place, []).append(record)
    return batch


def kafka_from(event: Event, failures: Event) -> Event:
    """The batch that Lambda delivers next, for the answer to this one: each partition named goes on from its offset.

    As the Lambda Developer Guide has it ("Configuring error handling controls for Kafka event sources"): a failure that
    names no record of the batch makes the whole batch come back.
    """
    lowest: dict[str, int] = {}
    for failure in failures["batchItemFailures"]:
        named = failure["itemIdentifier"]
        known: dict[str, Any] = named if isinstance(named, dict) else {}
        place, offset = known.get("partition", ""), known.get("offset", -1)
        if offset not in [record["offset"] for record in event["records"].get(place, ())]:
            return copy.deepcopy(event)
        lowest[place] = min(offset, lowest.get(place, offset))
    rest = {
        place: [record for record in event["records"][place] if record["offset"] >= offset]
        for place, offset in lowest.items()
    }
    return copy.deepcopy(event) | {"records": copy.deepcopy(rest)}


def piped(event: Event) -> list[Event]:
    """The records of a batch as EventBridge Pipes passes them to its target: in a list.

    As the pages of Pipes' sources in the Amazon EventBridge User Guide show them: what is in Kinesis's own part of a
    record is beside the rest of it, and a record from Kafka names its source itself, and its partition as text.
    """
    if "Records" in event:
        return [{**record.pop("kinesis", {}), **record} for record in copy.deepcopy(event)["Records"]]
    names = {name: value for name, value in event.items() if name != "records"}
    return [
        {**names, "eventSourceKey": place, **record, "partition": str(record["partition"])}
        for place, records in event["records"].items()
        for record in records
    ]


def _message(sample: Event, body: str) -> Event:
    message_id = str(uuid.uuid4())
    digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    return copy.deepcopy(sample) | {
        "messageId": message_id,
        "receiptHandle": f"receipt-{message_id}",
        "body": body,
        "md5OfBody": digest,
    }


def _rising(first: str) -> Iterator[str]:
    """Sequence numbers above the sample's, of its length; from one call to the next they rise as the clock does."""
    return map(str, itertools.count(int(first) + time.time_ns()))
