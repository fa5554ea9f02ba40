"""Runs: one from a seed, or many with their totals."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import random
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from lambda_lock.core import acquire, protocol
from lambda_lock.core.permit_queue import queue_for_permit
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, Conversation
from lambda_lock.core.queue import LONGEST_NAP, Queue
from lambda_lock.core.requests import Content
from lambda_lock.core.row import LONGEST_BELIEVED, read_row, ticket_expiry, ticket_take
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import DuplicateEventError
from tests.prove import bench

from .clients import Client
from .clocks import DATES, EPOCH
from .errands import Waiter
from .events import Events
from .foreign import ForeignClient
from .forger import begin
from .holds import Execution
from .items import by_attempt, place_of
from .mutations import MUTATIONS, broken
from .rates import RateClient, start_once_more
from .schedule import BIASES, WEIGHTS, Settings, draw_bias, draw_lease, settings_for
from .world import EndlessError, Life, Process, World

T = TypeVar("T")
MORE = 10  # failed runs that are printed
_SLICE = 1.0  # seconds that a bias gets in a round, on average
_MOST_IN_A_SLICE = 10_000  # runs
FAULTS = (
    "lost", "reply_lost", "double", "late", "failed_after", "failed_before", "throttled", "unsent", "slow", "step",
    "freeze")  # fmt: skip


@dataclass
class Result:
    """The result of one run. failures: the first message of each kind. rule: that was broken."""

    seed: int
    bias: str
    failures: dict[str, str]
    counts: Counter[str]
    command: str = "-m tests.simulation --bias"
    rule: str | None = None

    def __str__(self) -> str:
        lines = [f"  {kind}: {message}" for kind, message in self.failures.items()]
        run = f"python {self.command} {shlex.quote(self.bias)} --seed {self.seed}"
        if self.rule:
            run += f" --broken {shlex.quote(self.rule)}"
        commands = f"  replay: {run} --trace", f"  the least: {run} --shrink"
        return "\n".join([f"seed {self.seed} ({self.bias}):", *lines, *commands])


def simulate(
    seed: int,
    bias: str | None = None,
    trace: Callable[[str], None] | None = None,
    draws: Callable[[int], random.Random] = random.Random,
    changes: Mapping[str, Any] | None = None,
    observe: Callable[[World], None] | None = None,
) -> Result:
    """Run once. The same seed and bias give the same run.

    For shrink.py: draws makes the randomness of a seed, changes are those of the settings, observe gets the world.
    """
    rng = draws(seed)
    drawn = draw_bias(rng)
    settings = settings_for(bias or drawn)
    _vary(rng, settings)
    for name, value in (changes or {}).items():
        setattr(settings, name, value)
    world = World(draws(seed), settings, trace)
    if observe:
        observe(world)
    kind = rng.choice(settings.leases)
    world.scale = draw_lease(rng, kind)
    if settings.permits:
        world.permits = rng.choice(settings.permits)
        world.weighs = rng.random() < settings.weights
    world.deletes = rng.random() < settings.delete_all
    world.keeps = not (world.deletes or settings.foreign or rng.random() < settings.delete_some)
    keys = list("abcd")[: rng.choice(settings.keys)]
    world.events = Events(world, keys)
    for key in keys:
        begin(world, key)
    for _ in range(rng.choice(settings.clients)):
        world.counts["processes"] += 1
        (RateClient if settings.rates else Client)(world, f"p{world.counts['processes']}", keys, kind)
    for _ in range(rng.choice(settings.executions)):
        Execution(world, keys, kind)
    clocks = None
    for number in range(settings.foreign):
        clocks = ForeignClient(world, f"java{number + 1}", keys, kind, clocks).process.clocks
    gc.disable()  # collecting makes a run a quarter longer, and finds little
    try:
        world.run()
        for key in world.events.all:
            _try_once_more(world, key)
    except EndlessError as error:
        world.judge.fail("endless", str(error))
    finally:
        gc.enable()
    world.counts["runs"] = 1
    return Result(seed, bias or drawn, world.judge.failures, world.counts)


def _vary(rng: random.Random, settings: Settings) -> None:
    """Vary the settings: some runs see more of the faults, some fewer, and some none of one kind."""
    for name in FAULTS:
        setattr(settings, name, getattr(settings, name) * rng.choice((0, 0.5, 1, 1, 1, 1.5)))


def _try_once_more(world: World, key: str) -> None:
    """At the end, the lock is not stuck: a client that comes after the stored expiry gets it.

    The same goes for an event, unless it was done before.
    """
    process = Process(world, "last")
    process.spared, process.steady = True, True
    world.settings.freeze = world.settings.dateless = 0.0
    if world.settings.rates:
        start_once_more(world, key)
        return
    row = read_row(world.table.get(key), JAVA, key)
    patience = 0.0
    if world.permits:
        entries = by_attempt(world.table.get(key)).values()
        world.now = max(world.now, *(entry.expiry_ms / 1000 - EPOCH + DATES for entry in entries), 0.0)
        row = None
        tickets = (world.table.get(key) or {}).get("waiters", {}).get("L", ())
        ends = [ticket_expiry(one["S"]) or 0 for one in tickets if "S" in one and ticket_take(one["S"]) > 1]
        # Nobody passes one who waits for more than 1 while its ticket counts, dead or alive.
        world.now = max(world.now, max(ends, default=0) + 1 - EPOCH + DATES)
    queues = bool(world.settings.queue) and world.rng.random() < 0.7
    if queues:  # behind the tickets that are left
        patience = LONGEST_NAP + LONGEST_BELIEVED + DATES
    if row is not None and not row.is_free:
        if row.lease_ms is None:
            return
        if row.expiry_ms is None:
            patience += row.lease_ms / 1000 * 1.01 + 5
        else:
            world.now = max(world.now, row.expiry_ms / 1000 - EPOCH + DATES)

    def life() -> Life:
        reading = process.reading()
        place = PermitPlace(place_of(key), world.permits, "last#1") if world.permits else place_of(key)
        wanted = AcquireRequest(place, "last#1", 5000, Content(), waits=patience > 0, refresh_period=1.0)
        wanted.wait_until = reading.elapsed + patience
        wanted.window = world.events.window(key) if world.settings.event else None
        wanted.queue = (queue_for_permit if world.permits else Queue) if queues else None
        waiter = task.watcher = Waiter(world, process, wanted)
        try:
            yield from acquire.acquire(wanted, Conversation(protocol.ClientMemory(10), world.entropy, reading))
        except DuplicateEventError as error:
            waiter.failed(error, process.peek())
        except Exception as error:  # noqa: BLE001 - any error is the failure that is looked for
            world.judge.fail("stuck", f"{key} can no longer be acquired: {error!r}")

    task = process.start(life())
    world.run()


class Totals:
    """The totals of many runs, and the failed runs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[Result] = []

    def note(self, result: Result) -> None:
        self.counts.update(result.counts)
        self.failed += [result] if result.failures else []

    def add(self, other: Totals) -> None:
        self.counts.update(other.counts)
        self.failed += other.failed

    def kinds(self) -> Counter[str]:
        """Return how many runs failed in which way."""
        return Counter(kind for result in self.failed for kind in result.failures)

    @property
    def faults(self) -> int:
        return sum(self.counts[name] for name in ("faults", "freezes", "steps", "given up"))

    def figures(self) -> bench.Figures:
        """Print the totals, and what failed. Return the figures of the proof."""
        bench.progress("")
        failed = [str(result) for result in self.failed[:MORE]]
        print("\n".join([*failed, str(self)]))
        return {
            "runs": self.counts["runs"],
            "simulated grants": self.counts["grants"],
            "faults": self.faults,
            "failed": failed,
            bench.DOUBLE_HOLDERS: sum(bool(one.failures.keys() & {"overlap", "robbed"}) for one in self.failed),
            "good": bool(self.counts["runs"]) and not self.failed,  # no runs show nothing
        }

    def __str__(self) -> str:
        counts = self.counts
        return (
            f"{counts['runs']} runs: {counts['grants']} grants ({counts['events']} of events), "
            f"{counts['renewals']} renewals, {counts['commits']} commits, {counts['completions']} completions, "
            f"{counts['duplicates']} duplicates dropped, {counts['requests']} requests, {self.faults} faults, "
            f"{counts['deaths']} deaths; {len(self.failed)} failed"
        )


