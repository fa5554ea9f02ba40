"""The clocks of this process, and the one timeline that validities are counted on.

Every look adds the largest advance that any clock shows (core/lease.py says why), so the more looks the better: one
timeline serves all clients that use the system's clocks.
"""

from __future__ import annotations

import time

from ..core.lease import Elapsed, Look

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
    """Looks at one clock, from any thread, and without a lock: a signal handler, a finalizer or a forked child may look
    while another look is under way.

    Of two looks at once one is kept for later looks to go on from. The other is right by itself, and dropping it does
    no harm: the next look adds the largest advance since the one that was kept.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._latest = Elapsed(*self._clocks())

    def _clocks(self) -> tuple[float, float, float]:
        return self.clock.monotonic(), self.clock.boottime(), self.clock.wall()

    def look(self) -> Look:
        before = self._latest  # read first: clocks read before it could be older than it is, and hide a freeze
        monotonic, boottime, wall = self._clocks()
        now = before.after(monotonic, boottime, wall)
        if self._latest is before:  # else a later look may be there, which an older one must not replace
            self._latest = now
        return Look(now.total, monotonic, wall)

    def elapsed(self) -> float:
        """Seconds on this timeline: never behind true time as long as one clock goes on."""
        return self.look().elapsed


SYSTEM = Timeline(SystemClock())
elapsed = SYSTEM.elapsed
