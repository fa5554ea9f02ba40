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
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
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


def play_all(options: argparse.Namespace, engine: Engine) -> bench.Figures:
    """Play rounds, and keep the totals."""
    totals: bench.Figures = {"rounds": 0, "good": True}
    for played in side_by_side(_plans(options, totals), options.at_once, engine):
        plan = played.plan
        bench.add(totals, figures_of(played))
        bench.say(
            f"{totals['rounds']:4}  {plan.kind:14} seed {plan.seed:<5} grants {played.grants:4}  "
            f"{bench.counted(played.happened)}"
        )
        bench.complain(played.wrong)
        totals["good"] = totals["good"] and not any(played.wrong.values())
        bench.write(options.json, totals)  # so that a run that is stopped leaves its figures
    return totals | {"good": totals["good"] and totals["rounds"] > 0}


def _plans(options: argparse.Namespace, totals: bench.Figures) -> Iterator[Plan]:
    started, kinds = time.monotonic(), options.kind or [*KINDS]
    for number in itertools.count():
        minutes = (time.monotonic() - started) / 60
        if minutes >= options.minutes if options.minutes else totals["rounds"] >= options.rounds:
            return
        yield Plan(kinds[number % len(kinds)], options.seed + number)


def side_by_side(plans: Iterator[Plan], at_once: int, engine: Engine) -> Iterator[Round]:
    """Play rounds, so many at once. The next plan is asked for when a round has ended."""
    with ThreadPoolExecutor(at_once) as lanes:
        running = {lanes.submit(play, plan, engine) for plan in itertools.islice(plans, at_once)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                yield each.result()
                running |= {lanes.submit(play, plan, engine) for plan in itertools.islice(plans, 1)}


def _tried(options: argparse.Namespace, engine: Engine) -> Iterator[tuple[str, str]]:
    """Break each rule until a round shows it."""
    for name in bench.chosen(options.mutants, MUTANTS):
        plans = (Plan(MUTANTS[name], options.seed + attempt, broken=name) for attempt in range(options.attempts))
        shown = next((each for each in side_by_side(plans, options.at_once, engine) if not each.good), None)
        yield name, bench.counted({what: len(texts) for what, texts in shown.wrong.items()}) if shown else ""


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
        return play_all(options, engine)


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