def run_many(first: int, runs: int, bias: str | None = None, rule: str | None = None) -> Totals:
    """Run the seeds ``first``, ``first`` + 1, ... in this process. If a rule is named, it is broken."""
    total = Totals()
    with broken(rule):
        for seed in range(first, first + runs):
            result = simulate(seed, bias)
            result.rule = rule
            total.note(result)
    return total


def run_chunks(
    first: int, runs: int, bias: str | None = None, processes: int = 2, rule: str | None = None, chunk: int = 100
) -> Iterator[Totals]:
    """As `run_many`, in several processes, in chunks that finish in any order."""
    chunks = [(start, min(chunk, first + runs - start), bias, rule) for start in range(first, first + runs, chunk)]
    if processes == 1 or len(chunks) == 1:
        yield from itertools.starmap(run_many, chunks)
        return
    # Spawned, not forked, because a test's process has threads.
    with _pool(processes) as pool:
        yield from _any_order(pool, run_many, chunks)


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool that raises BrokenProcessPool if a process is killed. multiprocessing.Pool would wait for ever."""
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _any_order(pool: ProcessPoolExecutor, function: Callable[..., T], parts: Iterable[Any]) -> Iterator[T]:
    for future in as_completed([pool.submit(function, *part) for part in parts]):
        yield future.result()


def run_slices(first: int, seconds: float, biases: Collection[str] = BIASES, processes: int = 2) -> Iterator[Totals]:
    """Run for so long: one bias after the other, round by round.

    Each gets a part of the time, by its weight and by how many grants it had in a second of the last round. Equal
    numbers of runs would spend most of the time on the few biases with the longest runs.
    """
    shares = {bias: WEIGHTS.get(bias, 1.0) for bias in biases}
    until = time.monotonic() + seconds
    with _pool(processes) as pool:
        for start in itertools.count(first, _MOST_IN_A_SLICE):
            each = min(_SLICE, seconds * processes / len(biases)) * len(biases) / sum(shares.values())
            parts = [(start, bias, share * each, until) for bias, share in shares.items()]
            rates = {}
            for bias, rate, total in _any_order(pool, _run_slice, parts):
                rates[bias] = rate
                yield total
            if time.monotonic() >= until:
                return
            mean = sum(rates.values()) / len(rates)
            shares = {bias: WEIGHTS.get(bias, 1.0) * max(0.25, min(rates[bias] / mean, 2.2) ** 5) for bias in biases}


def _run_slice(first: int, bias: str, seconds: float, until: float) -> tuple[str, float, Totals]:
    """Run seeds of a bias until its slice, or all of the time, is over. Returns its grants in a second, too."""
    started = time.monotonic()
    until = min(until, started + seconds)
    total = Totals()
    for seed in range(first, first + _MOST_IN_A_SLICE):
        if time.monotonic() >= until:
            break
        total.add(run_many(seed, 1, bias))
    return bias, total.counts["grants"] / max(time.monotonic() - started, 0.001), total


def shown_by(name: str, runs: int, until: float = float("inf")) -> str:
    """The kind of the first failure that shows the mutation, under one of its biases. "" if no run shows it.

    until: when no more are begun, by time.monotonic.
    """
    mutation = MUTATIONS[name]
    for first in range(0, runs, 20):
        for bias, seed in itertools.product(mutation.biases, range(first, min(first + 20, runs))):
            if time.monotonic() >= until:
                return ""
            failed = run_many(seed, 1, bias, name).failed
            if kinds := {kind for result in failed for kind in result.failures} & set(mutation.shows):
                return min(kinds)
    return ""


def try_mutations(names: list[str], processes: int = 2) -> Iterator[tuple[str, str]]:
    """Break each of these rules until a run shows it. Yields its name, and what has shown it, in any order."""
    with _pool(processes) as pool:
        tried = {pool.submit(shown_by, name, MUTATIONS[name].runs): name for name in names}
        for future in as_completed(tried):
            yield tried[future], future.result()
