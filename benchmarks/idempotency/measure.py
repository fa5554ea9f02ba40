"""Plays the cases. Outcomes and requests are taken here, behind a wire, and CPU times in a separate process.

python -m benchmarks.idempotency.measure URL ROUNDS prints the CPU times as JSON: seconds by case and contestant. The
contestants take turns, so that anything that slows the machine down affects both.
"""

from __future__ import annotations

import contextlib
import json
import logging
import statistics
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from rig.engine import ROOT, Ministack, client_environment, inherited_environment
from rig.wire import Wire

from .cases import CASES, Outcome
from .contestants import CONTESTANTS
from .run import EFFECTS, Contestant, Effects, Run, Uncounted

_WARM_UP = 5  # the first runs of each case, which do not count

Cpu = dict[str, dict[str, float]]  # seconds, by case and contestant


class Played:
    """The results of one case with one contestant."""

    def __init__(self, run: Run, outcome: Outcome) -> None:
        self.outcome = outcome
        self.requests = run.requests
        self.effects = run.effects_seen()
        self.timeline = run.timeline


def create_tables(engine: Ministack) -> None:
    for contestant in CONTESTANTS.values():
        engine.create_table(contestant.table, contestant.partition_key)
    engine.create_table(EFFECTS, "id")


def play(engine: Ministack, case: str) -> dict[str, Played]:
    """Play a case with all contestants. The environment of this process must have credentials and a Region.

    They play at the same time, each over a wire of its own, because a slow case mostly waits.
    """
    with ThreadPoolExecutor() as pool:
        return dict(zip(CONTESTANTS, pool.map(lambda name: _play(engine, case, name), CONTESTANTS), strict=True))


def _play(engine: Ministack, case: str, name: str) -> Played:
    with (
        Wire(engine.url) as wire,
        _environments(name, wire.url) as environments,
        contextlib.closing(Effects(engine.url)) as effects,
    ):
        run = Run(name, *environments, effects, wire, engine)
        return Played(run, CASES[case].play(run))


def cpu_times(engine: Ministack, rounds: int) -> Cpu:
    """The median CPU time of each timed case, measured in a process that does nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.idempotency.measure", engine.url, str(rounds)],
        env=inherited_environment() | client_environment(engine.url) | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the measurement ended with exit status {done.returncode}\n{done.stderr}")
    times: Cpu = json.loads(done.stdout)
    return times


@contextlib.contextmanager
def _environments(name: str, url: str) -> Iterator[tuple[Contestant, Contestant]]:
    first, second = CONTESTANTS[name](url), CONTESTANTS[name](url)
    with contextlib.closing(first), contextlib.closing(second):
        yield first, second


def _measure(url: str, rounds: int) -> Cpu:
    with contextlib.ExitStack() as stack:
        pairs = {name: stack.enter_context(_environments(name, url)) for name in CONTESTANTS}
        return {case: _medians(case, pairs, rounds) for case in CASES if CASES[case].timed}


def _medians(case: str, pairs: dict[str, tuple[Contestant, Contestant]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in pairs}
    for _ in range(_WARM_UP + rounds):
        for name, pair in pairs.items():
            run = Run(name, *pair, Uncounted())
            CASES[case].play(run)
            taken[name].append(run.cpu)
    return {name: statistics.median(seconds[_WARM_UP:]) for name, seconds in taken.items()}


if __name__ == "__main__":
    logging.disable()  # the errors that the cases provoke are part of the outcomes
    warnings.simplefilter("ignore")
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
