"""Plays rounds of storms on real parts, and has them judged by Porcupine: ``python -m tests.histories``.

Callers acquire, renew, release, commit, hand over and adopt locks, and write down what they see. The kinds of rounds
differ in who calls, and in what happens to them:

- callers: many processes and threads, through a network that is faulty on purpose, while processes are killed and
  frozen and the engine is stopped and started again (rounds.py);
- runtime: functions under the unmodified awslambdaric, which are killed at random instants, frozen for longer than
  lease and deadline, whose clocks are set both ways, which fork workers, are restored from a snapshot, run out of
  memory, and starve the thread of the heartbeat; those of one kind take permits (tests/runtime_faults);
- stopping: workers that are asked to stop at random moments (tests/stopping).

Each line of the output is a round. The exit status is 0 if every history is legal and nothing else is wrong: no lock is
left held, no work is lost silently, and no process hangs.

    python -m tests.histories                                  # four minutes, all kinds in turns
    python -m tests.histories --only callers --operations 1000000    # until so many operations are recorded
    python -m tests.histories --only "runtime: freeze" --rounds 3 --seed 7
    python -m tests.histories --mutants                        # rules and code broken: each must be noticed
    python -m tests.histories --only callers --seed 7 --engine ministack    # a round like the one that said "seed 7"
"""

import argparse
import functools
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rig.engine import ROOT, Engine
from tests.prove import bench
from tests.runtime_faults import rounds as runtime
from tests.stopping import rounds as stopping
from tests.stopping.mistakes import MISTAKES

from . import rounds as callers
from .breaking import BREAKS, broken
from .caller import LOCKS, REGISTERS, Plan
from .engines import ENGINES
from .judge import Judgement, checker, judge
from .record import History, Recording

_KEPT = ROOT / "build" / "histories"
_CALM_EVERY = 5  # one in so many rounds of callers, on one engine, is calm
_BROKEN_A_ROUND = 10  # histories broken, for each way to break one
_BROKEN_SECONDS = 300.0  # for one: to reject it, all orders must be tried


class Round(Protocol):
    """A round that was played.

    figures: what happened in it, beside its recording. wrong: what must not be and no history shows, by its kind.
    """

    recording: Recording

    @property
    def figures(self) -> bench.Figures: ...
    @property
    def wrong(self) -> dict[str, list[str]]: ...


@dataclass(frozen=True)
class Kind:
    """A kind of round.

    play: plays one. It takes the options, an engine with the tables, at which the environment points, how many of its
    kind were played before, and what is broken in it, or "". mutants: what can be broken so that it shows.
    """

    play: Callable[[argparse.Namespace, Engine, int, str], Round]
    mutants: tuple[str, ...] = ()


