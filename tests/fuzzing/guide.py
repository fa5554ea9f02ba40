"""Runs the targets with atheris, a coverage-guided fuzzer, each in a process of its own.

atheris has wheels for Linux on x86_64 alone, and for some versions of Python. Elsewhere hypothesis draws the inputs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec

from rig.engine import ROOT

_ENGINE = "atheris" if find_spec("atheris") else "hypothesis"
_RUNS = re.compile(r"^(?:Done |#|stat::number_of_executed_units: )(\d+)", re.MULTILINE)
FOLDER = ROOT / "build" / "fuzzing"


@dataclass(frozen=True)
class Report:
    """What came of one target. failure: how to see it; "" if there is none."""

    name: str
    inputs: int
    engine: str
    failure: str = ""


def run_all(names: list[str], until: float, seed: int, reports: list[Report]) -> None:
    """Run the targets one after another, each for its share of the time."""
    for at, name in enumerate(names):
        share = max((until - time.monotonic()) / (len(names) - at), 1.0)
        reports.append(run(name, share, seed))
        print(f"{name}: {reports[-1].inputs:,} inputs by {reports[-1].engine}", file=sys.stderr, flush=True)


def run(name: str, seconds: float, seed: int) -> Report:
    """Run one target for about so long."""
    corpus = FOLDER / name.replace(" ", "-")
    corpus.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzzing.guided", _ENGINE, name, f"{seconds:.0f}", str(seed), str(corpus)]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds + 120, check=False
        )
    except subprocess.TimeoutExpired:
        return Report(name, 0, _ENGINE, f"{name}: hangs: {' '.join(command[1:])}")
    text = ended.stdout.decode(errors="replace")
    inputs = max((int(found) for found in _RUNS.findall(text)), default=0)
    return Report(name, inputs, _ENGINE, f"{name}:\n{_reason(name, text)}" if ended.returncode else "")


def _reason(name: str, text: str) -> str:
    """The failure, shrunk by hypothesis if it can be seen again."""
    shrinking = [sys.executable, "-m", "tests.fuzzing.guided", "hypothesis", name, "20", "1", str(FOLDER / "shrunk")]
    ended = subprocess.run(shrinking, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    shown = ended.stdout.decode(errors="replace") if ended.returncode else text
    return "\n".join(shown.splitlines()[-40:])
