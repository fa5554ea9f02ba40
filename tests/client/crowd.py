"""A process of readers or writers, which never end: ``python crowd.py FILE KEY COUNT KIND``. test_crowds.py starts it.

Each grant is a line of the file: when it was asked for, and when it was granted, by the machine's monotonic clock.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lambda_lock import LockClient, LockError

#: Seconds that each pauses between two acquires, at most: an engine on a small machine must serve all of them.
PAUSE = 1.0
#: The options of one acquire, by kind. Those of writers take all that there is.
KINDS: dict[str, dict[str, Any]] = {
    "tries": {"shared": True, "wait": 0},
    "polls": {"shared": True, "wait": 0.5, "queue": False},
    "short waits": {"shared": True, "wait": 0.2},
    "long waits": {"shared": True, "wait": 60},
    "holders": {"shared": True, "wait": 0},
    "writers": {"shared": False, "wait": 60},
    "writers that try": {"shared": False, "wait": 0},
    "writers that poll": {"shared": False, "wait": 0.5, "queue": False},
}


def ask(client: LockClient, file: int, key: str, kind: str, name: str) -> None:
    options = dict(KINDS[kind])
    while True:
        if kind == "holders":
            options["holder"] = f"{name} {random.random()}"
        asked = time.monotonic()
        try:
            with client.acquire(key, **options):
                os.write(file, f"{asked} {time.monotonic()}\n".encode())
                time.sleep(random.uniform(0.1, 0.4))
        except LockError:  # refused, or an engine that is too busy to answer
            pass
        time.sleep(random.uniform(0.0, PAUSE))


def main(path: str, key: str, count: str, kind: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    client = LockClient(lease_duration=10)
    logging.getLogger("lambda_lock").disabled = True
    with ThreadPoolExecutor(int(count)) as pool:
        for number in range(int(count)):
            pool.submit(ask, client, file, key, kind, f"{os.getpid()} {number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