def _play_callers(options: argparse.Namespace, _: Engine, number: int, mutant: str) -> Round:
    engines = [options.engine] if options.engine else [*ENGINES]
    calm = not mutant and number // len(engines) % _CALM_EVERY == 0
    plan = Plan(
        engines[0 if mutant else number % len(engines)],
        options.seed + number,
        options.seconds / 2 if calm else options.seconds,
        calm=calm,
        processes=options.processes,
        threads=options.threads,
        keys=max(1, options.processes * options.threads * 3 // 4),
        mutation=mutant,
    )
    return callers.play(plan)


def _play_runtime(kind: str, options: argparse.Namespace, engine: Engine, number: int, mutant: str) -> Round:
    return runtime.play(runtime.Plan(kind, options.seed + number, broken=mutant), engine)


def _play_stopping(shape: str, options: argparse.Namespace, _: Engine, number: int, mutant: str) -> Round:
    return stopping.play(shape, options.seed + number, mutant)


# Rules whose absence can be seen in a short time. `make test-slow` breaks all of them in the simulator.
KINDS = {
    "callers": Kind(
        _play_callers,
        (
            "expiry judged by the waiter's clock",
            "a take-over without the version observed",
            "a release without owner and token",
            "a commit without the lock's condition",
            "a handle that counts as held while it is handed over",
        ),
    ),
    **{
        f"runtime: {kind}": Kind(
            functools.partial(_play_runtime, kind),
            tuple(rule for rule, shown_by in runtime.MUTANTS.items() if shown_by == kind),
        )
        for kind in runtime.KINDS
    },
    **{
        f"stopping: {shape}": Kind(
            functools.partial(_play_stopping, shape),
            tuple(name for name, mistake in MISTAKES.items() if mistake.shape == shape),
        )
        for shape in stopping.SHAPES
    },
}


def figures_of(kind: str, played: Round, judgement: Judgement) -> bench.Figures:
    """The figures of a round."""
    recording = played.recording
    outcomes = recording.outcomes
    return {
        "rounds": 1,
        "kinds": {kind: 1},
        "operations recorded": recording.operations,
        "operations of unknown outcome": sum(outcomes[name] for name in outcomes if name.endswith(" unknown")),
        "outcomes": outcomes,
        "entries judged": judgement.operations,
        "histories checked": judgement.histories,
        "histories that are legal": judgement.legal,
        "calm histories": sum(history.calm for history in recording.histories),
        "most milliseconds to judge a history": round(1000 * judgement.slowest),
        "grants": recording.grants,
        "troubles": len(recording.troubles),
        "what else was wrong": {what: len(texts) for what, texts in played.wrong.items()},
        bench.DOUBLE_HOLDERS: len(recording.double_holders),
        **played.figures,
    }


def is_good(totals: bench.Figures) -> bool:
    return (
        totals["histories that are legal"] == totals["histories checked"] > 0
        and totals["broken histories rejected"] == totals["broken histories"]
        and not (totals[bench.DOUBLE_HOLDERS] or totals["troubles"] or any(totals["what else was wrong"].values()))
    )


def play_all(options: argparse.Namespace, engine: Engine) -> bench.Figures:
    """Play rounds of the chosen kinds in turns, and keep the totals."""
    totals: bench.Figures = {}
    for kind, number, played in side_by_side(_wanted(options, totals), options, engine):
        seed, histories = options.seed + number, played.recording.histories
        name = f"{kind.replace(': ', '-').replace(' ', '-')}-{seed}"
        judgement = judge(histories, drawings=_folder(f"{name}-drawings"))
        rejected = _break(histories, seed)
        bench.add(totals, figures_of(kind, played, judgement) | rejected)
        bench.say(
            f"{totals['rounds']:4}  {kind:25} seed {seed:<5} "
            f"operations {played.recording.operations:6,} (all {totals['operations recorded']:9,})  "
            f"histories {judgement.legal} of {judgement.histories} legal  "
            f"broken ones rejected {rejected['broken histories rejected']} of {rejected['broken histories']}"
        )
        _complain(played, judgement, name)
        totals["good"] = is_good(totals)
        bench.write(options.json, totals)  # so that a run that is stopped leaves its figures
    return totals


def _wanted(options: argparse.Namespace, totals: bench.Figures) -> Iterator[tuple[str, int, str]]:
    """The kind of each round, its number among those of its kind, and what is broken in it: nothing."""
    started, kinds = time.monotonic(), bench.chosen(options.only, KINDS)
    least = 2 if options.engine else 2 * len(ENGINES)  # calm and faulty callers, on each engine
    for number in itertools.count():
        if options.rounds:
            over = number >= options.rounds
        elif options.operations:
            over = totals.get("operations recorded", 0) >= options.operations
        else:
            over = time.monotonic() - started >= options.minutes * 60
        if over and (options.rounds or number >= least):
            return
        yield kinds[number % len(kinds)], number // len(kinds), ""


def side_by_side(
    wanted: Iterator[tuple[str, int, str]], options: argparse.Namespace, engine: Engine
) -> Iterator[tuple[str, int, Round]]:
    """Play rounds, so many at once as the options say. The next one is asked for when a round has ended."""

    def play(kind: str, number: int, mutant: str) -> tuple[str, int, Round]:
        return kind, number, KINDS[kind].play(options, engine, number, mutant)

    with ThreadPoolExecutor(options.at_once) as lanes:
        running = {lanes.submit(play, *each) for each in itertools.islice(wanted, options.at_once)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                yield each.result()
                running |= {lanes.submit(play, *one) for one in itertools.islice(wanted, 1)}


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
    wrong = {"double holder": recording.double_holders, "trouble": recording.troubles, "history": illegal}
    wrong |= played.wrong
    bench.complain(wrong)
    if any(wrong.values()):
        kept = _KEPT / f"{name}.jsonl"
        kept.write_text("".join(history.line() + "\n" for history in recording.histories))
        bench.say(f"      The histories of this round are kept in {kept}")


def _folder(name: str) -> Path:
    folder = _KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _tried(options: argparse.Namespace, engine: Engine) -> Iterator[tuple[str, str]]:
    """Break each rule until a round shows it."""
    mutants = [(kind, mutant) for kind in bench.chosen(options.only, KINDS) for mutant in KINDS[kind].mutants]
    named = {f"{mutant} ({kind})": (kind, mutant) for kind, mutant in mutants}
    for name in bench.chosen(options.mutants, named):
        kind, mutant = named[name]
        tries = ((kind, attempt, mutant) for attempt in range(options.attempts))
        yield name, next(filter(None, (shown(played) for _, _, played in side_by_side(tries, options, engine))), "")


def shown(played: Round) -> str:
    """What a round with a mistake shows, "" if nothing. A second holder must be seen by Porcupine."""
    judgement = judge(played.recording.histories)
    if judgement.illegal:
        double = len(played.recording.double_holders)
        return f"{judgement.illegal} of {judgement.histories} histories are illegal, double holders {double}"
    return bench.counted({what: len(texts) for what, texts in played.wrong.items() if texts})


@contextmanager
def prepared(name: str) -> Iterator[Engine]:
    """A running engine with the tables of the rounds, at which the environment of this process points."""
    with bench.ENGINES[name]() as engine:
        engine.create_table(LOCKS)
        engine.create_table(REGISTERS)
        os.environ.update(engine.environment() | {"LAMBDA_LOCK_TABLE": LOCKS})
        yield engine


def parser() -> argparse.ArgumentParser:
    made = bench.parser(
        "tests.histories", __doc__, only=None, minutes=4.0, seed=1, processes=4, engine=None, mutants=None, attempts=20
    )
    made.add_argument("--rounds", type=int, help="play so many rounds instead")
    made.add_argument("--operations", type=int, help="play until so many operations are recorded instead")
    made.add_argument("--at-once", type=int, default=1, help="rounds played side by side (default: 1)")
    made.add_argument("--seconds", type=float, default=40.0, help="of one round of callers (default: 40)")
    made.add_argument("--threads", type=int, default=8, help="callers in each process (default: 8)")
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    checker()
    with prepared(options.engine or "ministack") as engine:
        if options.mutants is None:
            return play_all(options, engine)
        return bench.planted(_tried(options, engine))


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
