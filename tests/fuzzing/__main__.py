"""Fuzzing: ``python -m tests.fuzzing``. Hostile input, and a server that answers anything.

    python -m tests.fuzzing --minutes 3            # what `make prove` runs
    python -m tests.fuzzing --play 17              # one operation against the server, by its seed
    python -m tests.fuzzing --only reply           # only the targets whose names contain this

Ends with 1 if an undocumented error came out, or if an operation hung or broke its bound. Then it prints the smallest
input that shows it.
"""

import argparse
import itertools
import logging
import sys
import threading
import time
from collections.abc import Iterable

from lambda_lock import JAVA
from lambda_lock.testing import ManualClock
from lambda_lock.testing.memory import Memory
from tests.prove import bench

from . import guide
from .liar import Liar
from .play import drawn, perform, shrunk
from .targets import TARGETS

_MOST_FAILURES = 5


def play_all(seeds: Iterable[int], until: float) -> bench.Figures:
    """Play operations against the server."""
    server = Liar(Memory({}, ManualClock(), JAVA))
    totals: bench.Figures = {"failures": []}
    for seed in seeds:
        play = drawn(seed)
        outcome = perform(play, server)
        figures = {
            "plays": 1,
            "requests answered": outcome.requests,
            "plays by operation": {play.operation: 1},
            "documented errors": {outcome.error or "no error": 1},
            "most requests by operation": {play.operation: outcome.requests},
            "most seconds by operation": {play.operation: round(outcome.seconds, 2)},
            bench.DOUBLE_HOLDERS: outcome.double_holders,
        }
        bench.add(totals, figures)
        if outcome.failure:
            least = shrunk(play, outcome, server)
            totals["failures"].append(f"--play {seed}: {outcome.failure}\nsmallest: {least}")
            bench.complain({"failure": totals["failures"][-1:]})
        bench.progress(f"plays: {totals['plays']:,}, requests answered: {totals['requests answered']:,}")
        if time.monotonic() >= until or len(totals["failures"]) >= _MOST_FAILURES:
            break
    bench.progress("")
    server.close()
    return totals


def fuzz(options: argparse.Namespace) -> bench.Figures:
    """Play and guide at the same time."""
    until = time.monotonic() + options.minutes * 60
    names = bench.chosen(options.only, TARGETS)
    reports: list[guide.Report] = []
    guiding = threading.Thread(target=guide.run_all, args=(names, until, options.seed, reports), daemon=True)
    guiding.start()
    figures = play_all(itertools.count(options.seed), until)
    guiding.join()
    failures = [report.failure for report in reports if report.failure]
    bench.complain({"failure": failures})
    figures["failures"] += failures
    inputs = {report.name: report.inputs for report in reports}
    figures |= {"inputs by target": inputs, "inputs fuzzed": figures["requests answered"] + sum(inputs.values())}
    return figures | {"good": not figures["failures"] and len(reports) == len(names)}


def run(options: argparse.Namespace) -> bench.Figures:
    logging.getLogger("lambda_lock").setLevel(logging.CRITICAL)
    if options.play is None:
        return fuzz(options)
    bench.say(str(drawn(options.play)))
    figures = play_all([options.play], 0.0)
    return figures | {"good": not figures["failures"]}


def main(arguments: list[str]) -> int:
    made = bench.parser("tests.fuzzing", __doc__, minutes=1.0, seed=1, only=None)
    made.add_argument("--play", type=int, metavar="SEED", help="only this play against the server, by its seed")
    return bench.conduct(made, run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
