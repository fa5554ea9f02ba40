"""Prints many runs with their totals, one run with its trace, or every mutation with its effects.

With --json, the figures of many runs, or of --mutants, are also written to a file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import lanes
from .mutations import MUTATIONS, broken
from .runs import MORE, Totals, run_chunks, run_slices, simulate, try_mutations
from .schedule import BIASES
from .shrink import shrink


def main() -> int:
    options = _options()
    if options.minutes is not None and options.broken:
        sys.exit("--minutes breaks no rule: use --runs with --broken")
    if options.mutations is not None:
        return _mutations(options)
    if options.mutants:
        return _mutants(options)
    if options.shrink:
        return _shrink(options)
    if options.trace:
        return _one(options)
    return _many(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=2000, help="how many seeds, from the first one on")
    parser.add_argument("--minutes", type=float, help="how long to run seeds of all biases, instead of --runs")
    parser.add_argument(
        "--bias",
        choices=sorted(BIASES),
        metavar="BIAS",
        help="one bias for all runs (a wrong name lists them); without it each seed draws one",
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", action="store_true", help="run one seed and print everything that happens")
    parser.add_argument("--shrink", action="store_true", help="shrink a failing seed, and draw what is left as lanes")
    parser.add_argument(
        "--broken",
        choices=sorted(MUTATIONS),
        metavar="MUTANT",
        help="break a rule of the protocol (a wrong name lists the mutants)",
    )
    parser.add_argument(
        "--mutations", metavar="PART", nargs="?", const="", help="run every mutation (with PART in its name or a bias)"
    )
    parser.add_argument("--mutants", action="store_true", help="run each mutation until a run shows it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    return parser.parse_args()


def _one(options: argparse.Namespace) -> int:
    if options.broken:
        with broken(options.broken):
            result = simulate(options.seed, options.bias, print)
    else:
        result = simulate(options.seed, options.bias, print)
    print(result if result.failures else f"seed {options.seed} ({result.bias}): no failures")
    return bool(result.failures)


def _shrink(options: argparse.Namespace) -> int:
    def tell(progress: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{progress} ", end="", file=sys.stderr, flush=True)

    shrunk = shrink(options.seed, options.bias, options.broken, tell=tell)
    print(file=sys.stderr)
    if shrunk is None:
        print(f"seed {options.seed}: no failures")
        return 0
    for line in lanes.draw(shrunk.steps):
        print(line)
    print(f"seed {options.seed}: {shrunk.kind}, in {len(shrunk.steps)} steps after {shrunk.runs} runs")
    return 1


def _many(options: argparse.Namespace) -> int:
    total, started, seconds = Totals(), time.monotonic(), 0.0
    for part in _parts(options):
        total.add(part)
        seconds = time.monotonic() - started
        if sys.stderr.isatty():
            print(f"\r{total}, {total.counts['runs'] / seconds:.0f} runs/s", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for result in total.failed[:MORE]:
        print(result)
    print(f"{total} in {seconds:.0f} s")
    good = bool(total.counts["runs"]) and not total.failed  # no runs show nothing
    figures = {
        "seconds": round(seconds, 1),
        "runs": total.counts["runs"],
        "grants": total.counts["grants"],
        "faults": total.faults,
        "failed": [str(result) for result in total.failed[:MORE]],
        "double_holders": total.double_holders(),
        "good": good,
    }
    _write(options.json, figures)
    return not good


def _parts(options: argparse.Namespace) -> Iterator[Totals]:
    if options.minutes is not None:
        biases = [options.bias] if options.bias else BIASES
        return run_slices(options.seed, options.minutes * 60, biases, options.processes)
    return run_chunks(options.seed, options.runs, options.bias, options.processes, options.broken)


def _mutants(options: argparse.Namespace) -> int:
    names = [name for name, mutation in MUTATIONS.items() if not mutation.redundant]
    survivors = []
    started = time.monotonic()
    for name, shown in try_mutations(names, options.processes):
        survivors += [] if shown else [name]
        print(f"{name}: {'noticed' if shown else 'NOT NOTICED'}", flush=True)
    killed = len(names) - len(survivors)
    print(f"mutants noticed: {killed} of {len(names)}")
    seconds = round(time.monotonic() - started, 1)
    figures = {"seconds": seconds, "killed": killed, "mutants": len(names), "survivors": sorted(survivors)}
    _write(options.json, figures | {"good": not survivors})
    return bool(survivors)


def _write(path: Path | None, figures: dict[str, Any]) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")


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
