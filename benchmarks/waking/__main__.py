"""Executions that sleep, beside executions that poll, in virtual time: python -m benchmarks.waking

Nothing is sent. The acquires, the queue, the sleepers' row and the waker's looks are the shipped code.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.results import add_json, save

from .report import measure, picture, table, write
from .world import LOADS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waking", description=__doc__)
    add_json(parser)
    parser.add_argument("--only", default="", help="only loads whose title contains this, such as '10 minutes'")
    parser.add_argument("--docs", action="store_true", help="write the table and the picture into docs/")
    arguments = parser.parse_args()
    result, runs = measure([load for load in LOADS if arguments.only in load.title])
    if arguments.docs:
        write(result, picture(runs))
    if not save(arguments.json, result):
        print(table(result))
    if any(ways[way]["overlaps"] for ways in result["loads"].values() for way in ways):
        sys.exit("more held the lock at a time than may")


if __name__ == "__main__":
    main()
