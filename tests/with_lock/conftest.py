"""Each test begins as a fresh process does: outside Lambda, no invocation seen."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lambda_lock import LockClient, current_lock, with_lock
from tests.support.decorated import Decorator, as_async, done, fresh_process, other
from tests.support.rows import rows

__all__ = ["fresh_process", "other", "rows"]

Locked = Decorator


@pytest.fixture(params=["def", "async def"])
def locked(request: pytest.FixtureRequest) -> Locked:
    """@with_lock for a plain function, or for an async def function that does the same. Neither needs an await."""
    return with_lock if request.param == "def" else as_async(with_lock)


def is_free(other: LockClient, key: str) -> bool:
    lock = other.try_acquire(key)
    return lock is not None and lock.release()


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


def put(table: str, key: str) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": {"key": {"S": key}}}}


def commit(*items: dict[str, Any]) -> None:
    lock: Any = current_lock()
    done(lock.commit(items))
