"""Sweeps forced thread switches over pairs of acts: ``python -m tests.races``.

    python -m tests.races                                   # each single switch at each line, some at each access
    python -m tests.races --minutes 2 --json FILE           # as much as fits, with the figures in a file
    python -m tests.races --every access                    # each single switch at each shared access: takes long
    python -m tests.races --only "release / commit" --twice 2000
    python -m tests.races --engine ministack --stride 10    # over HTTP, one schedule in ten
    python -m tests.races --mutants                         # checks of the driver code taken out: each must be noticed

A *schedule* is one run of a pair of acts under one plan of switches. Most run on the tables in memory of
lambda_lock.testing, whose requests are this project's own; a share runs on a real engine, over HTTP. What is proven
here is what threads of one process do to each other. Which client DynamoDB grants a lock is proven elsewhere.

The exit status is 0 if nothing hung, at most one last act took effect, each caller was told the truth, and no thread
ended with an exception.
"""

import argparse
import itertools
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

from rig.engine import Engine
from tests.prove import bench

from .mutants import MUTANTS, Mutant, broken
from .scenarios import SCENARIOS, Scenario
from .scheduler import POLICIES
from .sweep import Plan, Played, again, once, play, twice
from .world import LOCKS, ORDERS

_HTTP_SHARE = 0.15  # of the time, if an engine is named
_MOST_TOLD = 300  # characters
_MOST_FOR_MUTANT = 2000  # schedules. Each ends: the scheduler has a limit of its points, and gives up what hangs
_MOST_WRONG = 5  # schedules that went wrong are told of one scenario
_AT_ONCE = 5  # schedules of one variant before the next has its turn


class Sweep:
    """All variants of all scenarios, in turns, so that a run that ends early has tried some of each."""

    def __init__(self, options: argparse.Namespace, engine: Engine | None) -> None:
        self.options = options
        self.engine = engine
        self.names = list(options.only or SCENARIOS)
        self.totals: bench.Figures = {"schedules": 0, "pairs": Counter(), "wrong": []}
        self.complete = True  # whether each single switch was tried
        self._told: Counter[str] = Counter()
        self._started = time.monotonic()

    def run(self) -> bench.Figures:
        minutes = self.options.minutes
        variants = [(SCENARIOS[name], policy) for name, policy in itertools.product(self.names, POLICIES)]
        if self.engine is not None:
            http = [self._single(*each, self.engine) for each in variants if not each[0].in_memory]
            self._in_turns(http, until=minutes and minutes * _HTTP_SHARE, http=True)
        self.complete = self._in_turns([self._single(*each) for each in variants], until=minutes)
        if minutes or self.options.twice:
            self._in_turns([self._double(*each) for each in variants], until=minutes)
        # One schedule of each scenario that had none when the time was over, as on a busy machine.
        untried = [each for each in variants[:: len(POLICIES)] if not self.totals["pairs"][each[0].name]]
        self._in_turns([itertools.islice(self._single(*each), 1) for each in untried], until=None)
        bench.progress("")
        played = all(self.totals["pairs"][name] for name in self.names)
        self.totals |= {"switches at every": self.options.every, "complete": self.complete}
        return self.totals | {"good": played and not self.totals["failed"]}

    def _source(self, scenario: Scenario, policy: str) -> random.Random:
        return random.Random(f"{scenario.name} {policy} {self.options.seed}")

    def _double(self, scenario: Scenario, policy: str) -> Iterator[Played]:
        drawn = twice(scenario, policy, self.options.every, self._source(scenario, policy))
        return itertools.islice(drawn, self.options.twice or None)

    def _single(self, scenario: Scenario, policy: str, engine: Engine | None = None) -> Iterator[Played]:
        options = self.options
        every, stride = ("line", options.http_stride) if engine else (options.every, options.stride)
        plans: list[Plan] = list(once(scenario, policy, every, engine))
        # In any order, so that what is played in a given time is spread over the whole.
        self._source(scenario, policy).shuffle(plans)
        for plan in plans[: -(-len(plans) // stride)]:
            yield play(scenario, plan, policy, every, engine)

    def _in_turns(self, variants: list[Iterator[Played]], until: float | None, *, http: bool = False) -> bool:
        """Play the variants in turns. Returns whether they were played to their end. http: they run over HTTP."""
        while variants:
            for variant in list(variants):
                if until and time.monotonic() - self._started > until * 60:
                    return False
                some = list(itertools.islice(variant, _AT_ONCE))
                for played in some:
                    self._add(played, http)
                if len(some) < _AT_ONCE:
                    variants.remove(variant)
            bench.progress(f"{self.totals['schedules']:,} schedules")
        return True

    def _add(self, played: Played, http: bool) -> None:
        bench.add(self.totals, played.figures(http))
        if played.wrong and self._told[played.scenario] < _MOST_WRONG:
            self._told[played.scenario] += 1
            self.totals["wrong"].append(played.story())
            bench.complain({"wrong": [played.story()]})


def _notice(name: str, every: str) -> str:
    """Play schedules under a mutant. Returns what shows it, "" if nothing does."""
    with broken(name):
        shown = next((played for played in _against(name, every) if played.wrong), None)
    return shown.story()[:_MOST_TOLD] if shown else ""


def _against(name: str, every: str) -> Iterator[Played]:
    """Schedules that may show a mutant, in turns of its scenarios and policies: at most `_MOST_FOR_MUTANT`."""
    pairs = itertools.product(MUTANTS[name].scenarios, POLICIES)
    variants = [_variant(MUTANTS[name], SCENARIOS[pair], policy, every) for pair, policy in pairs]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*variants))
    return itertools.islice((played for played in turns if played is not None), _MOST_FOR_MUTANT)


def _variant(mutant: Mutant, scenario: Scenario, policy: str, every: str) -> Iterator[Played]:
    if mutant.within:
        plans = again(scenario, policy, every, mutant.within)
    else:
        plans = once(scenario, policy, every, first=mutant.function.__name__)
    for plan in plans:
        yield play(scenario, plan, policy, every)


def on_one_processor() -> None:
    """One thread runs at a time, and on one processor they follow each other faster."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})


def parser() -> argparse.ArgumentParser:
    made = bench.parser("tests.races", __doc__, minutes=None, seed=1, engine=None, mutants=None)
    made.add_argument("--every", choices=["line", "access"], default="line", help="where threads are switched")
    made.add_argument("--stride", type=int, default=1, help="play one single switch in so many (default: 1)")
    made.add_argument("--twice", type=int, default=0, help="schedules with two switches for each variant")
    made.add_argument("--only", action="append", choices=[*SCENARIOS], metavar="PAIR", help="default: all pairs")
    made.add_argument("--http-stride", type=int, default=40, help="one in so many over HTTP (default: 40)")
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    on_one_processor()
    if options.mutants is not None:
        names = bench.chosen(options.mutants, MUTANTS)
        return bench.planted((name, _notice(name, options.every)) for name in names)
    with ExitStack() as stack:
        engine = stack.enter_context(bench.ENGINES[options.engine]()) if options.engine else None
        if engine is not None:
            engine.create_table(LOCKS)
            engine.create_table(ORDERS, "id")
            os.environ.update(engine.environment())
        return Sweep(options, engine).run()


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
