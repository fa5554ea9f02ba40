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
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rig.engine import ROOT
from tests.prove import bench

from .breaking import BREAKS, broken
from .caller import Plan
from .engines import ENGINES
from .judge import Judgement, checker, judge
from .record import History
from .rounds import Round, play

_KEPT = ROOT / "build" / "histories"
_CALM_EVERY = 5  # one in so many rounds of an engine is calm
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


def figures_of(played: Round, judgement: Judgement) -> bench.Figures:
    """The figures of a round."""
    recording = played.recording
    faults = played.faults.copy()
    outcomes = recording.outcomes
    return {
        "rounds": 1,
        "operations recorded": recording.operations,
        "operations of unknown outcome": sum(outcomes[name] for name in outcomes if name.endswith(" unknown")),
        "outcomes": outcomes,
        "requests on the network": faults.pop("requests", 0),
        "faults": faults,
        "engines restarted": played.restarts,
        "processes of callers": {"killed": played.killed, "frozen": played.frozen},
        "real kills and freezes": played.killed + played.frozen,
        "entries judged": judgement.operations,
        "histories checked": judgement.histories,
        "histories that are legal": judgement.legal,
        "calm histories": sum(history.calm for history in recording.histories),
        "most milliseconds to judge a history": round(1000 * judgement.slowest),
        "grants": recording.grants,
        "troubles": len(recording.troubles),
        bench.DOUBLE_HOLDERS: len(recording.double_holders),
    }


def is_good(totals: bench.Figures) -> bool:
    return (
        totals["histories that are legal"] == totals["histories checked"] > 0
        and totals["broken histories rejected"] == totals["broken histories"]
        and not (totals[bench.DOUBLE_HOLDERS] or totals["troubles"])
    )


def play_all(options: argparse.Namespace) -> bench.Figures:
    """Play rounds, one after the other."""
    totals: bench.Figures = {}
    for plan in _plans(options, totals):
        played = play(plan)
        name = f"{plan.engine}-{plan.seed}"
        histories = played.recording.histories
        judgement = judge(histories, drawings=_folder(f"{name}-drawings"))
        rejected = _break(histories, plan.seed)
        bench.add(totals, figures_of(played, judgement) | rejected)
        bench.say(
            f"{totals['rounds']:4}  {plan.engine:14} {'calm  ' if plan.calm else 'faulty'} seed {plan.seed}  "
            f"operations {played.recording.operations:6,} (all {totals['operations recorded']:9,})  "
            f"histories {judgement.legal} of {judgement.histories} legal  "
            f"broken ones rejected {rejected['broken histories rejected']} of {rejected['broken histories']}"
        )
        _complain(played, judgement, name)
        totals["good"] = is_good(totals)
        bench.write(options.json, totals)  # so that a run that is stopped leaves its figures
    return totals


def _plans(options: argparse.Namespace, totals: bench.Figures) -> Iterator[Plan]:
    engines = [options.engine] if options.engine else [*ENGINES]
    started, number = time.monotonic(), 0
    least = 2 * len(engines)  # calm and faulty, on each engine
    while number < least or (
        totals["operations recorded"] < options.operations
        if options.operations
        else time.monotonic() - started < options.minutes * 60
    ):
        calm = number // len(engines) % _CALM_EVERY == 0
        yield Plan(
            engines[number % len(engines)],
            options.seed + number,
            options.seconds / 2 if calm else options.seconds,
            calm=calm,
            processes=options.processes,
            threads=options.threads,
            keys=max(1, options.processes * options.threads * 3 // 4),
        )
        number += 1


def _break(histories: list[History], seed: int) -> dict[str, int]:
    """Break some histories. Returns how many were broken, and how many of them were rejected."""
    source = random.Random(f"breaking-{seed}")
    faulty = [
        found
        for name in BREAKS
        for history in source.sample(histories, min(len(histories), _BROKEN_A_ROUND))
        if (found := broken(history, name, source)) is not None
    ]
    judgement = judge(faulty, seconds=_BROKEN_SECONDS)
    if judgement.illegal < judgement.histories:
        results = {each["lock"]: each["result"] for each in judgement.listed}
        said = sorted(f"{history.lock} ({results.get(history.lock, 'legal')})" for history in faulty)
        bench.complain({"not rejected": [each for each in said if not each.endswith("(illegal)")]})
    return {"broken histories": judgement.histories, "broken histories rejected": judgement.illegal}


def _complain(played: Round, judgement: Judgement, name: str) -> None:
    """Print what is wrong with a round, and keep its histories if anything is."""
    recording = played.recording
    illegal = [
        "\n".join(
            [f"{each['result']}: lock {each['lock']}, drawn in {each.get('drawing')}", *(each.get("trace") or ())]
        )
        for each in judgement.listed
    ]
    bench.complain({"double holder": recording.double_holders, "trouble": recording.troubles, "history": illegal})
    if recording.double_holders or recording.troubles or illegal:
        kept = _KEPT / f"{name}.jsonl"
        kept.write_text("".join(history.line() + "\n" for history in recording.histories))
        bench.say(f"      The histories of this round are kept in {kept}")


def _folder(name: str) -> Path:
    folder = _KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _notice(options: argparse.Namespace, name: str) -> str:
    """Play rounds with a rule broken. Returns what shows it, "" if nothing does."""
    for attempt in range(options.attempts):
        played = play(
            Plan(options.engine or next(iter(ENGINES)), options.seed + attempt, options.seconds, mutation=name)
        )
        judgement = judge(played.recording.histories)
        if judgement.illegal:
            double = len(played.recording.double_holders)
            return f"{judgement.illegal} of {judgement.histories} histories are illegal, double holders {double}"
    return ""


def parser() -> argparse.ArgumentParser:
    made = bench.parser(
        "tests.histories", __doc__, minutes=4.0, seed=1, processes=4, engine=None, mutants=None, attempts=4
    )
    made.add_argument("--operations", type=int, help="play until so many operations are recorded instead")
    made.add_argument("--seconds", type=float, default=40.0, help="of one round (default: 40)")
    made.add_argument("--threads", type=int, default=8, help="callers in each process (default: 8)")
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    checker()
    if options.mutants is None:
        return play_all(options)
    return bench.planted((name, _notice(options, name)) for name in bench.chosen(options.mutants, MUTANTS))


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
