"""Each test begins as a fresh process does: outside Lambda, no invocation seen."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_lock import LockClient, current_lock, default_client, set_default_client, with_lock
from rig.engine import Ministack
from tests.support.decorated import Decorator, as_async, done, other
from tests.support.fresh import clear_environment, forget_invocations

__all__ = ["other"]

Locked = Decorator


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    clear_environment(monkeypatch)
    forget_invocations(monkeypatch)
    set_default_client(None)
    yield
    default_client().close(release=False)  # the wire that its requests went over may be gone
    set_default_client(None)


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


def lose(engine: Ministack, table: str, key: str) -> None:
    """Delete the row of a lock, so that its holder has lost it."""
    engine.dynamodb("DeleteItem", {"TableName": table, "Key": {"key": {"S": key}}})
