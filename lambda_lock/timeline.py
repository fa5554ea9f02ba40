"""The clocks of this process, and the one timeline that validities are counted on.

Every look adds the largest advance that any clock shows (core/lease.py says why), so the more looks the better: one
timeline serves all clients that use the system's clocks.
"""

from __future__ import annotations

import os
import threading
import time

from .core.lease import Elapsed, Look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """What a client needs of a clock; seconds each. Tests pass lambda_lock.testing.ManualClock."""

        def monotonic(self) -> float: ...
        def boottime(self) -> float: ...
        def wall(self) -> float: ...
        def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    sleep = staticmethod(time.sleep)

    if hasattr(time, "CLOCK_BOOTTIME"):  # Linux: goes on while the machine is suspended

        @staticmethod
        def boottime() -> float:
            return time.clock_gettime(time.CLOCK_BOOTTIME)

    else:
        boottime = staticmethod(time.monotonic)


class Timeline:
    """Looks at one clock, from any thread."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.renew_lock()
        self._elapsed = Elapsed(*self._clocks())

    def renew_lock(self) -> None:
        """In a forked child: the parent's lock may have been held by a thread that does not exist here."""
        self._lock = threading.Lock()

    def _clocks(self) -> tuple[float, float, float]:
        return self.clock.monotonic(), self.clock.boottime(), self.clock.wall()

    def look(self) -> Look:
        with self._lock:
            monotonic, boottime, wall = self._clocks()
            return Look(self._elapsed.look(monotonic, boottime, wall), monotonic, wall)

    def elapsed(self) -> float:
        """Seconds on this timeline: never behind true time as long as one clock goes on."""
        return self.look().elapsed


SYSTEM = Timeline(SystemClock())
elapsed = SYSTEM.elapsed
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SYSTEM.renew_lock)
