"""Waiting for what can be seen but does not tell."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE = 30.0  # seconds after which a test gives up waiting for what should have happened long ago


def wait_until(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    """Wait for something that can be seen but does not tell."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
