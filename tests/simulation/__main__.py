"""Prints many runs with their totals, one run with its trace, or every mutation with its effects.

python -m tests.simulation --runs 2000              # so many seeds, each of a bias that it draws
python -m tests.simulation --minutes 2              # all biases in turns, for so long
python -m tests.simulation --seed 7 --trace         # one run, step by step
python -m tests.simulation --mutants                # each mutation, until a run shows it
python -m tests.simulation --mutations lease        # what those with "lease" in their names do to how many runs
"""

import argparse
import sys
import time
from collections.abc import Iterator

from tests.prove import bench

from . import lanes
from .mutations import MUTATIONS, broken
from .runs import Totals, run_chunks, run_slices, simulate, try_mutations
from .schedule import BIASES
from .shrink import shrink


def parser() -> argparse.ArgumentParser:
    made = bench.parser("tests.simulation", __doc__, seed=0, minutes=None, processes=2, mutants=None)
    made.add_argument("--runs", type=int, default=2000, help="how many seeds, without --minutes (default: 2000)")
    one = "one bias for all runs (a wrong name lists them); without it each seed draws one"
    made.add_argument("--bias", choices=sorted(BIASES), metavar="BIAS", help=one)
    made.add_argument("--trace", action="store_true", help="run one seed and print everything that happens")
    made.add_argument("--shrink", action="store_true", help="shrink a failing seed, and draw what is left as lanes")
    rule = "break a rule of the protocol (a wrong name lists the mutants)"
    made.add_argument("--broken", choices=sorted(MUTATIONS), metavar="MUTANT", help=rule)
    each = "what every mutation (with PART in its name or a bias) does to how many runs"
    made.add_argument("--mutations", metavar="PART", nargs="?", const="", help=each)
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    if options.minutes is not None and options.broken:
        raise bench.CannotRunError("--minutes breaks no rule: use --runs with --broken")
    if options.mutations is not None:
        return {"good": _mutations(options)}
    if options.mutants is not None:
        names = [name for name, mutation in MUTATIONS.items() if not mutation.redundant]
        return bench.planted(try_mutations(bench.chosen(options.mutants, names), options.processes))
    if options.shrink:
        return {"good": _shrink(options)}
    if options.trace:
        return {"good": _one(options)}
    return _many(options)


def _one(options: argparse.Namespace) -> bool:
    with broken(options.broken):
        result = simulate(options.seed, options.bias, print)
    print(result if result.failures else f"seed {options.seed} ({result.bias}): no failures")
    return not result.failures


def _shrink(options: argparse.Namespace) -> bool:
    shrunk = shrink(options.seed, options.bias, options.broken, tell=bench.progress)
    bench.progress("")
    if shrunk is None:
        print(f"seed {options.seed}: no failures")
        return True
    for line in lanes.draw(shrunk.steps):
        print(line)
    print(f"seed {options.seed}: {shrunk.kind}, in {len(shrunk.steps)} steps after {shrunk.runs} runs")
    return False


def _many(options: argparse.Namespace) -> bench.Figures:
    total, started = Totals(), time.monotonic()
    for part in _parts(options):
        total.add(part)
        rate = total.counts["runs"] / (time.monotonic() - started)
        bench.progress(f"{rate:.0f} runs/s, {len(total.failed)} failed, {total}")
    return total.figures()


def _parts(options: argparse.Namespace) -> Iterator[Totals]:
    if options.minutes is not None:
        biases = [options.bias] if options.bias else BIASES
        return run_slices(options.seed, options.minutes * 60, biases, options.processes)
    return run_chunks(options.seed, options.runs, options.bias, options.processes, options.broken)


def _mutations(options: argparse.Namespace) -> bool:
    missed = 0
    for name, mutation in MUTATIONS.items():
        if not any(options.mutations in text for text in (name, *mutation.biases)):
            continue
        runs = min(mutation.runs, options.runs)
        for bias in mutation.biases:
            total = Totals()
            for part in run_chunks(options.seed, runs, bias, options.processes, name):
                total.add(part)
            seen = sum(1 for result in total.failed if result.failures.keys() & set(mutation.shows))
            missed += not seen and not mutation.redundant
            kinds = ", ".join(f"{kind} {count}" for kind, count in total.kinds().most_common())
            print(f"{name:<62} {bias:<14} shown by {seen} of {runs} runs ({kinds or 'nothing'})", flush=True)
        if mutation.redundant:
            print(f"  not to be expected: {mutation.redundant}")
    return not missed


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
