"""Rate limits in virtual time: python -m benchmarks.rates

Callers start things at a limit, with our rate limit as shipped and with three ways that poll. Nothing is sent.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.results import add_json, save

from .contestants import CONTESTANTS, LIMIT
from .report import picture, table, write
from .world import World

WANTED = (8.8, 12.0)  # starts a second that all callers want together


def measure() -> tuple[dict[str, Any], str]:
    """The figures, and the picture of the first of the loads."""
    limiters: dict[str, list[dict[str, float]]] = {}
    starts: dict[str, list[float]] = {}
    for name, way in CONTESTANTS.items():
        limiters[name] = []
        for wanted in WANTED:
            world = World(way, wanted).run()
            starts.setdefault(name, world.starts)
            figures = {"most": world.most(), "longest": world.longest(), "requests": world.requests / len(world.starts)}
            limiters[name].append(figures)
    return {"limit": LIMIT, "wanted": WANTED, "limiters": limiters}, picture(starts, WANTED[0])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rates", description=__doc__)
    add_json(parser)
    parser.add_argument("--docs", action="store_true", help="write the table and the picture into docs/")
    arguments = parser.parse_args()
    result, drawn = measure()
    if arguments.docs:
        write(result, drawn)
    if not save(arguments.json, result):
        print(table(result))
    if result["limiters"]["lambda_lock"][-1]["most"] > LIMIT + 1:
        sys.exit("too many started in a second")


if __name__ == "__main__":
    main()
