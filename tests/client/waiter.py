"""A process that waits for a lock. test_dead_waiters.py starts it: ``python waiter.py '{"key": …}'``, see `Job`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from lambda_lock import LockClient, LockTimeoutError
from lambda_lock.core.row import TICKET_NAME
from lambda_lock.transport import choose


@dataclass(frozen=True)
class Job:
    """Acquire a lock, hold it for ``hold`` seconds, release it and pause for ``pause``, on each thread.

    log: a file that each grant and each time-out appends a line to. wait: 0 is a loop of try_acquire. rounds: so many
    grants on each thread; None: until this process is told to end.
    """

    key: str
    log: str
    wait: float = 120.0
    permits: int | None = None
    queue: bool = True
    hold: float = 0.02
    pause: float = 0.0
    rounds: int | None = 1
    threads: int = 1


class Noting:
    """A transport that notes the names of the places that are asked for."""

    def __init__(self) -> None:
        self._inner = choose(now=time.time)
        self.names: list[str] = []

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        expression = request.get("UpdateExpression", "")
        if "list_append" in expression:
            (place,) = (value["L"][0]["S"] for value in request["ExpressionAttributeValues"].values() if value.get("L"))
            if place[:TICKET_NAME] not in self.names:
                self.names.append(place[:TICKET_NAME])
        return self._inner.send(operation, request, timeout=timeout)


def work(job: Job) -> None:
    noting = Noting()
    client, log = LockClient(transport=noting), os.open(job.log, os.O_WRONLY | os.O_APPEND)

    def write(**line: Any) -> None:
        os.write(log, (json.dumps({"pid": os.getpid(), "names": noting.names, **line}) + "\n").encode())

    done = 0
    while job.rounds is None or done < job.rounds:
        noting.names = []
        lock = None
        with contextlib.suppress(LockTimeoutError):
            if job.wait:
                lock = client.acquire(job.key, wait=job.wait, permits=job.permits, queue=job.queue)
            else:
                lock = client.try_acquire(job.key, permits=job.permits)
        if lock is None:
            if job.wait:
                write(token=None)
            else:
                time.sleep(0.01)
            continue
        with lock:
            began = time.monotonic()
            time.sleep(job.hold)
            lock.raise_if_lost()
            write(token=lock.fencing_token, began=began, ended=time.monotonic())
        done += 1
        time.sleep(job.pause)


def main(job: Job) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    others = [threading.Thread(target=work, args=[job]) for _ in range(job.threads - 1)]
    for thread in others:
        thread.start()
    work(job)
    for thread in others:
        thread.join()


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
