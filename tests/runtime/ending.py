"""A process that ends while threads of the library are frozen; test_ending.py starts it: ``python ending.py name``.

It needs nothing but the library, so that every Python can run it.
"""

import sys
import threading
import time
from types import FrameType
from typing import Any

from lambda_lock import LockClient

PLACES = 120  # more than the lines that a sender runs in these files until it has renewed twice
FILES = ("/runtime/heartbeat.py", "/client/renewer.py", "/threading.py")
SECONDS = 30.0


def renewed() -> None:
    """Five clients. Each has renewed its lock once, and is closed. Then the process ends at once."""
    clients = [LockClient(heartbeat_period=0.05, lease_duration=10) for _ in range(5)]
    locks = [client.acquire(f"{time.time_ns()}-{number}") for number, client in enumerate(clients)]
    versions = [lock.version for lock in locks]
    end = time.monotonic() + SECONDS
    while any(lock.version == version for lock, version in zip(locks, versions, strict=True)):
        assert time.monotonic() < end, "no renewal"
        time.sleep(0.005)
    for client in clients:
        client.close()


class Freezer:
    """Freezes the sender of the first client at the first line that it runs, of the second at the second, and so on."""

    def __init__(self) -> None:
        self.frozen: dict[int, str] = {}
        self._senders: dict[int, int] = {}
        self._lines: dict[int, int] = {}

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if threading.current_thread().name != "lambda_lock-renewal" or not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line":
            thread = threading.get_ident()
            place = self._senders.setdefault(thread, len(self._senders) + 1)
            self._lines[thread] = self._lines.get(thread, 0) + 1
            if self._lines[thread] == place:
                self.frozen[place] = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
                time.sleep(10_000)  # as where the interpreter ends: it never comes back
        return self.trace


def frozen() -> None:
    """Clients whose senders are frozen at any line. Then the process ends, and the clients are collected."""
    freezer = Freezer()
    threading.settrace(freezer.trace)
    for number in range(PLACES):
        client = LockClient(heartbeat_period=0.05, lease_duration=600)
        kept.append((client, client.acquire(f"{time.time_ns()}-{number}")))
    end = time.monotonic() + SECONDS
    while len(freezer.frozen) < PLACES and time.monotonic() < end:
        time.sleep(0.01)
    print(*sorted(set(freezer.frozen.values())), flush=True)


kept: list[Any] = []  # collected when the interpreter ends

if __name__ == "__main__":
    {"renewed": renewed, "frozen": frozen}[sys.argv[1]]()
