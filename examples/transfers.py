"""Transfers between accounts by several processes: no cent is lost, and nobody waits for ever.

    LAMBDA_LOCK_TABLE=locks AWS_ENDPOINT_URL=http://127.0.0.1:4566 python examples/transfers.py

Each transfer takes the locks of both accounts, reads both balances, and writes both in one transaction. DynamoDB
refuses it if one of the locks was lost. The processes name the accounts in any order. If they took one lock after the
other in that order, two of them would soon wait for each other. Balances are read with boto3, and are in a table of
their own beside that of the locks. Both are created if they do not exist.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import boto3

from lambda_lock import LockClient
from lambda_lock.table import create_table, table_exists

TABLE = os.environ.get("LAMBDA_LOCK_TABLE", "locks")
BALANCES = f"{TABLE}-balances"
ACCOUNTS = ("anna", "ben", "carla", "dave")
START, PROCESSES, TRANSFERS = 100, 4, 10


def balance_item(account: str, amount: int) -> dict[str, Any]:
    return {"TableName": BALANCES, "Item": {"account": {"S": account}, "amount": {"N": str(amount)}}}


def read_balance(dynamodb: Any, account: str) -> int:
    key = {"account": {"S": account}}
    return int(dynamodb.get_item(TableName=BALANCES, Key=key, ConsistentRead=True)["Item"]["amount"]["N"])


def transfer(client: LockClient, dynamodb: Any, source: str, target: str, amount: int) -> None:
    """Raises LockTimeoutError if the accounts are busy for a minute, and LockLostError if a lock was lost."""
    with client.acquire_all([f"account#{source}", f"account#{target}"], wait=60) as locks:
        left = read_balance(dynamodb, source) - amount
        if left >= 0:
            gained = read_balance(dynamodb, target) + amount
            locks.commit([{"Put": balance_item(source, left)}, {"Put": balance_item(target, gained)}])


def work() -> None:
    """One of the processes."""
    dynamodb = boto3.client("dynamodb")
    with LockClient(TABLE) as client:
        for _ in range(TRANSFERS):
            source, target = random.sample(ACCOUNTS, 2)
            transfer(client, dynamodb, source, target, random.randint(1, 50))


def main() -> None:
    dynamodb = boto3.client("dynamodb")
    if not table_exists(TABLE):
        create_table(TABLE)
    if not table_exists(BALANCES):
        create_table(BALANCES, partition_key_name="account", ttl=None)
    for account in ACCOUNTS:
        dynamodb.put_item(**balance_item(account, START))
    processes = [subprocess.Popen([sys.executable, __file__, "work"]) for _ in range(PROCESSES)]
    done = sum(process.wait(300) == 0 for process in processes)
    balances = {account: read_balance(dynamodb, account) for account in ACCOUNTS}
    print(f"{done} of {PROCESSES} processes did their {TRANSFERS} transfers")
    print(", ".join(f"{account} {amount}" for account, amount in balances.items()))
    print(f"{sum(balances.values())} in all, as before: {sum(balances.values()) == START * len(ACCOUNTS)}")


if __name__ == "__main__":
    work() if len(sys.argv) > 1 else main()
