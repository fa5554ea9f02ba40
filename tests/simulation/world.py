"""A discrete-event world in virtual true time: processes with their own clocks, a network, and one table.

A `Task` is a generator that yields what the protocol's generators yield (Send, Wait), so a client's life is written
with ``yield from acquire.acquire(...)``. This is the shipped code, driven as a thread or a task would drive it. All
randomness comes from one seed, so a run can be repeated event for event.
"""

from __future__ import annotations

import heapq
import random
import traceback
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from lambda_lock.core import lease
from lambda_lock.core.protocol import Entropy, Resumption, Send, Wait
from lambda_lock.testing.table import Table

from .clocks import ALL, EPOCH, NAMES, Clocks
from .schedule import Settings, draw_skew

MAX_EVENTS = 1_000_000  # of a run; more would mean an endless loop. One of 265,000 runs needed more than 150,000

T = TypeVar("T")
Steps = Generator[Send | Wait, Resumption, T]
Life = Steps[None]


class GivenUp(BaseException):
    """Thrown into a waiting task, like KeyboardInterrupt, a cancelled task or a closed client."""


class EndlessError(Exception):
    """The run did not end."""


class World:
    """One run."""

    def __init__(self, rng: random.Random, settings: Settings, trace: Callable[[str], None] | None = None) -> None:
        # What is in these needs a world itself.
        from .events import Events
        from .judge import Judge
        from .network import Network
        from .permits import PermitJudge
        from .rates import RateJudge

        self.rng = rng
        self.settings = settings
        self.now = 0.0
        self.table = Table()
        self.counts: Counter[str] = Counter()
        self.permits = 0  # N, if all keys are semaphores
        self.weighs = False  # whether callers take more than one of them
        judge = RateJudge if settings.rates else PermitJudge if settings.permits else Judge
        self.judge: Judge = judge(self)
        self.network = Network(self)
        self.entropy = Entropy(lambda: f"{self.rng.getrandbits(128):032x}", self.rng.random)
        self.processes: list[Process] = []
        self.clients: list[Any] = []  # ours, including dead ones
        self.deletes = False  # whether every release deletes its row
        self.keeps = True  # whether all clients keep rows and tokens, as commits assume (docs/transactions.md)
        self.scale = 10.0  # seconds: the order of magnitude of the leases in this run
        self.events = Events(self, [])
        self._trace = trace
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, call, arguments))

    def run(self) -> None:
        """Run until nothing is left to happen."""
        events = self._events
        for _ in range(MAX_EVENTS):
            if not events:
                return
            self.now, _, call, arguments = heapq.heappop(events)
            call(*arguments)
        raise EndlessError(f"more than {MAX_EVENTS} events, at {self.now:.1f} s")

    @property
    def traced(self) -> bool:
        return self._trace is not None

    def trace(self, who: str, what: str) -> None:
        if self._trace is not None:
            self._trace(f"{self.now:12.3f}  {who:<10} {what}")


