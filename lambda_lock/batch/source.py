"""Where records come from: how a record is named, which records are ordered, and how failures are reported.

Sources: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS", "with Kinesis" and "with DynamoDB", the sections on
reporting batch item failures.
"""

from __future__ import annotations

import json

from ..errors import LockArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Record: TypeAlias = dict[str, Any]


class QueueSource:
    """SQS. The messages that are reported come back, and all others are deleted.

    A FIFO queue keeps the order within a message group. So the messages that follow a failure in its group must come
    back with it.
    """

    name = "SQS"
    sources = ("aws:sqs",)
    has_checkpoint = False

    def identifier(self, record: Record) -> str:
        return str(record["messageId"])

    def group(self, record: Record) -> str | None:
        """The message group on a FIFO queue. None on a standard queue: its groups are for fairness, not for order."""
        if not str(record.get("eventSourceARN", "")).endswith(".fifo"):
            return None
        return str(record["attributes"]["MessageGroupId"])


class StreamSource:
    """Kinesis or DynamoDB streams. Everything from the first failure on comes back, so nothing after it is started.

    The order within a partition key (of the stream) or within an item (of the table) is kept.
    """

    name = "a stream"
    sources = ("aws:kinesis", "aws:dynamodb")
    has_checkpoint = True  # Lambda continues from the record that is reported

    def identifier(self, record: Record) -> str:
        return str(record["kinesis"]["sequenceNumber"] if "kinesis" in record else record["dynamodb"]["SequenceNumber"])

    def group(self, record: Record) -> str | None:
        if "kinesis" in record:
            return str(record["kinesis"]["partitionKey"])
        return json.dumps(record["dynamodb"]["Keys"], sort_keys=True)


def records_of(event: object, source: QueueSource | StreamSource) -> list[Record]:
    """The records of an event. Raises LockArgumentError if it is not a batch from ``source``."""
    raw = event if isinstance(event, dict) else getattr(event, "raw_event", event)
    records = raw.get("Records") if isinstance(raw, dict) else None
    if not isinstance(records, list):
        raise LockArgumentError(
            f"event= has no list of Records, so it is not a batch from {source.name}: pass on the handler's first "
            "argument"
        )
    for record in records:
        found = record.get("eventSource") if isinstance(record, dict) else type(record).__name__
        if not isinstance(record, dict) or (found is not None and found not in source.sources):
            raise LockArgumentError(
                f"event= has a record of {found!r}, not of {' or '.join(source.sources)}: use process_sqs for SQS, and "
                "process_stream for Kinesis and DynamoDB streams"
            )
        try:
            source.identifier(record)
            source.group(record)
        except (KeyError, TypeError) as error:
            raise LockArgumentError(
                f"event= has a record from {source.name} without {error}: pass on the event as Lambda delivers it"
            ) from error
    return records
