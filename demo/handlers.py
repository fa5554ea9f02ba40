"""The functions of the demo, locked as any function would be. They run in the environments, under awslambdaric.

Their work is a read-modify-write of a ledger that nothing but the lock protects, as slow as the event says: two of them
inside at once would lose an entry. A journal says when they went in and came out. Both are tables of the same engine.
"""

from __future__ import annotations

import functools
import json
import os
import time
from typing import Any, NoReturn

from lambda_lock import (
    DuplicateEventError,
    LockLostError,
    LockNotGrantedError,
    current_lock,
    deduplicate,
    default_client,
    with_lock,
)
from lambda_lock.batch import process_sqs

LEDGER, JOURNAL = "ledger", "journal"
HANGS = "DEMO_HANGS"  # a variable of the environment whose work never ends
EVENTS = "event"  # what the rows of events begin with; all others are locks
DUPLICATE = "duplicate"
SHORT_LEASE = 2.0  # seconds, so that the heartbeat has something to do in a short demo

_STEP = 0.05  # seconds of work between two looks at the lock
_PATIENCE = 5.0  # seconds for a request of ours


def handler(event: dict[str, Any], context: Any) -> Any:
    """The entry of all environments; the event decides. An empty one is a warm-up."""
    if not event:
        return None
    if "Records" in event:
        return orders(event, context)
    return report(event, context) if event["source"] == "aws.events" else invoice(event, context)


def _done_before(event: dict[str, Any], context: Any, *, error: DuplicateEventError) -> str:
    _note("duplicate", event["id"], str(error.key), context)
    return DUPLICATE


@deduplicate("{id}", scope=EVENTS, wait=None, on_duplicate=_done_before)
@with_lock("customer#{detail[customer_id]}", refresh_period=0.3)
def invoice(event: dict[str, Any], context: Any) -> str:
    """EventBridge: waits while another handler works for this customer, and does an event once."""
    return _work(event["id"], event["detail"]["seconds"], context)


@with_lock("report#nightly", wait=0, on_not_granted="skip", lease_duration=SHORT_LEASE)
def report(event: dict[str, Any], context: Any) -> str:
    """A schedule: while one run goes on, the next is superfluous."""
    return _work(event["id"], event["detail"]["seconds"], context)


def orders(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """SQS: a message whose customer is busy goes back to the queue, the others of its batch go on."""
    handle = functools.partial(order, context=context)
    return process_sqs(event, handle, context=context, scope=EVENTS, lease_duration=SHORT_LEASE)


def _busy(record: dict[str, Any], *, context: Any, error: LockNotGrantedError) -> None:
    _note("refused", record["messageId"], str(error.key), context)
    raise error


@with_lock("customer#{body[customer_id]}", wait=0, lease_duration=SHORT_LEASE, on_not_granted=_busy)
def order(record: dict[str, Any], *, context: Any) -> str:
    try:
        return _work(record["messageId"], json.loads(record["body"])["seconds"], context)
    except LockLostError as error:
        _note("lost", record["messageId"], str(error.key), context)
        raise


def _work(event_id: str, seconds: float, context: Any) -> str:
    lock = current_lock()
    _note("entered", event_id, lock.key, context, lock.fencing_token)
    before = _read(lock.key)
    if os.environ.get(HANGS):
        _hang()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(_STEP)
        lock.raise_if_lost()
    _write(lock.key, [*before, event_id])
    _note("left", event_id, lock.key, context, lock.fencing_token)
    return "done"


def _hang() -> NoReturn:
    """Work that never ends and looks at nothing: only the kill at the timeout does."""
    while True:
        time.sleep(3600)


def _read(key: str) -> list[str]:
    request = {"TableName": LEDGER, "Key": {"key": {"S": key}}, "ConsistentRead": True}
    item = default_client().transport.send("GetItem", request, timeout=_PATIENCE).item
    return [entry["S"] for entry in item["events"]["L"]] if item else []


def _write(key: str, events: list[str]) -> None:
    _put(LEDGER, {"key": {"S": key}, "events": {"L": [{"S": event} for event in events]}})


def _note(what: str, event_id: str, lock: str, context: Any, token: int = 0) -> None:
    entry = {"what": what, "event": event_id, "lock": lock, "request": context.aws_request_id}
    item = {name: {"S": text} for name, text in entry.items()}
    numbers = {"at": {"N": str(time.time())}, "token": {"N": str(token)}}
    _put(JOURNAL, {"key": {"S": f"{context.aws_request_id}/{event_id}/{what}"}} | item | numbers)


def _put(table: str, item: dict[str, Any]) -> None:
    default_client().transport.send("PutItem", {"TableName": table, "Item": item}, timeout=_PATIENCE)
