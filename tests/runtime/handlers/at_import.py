"""A module that takes a lock while it is imported, which is too early."""

from __future__ import annotations

from typing import Any

from lambda_lock import LockClient

LOCK = LockClient().acquire("at-import")


def handler(event: dict[str, Any], context: Any) -> None:
    return None
