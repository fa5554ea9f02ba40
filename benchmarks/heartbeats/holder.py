"""Holds locks over several leases, and prints what that took as JSON: ``holder.py 5000 20 60``.

The arguments are the number of locks, their lease, and for how long they are held once all are taken, in seconds. With
0 locks, it prints how many requests a second the engine answers at most: 8 threads lock and release for that time.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import threading
import time
from typing import Any

from lambda_lock import Lock, LockClient
from lambda_lock.transport import Credentials, HttpsTransport, Reply

TABLE = "lambda_lock"
CROWD = 8  # threads that look for the engine's limit
_SAMPLE = 1.0  # seconds between two looks at all locks


class Counting:
    """A transport that counts the requests, and those that failed."""

    def __init__(self) -> None:
        credentials = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        self._inner = HttpsTransport(os.environ["AWS_REGION"], os.environ["AWS_ENDPOINT_URL"], credentials)
        self._sent: list[None] = []  # append is atomic, also without the interpreter's lock
        self._failed: list[None] = []

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        self._sent.append(None)
        try:
            return self._inner.send(operation, request, timeout=timeout)
        except BaseException:
            self._failed.append(None)
            raise

    def counts(self) -> tuple[int, int]:
        return len(self._sent), len(self._failed)


class Watch:
    """Looks at all locks once a second. ``own`` is the CPU time that this took, which is not the library's."""

    def __init__(self, locks: list[Lock]) -> None:
        self.locks = locks
        self.least = float("inf")
        self.threads = 0
        self.lapsed: set[str] = set()
        self.own = 0.0

    def reading(self) -> None:
        before = time.thread_time()
        self.threads = max(self.threads, threading.active_count())
        for lock in self.locks:
            self.least = min(self.least, lock.remaining)
            if not lock.is_held:
                self.lapsed.add(lock.key)
        self.own += time.thread_time() - before


def hold(count: int, lease: float, seconds: float) -> dict[str, Any]:
    transport = Counting()
    lost: list[str] = []
    client = LockClient(TABLE, lease_duration=lease, transport=transport)
    client.acquire("warm-up").release()
    gc.collect()
    memory, started = resident(), time.monotonic()
    locks = [client.acquire(f"{count}-{n}", on_lost=lambda lock: lost.append(lock.key)) for n in range(count)]
    took = time.monotonic() - started
    gc.collect()
    memory = resident() - memory
    watch, first = Watch(locks), {lock.key: lock.version for lock in locks}
    requests, cpu, started = transport.counts(), cpu_seconds(), time.monotonic()
    while time.monotonic() < started + seconds:
        watch.reading()
        time.sleep(_SAMPLE)
    lasted, spent, sent = time.monotonic() - started, cpu_seconds() - cpu - watch.own, transport.counts()
    watch.reading()
    renewed = sum(lock.version != first[lock.key] for lock in locks)
    released = sum(lock.release() for lock in locks)
    return {
        "locks": count,
        "lease": lease,
        "seconds": round(lasted, 1),
        "acquire_seconds": round(took, 2),
        "lapsed": len(watch.lapsed | set(lost)),
        "renewed": renewed,
        "released": released,
        "renewals": sent[0] - requests[0],
        "failed": sent[1] - requests[1],
        "least_left": round(watch.least, 2),
        "threads": watch.threads - 1,  # without the main one
        "cpu_seconds": round(spent, 3),
        "bytes": memory,
    }


def limit(seconds: float) -> dict[str, Any]:
    transport = Counting()
    client = LockClient(TABLE, transport=transport, heartbeat_period=0)
    until = time.monotonic() + seconds

    def work(number: int) -> None:
        while time.monotonic() < until:
            client.acquire(f"limit-{number}").release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CROWD)]
    started, before = time.monotonic(), cpu_seconds()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lasted = time.monotonic() - started
    return {"per_second": round(transport.counts()[0] / lasted), "cpu_of_client": (cpu_seconds() - before) / lasted}


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident() -> int:
    """Bytes of memory that this process has now. Linux only."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main() -> None:
    count, lease, seconds = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    print(json.dumps(hold(count, lease, seconds) if count else limit(seconds)))


main()
