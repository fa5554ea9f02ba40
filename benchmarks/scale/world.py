"""A simulated table, its limits, and clients in virtual time. What clients send is judged by the limits, and counted.

A client's life is a generator. It yields what the protocol's generators yield: `Wait`, and `Send` with a real request.
The in-memory table of lambda_lock.testing carries requests out. An older client's life yields an `Ask` instead.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from lambda_lock.core.lease import ClockReading
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError
from lambda_lock.core.protocol import Entropy, Resumption, Send, Wait
from lambda_lock.testing.table import Table

if TYPE_CHECKING:
    from lambda_lock.core.outcome import Outcome

EPOCH = 1_800_000_000.0  # the start, in epoch seconds
HOP = (0.001, 0.003)  # seconds, one way
# What one partition serves in a second. Source: DynamoDB Developer Guide, "Designing partition keys to distribute your
# workload".
READS, WRITES = 3000, 1000
BIN = 0.1  # seconds

#: A request of an older client: whether it writes, and what it does to the table. Returns what it shows.
Ask: TypeAlias = tuple[bool, Callable[[], Any]]
Life: TypeAlias = Generator[Any, Any, None]
REFUSED = object()  # answers an Ask: DynamoDB throttles, or is not available


class Bucket:
    """What a partition serves: so many units a second, and at most one second's units at once."""

    def __init__(self, rate: float) -> None:
        self._rate = self._left = rate
        self._at = 0.0

    def take(self, now: float) -> bool:
        self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class World:
    """One run.

    reads, writes: what the table serves in a second. down: from when to when nothing is served, in seconds.
    """

    def __init__(
        self, seed: int, *, reads: float = READS, writes: float = WRITES, down: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.table = Table()
        self.entropy = Entropy(lambda: f"{self.rng.getrandbits(128):032x}", self.rng.random)
        self.sent: list[list[int]] = []  # reads and writes in each BIN, refused ones included
        self.served = [0, 0]  # reads, writes
        self.refused = [0, 0]
        self.waits: list[float] = []
        self.granted_at: list[float] = []
        self.failed: dict[str, int] = {}
        self._buckets = (Bucket(reads), Bucket(writes))
        self._down = down
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def reading(self) -> ClockReading:
        return ClockReading(self.now, self.now, EPOCH + self.now)

    def start(self, when: float, life: Life) -> None:
        self._at(when, self._resume, life, None)

    def run(self, until: float) -> None:
        """Let happen what happens before ``until``."""
        while self._events and self._events[0][0] < until:
            self.now, _, call, arguments = heapq.heappop(self._events)
            call(*arguments)

    def granted(self, waited: float) -> None:
        self.waits.append(waited)
        self.granted_at.append(self.now)

    def fail(self, error: str) -> None:
        self.failed[error] = self.failed.get(error, 0) + 1

    def _at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, call, arguments))

    def _resume(self, life: Life, answer: Any) -> None:
        try:
            action = life.send(answer)
        except StopIteration:
            return
        if isinstance(action, Wait):
            self._at(self.now + action.seconds, self._wake, life)
        else:
            self._at(self.now + self.rng.uniform(*HOP), self._arrive, life, action)

    def _wake(self, life: Life) -> None:
        self._resume(life, Resumption(self.reading(), None))

    def _arrive(self, life: Life, action: Send | Ask) -> None:
        writes = action.operation != "GetItem" if isinstance(action, Send) else action[0]
        served = self._serves(writes)
        answer = self._carry_out(action, served) if isinstance(action, Send) else action[1]() if served else REFUSED
        self._at(self.now + self.rng.uniform(*HOP), self._answer, life, action, answer)

    def _answer(self, life: Life, action: Send | Ask, answer: Any) -> None:
        self._resume(life, Resumption(self.reading(), answer) if isinstance(action, Send) else answer)

    def _serves(self, writes: bool) -> bool:
        number = int(self.now / BIN)
        while len(self.sent) <= number:
            self.sent.append([0, 0])
        self.sent[number][writes] += 1
        down = self._down[0] <= self.now < self._down[1]
        served = not down and self._buckets[writes].take(self.now)
        (self.served if served else self.refused)[writes] += 1
        return served

    def _carry_out(self, action: Send, served: bool) -> Outcome:
        date = int(EPOCH + self.now)
        if not served:
            down = self._down[0] <= self.now < self._down[1]
            return ServiceError("ServiceUnavailable" if down else "ThrottlingException", "", True, date)
        try:
            return Reply(self.table.apply(action.operation, action.request), date)
        except ConditionFailed as refused:
            refused.date = date
            return refused
