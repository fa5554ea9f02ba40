"""A holder is paused until its lease is over, and then writes. A lock alone cannot stop it, but `commit` can.

    LAMBDA_LOCK_TABLE=locks AWS_ENDPOINT_URL=http://127.0.0.1:4566 python examples/late_writer.py

Two processes change a balance of 100 under one lock: the first adds 50, the second subtracts 30. The first is stopped
after it has read the balance and checked that it still holds the lock. SIGSTOP does that here. In reality it would be a
frozen Lambda environment or a long pause of the machine. Its lease ends. The second takes the lock over, writes 70 and
releases the lock. Then the first continues.

With a plain put it writes 150, and the subtraction of 30 is lost. With `commit` DynamoDB refuses the late write. The
first starts again, reads 70 and writes 120. The plain put needs boto3. The balance is in a table of its own beside that
of the locks. Both are created if they do not exist.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import boto3

from lambda_lock import Lock, LockClient, LockLostError
from lambda_lock.table import create_table, table_exists

TABLE = os.environ.get("LAMBDA_LOCK_TABLE", "locks")
BALANCES = f"{TABLE}-balances"
KEY = {"account": {"S": "anna"}}
LEASE = 3.0  # seconds; short, so that the example does not take long


def balance_item(amount: int) -> dict[str, Any]:
    return {"TableName": BALANCES, "Item": {**KEY, "amount": {"N": str(amount)}}}


def read_balance() -> int:
    reply = boto3.client("dynamodb").get_item(TableName=BALANCES, Key=KEY, ConsistentRead=True)
    return int(reply["Item"]["amount"]["N"])


def write_plainly(lock: Lock, amount: int) -> None:
    boto3.client("dynamodb").put_item(**balance_item(amount))
    lock.release()


def write_by_commit(lock: Lock, amount: int) -> None:
    lock.commit([{"Put": balance_item(amount)}])


def add_fifty(write: Any) -> None:
    """The first process. It is stopped in the middle."""
    lock = LockClient(TABLE, lease_duration=LEASE).acquire("account")
    amount = read_balance()
    lock.raise_if_lost()  # a check before the write; the pause comes right after it
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        write(lock, amount + 50)
    except LockLostError as error:
        print(f"  the first is refused: {error}", flush=True)
        with LockClient(TABLE).acquire("account") as lock:
            write(lock, read_balance() + 50)


def play(how: str) -> int:
    """Play one round. Returns the final balance."""
    boto3.client("dynamodb").put_item(**balance_item(100))
    first = subprocess.Popen([sys.executable, __file__, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        first.stdout.readline()
        first.send_signal(signal.SIGSTOP)
        print("  the first has read 100 and is stopped")
        with LockClient(TABLE, lease_duration=LEASE).acquire("account", wait=60) as lock:
            write_by_commit(lock, read_balance() - 30)
        print(f"  the second took over and wrote {read_balance()}")
        first.send_signal(signal.SIGCONT)
        said, _ = first.communicate("go on\n", timeout=60)
        print(said, end="")
    finally:
        first.kill()
        first.wait()
    return read_balance()


def main() -> None:
    if not table_exists(TABLE):
        create_table(TABLE)
    if not table_exists(BALANCES):
        create_table(BALANCES, partition_key_name="account", ttl=None)
    print("With a plain put:")
    print(f"  100 + 50 - 30 = {play('plain')}: 30 are gone")
    print("With commit:")
    print(f"  100 + 50 - 30 = {play('commit')}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        add_fifty(write_plainly if sys.argv[1] == "plain" else write_by_commit)
    else:
        main()
