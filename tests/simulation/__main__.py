"""Prints many runs with their totals, one run with its trace, or every mutation with its effects."""

from __future__ import annotations

import argparse
import sys
import time

from .mutations import MUTATIONS, broken
from .runs import MORE, Totals, run_chunks, simulate
from .schedule import BIASES


def main() -> int:
    options = _options()
    if options.mutations is not None:
        return _mutations(options)
    if options.trace:
        return _one(options)
    return _many(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=2000, help="how many seeds, from the first one on")
    parser.add_argument("--bias", choices=sorted(BIASES), help="one bias for all runs; without it each seed draws one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", action="store_true", help="run one seed and print everything that happens")
    parser.add_argument("--broken", choices=sorted(MUTATIONS), help="break this rule of the protocol")
    parser.add_argument(
        "--mutations", metavar="PART", nargs="?", const="", help="run every mutation (with PART in its name or a bias)"
    )
    return parser.parse_args()


def _one(options: argparse.Namespace) -> int:
    if options.broken:
        with broken(options.broken):
            result = simulate(options.seed, options.bias, print)
    else:
        result = simulate(options.seed, options.bias, print)
    print(result if result.failures else f"seed {options.seed} ({result.bias}): no failures")
    return bool(result.failures)


def _many(options: argparse.Namespace) -> int:
    total, started = Totals(), time.monotonic()
    for part in run_chunks(options.seed, options.runs, options.bias, options.processes, options.broken):
        total.add(part)
        seconds = time.monotonic() - started
        print(f"\r{total}, {total.counts['runs'] / seconds:.0f} runs/s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for result in total.failed[:MORE]:
        print(result)
    print(f"{total} in {time.monotonic() - started:.0f} s")
    return bool(total.failed)


def _mutations(options: argparse.Namespace) -> int:
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
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
