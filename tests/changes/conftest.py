"""What changes under a running system: deploys, stages and restores, with old and new settings on one table."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clients import client, make
from tests.support.fresh import fresh_process
from tests.support.rows import Rows, rows

__all__ = ["client", "fresh_process", "make", "rows"]


def restore(rows: Rows, saved: dict[str, Any]) -> None:
    """Let a row be what it was when it was saved."""
    rows.put(saved["key"]["S"], **{name: value for name, value in saved.items() if name != "key" and value is not None})


def change(rows: Rows, key: str, **attributes: dict[str, Any] | None) -> None:
    """Change attributes of a row. None removes one."""
    restore(rows, {**rows[key], **attributes})


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    """The log records of an event, in order."""
    return [record for record in caplog.records if vars(record).get("lock_event") == event]
