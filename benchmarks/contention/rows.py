"""What is measured: rows of workers, hold and pause, who takes part in each, and what is to be reached."""

from __future__ import annotations

from dataclasses import dataclass

NAMES = {
    "queue": "lambda_lock",
    "poll": "lambda_lock, queue=False",
    "dynamodb_lock": "python-dynamodb-lock",
    "dynamodb_lock_100ms": "python-dynamodb-lock, polls every 100 ms",
    "java": "Java lock client",
}
OURS = ("queue", "poll")
SWEEP_HOLD = 0.05  # seconds; of the rows from 2 to 64 workers
QUICK = (*OURS, "dynamodb_lock_100ms")


@dataclass(frozen=True)
class Row:
    """One row: ``workers`` that hold for ``hold`` and pause for ``pause`` seconds, in runs of ``seconds`` each.

    exponential: holds vary, and ``hold`` is their mean. together: the contestants run at the same time, each on a lock
    of its own. Only for rows that leave the machine idle.
    """

    workers: int
    hold: float
    seconds: float
    contestants: tuple[str, ...]
    pause: float = 0.02
    exponential: bool = False
    together: bool = False

    @property
    def title(self) -> str:
        kind = "exponential" if self.exponential else "even"
        return f"{self.workers} workers, {self.hold * 1000:g} ms, {kind}"


def rows(seconds: float = 1.0) -> list[Row]:
    """The rows of the default run. seconds: a factor for the length of each."""
    every = tuple(NAMES)
    return [
        Row(8, 0.02, 5 * seconds, every),
        Row(8, 0.02, 5 * seconds, QUICK, exponential=True),
        Row(2, SWEEP_HOLD, 3 * seconds, every),
        Row(4, SWEEP_HOLD, 3 * seconds, every),
        Row(8, SWEEP_HOLD, 4 * seconds, every),
        Row(16, SWEEP_HOLD, 5 * seconds, every),
        Row(32, SWEEP_HOLD, 6 * seconds, every),
        Row(64, SWEEP_HOLD, 10 * seconds, every),
        Row(32, SWEEP_HOLD, 6 * seconds, OURS, exponential=True),
        Row(8, 0.3, 8 * seconds, QUICK, together=True),
        Row(8, 0.3, 12 * seconds, OURS, exponential=True, together=True),
        Row(32, 0.2, 14 * seconds, OURS, together=True),
        Row(8, 1.0, 14 * seconds, OURS, together=True),
        Row(8, 1.0, 16 * seconds, OURS, exponential=True, together=True),
    ]


def short_rows() -> list[Row]:
    return [
        Row(8, 0.02, 4, QUICK),
        Row(16, SWEEP_HOLD, 4, OURS),
        Row(8, 0.3, 8, OURS, together=True),
        Row(8, 0.3, 8, OURS, exponential=True, together=True),
    ]
