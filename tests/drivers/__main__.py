"""Lets a fault happen at every point of the drivers, and judges what is left: ``python -m tests.drivers``.

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

import argparse
import itertools
import math
import os
import random
import sys
import time
from functools import partial

from rig.engine import Ministack
from tests.prove import bench

from . import cancelling
from .faults import FAULTS
from .scenes import OPERATIONS, TABLE, Stage
from .sweep import Steps, Swept, course, sweep

_CANCELLATION = "cancellation"


def sweeps(engine: Ministack, seed: int | None = None) -> dict[str, Steps]:
    """All sweeps by their names, which are "operation: fault". seed: of a random order of their points."""
    stage = Stage(engine)
    found: dict[str, Steps] = {}
    for name in OPERATIONS:
        for fault, kind in FAULTS.items():
            if name not in kind.never_in:
                found[f"{name}: {fault}"] = partial(course, stage, name, fault, seed=seed)
    for name, lost in itertools.product(cancelling.CANCELLED, cancelling.LOST):
        if not (lost and name == "wait"):  # its part in the queue is counted in requests
            fault = f"{_CANCELLATION}, a {lost} lost twice" if lost else _CANCELLATION
            found[f"{name}: {fault}"] = partial(cancelling.course, stage.rows, name, seed=seed, lost=lost)
    return found


def figures(swept: Swept) -> bench.Figures:
    operation, _, fault = swept.name.partition(": ")
    return {
        "sweeps": 1,
        "points by operation": {operation: swept.played},
        "points by fault": {fault: swept.played},
        "outcomes": swept.counts,
        "points played": swept.played,
        "points": swept.points,
        "troubles": len(swept.troubles),
        bench.DOUBLE_HOLDERS: swept.double_holders,
    }


def run(options: argparse.Namespace) -> bench.Figures:
    with Ministack() as engine:
        engine.create_table(TABLE)
        os.environ.update(engine.environment())
        os.environ["LAMBDA_LOCK_TRACING"] = "off"
        return _sweep_all(engine, options)


def _sweep_all(engine: Ministack, options: argparse.Namespace) -> bench.Figures:
    until, seed = math.inf, None
    if options.minutes is not None:
        until, seed = time.monotonic() + options.minutes * 60, random.randrange(1 << 32)
    totals: bench.Figures = {"texts": []}
    found = sweeps(engine, seed)
    names = bench.chosen(options.only, found)
    for number, name in enumerate(names):
        begun = time.monotonic()
        swept = sweep(name, found[name], begun + (until - begun) / (len(names) - number))
        bench.say(
            f"{name:36} {swept.played:5} of {swept.points:5} points in {time.monotonic() - begun:5.1f} s  "
            f"{bench.counted(swept.counts)}"
        )
        bench.complain({"trouble": swept.troubles})
        bench.add(totals, figures(swept))
        totals["texts"] += swept.troubles
        totals["good"] = not (totals["troubles"] or totals[bench.DOUBLE_HOLDERS])
        bench.write(options.json, totals)  # so that a run that is stopped leaves its figures
    return totals


def main(arguments: list[str]) -> int:
    return bench.conduct(bench.parser("tests.drivers", __doc__, minutes=None, only=None), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
