"""Compares lambda_lock.testing's tables with ministack and DynamoDB Local: ``python -m tests.expressions``.

    python -m tests.expressions --minutes 2                       # both engines; DynamoDB Local needs Java
    python -m tests.expressions --engine ministack --cases 500
    python -m tests.expressions --mutants                         # the comparison finds mistakes in the evaluator

The exit status is 0 if nothing differs but what known.py lists, or ministack alone where DynamoDB Local agrees with the
tables. With --mutants: if each mistake is found.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from tests.prove import bench

from .compare import Comparison
from .databases import Real
from .known import KNOWN, LOCAL, MINISTACK, hidden_by
from .mistakes import MISTAKES
from .search import SOURCES, find, search

NAMES = {"ministack": MINISTACK, "dynamodb-local": LOCAL}  # in known.py
_CHUNK = 100  # cases between two looks at the clock
_CASES = 3000  # in which a mistake must be found


def parser() -> argparse.ArgumentParser:
    made = bench.parser("tests.expressions", __doc__, minutes=None, seed=0, engine=None, mutants=None)
    made.add_argument("--cases", type=int, default=1000, help="how many to compare, without --minutes (default: 1000)")
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    names = [options.engine] if options.engine else [*bench.ENGINES]
    with ExitStack() as stack:
        engines = [Real(NAMES[name], stack.enter_context(bench.ENGINES[name]())) for name in names]
        if options.mutants is None:
            return _compare(engines, options)
        hidden = hidden_by(*(engine.name for engine in engines)) & MISTAKES.keys()
        if hidden:
            bench.say(f"not planted, as the engine makes them itself: {', '.join(sorted(hidden))}")
        planted = bench.chosen(options.mutants, [name for name in MISTAKES if name not in hidden])
        return bench.planted(_tried(planted, engines, options.seed))


def _tried(names: list[str], engines: list[Real], seed: int) -> Iterator[tuple[str, str]]:
    for name in names:
        started = time.monotonic()
        difference = find(name, engines, seed, _CASES)
        yield name, f"in {time.monotonic() - started:.0f} s\n{difference}" if difference else ""


def _compare(engines: list[Real], options: argparse.Namespace) -> bench.Figures:
    comparison = Comparison(engines)
    differences: list[str] = []
    started = time.monotonic()
    part = 0
    while _goes_on(part, started, options):
        for source in SOURCES:
            difference = search(comparison, source, options.seed + part, _CHUNK // len(SOURCES))
            if difference is not None and str(difference) not in differences:
                differences.append(str(difference))
                bench.complain({"difference": differences[-1:]})
        part += 1
        bench.progress(f"{comparison.inputs} inputs, {len(differences)} differences")
    bench.progress("")
    return {
        "inputs fuzzed": comparison.inputs,
        "differences": len(differences),
        "found": differences[:10],
        "ministack alone": comparison.alone,
        "outcomes": dict(comparison.counts),
        "known": {each.name: f"{each.engine}: {each.reason}" for each in KNOWN},
        "good": not differences,
    }


def _goes_on(part: int, started: float, options: argparse.Namespace) -> bool:
    if options.minutes is None:
        return part * _CHUNK < options.cases
    return part == 0 or time.monotonic() - started < float(options.minutes) * 60


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
