"""Locks and releases as often as asked: ``cycles.py lambda_lock 100``. It runs under callgrind."""

from __future__ import annotations

import os
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


def dynamodb_lock() -> Callable[[], None]:
    import boto3
    from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient

    client = DynamoDBLockClient(boto3.resource("dynamodb"), table_name=TABLE)
    return lambda: client.acquire_lock("order#1").release()


def main() -> None:
    cycle = {"lambda_lock": lambda_lock, "dynamodb_lock": dynamodb_lock}[sys.argv[1]]()
    for _ in range(int(sys.argv[2])):
        cycle()
    sys.stdout.flush()
    os._exit(0)  # without teardown, and without waiting for heartbeats


main()
