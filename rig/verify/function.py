"""The function that checks/cold_start.py deploys: each invocation takes one lock."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import lambda_lock
from lambda_lock import current_lock, with_lock

_UNCHECKED = 1  # the flags of a .pyc file that is valid whatever its source's time is (PEP 552)


def _is_compiled() -> bool:
    """Whether this Python accepts the library's .pyc file as it is."""
    cached = Path(importlib.util.cache_from_source(lambda_lock.__file__))
    if not cached.exists():
        return False
    head = cached.read_bytes()[:8]
    return head[:4] == importlib.util.MAGIC_NUMBER and int.from_bytes(head[4:], "little") == _UNCHECKED


@with_lock("verify#function")
def _locked(event: object, context: object) -> int | None:
    return current_lock().fencing_token


def handler(event: object, context: object) -> dict[str, Any]:
    began = time.perf_counter()
    token = _locked(event, context)
    return {"token": token, "lock_ms": round((time.perf_counter() - began) * 1000, 1), "compiled": _is_compiled()}
