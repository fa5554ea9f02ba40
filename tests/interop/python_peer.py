"""python-dynamodb-lock, used as in an application. This runs in .venv-interop."""

import time
from datetime import timedelta
from typing import Any

import boto3
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLock, DynamoDBLockClient, DynamoDBLockError

from tests.interop.talk import Answer, Talker


class PythonPeer(Talker):
    def open(self, *, table: str, lease: float, heartbeat: float, sort_key_name: str | None = None) -> None:
        self.lease = lease

        def client(period: float) -> DynamoDBLockClient:
            return DynamoDBLockClient(
                boto3.resource("dynamodb"),
                table_name=table,
                lease_duration=timedelta(seconds=lease),
                heartbeat_period=timedelta(seconds=period),
                **({"sort_key_name": sort_key_name} if sort_key_name else {}),
            )

        # This client always has heartbeats. A lock taken after their first round has to wait for the next one.
        self.clients = {False: client(heartbeat), True: client(3600)}

    def take(self, key: str, *, silent: bool, wait: float, refresh: float, **options: Any) -> DynamoDBLock:
        patience = self.lease + wait if wait else 0.001  # zero would mean "the default"
        times = {"retry_period": timedelta(seconds=refresh), "retry_timeout": timedelta(seconds=patience)}
        more = {"additional_attributes": options.get("attributes"), "app_callback": lambda code, lock: None}
        return self.clients[silent].acquire_lock(key, options.get("sort_key", "-"), **times, **more)

    def describe(self, handle: DynamoDBLock) -> Answer:
        return {"version": handle.record_version_number}

    def give_back(self, handle: DynamoDBLock, data: str | None = None) -> bool:
        try:
            handle.release(best_effort=False)
        except DynamoDBLockError as error:
            if error.code == DynamoDBLockError.LOCK_STOLEN:
                return False
            raise
        # If a heartbeat was refused before, release sends nothing and raises nothing.
        return bool(handle.status != DynamoDBLock.INVALID)

    def is_fresh(self, handle: DynamoDBLock) -> bool:
        age = time.monotonic() - handle.last_updated_time
        return bool(handle.status == DynamoDBLock.LOCKED and age < 0.6 * self.lease)

    def read(self, key: str, sort_key: str | None = None) -> Answer:
        lock = self.clients[False]._get_lock_from_dynamodb(key, sort_key or "-")  # there is no public method for this
        if lock is None:
            return {"absent": True}
        return {
            "owner": lock.owner_name,
            "version": lock.record_version_number,
            "lease": lock.lease_duration,
            "others": ",".join(sorted(lock.additional_attributes)),
        }

    def refusal(self, error: Exception) -> str:
        return error.code if isinstance(error, DynamoDBLockError) else super().refusal(error)


if __name__ == "__main__":
    PythonPeer().talk()
