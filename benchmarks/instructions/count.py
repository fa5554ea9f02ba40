"""Counts the instructions of a warm cycle with callgrind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
CALLGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
TABLES = {"dynamodb_lock": ("lock_key", "sort_key"), "lambda_lock": ("key", None)}  # and their keys
FEW, MANY = 20, 120  # cycles; the difference leaves out the start, and the first cycles with it
_COUNT = re.compile(r"Collected : (\d+)")


def warm(python: Path, contestant: str, environment: Mapping[str, str]) -> float:
    """Instructions of one acquire and release."""
    cycles = [str(python), str(HERE / "cycles.py"), contestant]
    run([*cycles, "1"], environment)  # writes the .pyc files
    few, many = (instructions([*cycles, str(n)], environment) for n in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def instructions(command: list[str], environment: Mapping[str, str]) -> int:
    """Instructions of a command from its start to its end."""
    done = run([*CALLGRIND, *command], environment)
    found = _COUNT.search(done.stderr)
    if not found:
        raise SystemExit(f"{' '.join(command)} was not counted:\n{done.stderr[-3000:]}")
    return int(found[1])


def run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises SystemExit if it fails."""
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done
