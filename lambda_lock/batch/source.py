"""Where records come from: how a record is named, which records are ordered, and how failures are reported.

SQS and streams are here, Kafka is in kafka.py.

Sources: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS", "with Kinesis" and "with DynamoDB", the sections on
reporting batch item failures; Amazon EventBridge User Guide, "Pipes batching and concurrency" and the pages of its
sources.
"""

from __future__ import annotations

import json

from ..errors import LockArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    Record: TypeAlias = dict[str, Any]


#: The function that processes the batches of a service.
_FUNCTIONS = {
    "aws:sqs": "process_sqs",
    "aws:kinesis": "process_stream",
    "aws:dynamodb": "process_stream",
    "aws:kafka": "process_kafka",
    "SelfManagedKafka": "process_kafka",
    "aws:SelfManagedKafka": "process_kafka",
}
_OF_BROKERS = (
    "a broker of Amazon MQ, which delivers the whole batch again if the function raises. Decorate a function of one "
    "message with @deduplicate, call it for each message, and let its errors out"
)
#: What to write for the events of services that read no answer about their records.
_WITHOUT_ANSWERS = {
    "aws:sns": "SNS, which delivers one message at a time. Decorate the handler itself, as in "
    "@deduplicate('{Records[0][Sns][MessageId]}'), or let SNS send to an SQS queue, and use process_sqs",
    "aws:mq": _OF_BROKERS,
    "aws:amq": _OF_BROKERS,
    "aws:rmq": _OF_BROKERS,
}


class Source:
    """What the sources have in common, and what they differ in.

    name: for errors. function, decorator: the public names that process its batches. services: the ``eventSource`` of
    its events. form: how an event holds its records, for errors.
    has_checkpoint: whether, of each part whose order is kept, only the first record that comes back is reported, and
        the source continues from there. If not, each record that comes back is reported.
    has_visibility: whether records that come back are hidden for a time, which can be changed.
    reads_answer: whether records can come back one by one. If not, an error makes the whole batch come back.
    sender: who delivers the event, for errors.
    """

    name: str
    function: str
    decorator: str | None = None
    services: tuple[str, ...]
    form = "list of Records"
    has_checkpoint = False
    has_visibility = False
    reads_answer = True
    sender = "Lambda"

    def piped(self) -> Source:
        """The same source behind EventBridge Pipes, which hands over a list of records."""
        return self

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


class Delivery:
    """One record of a batch, as it was delivered: what it is called, and where it belongs.

    The record handler may change the record, and its event, as it likes. So all this is read before anything runs.

    record: what the record handler is given. given: a copy of it, of which keys are made. view: that copy, as templates
    see it. identifier, group, order: as of its source.
    """

    __slots__ = ("given", "group", "identifier", "order", "record", "view")

    def __init__(self, source: Source, record: Record) -> None:
        self.record = record
        self.given: Record = _copied(record)
        self.view = source.view(self.given)
        self.identifier = source.identifier(record)
        self.group = source.group(record)
        self.order = source.order(record)


def _copied(value: Any) -> Any:
    """A copy of JSON's mappings and lists."""
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def text_of(record: Record, *path: str) -> str:
    """The text that identifies a record, which is never empty. Raises KeyError if there is none."""
    value: Any = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
        if value is None or value == "":
            raise KeyError(name)
    return str(value)


class QueueSource(Source):
    """SQS. The messages that are reported come back, and all others are deleted.

    A FIFO queue keeps the order within a message group. So the messages that follow a failure in its group must come
    back with it.
    """

    name = "SQS"
    function = "process_sqs"
    decorator = "sqs_batch"
    services = ("aws:sqs",)
    has_visibility = True

    def identifier(self, record: Record) -> str:
        return text_of(record, "messageId")

    def group(self, record: Record) -> str | None:
        """The message group on a FIFO queue. None on a standard queue: its groups are for fairness, not for order."""
        if not str(record.get("eventSourceARN", "")).endswith(".fifo"):
            return None
        return text_of(record, "attributes", "MessageGroupId")

    order = group


class StreamSource(Source):
    """Kinesis or DynamoDB streams. Everything from the first failure on comes back, so nothing after it is started.

    The order within a partition key (of the stream) or within an item (of the table) is kept.
    """

    name = "a stream"
    function = "process_stream"
    services = ("aws:kinesis", "aws:dynamodb")
    has_checkpoint = True

    def piped(self) -> Source:
        return PipedStreamSource()

    def identifier(self, record: Record) -> str:
        if "kinesis" in record:
            return text_of(record, "kinesis", "sequenceNumber")
        return text_of(record, "dynamodb", "SequenceNumber")

    def group(self, record: Record) -> str | None:
        if "kinesis" in record:
            return text_of(record, "kinesis", "partitionKey")
        text_of(record, "dynamodb", "Keys")
        return json.dumps(record["dynamodb"]["Keys"], sort_keys=True)

    def order(self, record: Record) -> str:
        return ""  # a batch is of one shard


