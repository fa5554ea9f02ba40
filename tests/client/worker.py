"""A process that works under a lock; test_processes.py starts it: ``python worker.py job arguments…``."""

from __future__ import annotations

import sys
import threading
import time

from lambda_lock import LockClient
from rig.engine import Ministack


def count(port: str, counters: str, threads: str, rounds: str) -> None:
    """Add one to an item, ``rounds`` times on each of so many threads: read, then write, as nobody should alone."""
    engine = Ministack()
    engine.port = int(port)
    client = LockClient(lease_duration=5, refresh_period=0.1)
    failures: list[BaseException] = []

    def add() -> None:
        key = {"key": {"S": "counter"}}
        try:
            for _ in range(int(rounds)):
                with client.acquire("count", wait=240) as lock:
                    item = engine.dynamodb("GetItem", {"TableName": counters, "Key": key, "ConsistentRead": True})
                    value = int(item.get("Item", {}).get("value", {"N": "0"})["N"])
                    tokens = item.get("Item", {}).get("tokens", {"L": []})["L"]
                    tokens.append({"N": str(lock.fencing_token)})
                    changed = {**key, "value": {"N": str(value + 1)}, "tokens": {"L": tokens}}
                    engine.dynamodb("PutItem", {"TableName": counters, "Item": changed})
                    lock.raise_if_lost()
        except BaseException as error:
            failures.append(error)
            raise

    workers = [threading.Thread(target=add) for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(bool(failures))


def hold(key: str, lease: str) -> None:
    """Hold a lock until somebody kills this process."""
    lock = LockClient(lease_duration=float(lease)).acquire(key)
    print(lock.fencing_token, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    if sys.argv[1] == "count":
        count(*sys.argv[2:])
    else:
        hold(*sys.argv[2:])
