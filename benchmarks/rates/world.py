"""Callers who start things, in virtual time, on a table in memory. Equal code gives equal figures on any machine."""

from __future__ import annotations

import heapq
import itertools
import random
from typing import TYPE_CHECKING, Any

from lambda_lock.core.lease import ClockReading, backoff
from lambda_lock.core.outcome import ConditionFailed, Reply
from lambda_lock.core.protocol import ClientMemory, Entropy, Resumption, Send
from lambda_lock.testing.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

_NOW = 1_800_000_000.0  # epoch seconds at the start
_TRIP = (0.004, 0.012)  # seconds
CALLERS, WANTED, SECONDS = 60, 8.8, 300.0  # starts a second that all together want


class Caller:
    """One process, with the clock of the world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memory = ClientMemory(10)
        self.entropy = Entropy(lambda: f"{world.rng.getrandbits(128):032x}", world.rng.random)

    def now(self) -> float:
        return _NOW + self.world.now

    def look(self) -> ClockReading:
        return ClockReading(self.world.now, self.world.now, self.now())

    def backoff(self, tries: int) -> float:
        return backoff(tries, 1.0, self.entropy.jitter())


class World:
    """A run. starts: when something started. waits: how long that had waited. requests: how many were sent."""

    def __init__(self, way: Callable[[Caller], Any], wanted: float = WANTED, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.starts: list[float] = []
        self.waits: list[float] = []
        self.open: dict[int, float] = {}
        self.requests = 0
        self._table = Table("key", None)
        self._agenda: list[tuple[float, int, Any, Any]] = []
        self._numbers = itertools.count()
        self._pause = CALLERS / wanted
        for number in range(CALLERS):
            self._then(self.rng.uniform(0, self._pause), self._life(number, way), None)

    def run(self, seconds: float = SECONDS) -> World:
        while self._agenda and self._agenda[0][0] <= seconds:
            self.now, _, life, event = heapq.heappop(self._agenda)
            if isinstance(event, Send):
                self._then(self._half(), life, self._apply(event))
                continue
            step = (
                next(life)
                if event is None
                else life.send(Resumption(ClockReading(self.now, self.now, _NOW + self.now), event))
            )
            if isinstance(step, Send):
                self.requests += 1
                self._then(self._half(), life, step)
            else:
                self._then(step.seconds, life, "woken")
        return self

    def longest(self) -> float:
        """The longest wait, also of those that had not ended."""
        return max([*self.waits, *(self.now - since for since in self.open.values())])

    def most(self) -> int:
        """The most starts in any second."""
        first = worst = 0
        for last, at in enumerate(self.starts):
            while at - self.starts[first] >= 1:
                first += 1
            worst = max(worst, last - first + 1)
        return worst

    def _life(self, number: int, way: Callable[[Caller], Any]) -> Any:
        from lambda_lock.core.protocol import Wait

        caller = Caller(self)
        while True:
            self.open[number] = self.now
            yield from way(caller)
            self.starts.append(self.now)
            self.waits.append(self.now - self.open.pop(number))
            yield Wait(self.rng.expovariate(1 / self._pause))

    def _apply(self, sent: Send) -> Any:
        try:
            return Reply(self._table.apply(sent.operation, sent.request), int(_NOW + self.now))
        except ConditionFailed as refused:
            refused.date = int(_NOW + self.now)
            return refused

    def _half(self) -> float:
        return self.rng.uniform(*_TRIP) / 2

    def _then(self, seconds: float, life: Any, event: Any) -> None:
        heapq.heappush(self._agenda, (self.now + seconds, next(self._numbers), life, event))
