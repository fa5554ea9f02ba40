"""Stops workers at random moments, and counts what they leave: ``python -m tests.stopping``.

    python -m tests.stopping                             # 50 workers of each shape
    python -m tests.stopping --runs 200 --only gather    # 200 of the shapes whose names contain this

The shapes are those of worker.py. The exit status is 0 if all workers ended, with no lock held and no place in a queue.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

from lambda_lock import LockClient
from rig.engine import ROOT, Ministack
from tests.prove import bench

from .worker import SHAPES

PATIENCE = 60  # seconds: what has not ended then never does
_LATEST = 0.15  # seconds from the first lock to the signal

HELD, PLACES, ENDLESS = "locks left held", "places left in a queue", "never ended"


def play(shape: str, prefix: str, client: LockClient, *mistake: str) -> Counter[str]:
    """Start a worker, and stop it. Returns what was wrong. The environment leads to the table of ``client``.

    mistake: of those of mistakes.py, the one that is planted in the worker.
    """
    wrong = Counter[str]()
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.stopping.worker", shape, prefix, *mistake],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"working\n"
        time.sleep(random.random() * _LATEST)
        worker.send_signal(signal.SIGTERM)
        _, told = worker.communicate(timeout=PATIENCE)
        if worker.returncode != 128 + signal.SIGTERM:
            wrong[f"ended by {worker.returncode}: {told.decode()[-2000:]}"] += 1
    except subprocess.TimeoutExpired:
        wrong[ENDLESS] += 1
    finally:
        worker.kill()
        worker.communicate()
    for record in client.list():
        if record.key.startswith(prefix + " "):
            wrong[HELD] += not record.is_released
            wrong[PLACES] += record.waiters
    return +wrong


def run(options: argparse.Namespace) -> bench.Figures:
    totals: bench.Figures = {}
    with Ministack() as engine:
        for shape in bench.chosen(options.only, SHAPES):
            table = engine.create_table(shape)
            os.environ.update(engine.environment() | {"LAMBDA_LOCK_TABLE": table})
            client = LockClient()
            found = [play(shape, f"{shape} {number}", client) for number in range(options.runs)]
            bad, wrong = sum(map(bool, found)), sum(found, Counter[str]())
            bench.say(f"{shape:18} {bad:4} of {options.runs} runs were wrong  {bench.counted(wrong)}")
            bench.add(
                totals, {"workers stopped": options.runs, "workers that were wrong": bad, "what was wrong": wrong}
            )
    return totals | {"good": not totals["workers that were wrong"]}


def main(arguments: list[str]) -> int:
    made = bench.parser("tests.stopping", __doc__, only=None)
    made.add_argument("--runs", type=int, default=50, help="workers of each shape (default: 50)")
    return bench.conduct(made, run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
