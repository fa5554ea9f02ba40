"""A process that works under several locks: ``python worker.py job arguments…``. test_processes.py starts it."""

import random
import sys
import time
from collections.abc import Callable
from typing import Any

from lambda_lock import LockClient
from rig.engine import Ministack


def transfer(port: str, accounts: str, seed: str, rounds: str, among: str) -> None:
    """Move money between random pairs of accounts, read and written as nobody should alone; every third by commit."""
    engine, rng = Ministack(), random.Random(int(seed))
    engine.port = int(port)
    client = LockClient(lease_duration=5, refresh_period=0.1)

    def balance(account: str) -> int:
        request = {"TableName": accounts, "Key": {"key": {"S": account}}, "ConsistentRead": True}
        return int(engine.dynamodb("GetItem", request)["Item"]["balance"]["N"])

    def changed(account: str, value: int) -> dict[str, Any]:
        return {"TableName": accounts, "Item": {"key": {"S": account}, "balance": {"N": str(value)}}}

    for number in range(int(rounds)):
        source, target = rng.sample([f"account#{n}" for n in range(int(among))], 2)
        with client.acquire_all([source, target], wait=240) as locks:
            cents = rng.randint(1, 100)
            puts = [changed(source, balance(source) - cents), changed(target, balance(target) + cents)]
            if number % 3 == 0:
                locks.commit([{"Put": put} for put in puts])
                continue
            for put in puts:
                engine.dynamodb("PutItem", put)
            locks.raise_if_lost()


def hold(keys: str, lease: str) -> None:
    """Hold locks until somebody kills this process."""
    locks = LockClient(lease_duration=float(lease)).acquire_all(keys.split(","))
    print(*locks.fencing_tokens.values(), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    jobs: dict[str, Callable[..., None]] = {"transfer": transfer, "hold": hold}
    jobs[sys.argv[1]](*sys.argv[2:])
