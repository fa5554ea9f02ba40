"""Compare a warm acquire and release with python-dynamodb-lock: python -m benchmarks.instructions.compare

Both run against the same engine, over HTTP. CPU time is taken in rounds in which the contestants take turns; it
includes the kernel's. Instructions are counted with callgrind, without the kernel's.

dynamolock (Go) is not run here. Its CPU was measured as 0.6 ms where python-dynamodb-lock took 2.3: 0.26 of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from rig.engine import ROOT, Ministack, client_environment

from .count import HERE, TABLES, run, warm
from .report import section

OTHER = "dynamodb_lock"
CONTESTANTS = {"lambda_lock": "lambda_lock", "lambda_lock_kept": "lambda_lock", OTHER: "dynamodb_lock"}  # their tables
WARM_UP, CYCLES = 50, 400
_OTHERS = (ROOT / ".venv-interop", ROOT / ".venv-bench")  # virtual environments that have python-dynamodb-lock


def cpu(commands: Mapping[str, tuple[list[str], dict[str, str]]], rounds: int) -> dict[str, list[dict[str, float]]]:
    """CPU milliseconds of a cycle: for each contestant, one for each round."""
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for name, (command, environment) in commands.items():
            done = run([*command, str(WARM_UP), str(CYCLES)], environment)
            taken[name].append(json.loads(done.stdout))
    return taken


def summary(taken: list[dict[str, float]]) -> dict[str, float]:
    totals = [one["user"] + one["system"] for one in taken]
    return {
        "median": round(statistics.median(totals), 3),
        "least": round(min(totals), 3),
        "most": round(max(totals), 3),
        "system": round(statistics.median(one["system"] for one in taken), 3),
    }


def measure(other: Path, rounds: int, count: bool) -> dict[str, Any]:
    """The result of one run, ready for JSON."""
    with Ministack() as engine:
        for table, keys in TABLES.items():
            engine.create_table(table, *keys)
        base = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", **client_environment(engine.url)}
        pythons = {name: other if name == OTHER else Path(sys.executable) for name in CONTESTANTS}
        environments = {
            name: base | {"BENCHMARK_TABLE": table, "PYTHONPATH": "" if name == OTHER else str(ROOT)}
            for name, table in CONTESTANTS.items()
        }
        commands = {
            name: ([str(python), str(HERE / "cycles.py"), name], environments[name]) for name, python in pythons.items()
        }
        taken = cpu(commands, rounds)
        instructions = {}
        if count:
            for name, python in pythons.items():
                print(f"counting {name}", file=sys.stderr, flush=True)
                instructions[name] = round(warm(python, name, environments[name]))
    return {
        "rounds": rounds,
        "cycles": CYCLES,
        "python": sys.version.split()[0],
        "versions": {found.name: found.version for found in _distributions(other)},
        "load": os.getloadavg()[0],
        "cpu_ms": {name: summary(one) for name, one in taken.items()},
        "instructions": instructions,
    }


def _distributions(python: Path) -> list[Any]:
    folders = [str(folder) for folder in python.parent.parent.glob("lib/python*/site-packages")]
    return [one for one in distributions(path=folders) if one.name in ("python-dynamodb-lock", "boto3", "botocore")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions.compare", description=__doc__)
    parser.add_argument("--other", type=Path, help="a Python that has python-dynamodb-lock (default: .venv-interop's)")
    parser.add_argument("--rounds", type=int, default=21, help="processes for each median of CPU time (default: 21)")
    parser.add_argument("--short", action="store_true", help="few rounds")
    parser.add_argument("--json", type=Path, help="write the result here")
    arguments = parser.parse_args()
    found = [folder / "bin" / "python" for folder in _OTHERS if (folder / "bin" / "python").exists()]
    other = arguments.other or (found[0] if found else None)
    if other is None:
        parser.error("python-dynamodb-lock is not installed: 'make peers' installs it, or name a Python with --other")
    count = shutil.which("valgrind") is not None
    if not count:
        print("valgrind is not installed: instructions are not counted", file=sys.stderr)
    result = measure(other, 5 if arguments.short else arguments.rounds, count)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(section(result))


if __name__ == "__main__":
    main()
