"""The same contention in virtual time: python -m benchmarks.contention.virtual

The shipped core runs against a table in memory. Nothing waits, and equal code gives equal figures, on any machine and
at any load. A round trip takes 2 to 6 ms, and the clients take no CPU.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import sys
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any

from lambda_lock.core import acquire, keep
from lambda_lock.core.lease import ClockReading
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError
from lambda_lock.core.permit_queue import PermitPace, queue_for_permit
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Entropy, Resumption, Send, Wait
from lambda_lock.core.queue import Pace, Queue
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.schema import JAVA
from lambda_lock.testing.table import Table

from .judge import Run, judge
from .rows import SWEEP_HOLD, Row, rows

_NOW = 1_800_000_000.0  # epoch seconds at the start
_TRIP = (0.002, 0.006)  # seconds
_LEASE_MS = 100_000  # more than any hold
_LONG = 60.0, 800.0  # seconds of a run at least, and in holds
_MINUTE = 60.0
_SEMAPHORES = (Row(16, 0.02, 0, ()), Row(16, 0.3, 0, ()), Row(8, 3.0, 0, (), exponential=True))
MANY = Row(100, SWEEP_HOLD, 0, ())  # more than there are places
LONGER_WORK = "8 workers, 300 ms after 20 ms"
_WAIT = 100_000.0  # seconds; no wait ends
_PLACE = Place("locks", JAVA, "key", "k", None, None)

Steps = Generator[Send | Wait, Resumption, Any]


class World:
    """Workers that contend for one lock, or for the permits of a semaphore, in virtual time.

    seed: of the random numbers.
    """

    def __init__(self, row: Row, *, queue: bool, seed: int = 1, permits: int | None = None) -> None:
        self._row = row
        self._permits = permits
        self._queue = (queue_for_permit if permits else Queue) if queue else None
        self._rng = random.Random(seed)
        self._chance = Entropy(lambda: f"{self._rng.getrandbits(128):032x}", self._rng.random)
        self._table = Table("key", None)
        self._now = 0.0
        self._agenda: list[tuple[float, int, Steps, Send | None, Resumption | None]] = []
        self._numbers = itertools.count()
        self._workers = [{"waits": [], "writes": 0, "reads": 0, "removed": 0, "errors": []} for _ in range(row.workers)]

        self._of: dict[Steps, dict[str, Any]] = {}
        for number, worker in enumerate(self._workers):
            life = self._life(number, worker)
            self._of[life] = worker
            self._then(0.01 * self._rng.random(), life)

    def run(self) -> Run:
        return self.judged(0.0, max(_LONG[0], _LONG[1] * self._row.hold))

    def judged(self, start: float, end: float) -> Run:
        """Go on from ``start``, which is now, until ``end``, and judge that time."""
        for worker in self._workers:
            worker["writes"] = worker["reads"] = 0
        self.go_on(end)
        return judge({"start": start, "end": end, "workers": self._workers})

    def change(self, hold: float) -> None:
        """Let the holds that begin from now on last so long, in seconds."""
        self._row = replace(self._row, hold=hold)

    def go_on(self, end: float) -> int:
        """Go on until ``end``. Return how many requests that took."""
        requests = 0
        while self._agenda and self._agenda[0][0] <= end:
            self._now, _, life, sent, event = heapq.heappop(self._agenda)
            if sent is None:
                step = next(life) if event is None else life.send(Resumption(self._look(), event.outcome))
                if isinstance(step, Wait):
                    self._then(step.seconds, life, event=Resumption(self._look(), None))
                else:
                    requests += 1
                    self._of[life]["reads" if step.operation == "GetItem" else "writes"] += 1
                    self._then(self._half(), life, sent=step)
            else:
                self._then(self._half(), life, event=Resumption(self._look(), self._apply(sent)))
        return requests

    def _life(self, number: int, worker: dict[str, Any]) -> Steps:
        memory = ClientMemory(10)
        while True:
            row = self._row
            wait: list[Any] = [self._now, None, None, None, None]
            worker["waits"].append(wait)
            owner = f"worker-{number}#{self._chance.nonce()[:8]}"
            place = PermitPlace(_PLACE, self._permits, owner) if self._permits else _PLACE
            wanted = AcquireRequest(
                place, owner, _LEASE_MS, Content(ttl=60), wait_until=_WAIT, waits=True, queue=self._queue
            )
            hold = yield from acquire.acquire(wanted, Conversation(memory, self._chance, self._look()))
            wait[2], wait[4] = self._now, hold.token
            yield Wait(self._rng.expovariate(1 / row.hold) if row.exponential else row.hold)
            wait[3] = self._now
            yield from keep.release(hold, Conversation(memory, self._chance, self._look()))
            yield Wait(row.pause)

    def _apply(self, sent: Send) -> Reply | Exception:
        date = int(_NOW + self._now)
        try:
            return Reply(self._table.apply(sent.operation, sent.request), date)
        except (ConditionFailed, ServiceError) as refused:
            refused.date = date
            return refused

    def _look(self) -> ClockReading:
        return ClockReading(self._now, self._now, _NOW + self._now)

    def _half(self) -> float:
        return self._rng.uniform(*_TRIP) / 2

    def _then(self, seconds: float, life: Steps, *, sent: Send | None = None, event: Resumption | None = None) -> None:
        heapq.heappush(self._agenda, (self._now + max(seconds, 0.0), next(self._numbers), life, sent, event))


def line(row: Row) -> str:
    ours, poll = World(row, queue=True).run(), World(row, queue=False).run()
    holds = ours.longest / ((row.workers - 1) * row.hold)
    share = (row.hold + poll.idle) / (row.hold + ours.idle)
    cells = (
        f"{share:.3f}",
        f"{ours.idle * 1000:.1f}",
        f"{poll.idle * 1000:.1f}",
        f"{ours.longest:.2f}",
        f"{holds:.2f}",
        f"{ours.writes:.2f}",
        f"{ours.reads:.2f}",
        f"{ours.passed:.0%}",
    )
    return f"{row.title:<34}" + "".join(f"{cell:>10}" for cell in cells)


def long_holds(waiters: int, *, queue: bool) -> list[float]:
    """Requests a second and waiter while the lock is held for a minute: for the first hold, and for a second one,
    whose length the first lets waiters expect."""
    world = World(Row(waiters + 1, _MINUTE, 0, (), pause=0.02), queue=queue)
    return [world.go_on(end) / _MINUTE / waiters for end in (_MINUTE, 2 * _MINUTE)]


def longer_work() -> tuple[float, float]:
    """Requests of a grant and the longest wait, in seconds, in the 10 s after holds grew from 20 to 300 ms."""
    grants, requests, longest = 0, 0.0, 0.0
    for seed in range(1, 19):  # six differ from six others by half a request
        world = World(Row(8, 0.02, 0, ()), queue=True, seed=seed)
        world.go_on(10.0)
        world.change(0.3)
        run = world.judged(10.0, 20.0)
        grants, requests = grants + run.grants, requests + run.grants * (run.writes + run.reads)
        longest = max(longest, run.longest)
    return requests / grants, longest


def constants() -> None:
    """What each number of the pace is for: the figures with it, and with half and twice of it."""
    print(_cells("idle ms / requests of a grant", ("20 ms", "even", "uneven", "minute", "expected")))
    _vary(Pace, _of_locks)
    print(_cells("grants a second / requests of a grant, of 4 permits", [f"{row.hold:g} s" for row in _SEMAPHORES]))
    _vary(PermitPace, _of_permits)


def _vary(pace: type[Pace], figures: Callable[[], list[str]]) -> None:
    print(_cells("as it is", figures()), flush=True)
    for name in (name for name in vars(pace) if name.isupper()):
        before = getattr(pace, name)
        for factor in (0.5, 2.0):
            setattr(pace, name, before * factor)
            print(_cells(f"{name} x {factor:g}", figures()), flush=True)
        setattr(pace, name, before)


def _of_locks() -> list[str]:
    rows = Row(8, 0.02, 0, ()), Row(8, 0.3, 0, ()), Row(8, 0.3, 0, (), exponential=True)
    runs = [World(row, queue=True).run() for row in rows]
    cells = [f"{run.idle * 1000:.1f} / {run.writes + run.reads:.1f}" for run in runs]
    return cells + [f"{figure:.2f}" for figure in long_holds(1, queue=True)]


def _of_permits() -> list[str]:
    runs = [World(row, queue=True, permits=4).run() for row in _SEMAPHORES]
    return [f"{run.per_second:.2f} / {run.writes + run.reads:.1f}" for run in runs]


def _cells(title: str, cells: Iterable[str]) -> str:
    return f"{title:<52}" + "".join(f"{cell:>14}" for cell in cells)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contention.virtual", description=__doc__)
    parser.add_argument("--only", default="", help="only rows whose title contains this, such as '8 workers, 20 ms'")
    parser.add_argument("--constants", action="store_true", help="what each number of the pace is for")
    arguments = parser.parse_args()
    if arguments.constants:
        constants()
        return 0
    print(f"{'requests a second and waiter':<34}" + "".join(f"{one:>10}" for one in ("unknown", "expected")))
    for waiters, queue in itertools.product((1, 4, 16), (True, False)):
        title = f"{waiters} wait out a minute" + ("" if queue else ", polling")
        cells = [f"{figure:.2f}" for figure in long_holds(waiters, queue=queue)]
        print(f"{title:<34}" + "".join(f"{cell:>10}" for cell in cells), flush=True)
    requests, longest = longer_work()
    print(f"{LONGER_WORK:<34}{requests:>10.2f} requests of a grant, longest wait {longest:.2f} s", flush=True)
    head = ("share", "idle ms", "polling", "longest s", "in holds", "writes", "reads", "passed")
    print(f"{'':<34}" + "".join(f"{one:>10}" for one in head))
    for row in (*rows(), MANY):
        if arguments.only in row.title:
            print(line(row), flush=True)
    print(
        "\nShare: of the throughput with queue=False. Idle: nobody holds the lock, from release to grant; polling: with"
        "\nqueue=False. In holds: the longest wait in (N - 1) holds. Writes and reads of a grant. Passed: grants for"
        "\nwhich somebody waited who had asked earlier."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
