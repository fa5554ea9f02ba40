"""The clocks of this process, and the timeline on which validity is counted.

Every look adds the largest advance that any clock shows; core/lease.py says why. More looks make the timeline better,
so all clients that use the system's clocks share one timeline.
"""

from __future__ import annotations

import functools  # the Lambda runtime has it loaded
import time

from ..core.lease import ClockReading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """The clock that a client needs; all values are in seconds. Tests pass lambda_lock.testing.ManualClock."""

        def monotonic(self) -> float: ...
        def boottime(self) -> float: ...
        def wall(self) -> float: ...
        def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    sleep = staticmethod(time.sleep)

    if hasattr(time, "CLOCK_BOOTTIME"):  # Linux: this clock keeps running while the machine is suspended
        boottime = staticmethod(functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME))

    else:
        boottime = staticmethod(time.monotonic)


class Timeline:
    """Looks at one clock, from any thread. It uses no lock, because a signal handler, a finalizer or a forked child may
    look while another look is under way.

    Of two simultaneous looks, one is kept. Dropping the other does no harm: the next look adds the largest advance
    since the one that was kept.

    latest: the one that was kept last. Steps begin and go on with a look, so a request is signed with this one.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.latest = ClockReading(0.0, clock.monotonic(), clock.wall(), clock.boottime())

    def reading(self) -> ClockReading:
        before = self.latest  # read before the clocks: clocks older than this look could hide a freeze
        clock = self.clock
        now = before.after(clock.monotonic(), clock.boottime(), clock.wall())
        if self.latest is before:  # otherwise a later look may be stored, and an older one must not replace it
            self.latest = now
        return now

    def elapsed(self) -> float:
        """Return the seconds on this timeline. It never lags behind true time as long as one clock runs."""
        return self.reading().elapsed


SYSTEM = Timeline(SystemClock())
elapsed = SYSTEM.elapsed
