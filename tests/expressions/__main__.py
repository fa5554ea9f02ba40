"""Compares lambda_lock.testing's tables with ministack and DynamoDB Local: ``python -m tests.expressions``.

    python -m tests.expressions --minutes 2                       # both engines; DynamoDB Local needs Java
    python -m tests.expressions --engine ministack --cases 500
    python -m tests.expressions --mistakes                        # the comparison finds mistakes in the evaluator

The exit status is 0 if nothing differs but what known.py lists, and what ministack alone does otherwise where DynamoDB
Local runs too. With --mistakes: if each mistake is found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rig.engine import DynamoDBLocal, Engine, Ministack

from .compare import Comparison
from .databases import Real
from .known import KNOWN, LOCAL, MINISTACK, hidden_by
from .mistakes import MISTAKES
from .search import SOURCES, find, search

ENGINES: dict[str, type[Engine]] = {MINISTACK: Ministack, LOCAL: DynamoDBLocal}
_CHUNK = 100  # cases between two looks at the clock
_CASES = 3000  # in which a mistake must be found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.expressions", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long to compare, instead of --cases")
    parser.add_argument("--cases", type=int, default=1000, help="how many cases to compare")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other cases")
    parser.add_argument("--engine", choices=ENGINES, help="compare with this engine alone")
    parser.add_argument("--mistakes", action="store_true", help="plant mistakes in the evaluator: each must be found")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args(arguments)
    names = [options.engine] if options.engine else list(ENGINES)
    with ExitStack() as stack:
        engines = [Real(name, stack.enter_context(ENGINES[name]())) for name in names]
        figures = _mistakes(engines, options) if options.mistakes else _compare(engines, options)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if figures["good"] else 1


def _compare(engines: list[Real], options: argparse.Namespace) -> dict[str, Any]:
    comparison = Comparison(engines)
    differences: list[str] = []
    started = time.monotonic()
    part = 0
    while _goes_on(part, started, options):
        for source in SOURCES:
            difference = search(comparison, source, options.seed + part, _CHUNK // len(SOURCES))
            if difference is not None and str(difference) not in differences:
                differences.append(str(difference))
                print(f"\r{difference}\n", file=sys.stderr)
        part += 1
        if sys.stderr.isatty():
            print(f"\r{comparison.inputs} inputs, {len(differences)} differences", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"{comparison.inputs} inputs compared with {' and '.join(e.name for e in engines)}")
    for name, count in sorted(comparison.counts.items()):
        print(f"  {name}: {count}")
    print(f"differences: {len(differences)}")
    return {
        "seconds": round(time.monotonic() - started, 1),
        "inputs": comparison.inputs,
        "differences": len(differences),
        "found": differences[:10],
        "ministack alone": comparison.alone,
        "outcomes": dict(sorted(comparison.counts.items())),
        "known": {each.name: f"{each.engine}: {each.reason}" for each in KNOWN},
        "good": not differences,
    }


def _goes_on(part: int, started: float, options: argparse.Namespace) -> bool:
    if options.minutes is None:
        return part * _CHUNK < options.cases
    return part == 0 or time.monotonic() - started < float(options.minutes) * 60


def _mistakes(engines: list[Real], options: argparse.Namespace) -> dict[str, Any]:
    hidden = hidden_by(*(engine.name for engine in engines))
    names = [name for name in MISTAKES if name not in hidden]
    found_by: dict[str, str] = {}
    for name in names:
        started = time.monotonic()
        difference = find(name, engines, options.seed, _CASES)
        seconds = time.monotonic() - started
        if difference is None:
            print(f"{name}: NOT FOUND in {seconds:.0f} s", flush=True)
            continue
        found_by[name] = difference.engine
        print(f"{name}: found in {seconds:.0f} s\n{difference}", flush=True)
    print(f"mistakes found: {len(found_by)} of {len(names)}")
    for engine in engines:
        print(f"  by {engine.name}: {list(found_by.values()).count(engine.name)}")
    if hidden:
        print(f"not planted, as the engine makes them itself: {', '.join(sorted(hidden & MISTAKES.keys()))}")
    missed = [name for name in names if name not in found_by]
    return {
        "killed": len(found_by),
        "mutants": len(names),
        "survivors": missed,
        "found by": found_by,
        "good": not missed,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
