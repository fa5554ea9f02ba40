"""Where records come from: how a record is named, which records are ordered, and how failures are reported.

SQS and streams are here, Kafka is in kafka.py.

Sources: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS", "with Kinesis" and "with DynamoDB", the sections on
reporting batch item failures.
"""

from __future__ import annotations

import json

from ..errors import LockArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")

    Record: TypeAlias = dict[str, Any]


#: The function that processes the batches of a service.
_FUNCTIONS = {
    "aws:sqs": "process_sqs",
    "aws:kinesis": "process_stream",
    "aws:dynamodb": "process_stream",
    "aws:kafka": "process_kafka",
    "SelfManagedKafka": "process_kafka",
}


class Source:
    """What the sources have in common, and what they differ in.

    name: for errors. function, decorator: the public names that process its batches. services: the ``eventSource`` of
    its events. form: how an event holds its records, for errors.
    has_checkpoint: whether, of each part whose order is kept, only the first record that comes back is reported, and
        the source continues from there. If not, each record that comes back is reported.
    """

    name: str
    function: str
    decorator: str | None = None
    services: tuple[str, ...]
    form = "list of Records"
    has_checkpoint = False

    def records(self, event: dict[str, Any]) -> list[Any] | None:
        """The records in an event, unchecked. None if it has none in this source's form."""
        records = event.get("Records")
        return records if isinstance(records, list) else None

    def identifier(self, record: Record) -> Any:
        """The identifier of a record in batchItemFailures."""
        raise NotImplementedError

    def group(self, record: Record) -> str | None:
        """The name of the records that must not run at the same time as this one. None: there are none."""
        raise NotImplementedError

    def order(self, record: Record) -> str | None:
        """The part of the batch that a failure of this record stops. None: nothing follows it."""
        raise NotImplementedError

    def view(self, record: Record) -> Any:
        """The record as templates see it."""
        return record

    def of_view(self, function: Callable[[Record], T]) -> Callable[[Any], T]:
        """``function``, which takes a record, as a function that takes the record's view."""
        return function


class QueueSource(Source):
    """SQS. The messages that are reported come back, and all others are deleted.

    A FIFO queue keeps the order within a message group. So the messages that follow a failure in its group must come
    back with it.
    """

    name = "SQS"
    function = "process_sqs"
    decorator = "sqs_batch"
    services = ("aws:sqs",)

    def identifier(self, record: Record) -> str:
        return str(record["messageId"])

    def group(self, record: Record) -> str | None:
        """The message group on a FIFO queue. None on a standard queue: its groups are for fairness, not for order."""
        if not str(record.get("eventSourceARN", "")).endswith(".fifo"):
            return None
        return str(record["attributes"]["MessageGroupId"])

    order = group


class StreamSource(Source):
    """Kinesis or DynamoDB streams. Everything from the first failure on comes back, so nothing after it is started.

    The order within a partition key (of the stream) or within an item (of the table) is kept.
    """

    name = "a stream"
    function = "process_stream"
    services = ("aws:kinesis", "aws:dynamodb")
    has_checkpoint = True

    def identifier(self, record: Record) -> str:
        return str(record["kinesis"]["sequenceNumber"] if "kinesis" in record else record["dynamodb"]["SequenceNumber"])

    def group(self, record: Record) -> str | None:
        if "kinesis" in record:
            return str(record["kinesis"]["partitionKey"])
        return json.dumps(record["dynamodb"]["Keys"], sort_keys=True)

    def order(self, record: Record) -> str:
        return ""  # a batch is of one shard


def records_of(event: object, source: Source) -> list[Record]:
    """The records of an event. Raises LockArgumentError if it is not a batch from ``source``."""
    found = event if isinstance(event, dict) else getattr(event, "raw_event", event)
    raw = found if isinstance(found, dict) else {}
    records = source.records(raw)
    if records is None:
        others = raw.get("Records")
        sender = _sender(raw, others[0] if isinstance(others, list) and others else {})
        if _FUNCTIONS.get(sender, source.function) != source.function:
            raise LockArgumentError(f"event= is from {sender!r}{_remedy(sender, source)}")
        raise LockArgumentError(
            f"event= has no {source.form}, so it is not a batch from {source.name}: pass on the handler's first "
            "argument"
        )
    for record in records:
        if not isinstance(record, dict) or _sender(raw, record) not in ("", *source.services):
            sender = _sender(raw, record)
            raise LockArgumentError(f"event= has a record of {sender!r}{_remedy(sender, source)}")
        try:
            source.identifier(record)
            source.group(record)
        except (KeyError, TypeError) as error:
            raise LockArgumentError(
                f"event= has a record from {source.name} without {error}: pass on the event as Lambda delivers it"
            ) from error
    return records


def _sender(event: dict[str, Any], record: object) -> str:
    """The service that a record is from; "" if neither it nor its event names one. Kafka's events name it."""
    if not isinstance(record, dict):
        return type(record).__name__
    named = record.get("eventSource", event.get("eventSource"))
    return "" if named is None else str(named)


def _remedy(sender: str, source: Source) -> str:
    """What to do about something that ``source`` does not take. It continues an error that names the sender."""
    right = _FUNCTIONS.get(sender)
    if right is not None:
        return f": use {right}, not {source.function}"
    return (
        f", not of {' or '.join(source.services)}: use process_sqs for SQS, and process_stream for Kinesis and "
        "DynamoDB streams, and process_kafka for Kafka"
    )
