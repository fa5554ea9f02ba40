"""Requests and units of each operation, counted at the wire: python -m benchmarks.costs

A write is charged by the size of the whole row, so what a permit costs depends on how many hold one.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.results import add_json, save
from rig.engine import Ministack, client_environment

from .report import measure, pages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/ as well")
    add_json(parser)
    arguments = parser.parse_args()
    with Ministack() as engine:
        os.environ.update(client_environment(engine.url))
        engine.create_table("locks")
        report = measure(engine, "locks")
    if arguments.write:
        for page, text in pages(report).items():
            page.write_text(text)
    if not save(arguments.json, report.as_json()):
        print(f"{report.semaphores()}\n\n{report.several()}\n\n{report.readers()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
