"""Several runs of one contestant in one row, as medians with their spread."""

from __future__ import annotations

from statistics import median
from typing import Any

from .judge import Run


class Median:
    """The medians of the runs; the longest wait, the vanished tickets and the faults are those of all runs together."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.per_second = median(run.per_second for run in runs)
        self.wait_median = median(run.wait_median for run in runs)
        self.wait_p95 = median(run.wait_p95 for run in runs)
        self.longest = max(run.longest for run in runs)
        self.open = max(runs, key=lambda run: run.longest).open
        self.starved = max(run.starved for run in runs)
        self.idle = sum(run.idle * run.grants for run in runs) / (sum(run.grants for run in runs) or 1)
        self.writes = median(run.writes for run in runs)
        self.reads = median(run.reads for run in runs)
        self.requests = median(run.writes + run.reads for run in runs)
        self.passed = median(run.passed for run in runs)
        self.most_passed = max(run.most_passed for run in runs)
        self.out_of_line = sum(run.out_of_line for run in runs)
        self.removed = sum(run.removed for run in runs)
        self.faults = [fault for run in runs for fault in run.faults]
        self.errors = [error for run in runs for error in run.errors]
        known = [run.cpu for run in runs if run.cpu is not None]
        self.cpu = {name: median(cpu[name] for cpu in known) for name in known[0]} if known else None

    def cycle(self, hold: float) -> float:
        """Mean seconds from grant to grant, if holds had their mean length: what was drawn varies from run to run."""
        return hold + self.idle

    def as_json(self) -> dict[str, Any]:
        numbers = {name: value for name, value in vars(self).items() if name != "runs"}
        rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in numbers.items()}
        return rounded | {"runs": [run.as_json() for run in self.runs]}
