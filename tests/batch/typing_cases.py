"""What type checkers know about batches. This is not run: mypy checks it in `make check` and reports unused ignores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

from lambda_lock import AsyncLockClient, LockClient, payload_hash
from lambda_lock.batch import kafka_batch, process_kafka, process_sqs, process_stream, sqs_batch

Response = dict[str, list[dict[str, str]]]
KafkaResponse = dict[str, list[dict[str, dict[str, str | int]]]]


def order(record: dict[str, Any]) -> int:
    return 1


def of_two(record: dict[str, Any], context: object) -> None: ...


def of_text(record: str) -> None: ...


def seconds(record: dict[str, Any], error: Exception | None) -> float | None:
    return None


def handler(event: dict[str, Any], context: object) -> None:
    assert_type(process_sqs(event, order, context=context), Response)
    assert_type(process_stream(event, order, context=context), Response)
    process_sqs(event, order, context=context, dedup_key=None, lock_key=lambda record: "k", max_workers=4, wait=None)
    process_sqs(event, order, context=context, dedup_key=payload_hash("body[id]"), retry_visibility=5)
    process_sqs(event, order, context=context, retry_visibility=seconds, result="json", scope="", window=60)
    process_sqs(event, order, context=context, reserve=1, lease_duration=9.5, refresh_period=0.1, client=LockClient())
    process_sqs(event, order)  # type: ignore[call-arg]
    process_sqs(event, of_two, context=context)  # type: ignore[arg-type]
    process_sqs(event, of_text, context=context)  # type: ignore[arg-type]
    process_sqs(event, order, context=context, lock_keys="k")  # type: ignore[call-arg]
    process_sqs(event, order, context=context, client=AsyncLockClient())  # type: ignore[arg-type]
    process_sqs(event, order, context=context, max_workers="2")  # type: ignore[arg-type]
    process_stream(event, order, context=context, retry_visibility=5)  # type: ignore[call-arg]
    assert_type(process_kafka(event, order, context=context), KafkaResponse)
    process_kafka(event, order, context=context, dedup_key="{value[id]}", lock_key=["{key}"], validate=["value[n]"])
    process_kafka(event, order, context=context, retry_visibility=5)  # type: ignore[call-arg]
    process_kafka(event, of_text, context=context)  # type: ignore[arg-type]


@sqs_batch(lock_key="order#{body[order_id]}", max_workers=2)
def decorated(record: dict[str, Any]) -> None: ...


assert_type(decorated, Callable[[Any, Any], Response])
assert_type(decorated({}, None), Response)
decorated({})  # type: ignore[call-arg]


@sqs_batch()  # type: ignore[arg-type]
def decorated_of_two(event: dict[str, Any], context: object) -> None: ...


@kafka_batch(lock_key="order#{value[order_id]}", max_workers=2)
def of_kafka(record: dict[str, Any]) -> None: ...


assert_type(of_kafka, Callable[[Any, Any], KafkaResponse])
assert_type(of_kafka({}, None), KafkaResponse)
kafka_batch(retry_visibility=5)  # type: ignore[call-arg]


@kafka_batch()  # type: ignore[arg-type]
def of_kafka_of_two(event: dict[str, Any], context: object) -> None: ...


@sqs_batch(lock_key="gpus", permits=8, take=lambda record: len(record["body"]))
def weighed(record: dict[str, Any]) -> None: ...


sqs_batch(lock_key="config", shared=True)
kafka_batch(lock_key="gpus", permits=8, take=2)
sqs_batch(lock_key="gpus", permits=8, take="2")  # type: ignore[arg-type]
sqs_batch(lock_key="gpus", permits=8, take=lambda record: "2")  # type: ignore[return-value,arg-type]
sqs_batch(lock_key="config", shared="yes")  # type: ignore[arg-type]
