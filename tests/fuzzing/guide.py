"""Runs the targets with atheris, a coverage-guided fuzzer, each in a process of its own.

atheris has wheels for Linux on x86_64 alone, and for some versions of Python. Elsewhere hypothesis draws the inputs.
"""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec

from rig.engine import ROOT

_ENGINE = "atheris" if find_spec("atheris") else "hypothesis"
_RUNS = re.compile(r"^(?:Done |#|stat::number_of_executed_units: )(\d+)", re.MULTILINE)
_LEAST = 6.0  # seconds; a process of its own loads for about 2 s, and longer on a busy machine
FOLDER = ROOT / "build" / "fuzzing"


@dataclass(frozen=True)
class Report:
    """The result of one target. failure: how to reproduce it; "" if there is none."""

    name: str
    inputs: int
    engine: str
    failure: str = ""


def run_all(names: list[str], until: float, seed: int, reports: list[Report]) -> None:
    """Run the targets one after another, each for its share of the time. If that is too short for a process of its
    own, the rest share one."""
    for at, name in enumerate(names):
        share = (until - time.monotonic()) / (len(names) - at)
        found = [run(name, share, seed)] if share >= _LEAST else run_together(names[at:], until, seed)
        reports.extend(found)
        for report in found:
            print(f"{report.name}: {report.inputs:,} inputs by {report.engine}", file=sys.stderr, flush=True)
        if share < _LEAST:
            return


def run_together(names: list[str], until: float, seed: int) -> list[Report]:
    """Draw inputs for several targets in one process. After one that fails, the others go on in another process."""
    seconds = max(until - time.monotonic(), 0.0)
    failed, text = _run(seconds, "hypothesis", ",".join(names), f"{seconds:.1f}", str(seed), "")
    if text is None:
        return [Report(name, 0, "hypothesis", failed) for name in names]
    counts = [_inputs(part) for part in text.split("Target ")[1:]]
    reports = [Report(name, count, "hypothesis") for name, count in zip(names, counts, strict=False)]
    if not failed:
        return reports
    at = max(len(reports) - 1, 0)
    reports[at:] = [Report(names[at], 0, "hypothesis", f"{names[at]}:\n{_last_lines(text)}")]
    return reports + (run_together(names[at + 1 :], until, seed) if names[at + 1 :] else [])


def run(name: str, seconds: float, seed: int) -> Report:
    """Run one target for about so long."""
    corpus = FOLDER / name.replace(" ", "-")
    corpus.mkdir(parents=True, exist_ok=True)
    failed, text = _run(seconds, _ENGINE, name, f"{seconds:.0f}", str(seed), str(corpus))
    if text is None:
        return Report(name, 0, _ENGINE, failed)
    if failed:  # hypothesis shrinks the failure, if it finds it again
        again, shown = _run(20.0, "hypothesis", name, "20", "1", str(FOLDER / "shrunk"))
        failed = f"{name}:\n{_last_lines(shown if again and shown else text)}"
    return Report(name, _inputs(text), _ENGINE, failed)


def _run(seconds: float, *arguments: str) -> tuple[str, str | None]:
    """Run guided.py. Returns how it failed ("" if it did not), and its output (None if it hangs)."""
    command = [sys.executable, "-m", "tests.fuzzing.guided", *arguments]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds + 120, check=False
        )
    except subprocess.TimeoutExpired:
        return f"hangs: {' '.join(command[1:])}", None
    return f"status {ended.returncode}" if ended.returncode else "", ended.stdout.decode(errors="replace")


def _inputs(text: str) -> int:
    return max((int(found) for found in _RUNS.findall(text)), default=0)


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-40:])
