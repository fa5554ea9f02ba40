"""Kafka, on Amazon MSK or self-managed. Loaded by those who process its records.

Sources: AWS Lambda Developer Guide, "Using Lambda with Amazon MSK", "Using Lambda with self-managed Apache Kafka" and
"Configuring error handling controls for Kafka event sources".
"""

from __future__ import annotations

from binascii import a2b_base64
from collections import UserDict

from ..keys.parameters import Unusable
from .source import Source, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .source import Record


class KafkaSource(Source):
    """Kafka. Each partition of a topic comes back from its first failure on, so nothing after that is started in it.

    The order within a partition and a key is kept. Records without a key keep the order of their partition.
    """

    name = "Kafka"
    function = "process_kafka"
    decorator = "kafka_batch"
    services = ("aws:kafka", "SelfManagedKafka", "aws:SelfManagedKafka")
    form = "dict of records"
    has_checkpoint = True

    def piped(self) -> Source:
        return PipedKafkaSource()

    def records(self, event: dict[str, Any]) -> list[Any] | None:
        partitions = event.get("records")
        if not isinstance(partitions, dict) or not all(isinstance(records, list) for records in partitions.values()):
            return None
        # By offset, as Lambda delivers them: what follows the record that is reported must not have a lower one.
        return [record for records in partitions.values() for record in sorted(records, key=_offset)]

    def identifier(self, record: Record) -> dict[str, str | int]:
        offset = record["offset"]
        if type(offset) is not int:
            raise TypeError("an offset that is an int")
        return {"partition": self.order(record), "offset": offset}

    def order(self, record: Record) -> str:
        return f"{text_of(record, 'topic')}-{text_of(record, 'partition')}"

    def group(self, record: Record) -> str | None:
        key = record.get("key")
        return self.order(record) if key is None else f"{self.order(record)}#{key}"

    def view(self, record: Record) -> Decoded:
        return Decoded(record)


class PipedKafkaSource(KafkaSource):
    """The same behind EventBridge Pipes, which knows no answer for Kafka: an error makes the whole batch come back."""

    reads_answer = False
    sender = "EventBridge Pipes"


def _offset(record: object) -> int:
    offset = record.get("offset") if isinstance(record, dict) else None
    return offset if isinstance(offset, int) else 0  # `identifier` refuses any other


class Decoded(UserDict[str, object]):
    """A record with its key and value as text, or as bytes if not UTF-8. They are decoded when they are asked for.

    A key or value that the record leaves out is null here.
    """

    def __init__(self, record: Record) -> None:
        super().__init__({**record, "key": record.get("key"), "value": record.get("value")})

    def __getitem__(self, name: str) -> object:
        encoded: Any = super().__getitem__(name)
        if name not in ("key", "value") or encoded is None:
            return encoded
        try:
            decoded = a2b_base64(encoded, strict_mode=True)
        except (ValueError, TypeError):
            raise Unusable(f"has a [{name}] that is not base64, as Lambda passes it") from None
        try:
            return decoded.decode()
        except UnicodeDecodeError:
            return decoded
