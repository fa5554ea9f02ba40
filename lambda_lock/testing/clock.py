"""A clock that is moved by hand."""

from __future__ import annotations

import math
import threading
import time

from ..errors import LockArgumentError

_STARTED = 1_000.0  # seconds that the machine has been up: any number will do
_SHORTEST = 1e-6  # seconds: a shorter sleep would be lost in rounding, and whoever sleeps until a moment never reach it


class ManualClock:
    """Stands still until it is moved; for ``LockClient(clock=…)`` and ``in_memory(clock=…)``. Safe from any thread.

    wall: epoch seconds at which it begins; None: the machine's time now, in whole seconds.

    Who sleeps on it does not wait: `sleep` moves it on and returns. So two threads that sleep at the same time move it
    on by the sum. Raises LockArgumentError or TypeError for what is no number of seconds.
    """

    def __init__(self, wall: float | None = None) -> None:
        self._wall = float(int(time.time())) if wall is None else _number("wall", wall)
        self._monotonic = _STARTED
        self._guard = threading.Lock()

    def monotonic(self) -> float:
        """Seconds since some moment, never stepped."""
        return self._monotonic

    def boottime(self) -> float:
        """As `monotonic`: this machine is never suspended."""
        return self._monotonic

    def wall(self) -> float:
        """Epoch seconds."""
        return self._wall

    def sleep(self, seconds: float) -> None:
        """Move on by ``seconds`` (0 or more; a microsecond at least) and return at once."""
        self.advance(seconds)
        if seconds < _SHORTEST:
            self.advance(_SHORTEST)

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` (0 or more) pass, on all its hands."""
        passed = _number("seconds", seconds)
        if passed < 0:
            raise LockArgumentError(
                f"seconds={seconds!r}: time does not go back. To set the wall clock back, call step_wall()"
            )
        with self._guard:
            self._monotonic += passed
            self._wall += passed

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forth by ``seconds``, or back where they are negative; no time passes."""
        step = _number("seconds", seconds)
        with self._guard:
            self._wall += step


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {value!r} ({type(value).__name__})")
    if not math.isfinite(value):
        raise LockArgumentError(f"{name}={value!r} is not a valid time: give a finite number of seconds")
    return float(value)
