"""Lets faults come in between at every point of the drivers, and judges what is left: ``python -m tests.drivers``.

    python -m tests.drivers                          # everything
    python -m tests.drivers --json FILE              # with the figures in a file
    python -m tests.drivers --minutes 3              # as many points of each sweep as fit, in a random order
    python -m tests.drivers --only "release: fork"   # the sweeps whose names contain this

An interrupt, a signal handler that uses locks (it takes another, ends the same, closes the client) and a fork come at
every instant of acquire, wait, renew, release, commit, hand_over, adopt, resume and close at which Python runs signal
handlers (points.py), on a real engine over HTTP; also with a permit, with several locks and with holder=. A
cancellation comes at every wait and around every request of the same operations of an async client (cancelling.py).
Each line of the output is a sweep. The exit status is 0 if nothing hung, nothing was held for nobody, and nothing false
was said.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rig.engine import Ministack

from . import cancelling
from .faults import FAULTS
from .scenes import OPERATIONS, TABLE, Rows, Stage
from .sweep import Swept, course, sweep

_CANCELLATION = "cancellation"

Steps = Callable[[int], Iterator[dict[str, Any]]]


def sweeps(seed: int | None = None) -> dict[str, Steps]:
    """All sweeps by their names, which are "operation: fault". seed: of a random order of their points."""
    stage, rows = Stage(), Rows()
    found: dict[str, Steps] = {}
    for name in OPERATIONS:
        for fault, kind in FAULTS.items():
            if name not in kind.never_in:
                found[f"{name}: {fault}"] = partial(course, stage, name, fault, seed=seed)
    for name, operation in cancelling.OPERATIONS.items():
        found[f"{name}: {_CANCELLATION}"] = partial(cancelling.course, rows, operation, seed=seed)
    return found


def figures(done: list[Swept], seconds: float) -> dict[str, Any]:
    """What is written to the file. points: how many were played, by operation."""
    points, faults, counts = Counter[str](), Counter[str](), Counter[str]()
    for swept in done:
        operation, _, fault = swept.name.partition(": ")
        points[operation] += swept.played
        faults[fault] += swept.played
        counts += swept.counts
    troubles = [text for swept in done for text in swept.troubles]
    return {
        "sweeps": len(done),
        "points": dict(points),
        "faults": dict(faults),
        "outcomes": dict(counts),
        "played": points.total(),
        "of": sum(swept.points for swept in done),
        "seconds": round(seconds, 1),
        "double_holders": sum(swept.double_holders for swept in done),
        "troubles": len(troubles),
        "texts": troubles,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drivers", description="Sweep faults over the drivers.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into this file")
    parser.add_argument("--minutes", type=float, help="play points of each sweep for so long, instead of all")
    parser.add_argument("--only", metavar="NAME", help="the sweeps whose names contain this")
    options = parser.parse_args(arguments)
    with Ministack() as engine:
        engine.create_table(TABLE)
        os.environ.update(engine.environment())
        os.environ["LAMBDA_LOCK_TRACING"] = "off"
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    started, done = time.monotonic(), list[Swept]()
    until = math.inf if options.minutes is None else started + options.minutes * 60
    seed = None if options.minutes is None else random.randrange(1 << 32)
    chosen = {name: steps for name, steps in sweeps(seed).items() if options.only is None or options.only in name}
    for number, (name, steps) in enumerate(chosen.items()):
        begun = time.monotonic()
        swept = sweep(name, steps, begun + (until - begun) / (len(chosen) - number))
        done.append(swept)
        said = ", ".join(f"{what} {count}" for what, count in swept.counts.most_common())
        print(
            f"{name:36} {swept.played:5} of {swept.points:5} points in {time.monotonic() - begun:5.1f} s  {said}",
            file=sys.stderr,
            flush=True,
        )
        for text in swept.troubles:
            print(text, file=sys.stderr, flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(figures(done, time.monotonic() - started), indent=2) + "\n")
    result = figures(done, time.monotonic() - started)
    said = f"points: {result['played']:,} of {result['of']:,}, troubles: {result['troubles']}"
    print(f"{said}, double holders: {result['double_holders']}")
    return int(not done or result["troubles"] > 0 or result["double_holders"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
