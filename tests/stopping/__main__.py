"""Stops workers at random moments, and counts what they leave: ``python -m tests.stopping``.

    python -m tests.stopping                             # 50 workers of each shape
    python -m tests.stopping --runs 200 --only gather    # 200 of the shapes whose names contain this

The shapes are those of worker.py. The exit status is 0 if all workers ended, with no lock held and no place in a queue.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

from lambda_lock import LockClient
from rig.engine import Ministack

from .rounds import play
from .worker import SHAPES


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stopping", description="Stop workers at random moments.")
    parser.add_argument("--runs", type=int, default=50, help="workers of each shape")
    parser.add_argument("--only", default="", metavar="NAME", help="the shapes whose names contain this")
    options = parser.parse_args(arguments)
    bad = 0
    with Ministack() as engine:
        for shape in SHAPES:
            if options.only not in shape:
                continue
            table = engine.create_table(shape)
            os.environ.update(engine.environment() | {"LAMBDA_LOCK_TABLE": table})
            client = LockClient()
            runs, wrong = 0, Counter[str]()
            for number in range(options.runs):
                found = play(shape, f"{shape} {number}", client)
                runs += bool(found)
                wrong.update(found)
            bad += runs
            print(f"{shape:18} {runs:4} of {options.runs} runs were wrong  {dict(wrong) or ''}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
