"""Counts the cycles of turns.py: instructions by callgrind, and CPU time.

All cycles of one count run in one process and take turns, and a median of single cycles is taken. So neither a start,
nor the place of code in memory, nor a cycle that collects garbage falls into the comparison.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.instructions.count import run

from .turns import NAMES

_COUNTED, _TIMED = 12, 300  # turns
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)


@contextmanager
def served() -> Iterator[str]:
    """The URL of a server on loopback that answers with DynamoDB's headers."""
    command = [sys.executable, "-m", "benchmarks.yardstick.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def cpu(environment: Mapping[str, str]) -> dict[str, float]:
    """CPU milliseconds of a cycle of each, with the kernel's."""
    found: dict[str, float] = json.loads(run([*_turns(_TIMED)], environment).stdout)
    return found


def instructions(environment: Mapping[str, str], folder: Path) -> dict[str, float]:
    """Instructions of a cycle of each, without the kernel's. folder: for callgrind's file."""
    file = folder / "turns.callgrind"
    options = ("--dump-before=getpriority", "--combine-dumps=yes", f"--callgrind-out-file={file}")
    run(["valgrind", "--tool=callgrind", *options, *_turns(_COUNTED), "counted"], environment)
    counts = [int(total) for total in _TOTAL.findall(file.read_text())][1:-1]  # without the start and the end
    if len(counts) != _COUNTED * len(NAMES):
        raise SystemExit(f"callgrind wrote {len(counts)} counts for {_COUNTED} turns")
    return {name: statistics.median(counts[number :: len(NAMES)]) for number, name in enumerate(NAMES)}


def _turns(count: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.yardstick.turns", str(count)]
