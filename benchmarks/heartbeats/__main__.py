"""Hold 1, 100 and 5,000 locks in one process, over three leases: python -m benchmarks.heartbeats

Each number of locks has a process of its own. The engine is a real one, over HTTP on loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rig.engine import ROOT, Ministack, inherited_environment

from .report import section

HOLDER = Path(__file__).with_name("holder.py")
COUNTS = (1, 100, 5000)
LEASE, LEASES = 20.0, 3.5  # seconds, and how many of them the locks are held
_SHORT = (100, 6.0)  # locks at most, and their lease


def measure(counts: tuple[int, ...], lease: float) -> dict[str, Any]:
    """The result of one run, ready for JSON."""
    with Ministack() as engine:
        engine.create_table("lambda_lock")
        environment = inherited_environment() | engine.environment() | {"PYTHONPATH": str(ROOT)}
        result = {"python": sys.version.split()[0], "load": os.getloadavg()[0], "engine": _run(environment, 0, 0, 5)}
        result["held"] = [_run(environment, count, lease, LEASES * lease) for count in counts]
    return result


def _run(environment: dict[str, str], count: int, lease: float, seconds: float) -> Any:
    what = f"{count} locks for {seconds:.0f} s" if count else "the engine's limit"
    print(what, file=sys.stderr, flush=True)
    command = [sys.executable, str(HOLDER), str(count), str(lease), str(seconds)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heartbeats", description=__doc__)
    parser.add_argument("--short", action="store_true", help="at most 100 locks, with a lease of 6 s")
    parser.add_argument("--json", type=Path, help="write the result here")
    arguments = parser.parse_args()
    most, lease = _SHORT if arguments.short else (max(COUNTS), LEASE)
    result = measure(tuple(count for count in COUNTS if count <= most), lease)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(section(result))
    if any(held["lapsed"] or held["released"] < held["locks"] for held in result["held"]):
        sys.exit("a lock lapsed")


if __name__ == "__main__":
    main()
