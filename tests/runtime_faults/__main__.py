"""Plays rounds of faults of the runtime, and counts what must not be: ``python -m tests.runtime_faults``.

Lambda environments run the unmodified awslambdaric and want one lock, on a real engine. They are killed at random
instants, frozen for longer than lease and deadline, their wall clocks are set both ways, they fork workers, are
restored from a snapshot, run out of memory, and starve the thread of the heartbeat. Each line of the output is a round.

    python -m tests.runtime_faults                              # 60 rounds, all kinds in turns
    python -m tests.runtime_faults --minutes 5 --json FILE      # as many as fit, with the figures in a file
    python -m tests.runtime_faults --kind freeze --seed 7 --rounds 1
    python -m tests.runtime_faults --mutants                    # rules of the protocol broken: each must be noticed

The exit status is 0 if nobody held a lock beside another, every lock was free in bounded time, and no work was lost
silently.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from rig.engine import Engine
from tests.prove import bench

from .rounds import KINDS, LOCKS, REGISTERS, Plan, Round, play

# Rules whose absence functions can see within seconds, and the kind of fault that shows it. `make test-slow` breaks all
# of them in the simulator.
MUTANTS = {
    "expiry judged by the waiter's clock": "clocks",
    "an observation not restarted when the version changes": "clocks",
    "a commit without the lock's condition": "freeze",
    "a release without owner and token": "freeze",
}


def figures_of(played: Round) -> bench.Figures:
    """The figures of a round."""
    return {
        "rounds": 1,
        "kinds": {played.plan.kind: 1},
        "happened": played.happened,
        "real kills and freezes": played.happened["killed"] + played.happened["frozen"],
        "answers to invocations": played.answers,
        "grants": played.grants,
        "most seconds until a lock was free again": played.slowest,
        "locks not free in bounded time": len(played.not_free),
        "works lost silently": len(played.lost),
        "other troubles": len(played.troubles),
        bench.DOUBLE_HOLDERS: len(played.double_holders),
    }


class Runner:
    """Plays rounds, some at once, and keeps the totals."""

    def __init__(self, options: argparse.Namespace, engine: Engine) -> None:
        self.options = options
        self.engine = engine
        self.totals: bench.Figures = {"rounds": 0, "good": False}
        self._started = time.monotonic()
        self._guard = threading.Lock()

    def run(self) -> bench.Figures:
        kinds = self.options.kind or [*KINDS]
        plans = (Plan(kinds[n % len(kinds)], self.options.seed + n) for n in itertools.count())
        with ThreadPoolExecutor(self.options.at_once) as lanes:
            for _ in lanes.map(self._lane, [plans] * self.options.at_once):
                pass
        return self.totals

    def _lane(self, plans: Iterator[Plan]) -> None:
        begun = True
        while begun:
            with self._guard:
                begun = not self._is_over()
                plan = next(plans)
            if begun:
                self._add(play(plan, self.engine))

    def _is_over(self) -> bool:
        if self.options.minutes:
            return bool(time.monotonic() - self._started >= self.options.minutes * 60)
        return bool(self.totals["rounds"] >= self.options.rounds)

    def _add(self, played: Round) -> None:
        with self._guard:
            totals, plan = self.totals, played.plan
            bench.add(totals, figures_of(played))
            bench.say(
                f"{totals['rounds']:4}  {plan.kind:14} seed {plan.seed:<5} grants {played.grants:4}  "
                f"{bench.counted(played.happened)}"
            )
            bench.complain(played.wrong)
            totals["good"] = (totals["good"] or totals["rounds"] == 1) and not any(played.wrong.values())
            bench.write(self.options.json, totals)  # so that a run that is stopped leaves its figures


def _tried(options: argparse.Namespace, engine: Engine) -> Iterator[tuple[str, str]]:
    """Break each rule until a round shows it."""
    for name in bench.chosen(options.mutants, MUTANTS):
        plans = [Plan(MUTANTS[name], options.seed + attempt, broken=name) for attempt in range(options.attempts)]
        shown = next((each for each in _played(plans, options.at_once, engine) if not each.good), None)
        yield name, bench.counted({what: len(texts) for what, texts in shown.wrong.items()}) if shown else ""


def _played(plans: list[Plan], at_once: int, engine: Engine) -> Iterator[Round]:
    for first in range(0, len(plans), at_once):
        with ThreadPoolExecutor(at_once) as lanes:
            yield from lanes.map(play, plans[first : first + at_once], itertools.repeat(engine))


@contextmanager
def prepared(name: str) -> Iterator[Engine]:
    """A running engine with the tables of the rounds, at which the environment of this process points."""
    with bench.ENGINES[name]() as engine:
        engine.create_table(LOCKS)
        engine.create_table(REGISTERS)
        os.environ.update(engine.environment())
        yield engine


def parser() -> argparse.ArgumentParser:
    made = bench.parser(
        "tests.runtime_faults", __doc__, engine="ministack", minutes=None, seed=1, mutants=None, attempts=6
    )
    made.add_argument("--rounds", type=int, default=60, help="how many to play, without --minutes (default: 60)")
    made.add_argument("--kind", action="append", choices=[*KINDS], help="default: all, in turns")
    made.add_argument("--at-once", type=int, default=3, help="rounds played side by side (default: 3)")
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    with prepared(options.engine) as engine:
        if options.mutants is not None:
            return bench.planted(_tried(options, engine))
        return Runner(options, engine).run()


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
