"""Simulate locks at the scale of an account: python -m benchmarks.scale

The clients are ours, as shipped, and the older ones by their polling rules. Nothing is sent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from .clients import OURS, PERIODS, POWERTOOLS, life
from .report import section
from .world import BIN, World

CLIENTS = (*OURS, *PERIODS, POWERTOOLS)
HOLD = 0.1  # seconds
CROWDS, WAIT = (64, 1000, 10_000), 30.0  # clients on one key, and how many seconds they wait
TABLE_READS, TABLE_WRITES = 12_000, 4_000  # a second, of a new table on demand (DynamoDB Developer Guide, "Quotas")
DOWN, PATIENCE = 60.0, 120.0  # seconds: of the outage, and for which a client waits
_SETTLED = 30.0  # seconds after the outage that are looked at


def hot_key(who: str, crowd: int, seconds: float) -> dict[str, Any]:
    """``crowd`` clients ask for one key within a second, and wait."""
    world = World(1)
    for _ in range(crowd):
        world.start(world.rng.random(), life(who, world, "hot", seconds, HOLD))
    world.run(seconds)
    return {"crowd": crowd, "seconds": seconds, **_result(who, world)}


def outage(who: str, clients: int, down: float) -> dict[str, Any]:
    """Clients, each with its own key, come at an even pace while DynamoDB refuses everything. Then it serves again."""
    world = World(1, reads=TABLE_READS, writes=TABLE_WRITES, down=(0.0, down))
    for number in range(clients):
        world.start(world.rng.uniform(0, down), life(who, world, f"key-{number}", PATIENCE, HOLD))
    world.run(down + _SETTLED)
    after = sorted(at - down for at in world.granted_at)
    return {
        "clients": clients,
        "down": down,
        **_result(who, world),
        "peak_during": _peak(world, 0.0, down),
        "peak_after": _peak(world, down, down + _SETTLED),
        "half_after": round(statistics.median(after), 2) if after else None,
        "all_after": round(after[-1], 2) if after else None,
    }


def many_keys(who: str, clients: int) -> dict[str, Any]:
    """Clients, each with its own key, within a minute."""
    world = World(1, reads=TABLE_READS, writes=TABLE_WRITES)
    for number in range(clients):
        world.start(world.rng.uniform(0, 60), life(who, world, f"key-{number}", WAIT, HOLD))
    world.run(90.0)
    return {"clients": clients, **_result(who, world)}


def _result(who: str, world: World) -> dict[str, Any]:
    waits, grants = sorted(world.waits), len(world.waits)
    return {
        "who": who,
        "grants": grants,
        "wait_median": round(statistics.median(waits), 2) if waits else None,
        "wait_95": round(waits[int(grants * 0.95)], 2) if waits else None,
        "wait_longest": round(waits[-1], 2) if waits else None,
        "reads": world.served[0],
        "writes": world.served[1],
        "throttled_reads": world.refused[0],
        "throttled_writes": world.refused[1],
        "failed": world.failed,
        "sent": world.sent,
    }


def _peak(world: World, start: float, end: float) -> int:
    """The most requests a second, over BIN."""
    bins = world.sent[int(start / BIN) : int(end / BIN)]
    return round(max((sum(one) for one in bins), default=0) / BIN)


def measure(*, short: bool) -> dict[str, Any]:
    """The result of one run, ready for JSON."""
    crowds, seconds = (CROWDS[:2], 10.0) if short else (CROWDS, WAIT)
    clients, down = (500, 10.0) if short else (10_000, DOWN)
    result: dict[str, Any] = {"hold": HOLD, "hot": [], "outage": [], "keys": []}
    for who in CLIENTS:
        for crowd in crowds:
            print(f"{who}: {crowd} on one key", file=sys.stderr, flush=True)
            result["hot"].append(hot_key(who, crowd, seconds))
        print(f"{who}: an outage", file=sys.stderr, flush=True)
        result["outage"].append(outage(who, clients, down))
        result["keys"].append(many_keys(who, clients))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--short", action="store_true", help="at most 1,000 clients, for 10 s")
    parser.add_argument("--json", type=Path, help="write the result here")
    arguments = parser.parse_args()
    result = measure(short=arguments.short)
    if arguments.json:
        arguments.json.write_text(json.dumps(result) + "\n")
    print(section(result))


if __name__ == "__main__":
    main()
