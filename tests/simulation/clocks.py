"""The clocks of one process, as functions of true time. Each has its own rate and may stop in a freeze. The wall clock
may be stepped.

The assumption of docs/safety-assumptions.md about looks is kept here: between two looks at least one clock neither
stopped nor was stepped back.

How fast clocks may run: both sides allow for DRIFT (core/lease.py), each against true time. A holder on a clock that is
slow by d trusts a lease L for ``L * (1 - DRIFT) / (1 - d)``, and a waiter on one that is fast by d waits for
``L * (1 + DRIFT) / (1 + d)``. The first is below L and the second above it for each d below DRIFT. So two clients of
ours may differ by up to 2 * DRIFT: clocks are off by up to 900 ppm here, either way. Dates are true time.

Another library allows for nothing: it trusts and waits for ``L / (1 ± d)``. Beside one of them, only our own allowance
is left for both clocks, so all rates must be within DRIFT of each other: off by up to 499 ppm.

If clocks drift further than that, by d, two holders may overlap for ``2 * (d - DRIFT) * L``. Everything that DynamoDB
decides must hold all the same: tokens rise, a commit writes only while the row is its holder's, an adoption is granted
once, a release says the truth, and nobody waits for ever.
"""

import random

EPOCH = 1_800_000_000.0  # true time 0 as epoch seconds
DATES = 1.25  # seconds after an expiry until every front end's Date, truncated to whole seconds, has reached it
MONOTONIC, BOOTTIME, WALL = ALL = (0, 1, 2)
NAMES = ("monotonic", "boottime", "wall")


class Clocks:
    """``drift``: how far each rate may be from 1, in ppm.
    ``unwatched``: whether the assumption about looks is broken too, to show why it is needed."""

    def __init__(
        self, rng: random.Random, now: float, offset: float, extreme: bool, unwatched: bool, drift: float
    ) -> None:
        sides = (-drift / 1e6, drift / 1e6)
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
        """The rate of the monotonic clock, by which a process sleeps."""
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
        """Freeze: ``which`` clocks stop. If that would spoil all, only spoiled ones stop. Return those that stopped."""
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
