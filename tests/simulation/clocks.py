"""The clocks of one process, as functions of true time. Each has its own rate and may stop in a freeze. The wall clock
may be stepped.

The assumptions of DESIGN section 4 are kept here: all rates are within DRIFT of each other, and between two looks at
least one clock neither stopped nor was stepped back.
"""

from __future__ import annotations

import random

from lambda_lock.core.lease import DRIFT

EPOCH = 1_800_000_000.0  # true time 0 as epoch seconds
MONOTONIC, BOOTTIME, WALL = ALL = (0, 1, 2)
NAMES = ("monotonic", "boottime", "wall")
_SPREAD = 0.499 * DRIFT  # how far a rate may be from 1, so that two rates differ by less than DRIFT


class Clocks:
    """``unwatched``: whether the assumption about looks is broken too, to show why it is needed."""

    def __init__(self, rng: random.Random, now: float, offset: float, extreme: bool, unwatched: bool) -> None:
        sides = (-_SPREAD, _SPREAD)
        self._rates = [1 + (rng.choice(sides) if extreme else rng.uniform(*sides)) for _ in ALL]
        if extreme and rng.random() < 0.7:
            self._rates = [self._rates[0]] * 3  # one oscillator for all of them
        uptime = rng.uniform(1, 1e5)
        self._values = [uptime, uptime, EPOCH + now + offset]
        self._at = now
        self._stopped: set[int] = set()
        self._spoiled: set[int] = set()  # stopped or stepped back since the last look
        self._unwatched = unwatched

    @property
    def rate(self) -> float:
        """The monotonic clock's reading, by which a process sleeps."""
        return self._rates[MONOTONIC]

    def read(self, now: float) -> tuple[float, float, float]:
        passed = now - self._at
        if self._stopped:
            self._advance(now)
            passed = 0.0
        (monotonic, boottime, wall), (r0, r1, r2) = self._values, self._rates
        return monotonic + passed * r0, boottime + passed * r1, wall + passed * r2

    def looked(self) -> None:
        if self._spoiled:
            self._spoiled = set(self._stopped)

    def stop(self, now: float, which: set[int]) -> set[int]:
        """Freeze: ``which`` clocks stop, except one if the assumption requires it. Return those that stopped."""
        self._advance(now)
        if len(self._spoiled | which) == len(ALL) and not (self._unwatched and len(which) < len(ALL)):
            which = which & self._spoiled
        self._stopped = which
        self._spoiled |= which
        return which

    def go(self, now: float) -> None:
        self._advance(now)
        self._stopped = set()

    def step(self, now: float, seconds: float) -> bool:
        """Step the wall clock. Return whether that was done."""
        self._advance(now)
        if seconds < 0:
            others_stop = self._stopped >= {MONOTONIC, BOOTTIME}
            if others_stop or (not self._unwatched and len(self._spoiled | {WALL}) == len(ALL)):
                return False
            self._spoiled.add(WALL)
        self._values[WALL] += seconds
        return True

    def _advance(self, now: float) -> None:
        passed = now - self._at
        for clock in ALL:
            if clock not in self._stopped:
                self._values[clock] += passed * self._rates[clock]
        self._at = now