class PipedStreamSource(StreamSource):
    """The same behind EventBridge Pipes, where each record that comes back is reported, by its eventID.

    Pipes puts what is in Kinesis's own part of a record beside the rest of it.
    """

    has_checkpoint = False
    sender = "EventBridge Pipes"

    def identifier(self, record: Record) -> str:
        return text_of(record, "eventID")

    def group(self, record: Record) -> str | None:
        return super().group(record) if "dynamodb" in record else text_of(record, "partitionKey")


def deliveries_of(event: object, source: Source) -> tuple[list[Delivery], Source]:
    """The records of an event, and where they are from: ``source``, or the same behind EventBridge Pipes.

    Raises LockArgumentError if it is not a batch from ``source``.
    """
    found = event if isinstance(event, (dict, list)) else getattr(event, "raw_event", event)
    raw = found if isinstance(found, dict) else {}
    if isinstance(found, list):
        records: list[Any] | None = found
        source = source.piped()
    else:
        records = source.records(raw)
    if records is None:
        others = raw.get("Records")
        sender = _sender(raw, others[0] if isinstance(others, list) and others else {})
        if sender not in ("", *source.services):
            raise LockArgumentError(f"event= is from {sender!r}{_remedy(sender, source)}")
        raise LockArgumentError(
            f"event= has no {source.form}, so it is not a batch from {source.name}: pass on the handler's first "
            "argument"
        )
    deliveries = []
    for record in records:
        if not isinstance(record, dict) or _sender(raw, record) not in ("", *source.services):
            sender = _sender(raw, record)
            raise LockArgumentError(f"event= has a record of {sender!r}{_remedy(sender, source)}")
        try:
            deliveries.append(Delivery(source, record))
        except (KeyError, TypeError) as error:
            missing = f"{error}, which is missing or null" if isinstance(error, KeyError) else error
            raise LockArgumentError(
                f"event= has a record from {source.name} without {missing}: pass on the event as {source.sender} "
                "delivers it"
            ) from error
    return deliveries, source


def chains_of(deliveries: list[Delivery], named: Sequence[tuple[str, Callable[[Delivery], str]]]) -> list[list[int]]:
    """The chains of a batch: the indices of records that must run one after another, in their order.

    Records are in one chain if they have a name in common: their group, or one that ``named`` gives, by its kind.
    """
    before = list(range(len(deliveries)))  # for each record, an earlier one of its chain, or itself
    first: dict[object, int] = {}  # the first record with a name

    def head(index: int) -> int:
        while before[index] != index:
            index = before[index]
        return index

    for index, delivery in enumerate(deliveries):
        names: list[tuple[str, str]] = [] if delivery.group is None else [("group", delivery.group)]
        for kind, name_of in named:
            try:
                names.append((kind, name_of(delivery)))
            except Exception:  # noqa: BLE001, S112 - it is raised again and reported when the record runs
                continue
        for name in names:
            one, other = head(index), head(first.setdefault(name, index))
            before[max(one, other)] = min(one, other)
    chains: dict[int, list[int]] = {}
    for index in range(len(deliveries)):
        chains.setdefault(head(index), []).append(index)
    return list(chains.values())


def _sender(event: dict[str, Any], record: object) -> str:
    """The service that a record is from; "" if neither it nor its event names one. Kafka's events name it."""
    if not isinstance(record, dict):
        return type(record).__name__
    named = record.get("eventSource", record.get("EventSource", event.get("eventSource")))  # SNS writes it so
    return "" if named is None else str(named)


def _remedy(sender: str, source: Source) -> str:
    """What to do about something that ``source`` does not take. It continues an error that names the sender."""
    if sender in _WITHOUT_ANSWERS:
        return f", {_WITHOUT_ANSWERS[sender]}"
    right = _FUNCTIONS.get(sender)
    if right is not None:
        return f": use {right}, not {source.function}"
    return (
        f", not of {' or '.join(source.services)}: use process_sqs for SQS, and process_stream for Kinesis and "
        "DynamoDB streams, and process_kafka for Kafka. For any other service, decorate the handler with @deduplicate"
    )
