"""What changes under a running system: deploys, stages and restores, with old and new settings on one table."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clients import client, make
from tests.support.fresh import fresh_process
from tests.support.rows import rows

__all__ = ["client", "fresh_process", "make", "rows"]


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    """The log records of an event, in order."""
    return [record for record in caplog.records if vars(record).get("lock_event") == event]
