"""@deduplicate on the real engine, as `def` and as `async def`, and the engine's rows, read without a client."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lambda_lock import LockClient, current_dedup, set_default_client
from rig.engine import Item
from rig.wire import Wire
from tests.support.clients import make
from tests.support.clocks import LeapingClock
from tests.support.decorated import Decorator, done, fresh_process, once, other
from tests.support.rows import Rows, rows

__all__ = ["fresh_process", "make", "once", "other", "rows"]

FOREVER = float("inf")
COMMIT = "TransactWriteItems"
Once = Decorator


@pytest.fixture
def impatient(wire: Wire) -> LockClient:
    """The default client, over the wire: pauses between requests take no time, and nothing is renewed."""
    client = LockClient(clock=LeapingClock(), heartbeat_period=0)
    set_default_client(client)
    return client


def commit(items: list[Item], **options: Any) -> None:
    lock: Any = current_dedup()
    done(lock.commit(items, **options))


def put(rows: Rows, key: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": rows.table, "Item": {"key": {"S": key}}, **more}}


def only_new(rows: Rows, key: str) -> dict[str, Any]:
    names = {"#key": "key"}
    return put(rows, key, ConditionExpression="attribute_not_exists(#key)", ExpressionAttributeNames=names)


def add(rows: Rows, key: str) -> dict[str, Any]:
    """It adds 1: carried out twice, it shows."""
    return {
        "Update": {
            "TableName": rows.table,
            "Key": {"key": {"S": key}},
            "UpdateExpression": "ADD #n :one",
            "ExpressionAttributeNames": {"#n": "value"},
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }


def value(rows: Rows, key: str) -> int:
    item = rows.get(key)
    return 0 if item is None else int(item["value"]["N"])


def is_done(rows: Rows, key: str) -> bool:
    """Whether the row says that the event was completed, whenever."""
    return "completedUntil" in (rows.get(key) or {})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The events of the warnings so far."""
    return [record.__dict__["lock_event"] for record in caplog.records if record.levelno >= logging.WARNING]


class Stop(BaseException):
    pass


class Calls:
    """A function that counts its calls, and fails or answers as told: ``handler``, and by a call it under ``by``."""

    def __init__(self, result: Any = None, error: BaseException | None = None, by: Any = None) -> None:
        self.count = 0
        self.result = result
        self.error = error
        self.decorated: Any = self.handler if by is None else by(self.handler)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.decorated(*args, **kwargs)

    def handler(self, event: Any, context: Any = None) -> Any:
        self.count += 1
        if self.error is not None:
            raise self.error
        return self.result() if callable(self.result) else self.result


def counting(by: Any) -> Calls:
    """A function whose result is the number of its runs, under the decorator."""
    calls = Calls(by=by)
    calls.result = lambda: calls.count
    return calls
