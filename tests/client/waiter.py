"""A process that wants a lock. test_dead_waiters.py and test_crowds.py start it: ``python waiter.py '{"key": …}'``."""

import json
import logging
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from lambda_lock import LockClient, LockError, LockTimeoutError
from lambda_lock.core.row import TICKET_NAME
from lambda_lock.transport import choose

Span = tuple[float, float]  # seconds, of which each time is drawn


@dataclass(frozen=True)
class Job:
    """Acquire a lock, hold it, release it and pause, on each thread.

    log: a file that each grant and each time-out appends a line to. wait: 0 asks again and again without waiting.
    holder: each acquire is of a holder of its own. retry: the pause after one that is refused. rounds: so many grants
    on each thread; None: until this process is told to end, whatever error an acquire meets.
    """

    key: str
    log: str
    wait: float = 120.0
    permits: int | None = None
    shared: bool | None = None
    queue: bool = True
    holder: bool = False
    lease: float = 20.0
    hold: Span = (0.02, 0.02)
    pause: Span = (0.0, 0.0)
    retry: Span = (0.01, 0.01)
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
    client = LockClient(transport=noting, lease_duration=job.lease)
    log = os.open(job.log, os.O_WRONLY | os.O_APPEND)

    def write(**line: Any) -> None:
        os.write(log, (json.dumps({"pid": os.getpid(), "names": noting.names, **line}) + "\n").encode())

    done = 0
    while job.rounds is None or done < job.rounds:
        noting.names, asked = [], time.monotonic()
        options: dict[str, Any] = {"queue": job.queue}
        if job.holder:
            options = {"holder": f"{os.getpid()} {random.random()}"}
        try:
            with client.acquire(job.key, wait=job.wait, permits=job.permits, shared=job.shared, **options) as lock:
                began = time.monotonic()
                time.sleep(random.uniform(*job.hold))
                lock.raise_if_lost()
                write(token=lock.fencing_token, asked=asked, began=began, ended=time.monotonic())
        except LockError as error:
            if isinstance(error, LockTimeoutError):
                write(token=None)
            elif job.rounds is not None:
                raise
            time.sleep(random.uniform(*job.retry))
            continue
        done += 1
        time.sleep(random.uniform(*job.pause))


def main(job: Job) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    logging.getLogger("lambda_lock").disabled = job.rounds is None
    others = [threading.Thread(target=work, args=[job]) for _ in range(job.threads - 1)]
    for thread in others:
        thread.start()
    work(job)
    for thread in others:
        thread.join()


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
