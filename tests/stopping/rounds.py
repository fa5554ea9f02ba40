"""Rounds of workers that are stopped at random moments: a kind of the storms in tests/histories.

The shapes of the workers are those of worker.py. Nothing of theirs may stay: no lock, and no place in a queue.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lambda_lock import LockClient
from rig.engine import ROOT
from tests.histories.record import Recording, now, read
from tests.prove import bench

from .worker import SHAPES

__all__ = ["HELD", "PATIENCE", "SHAPES", "WORKERS", "Round", "play", "stop_one"]
PATIENCE = 60  # seconds: what has not ended then never does
WORKERS = 10  # in a round, one after the other
_LATEST = 0.15  # seconds from the first lock to the signal

HELD, PLACES, ENDLESS = "locks left held", "places left in a queue", "never ended"


@dataclass
class Round:
    """What workers of one shape did until they were stopped, and what was wrong then, for each worker of which."""

    recording: Recording = field(default_factory=Recording)
    found: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def figures(self) -> bench.Figures:
        return {"workers stopped": len(self.found), "workers that were wrong": sum(map(bool, self.found.values()))}

    @property
    def wrong(self) -> dict[str, list[str]]:
        return {"worker": [f"{name}: {bench.counted(what)}" for name, what in self.found.items() if what]}


def play(shape: str, seed: int, mistake: str = "", workers: int = WORKERS) -> Round:
    """Stop workers of one shape. The environment leads to the table.

    mistake: of those of mistakes.py, the one that is planted in the workers, or "".
    """
    source, played, stopped = random.Random(f"{shape}-{seed}"), Round(), []
    with tempfile.TemporaryDirectory(prefix="lambda-lock-stopping-") as folder, LockClient() as client:
        for number in range(workers):
            # One that is killed leaves locks, so each round and each attempt with a mistake has keys of its own.
            prefix = f"{shape} {mistake} {seed} {number}"
            record = Path(folder, f"{number:03}")
            played.found[prefix], at = stop_one(shape, prefix, client, record, source.random() * _LATEST, mistake)
            stopped.append((record, at))
        played.recording = read(stopped, calm=False)
    return played


def stop_one(
    shape: str, prefix: str, client: LockClient, record: Path, after: float, mistake: str = ""
) -> tuple[Counter[str], int]:
    """Start a worker, and stop it. Returns what was wrong, and the instant at which it was asked to stop.

    record: the file into which it writes what it sees. Its history ends with the signal: what is released then is
    released by its client, and it does not learn of it.
    """
    wrong = Counter[str]()
    stopped = now()
    with _worker(shape, prefix, str(record), mistake) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"working\n"
            time.sleep(after)
            stopped = now()
            worker.send_signal(signal.SIGTERM)
            _, told = worker.communicate(timeout=PATIENCE)
            if worker.returncode != 128 + signal.SIGTERM:
                wrong[f"ended by {worker.returncode}: {told.decode()[-2000:]}"] += 1
        except subprocess.TimeoutExpired:
            wrong[ENDLESS] += 1
    for left in client.list():
        if left.key.startswith(prefix + " "):
            wrong[HELD] += not left.is_released
            wrong[PLACES] += left.waiters
    return +wrong, stopped


@contextmanager
def _worker(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.stopping.worker", *arguments]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()
