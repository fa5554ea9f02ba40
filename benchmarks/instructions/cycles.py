"""Locks and releases as often as asked: ``cycles.py lambda_lock 100``. It runs under callgrind.

With a second number, that many cycles follow, and the CPU milliseconds of one of them are printed, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable

TABLE = os.environ["BENCHMARK_TABLE"]


class Context:
    """What a lock reads from a Lambda context."""

    aws_request_id = "5f4a9c0e-8d4b-4f6f-9d35-0c8f1f4f3a11"
    function_name = "orders"

    def get_remaining_time_in_millis(self) -> int:
        return 15_000  # less than the lease, so that no heartbeat is needed


def lambda_lock() -> Callable[[], None]:
    from lambda_lock import LockClient, with_lock

    @with_lock("order#{id}", client=LockClient(TABLE))
    def handler(event: dict[str, str], context: Context) -> None:
        """The work."""

    return lambda: handler({"id": "1"}, Context())


def lambda_lock_kept() -> Callable[[], None]:
    """Outside Lambda, where the heartbeat watches each lock."""
    from lambda_lock import LockClient

    client = LockClient(TABLE)

    def cycle() -> None:
        client.acquire("order#1").release()

    return cycle


def dynamodb_lock() -> Callable[[], None]:
    import boto3
    from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient

    client = DynamoDBLockClient(boto3.resource("dynamodb"), table_name=TABLE)
    return lambda: client.acquire_lock("order#1").release()


def main() -> None:
    contestants = {"lambda_lock": lambda_lock, "lambda_lock_kept": lambda_lock_kept, "dynamodb_lock": dynamodb_lock}
    cycle = contestants[sys.argv[1]]()
    for _ in range(int(sys.argv[2])):
        cycle()
    if len(sys.argv) > 3:
        count, before = int(sys.argv[3]), resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(count):
            cycle()
        after = resource.getrusage(resource.RUSAGE_SELF)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        print(json.dumps({"user": user / count * 1000, "system": system / count * 1000}))
    sys.stdout.flush()
    os._exit(0)  # without teardown, and without waiting for heartbeats


main()
