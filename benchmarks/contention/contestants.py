"""The Python contestants, each as a worker process uses it. This runs in .venv-bench."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any

_PATIENCE = 600.0  # seconds; no wait is meant to time out
_READS = ("GetItem", "Query", "Scan")
_NAME = 8  # characters of a ticket that stay; the others are its expiry, which a renewal changes
_NO_ROW: dict[str, Any] = {}


class Contestant(ABC):
    """A client in one process. It is made before the fork, and opened after it.

    writes, reads: the requests that were sent.
    placed: when this wait's ticket was first seen in the queue; None: it was not.
    removed: how often a ticket of this client vanished although the client neither claimed nor left.
    """

    def __init__(self, table: str) -> None:
        self.table = table
        self.writes = self.reads = self.removed = 0
        self.placed: float | None = None

    @abstractmethod
    def open(self) -> None:
        """Make the client, in the worker's process."""

    @abstractmethod
    def acquire(self, key: str) -> Any:
        """Wait for the lock, and return its handle."""

    @abstractmethod
    def release(self, handle: Any) -> None: ...

    def token(self, handle: Any) -> int | None:
        """The fencing token, if there is one."""
        return None

    def count(self, operation: str) -> None:
        if operation in _READS:
            self.reads += 1
        else:
            self.writes += 1


class LambdaLock(Contestant):
    queue = True

    def __init__(self, table: str) -> None:
        super().__init__(table)
        import lambda_lock.core.queue  # noqa: F401 - before the fork, as all modules
        from lambda_lock import LockClient
        from lambda_lock.transport import choose

        self._client_class, self._inner = LockClient, choose(now=time.time)
        self._asked: str | None = None  # the start of the ticket that was written last
        self._gone = False  # whether a request of ours may have removed it

    def open(self) -> None:
        self._client = self._client_class(self.table, transport=self)
        self._client.prewarm()

    def acquire(self, key: str) -> Any:
        self._asked = self.placed = None
        self._gone = False
        return self._client.acquire(key, wait=_PATIENCE, queue=self.queue)

    def release(self, handle: Any) -> None:
        self._asked = None
        handle.release()

    def token(self, handle: Any) -> int | None:
        token: int = handle.fencing_token
        return token

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        """The transport's method: counts each request, and reads in each row that is shown who waits."""
        self.count(operation)
        expression = request.get("UpdateExpression", "")
        if "list_append" in expression:
            values = request["ExpressionAttributeValues"].values()
            self._asked = next(value["L"][0]["S"][:_NAME] for value in values if value.get("L"))
            self.placed, self._gone = None, False
        elif operation == "UpdateItem" and "waiters" in request.get("ExpressionAttributeNames", _NO_ROW).values():
            self._gone = True  # a claim; if it is refused, the row that is shown decides
        try:
            reply = self._inner.send(operation, request, timeout=timeout)
        except Exception as error:
            self._look(getattr(error, "item", None), refused=True)
            raise
        self._look(reply.item, refused=False)
        return reply

    def _look(self, row: Any, *, refused: bool) -> None:
        if row is None or self._asked is None or "waiters" not in row:
            return
        if any(place.get("S", "")[:_NAME] == self._asked for place in row["waiters"].get("L", ())):
            self.placed, self._gone = self.placed or time.monotonic(), False
        elif self.placed is not None and (refused or not self._gone):
            self.removed += 1
            self._asked = None


class LambdaLockWithoutQueue(LambdaLock):
    queue = False


class PythonDynamoDBLock(Contestant):
    """With its defaults: it looks every 5 s."""

    poll: timedelta | None = None

    def __init__(self, table: str) -> None:
        super().__init__(table)
        import boto3
        from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient

        # Made before the fork, which saves each process 0.1 s. It connects afterwards.
        self._client_class, self._resource = DynamoDBLockClient, boto3.resource("dynamodb")

    def open(self) -> None:
        self._resource.meta.client.meta.events.register("before-send.dynamodb.*", self._sent)
        self._client = self._client_class(self._resource, table_name=self.table, owner_name=f"worker-{os.getpid()}")

    def acquire(self, key: str) -> Any:
        return self._client.acquire_lock(key, retry_period=self.poll, retry_timeout=timedelta(seconds=_PATIENCE))

    def release(self, handle: Any) -> None:
        handle.release()

    def _sent(self, event_name: str, **_: Any) -> None:
        self.count(event_name.rpartition(".")[2])


class PythonDynamoDBLockQuick(PythonDynamoDBLock):
    """Looks every 100 ms."""

    poll = timedelta(seconds=0.1)


CONTESTANTS: dict[str, type[Contestant]] = {
    "queue": LambdaLock,
    "poll": LambdaLockWithoutQueue,
    "dynamodb_lock": PythonDynamoDBLock,
    "dynamodb_lock_100ms": PythonDynamoDBLockQuick,
}
