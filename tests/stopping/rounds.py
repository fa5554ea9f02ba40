"""Workers that get SIGTERM at a random moment, and what they leave behind."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from lambda_lock import LockClient

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60  # seconds: what has not ended then never does
_LATEST = 0.15  # seconds from the first lock to the signal

HELD, PLACES, ENDLESS = "locks left held", "places left in a queue", "never ended"


def play(shape: str, prefix: str, client: LockClient) -> Counter[str]:
    """Start a worker, and stop it. Returns what was wrong. The environment leads to the table of ``client``."""
    wrong = Counter[str]()
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.stopping.worker", shape, prefix],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"working\n"
        time.sleep(random.random() * _LATEST)
        worker.send_signal(signal.SIGTERM)
        _, told = worker.communicate(timeout=PATIENCE)
        if worker.returncode != 128 + signal.SIGTERM:
            wrong[f"ended by {worker.returncode}: {told.decode()[-2000:]}"] += 1
    except subprocess.TimeoutExpired:
        wrong[ENDLESS] += 1
    finally:
        worker.kill()
        worker.communicate()
    for record in client.list():
        if record.key.startswith(prefix + " "):
            wrong[HELD] += not record.is_released
            wrong[PLACES] += record.waiters
    return +wrong
