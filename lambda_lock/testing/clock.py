"""ManualClock: a clock that you move by hand."""

from __future__ import annotations

import math
import threading
import time

from ..client import checks
from ..errors import LockArgumentError

_STARTED = 1_000.0  # seconds that the machine has been up; the number does not matter
_SHORTEST = 1e-6  # seconds: a shorter sleep would be lost in rounding, so code that sleeps until a moment would hang


class ManualClock:
    """A clock that stands still until you move it. Use it as ``LockClient(clock=…)`` and ``in_memory(clock=…)``.

        clock = ManualClock()
        with in_memory(clock=clock), LockClient(clock=clock) as client:
            lock = client.acquire("order#42")
            clock.advance(60)       # the lease is over

    wall: the epoch seconds at which it starts; None: the machine's current time, in whole seconds.

    Sleeping on it does not take any time: `sleep` moves the clock on and returns. So two threads that sleep at the same
    time move it on by the sum of their sleeps. It may be used from any thread.

    Raises TypeError for a value that is not a number, and LockArgumentError for one that is not finite.
    """

    def __init__(self, wall: float | None = None) -> None:
        self._wall = float(int(time.time())) if wall is None else _number("wall", wall)
        self._monotonic = _STARTED
        self._guard = threading.Lock()

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment. `step_wall` does not change them."""
        return self._monotonic

    def boottime(self) -> float:
        """The same as `monotonic`, because this machine is never suspended."""
        return self._monotonic

    def wall(self) -> float:
        """Epoch seconds."""
        return self._wall

    def sleep(self, seconds: float) -> None:
        """Move the clock on by ``seconds``, 0 or more, and return at once. It moves by at least a microsecond.

        Raises LockArgumentError or TypeError for bad input.
        """
        self.advance(seconds)
        if seconds < _SHORTEST:
            self.advance(_SHORTEST)

    def advance(self, seconds: float) -> None:
        """Let ``seconds``, 0 or more, pass on the wall clock and on the monotonic clocks.

        Raises LockArgumentError or TypeError for bad input.

        Example: ``clock.advance(60)``
        """
        passed = _number("seconds", seconds)
        if passed < 0:
            raise LockArgumentError(
                f"seconds={seconds!r}: time does not go back. To set the wall clock back, call step_wall()"
            )
        with self._guard:
            self._monotonic += passed
            self._wall += passed

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward by ``seconds``, or back if they are negative. No time passes.

        Raises LockArgumentError or TypeError for bad input.

        Example: ``clock.step_wall(-120)``
        """
        step = _number("seconds", seconds)
        with self._guard:
            self._wall += step


def _number(name: str, value: object) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise LockArgumentError(f"{name}={value!r} is not a valid time: pass a finite number of seconds")
    return checks.seconds(name, value, least=-math.inf, most=math.inf)
