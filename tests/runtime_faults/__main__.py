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
import dataclasses
import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rig.engine import DynamoDBLocal, Engine, EngineError, Ministack

from .rounds import KINDS, LOCKS, REGISTERS, Plan, Round, play

_ENGINES: dict[str, type[Engine]] = {"ministack": Ministack, "dynamodb-local": DynamoDBLocal}

# Rules whose absence functions can see within seconds, and the kind of fault that shows it. `make test-slow` breaks all
# of them in the simulator.
MUTANTS = {
    "expiry judged by the waiter's clock": "clocks",
    "an observation not restarted when the version changes": "clocks",
    "a commit without the lock's condition": "freeze",
    "a release without owner and token": "freeze",
}


@dataclasses.dataclass
class Totals:
    """The figures of all rounds so far."""

    rounds: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = dataclasses.field(default_factory=Counter)
    happened: Counter[str] = dataclasses.field(default_factory=Counter)
    answers: Counter[str] = dataclasses.field(default_factory=Counter)
    grants: int = 0
    double_holders: int = 0
    not_free: int = 0
    lost: int = 0
    troubles: int = 0
    slowest: float = 0.0

    @property
    def good(self) -> bool:
        return self.rounds > 0 and not (self.double_holders or self.not_free or self.lost or self.troubles)

    def add(self, played: Round) -> None:
        self.rounds += 1
        self.kinds[played.plan.kind] += 1
        self.happened += played.happened
        self.answers += played.answers
        self.grants += played.grants
        self.double_holders += len(played.double_holders)
        self.not_free += len(played.not_free)
        self.lost += len(played.lost)
        self.troubles += len(played.troubles)
        self.slowest = max(self.slowest, played.slowest)

    def lines(self) -> list[str]:
        """The summary."""
        return [
            f"rounds: {self.rounds:,} in {self.seconds / 60:.1f} min ({_counted(self.kinds)})",
            f"happened: {_counted(self.happened)}",
            f"invocations: {self.answers.total():,} ({_counted(self.answers)})",
            f"grants: {self.grants:,}",
            f"slowest lock to be free again: {self.slowest:.1f} s",
            f"double holders: {self.double_holders}",
            f"locks not free in bounded time: {self.not_free}",
            f"work lost silently: {self.lost}",
            *([f"other troubles: {self.troubles}"] if self.troubles else []),
        ]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())


class Runner:
    """Plays rounds, some at once, and keeps the totals."""

    def __init__(self, options: argparse.Namespace, engine: Engine) -> None:
        self.options = options
        self.engine = engine
        self.totals = Totals()
        self._started = time.monotonic()
        self._guard = threading.Lock()

    def run(self) -> bool:
        kinds = self.options.kind or [*KINDS]
        plans = (Plan(kinds[n % len(kinds)], self.options.seed + n) for n in itertools.count())
        with ThreadPoolExecutor(self.options.at_once) as lanes:
            for _ in lanes.map(self._lane, [plans] * self.options.at_once):
                pass
        return self.totals.good

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
        return bool(self.totals.rounds >= self.options.rounds)

    def _add(self, played: Round) -> None:
        with self._guard:
            totals, plan = self.totals, played.plan
            totals.add(played)
            totals.seconds = time.monotonic() - self._started
            print(
                f"{totals.rounds:4}  {plan.kind:14} seed {plan.seed:<5} grants {played.grants:4}  "
                f"{_counted(played.happened)}",
                flush=True,
            )
            complain(played)
            # After each round, so that a run that is stopped leaves its own.
            write_figures(self.options.json, {**vars(totals), "good": totals.good})


def complain(played: Round) -> None:
    """Print what is wrong with a round."""
    for what, texts in (
        ("DOUBLE HOLDER", played.double_holders),
        ("NOT FREE", played.not_free),
        ("LOST", played.lost),
        ("TROUBLE", played.troubles),
    ):
        for text in texts[:5]:
            print(f"      {what} " + "\n        ".join(text.splitlines()[-30:]), flush=True)


def write_figures(path: Path | None, figures: dict[str, Any]) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")


def try_mutants(options: argparse.Namespace, engine: Engine) -> int:
    """Break each rule until a round shows it. Returns how many were noticed."""
    noticed = 0
    for name, kind in MUTANTS.items():
        plans = [Plan(kind, options.seed + attempt, broken=name) for attempt in range(options.attempts)]
        shown = next((each for each in _played(plans, options.at_once, engine) if not each.good), None)
        noticed += shown is not None
        print(f"  {name}: {_verdict(shown)}", flush=True)
    return noticed


def _played(plans: list[Plan], at_once: int, engine: Engine) -> Iterator[Round]:
    for first in range(0, len(plans), at_once):
        with ThreadPoolExecutor(at_once) as lanes:
            yield from lanes.map(play, plans[first : first + at_once], itertools.repeat(engine))


def _verdict(shown: Round | None) -> str:
    if shown is None:
        return "NOT NOTICED"
    return f"noticed: double holders {len(shown.double_holders)}, works lost {len(shown.lost)}"


@contextmanager
def prepared(name: str) -> Iterator[Engine]:
    """A running engine with the tables of the rounds, at which the environment of this process points."""
    with _ENGINES[name]() as engine:
        engine.create_table(LOCKS)
        engine.create_table(REGISTERS)
        os.environ.update(engine.environment())
        yield engine


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.runtime_faults", description="Let the runtime fail.")
    parser.add_argument("--engine", choices=[*_ENGINES], default="ministack")
    parser.add_argument("--rounds", type=int, default=60, help="how many to play (default 60)")
    parser.add_argument("--minutes", type=float, help="how long to begin rounds instead")
    parser.add_argument("--kind", action="append", choices=[*KINDS], help="default: all, in turns")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default 1)")
    parser.add_argument("--at-once", type=int, default=3, help="rounds played side by side (default 3)")
    parser.add_argument("--mutants", action="store_true", help="break rules of the protocol; each must be noticed")
    parser.add_argument("--attempts", type=int, default=6, help="rounds in which a mutant must be noticed (default 6)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        with prepared(options.engine) as engine:
            if options.mutants:
                noticed = try_mutants(options, engine)
                print(f"mutants noticed: {noticed} of {len(MUTANTS)}")
                good = noticed == len(MUTANTS)
                write_figures(options.json, {"killed": noticed, "mutants": len(MUTANTS), "good": good})
                return int(not good)
            runner = Runner(options, engine)
            good = runner.run()
    except EngineError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(runner.totals.lines()))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
