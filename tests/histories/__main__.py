"""Records histories of the whole stack and has them judged: ``python -m tests.histories``.

Callers in many processes and threads acquire, renew, release, commit, hand over and adopt locks over HTTP, through a
network that is faulty on purpose, while processes are killed and frozen and the engine is stopped and started again.
Each line of the output is a round. The exit status is 0 if every history is legal and nothing else is wrong.

    python -m tests.histories                                  # four minutes, both engines
    python -m tests.histories --operations 1000000             # until so many operations are recorded
    python -m tests.histories --mutants                        # rules of the protocol broken: each must be noticed
    python -m tests.histories --seed 7 --engine ministack      # a round like the one that said "seed 7"
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rig.engine import ROOT, EngineError

from .breaking import BREAKS, broken
from .engines import ENGINES
from .judge import CheckerMissingError, Judgement, checker, judge
from .record import History
from .rounds import Plan, Round, play

_KEPT = ROOT / "build" / "histories"
_CALM_EVERY = 5  # of so many rounds of an engine, one is calm
_BROKEN_A_ROUND = 10  # histories broken, for each way to break one
_BROKEN_SECONDS = 300.0  # for one: to reject it, all orders must be tried

# Rules whose absence callers can see in a short time. `make test-slow` breaks all of them in the simulator.
MUTANTS = (
    "expiry judged by the waiter's clock",
    "a take-over without the version observed",
    "a release without owner and token",
    "a commit without the lock's condition",
    "a handle that counts as held while it is handed over",
)


@dataclasses.dataclass
class Totals:
    """The figures of all rounds so far."""

    rounds: int = 0
    seconds: float = 0.0
    operations: int = 0
    judged: int = 0
    grants: int = 0
    unknown: int = 0
    histories: int = 0
    legal: int = 0
    calm: int = 0
    slowest: float = 0.0
    requests: int = 0
    faults: Counter[str] = dataclasses.field(default_factory=Counter)
    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    killed: int = 0
    frozen: int = 0
    restarts: int = 0
    double_holders: int = 0
    broken: int = 0
    broken_rejected: int = 0
    troubles: int = 0

    @property
    def good(self) -> bool:
        return (
            self.rounds > 0
            and self.legal == self.histories > 0
            and self.broken_rejected == self.broken
            and not (self.double_holders or self.troubles)
        )

    def add(self, played: Round, judgement: Judgement) -> None:
        recording = played.recording
        faults = Counter(played.faults)
        self.rounds += 1
        self.requests += faults.pop("requests", 0)
        self.faults += faults
        self.operations += recording.operations
        self.judged += judgement.operations
        self.grants += recording.grants
        self.unknown += sum(count for name, count in recording.outcomes.items() if name.endswith(" unknown"))
        self.histories += judgement.histories
        self.legal += judgement.legal
        self.calm += sum(history.calm for history in recording.histories)
        self.slowest = max(self.slowest, judgement.slowest)
        self.outcomes.update(recording.outcomes)
        self.killed += played.killed
        self.frozen += played.frozen
        self.restarts += played.restarts
        self.double_holders += len(recording.double_holders)
        self.troubles += len(recording.troubles)

    def lines(self) -> list[str]:
        """The summary."""
        outcomes = ", ".join(f"{name} {count:,}" for name, count in sorted(self.outcomes.items()))
        faults = ", ".join(f"{name} {count:,}" for name, count in self.faults.most_common())
        return [
            f"operations recorded: {self.operations:,} on locks, by their callers, in {self.seconds / 60:.1f} min "
            f"({self.unknown:,} with an unknown outcome)",
            f"  {outcomes}",
            f"requests on the network: {self.requests:,}, of which {self.faults.total():,} met a fault",
            f"  {faults}",
            f"processes of callers killed: {self.killed}, frozen: {self.frozen}; engines restarted: {self.restarts}",
            f"histories checked: {self.histories:,} with {self.judged:,} entries, legal: {self.legal:,} "
            f"(the slowest took {self.slowest:.2f} s)",
            f"broken histories rejected: {self.broken_rejected:,} of {self.broken:,}",
            f"grants: {self.grants:,}",
            f"double holders: {self.double_holders}",
        ]


class Runner:
    """Plays rounds, one after the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.totals = Totals()
        self.started = time.monotonic()

    def run(self) -> bool:
        number = 0
        while not self._is_over():
            self._round(self._plan(number))
            # After each round, so that a run that is stopped leaves its figures.
            write_figures(self.options.json, {**vars(self.totals), "good": self.totals.good})
            number += 1
        return self.totals.good

    def _plan(self, number: int) -> Plan:
        engines: list[str] = self.options.engine
        options = self.options
        calm = number // len(engines) % _CALM_EVERY == 0
        return Plan(
            engines[number % len(engines)],
            options.seed + number,
            options.seconds / 2 if calm else options.seconds,
            calm=calm,
            processes=options.processes,
            threads=options.threads,
            keys=max(1, options.processes * options.threads * 3 // 4),
        )

    def _is_over(self) -> bool:
        if self.totals.rounds < len(self.options.engine) * 2:
            return False  # calm and faulty, on each engine
        if self.options.operations:
            return bool(self.totals.operations >= self.options.operations)
        return time.monotonic() - self.started >= self.options.minutes * 60

    def _round(self, plan: Plan) -> None:
        began = time.monotonic()
        played = play(plan)
        recording = played.recording
        name = f"{plan.engine}-{plan.seed}"
        judgement = judge(recording.histories, drawings=_folder(f"{name}-drawings"))
        self.totals.add(played, judgement)
        rejected = self._break(recording.histories, plan.seed)
        self.totals.seconds += time.monotonic() - began
        print(
            f"{self.totals.rounds:4}  {plan.engine:14} {'calm  ' if plan.calm else 'faulty'} seed {plan.seed}  "
            f"operations {recording.operations:6,} (all {self.totals.operations:9,})  "
            f"histories {judgement.legal} of {judgement.histories} legal  broken ones rejected {rejected}",
            flush=True,
        )
        _complain(played, judgement, name)

    def _break(self, histories: list[History], seed: int) -> str:
        source = random.Random(f"breaking-{seed}")
        faulty = [
            found
            for name in BREAKS
            for history in source.sample(histories, min(len(histories), _BROKEN_A_ROUND))
            if (found := broken(history, name, source)) is not None
        ]
        judgement = judge(faulty, seconds=_BROKEN_SECONDS)
        self.totals.broken += judgement.histories
        self.totals.broken_rejected += judgement.illegal
        if judgement.illegal < judgement.histories:
            results = {each["lock"]: each["result"] for each in judgement.listed}
            said = sorted(f"{history.lock} ({results.get(history.lock, 'legal')})" for history in faulty)
            missed = [each for each in said if not each.endswith("(illegal)")]
            print(f"      not rejected: {'; '.join(missed[:5])}", flush=True)
        return f"{judgement.illegal} of {judgement.histories}"


def _complain(played: Round, judgement: Judgement, name: str) -> None:
    """Print what is wrong with a round, and keep its histories where something is."""
    recording = played.recording
    for double in recording.double_holders[:5]:
        print(f"      DOUBLE HOLDER {double}")
    for text in recording.troubles[:5]:
        print("      TROUBLE " + "\n        ".join(text.splitlines()[-40:]))
    for verdict in judgement.listed[:3]:
        print(f"      {verdict['result'].upper()} history of lock {verdict['lock']}, drawn in {verdict.get('drawing')}")
        for line in verdict.get("trace") or ():
            print(f"        {line}")
    if recording.double_holders or recording.troubles or judgement.listed:
        kept = _KEPT / f"{name}.jsonl"
        kept.write_text("".join(history.line() + "\n" for history in recording.histories))
        print(f"      The histories of this round are kept in {kept}", flush=True)


def _folder(name: str) -> Path:
    folder = _KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_figures(path: Path | None, figures: dict[str, Any]) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")


def try_mutants(options: argparse.Namespace) -> tuple[int, int]:
    """Play each broken rule until its histories are rejected. Returns how many were, and how many there are."""
    noticed = 0
    names = [name for name in MUTANTS if options.mutants in name]
    for name in names:
        verdict = "NOT NOTICED"
        for attempt in range(options.attempts):
            plan = Plan(options.engine[0], options.seed + attempt, options.seconds, mutation=name)
            played = play(plan)
            judgement = judge(played.recording.histories)
            if judgement.illegal:
                verdict = (
                    f"noticed: {judgement.illegal} of {judgement.histories} histories are illegal, "
                    f"double holders {len(played.recording.double_holders)}"
                )
                noticed += 1
                break
        print(f"  {name}: {verdict}", flush=True)
    return noticed, len(names)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description="Record histories and judge them.")
    parser.add_argument("--engine", action="append", choices=[*ENGINES], help="default: both, in turns")
    parser.add_argument("--minutes", type=float, default=4.0, help="how long to play rounds (default 4)")
    parser.add_argument("--operations", type=int, help="play until so many operations are recorded instead")
    parser.add_argument("--seconds", type=float, default=40.0, help="of one round (default 40)")
    parser.add_argument("--processes", type=int, default=4, help="of callers, at once (default 4)")
    parser.add_argument("--threads", type=int, default=8, help="callers in each process (default 8)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default 1)")
    parser.add_argument(
        "--mutants",
        metavar="PART",
        nargs="?",
        const="",
        help="break rules of the protocol (whose names contain PART); each must be noticed",
    )
    parser.add_argument("--attempts", type=int, default=4, help="rounds in which a mutant must be noticed (default 4)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    options.engine = options.engine or [*ENGINES]
    return options


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        checker()
        if options.mutants is not None:
            noticed, all_of_them = try_mutants(options)
            print(f"mutants noticed: {noticed} of {all_of_them}")
            good = noticed == all_of_them
            write_figures(options.json, {"killed": noticed, "mutants": all_of_them, "good": good})
            return int(not good)
        runner = Runner(options)
        good = runner.run()
    except (CheckerMissingError, EngineError) as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(runner.totals.lines()))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
