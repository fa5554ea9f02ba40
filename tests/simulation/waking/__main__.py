"""Waiting asleep: many runs of all plans, one run with its trace, or every rule broken.

python -m tests.simulation.waking --runs 200              # so many seeds of each plan
python -m tests.simulation.waking --minutes 2             # for so long
python -m tests.simulation.waking --plan all --seed 7 --trace
python -m tests.simulation.waking --mutants
"""

import argparse
import itertools
import sys
import time

from tests.prove import bench
from tests.simulation.runs import Totals

from .plans import MUTATIONS, PLANS, play, shown_by


def parser() -> argparse.ArgumentParser:
    made = bench.parser("tests.simulation.waking", __doc__, seed=0, minutes=None, mutants=None)
    made.add_argument("--runs", type=int, default=50, help="seeds of each plan, without --minutes (default: 50)")
    made.add_argument("--plan", choices=sorted(PLANS), metavar="PLAN", help="one plan (a wrong name lists them)")
    made.add_argument("--trace", action="store_true", help="run one seed and print everything that happens")
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    if options.mutants is not None:
        chosen = bench.chosen(options.mutants, list(MUTATIONS))
        return bench.planted((name, shown_by(name)) for name in chosen)
    if options.trace:
        return {"good": not play(options.seed, options.plan or "all", print).failures}
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    names, total = [options.plan] if options.plan else list(PLANS), Totals()
    for seed in itertools.count(options.seed):
        if seed - options.seed >= options.runs if until is None else time.monotonic() >= until:
            break
        for name in names:
            total.note(play(seed, name))
        bench.progress(str(total))
    return total.figures()


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
