"""Fuzzing: ``python -m tests.fuzzing``. Hostile input, and a server that answers anything.

    python -m tests.fuzzing --minutes 3            # what `make prove` runs
    python -m tests.fuzzing --play 17              # one operation against the server, by its seed
    python -m tests.fuzzing --only reply           # only the targets whose names contain this

Ends with 1 if an undocumented error came out, or if an operation hung or broke its bound. Then it prints the smallest
input that shows it.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from lambda_lock import JAVA
from lambda_lock.testing import ManualClock
from lambda_lock.testing.memory import Memory

from . import guide
from .liar import Liar
from .operations import OPERATIONS
from .play import drawn, perform, shrunk
from .targets import TARGETS


class Plays:
    """Operations against the server, with totals."""

    def __init__(self) -> None:
        self.server = Liar(Memory({}, ManualClock(), JAVA))
        self.count = self.requests = self.double_holders = 0
        self.operations: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.most: dict[str, tuple[int, float]] = {}
        self.failures: list[str] = []

    def run(self, seed: int) -> None:
        play = drawn(seed)
        outcome = perform(play, self.server)
        self.count += 1
        self.requests += outcome.requests
        self.double_holders += outcome.double_holders
        self.operations[play.operation] += 1
        self.errors[outcome.error or "no error"] += 1
        most = self.most.get(play.operation, (0, 0.0))
        self.most[play.operation] = max(most[0], outcome.requests), max(most[1], round(outcome.seconds, 2))
        if outcome.failure:
            least = shrunk(play, outcome, self.server)
            self.failures.append(f"--play {seed}: {outcome.failure}\nsmallest: {least}")
            print(self.failures[-1], file=sys.stderr, flush=True)

    def figures(self) -> dict[str, Any]:
        return {
            "plays": self.count,
            "requests answered": self.requests,
            "double_holders": self.double_holders,
            "plays by operation": dict(sorted(self.operations.items())),
            "documented errors": dict(self.errors.most_common()),
            "most requests and seconds": self.most,
        }


def fuzz(options: argparse.Namespace) -> dict[str, Any]:
    """Play and guide at the same time. Returns the figures."""
    began = time.monotonic()
    until = began + options.minutes * 60
    names = [name for name in TARGETS if options.only in name]
    reports: list[guide.Report] = []
    guiding = threading.Thread(target=guide.run_all, args=(names, until, options.seed, reports), daemon=True)
    guiding.start()
    plays = Plays()
    seed = options.seed
    while time.monotonic() < until and len(plays.failures) < 5:
        plays.run(seed)
        seed += 1
        if plays.count % 500 == 0:
            print(f"plays: {plays.count:,}, requests answered: {plays.requests:,}", file=sys.stderr, flush=True)
    guiding.join()
    plays.server.close()
    failures = plays.failures + [report.failure for report in reports if report.failure]
    return {
        "inputs": plays.requests + sum(report.inputs for report in reports),
        **plays.figures(),
        "targets": {report.name: {"inputs": report.inputs, "by": report.engine} for report in reports},
        "operations": len(OPERATIONS),
        "seconds": round(time.monotonic() - began),
        "failures": failures,
        "good": not failures and len(reports) == len(names),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description="Feed everything hostile input.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (default 1)")
    parser.add_argument("--play", type=int, help="only this play against the server, by its seed")
    parser.add_argument("--only", default="", help="only targets whose names contain this")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    logging.getLogger("lambda_lock").setLevel(logging.CRITICAL)
    if options.play is not None:
        plays = Plays()
        print(drawn(options.play))
        plays.run(options.play)
        print(plays.most, plays.errors)
        return int(bool(plays.failures))
    figures = fuzz(options)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    for failure in figures["failures"]:
        print(failure)
    print(f"inputs: {figures['inputs']:,} ({figures['plays']:,} plays against the server)")
    print(f"double holders: {figures['double_holders']}")
    return int(not figures["good"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
