"""Clocks for clients under test: one that is wrong, one that leaps over pauses, and one that stands still."""

import time

from lambda_lock.runtime.timeline import SystemClock


class SkewedClock(SystemClock):
    """The machine's clocks, but the wall clock is off by the given number of seconds."""

    def __init__(self, off: float) -> None:
        self.off = off

    def wall(self) -> float:
        return time.time() + self.off


class LeapingClock(SystemClock):
    """The machine's clocks, but sleeping takes no time. It moves the clocks forward instead."""

    def __init__(self) -> None:
        self.leapt = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.leapt

    boottime = monotonic

    def wall(self) -> float:
        return time.time() + self.leapt

    def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.leapt += seconds


class StandingClock(SystemClock):
    """Clocks that stand still until they are moved forward. Sleeping moves them forward too.

    A sleep lasts a little longer than asked, as any real one does. Otherwise a rest that is lost in rounding would
    never end, and be slept again and again.
    """

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.started = time.time()

    def monotonic(self) -> float:
        return self.now

    boottime = monotonic

    def wall(self) -> float:
        return self.started + self.now - 1_000_000.0

    def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.now += seconds + 1e-6