class Process:
    """Clocks, and tasks that share them. While frozen, it does nothing. Once dead, it never does anything again."""

    def __init__(self, world: World, name: str, skew: str = "right", steady: bool = False, clocks: Any = None) -> None:
        rng, settings = world.rng, world.settings
        self.world = world
        self.name = name
        self.steady = steady  # its clocks neither stop nor step: a foreign client goes by its monotonic clock alone
        if clocks is None:
            offset, is_extreme = draw_skew(rng, skew), rng.random() < settings.extreme_rates
            clocks = Clocks(rng, world.now, offset, is_extreme, settings.unwatched, settings.drift)
        self.clocks = clocks
        monotonic, boottime, wall = self.clocks.read(world.now)
        self._latest = lease.ClockReading(0.0, monotonic, wall, boottime)
        self.spared = False  # by the faults of the network
        self.dead = False
        self.frozen = False
        self.faulted = world.now  # the true time at which the last fault of this process was over
        self.holdings: list[Any] = []  # the current Holdings (see judge.py)
        self._pending: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        world.processes.append(self)
        if world.traced:
            off = self.clocks.read(world.now)[2] - EPOCH - world.now
            world.trace(name, f"begins, its clock is {off:+.3f} s off")

    def start(self, life: Life) -> Task:
        task = Task(self, life)
        self.world.at(self.world.now, self.call, task.resume, 0, None)
        return task

    # -- clocks

    def reading(self) -> lease.ClockReading:
        monotonic, boottime, wall = self.clocks.read(self.world.now)
        self.clocks.looked()
        self._latest = reading = self._latest.after(monotonic, boottime, wall)
        if self.holdings:
            self.world.judge.looked(self, reading.elapsed)
        return reading

    def peek(self) -> float:
        """Return the elapsed time that a look would show now."""
        return self._latest.after(*self.clocks.read(self.world.now)).elapsed

    def monotonic(self) -> float:
        return self.clocks.read(self.world.now)[0]

    # -- faults

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Let the process do something now, when it thaws, or never."""
        if self.dead:
            return
        if self.frozen:
            self._pending.append((function, arguments))
        else:
            function(*arguments)

    def freeze(self, seconds: float, stopped: set[int]) -> None:
        if self.dead or self.frozen:
            return
        world = self.world
        if self.steady:
            stopped = set()
        stopped = self.clocks.stop(world.now, stopped)
        self.frozen = True
        world.counts["freezes"] += 1
        if world.traced:
            clocks = ", ".join(NAMES[clock] for clock in sorted(stopped)) or "no clock"
            world.trace(self.name, f"freezes for {seconds:.3f} s; {clocks} stopped")
        world.at(world.now + seconds, self.thaw)

    def thaw(self) -> None:
        self.clocks.go(self.world.now)
        self.frozen = False
        self.faulted = max(self.faulted, self.world.now)
        if self.dead:
            return
        self.world.trace(self.name, "thaws")
        self.world.judge.thawed(self)
        pending, self._pending = self._pending, []
        for index, (function, arguments) in enumerate(pending):
            if self.frozen:  # again, by one of them
                self._pending += pending[index:]
                return
            self.call(function, *arguments)

    def maybe_freeze(self) -> None:
        """Freeze with the run's probability, for anything from a moment to several leases."""
        rng = self.world.rng
        if rng.random() >= self.world.settings.freeze:
            return
        seconds = 10 ** rng.uniform(-1.5, 1) if rng.random() < 0.5 else self.world.scale * rng.uniform(0.1, 2.5)
        self.freeze(seconds, {clock for clock in ALL if rng.random() < 0.6})

    def maybe_step(self) -> None:
        rng = self.world.rng
        if self.steady or rng.random() >= self.world.settings.step:
            return
        seconds = rng.choice((-1, 1)) * 10 ** rng.uniform(-0.5, 2.5)
        if self.clocks.step(self.world.now, seconds):
            self.faulted = max(self.faulted, self.world.now)
            self.world.counts["steps"] += 1
            self.world.trace(self.name, f"wall clock stepped by {seconds:+.3f} s")

    def die(self) -> None:
        self.dead = True
        self.world.counts["deaths"] += 1
        self.world.trace(self.name, "dies")


class Task:
    """One line of execution in a process."""

    __slots__ = ("_serial", "done", "life", "process", "watcher")

    def __init__(self, process: Process, life: Life) -> None:
        self.process = process
        self.life = life
        self.done = False
        self.watcher: Any = None  # while set, it is told of each event
        self._serial = 0

    def resume(self, serial: int, outcome: Any) -> None:
        """Take the answer to action number ``serial``. It is dropped if something else has come first."""
        if serial != self._serial or self.done:
            return
        event = Resumption(self.process.reading(), outcome)
        if self.watcher is not None:
            self.watcher.woke(outcome)
        self._go(self.life.send, event if serial else None)

    def interrupt(self, when: Callable[[], bool]) -> None:
        """Throw GivenUp into the task, if ``when`` holds by then."""
        if not self.done and self._serial and when():
            self.process.world.trace(self.process.name, "gives up")
            self.process.world.counts["given up"] += 1
            self.process.faulted = max(self.process.faulted, self.process.world.now)
            if self.watcher is not None:
                self.watcher.interrupted()
            self._go(self.life.throw, GivenUp())

    def _go(self, step: Callable[[Any], Send | Wait], argument: Any) -> None:
        process = self.process
        world = process.world
        try:
            action = step(argument)
        except StopIteration:
            self.done = True
            return
        except Exception as error:  # noqa: BLE001 - what a life does not expect is a failure of the code under proof
            self.done = True
            world.judge.fail("escaped", f"{process.name}: {''.join(traceback.format_exception(error)[-3:])}")
            return
        self._serial += 1
        if process.dead:
            return
        process.maybe_step()
        process.maybe_freeze()
        if isinstance(action, Wait):
            world.at(world.now + action.seconds / process.clocks.rate, process.call, self.resume, self._serial, None)
        else:
            # The process may freeze between the look that the request is based on and its departure.
            process.call(world.network.send, self, self._serial, action)
