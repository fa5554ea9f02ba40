"""The shared part of the peers written in Python. Each line of input is a JSON command, each line of output an answer.

A peer is a program that uses a lock client as an application would. Each peer runs in a process of its own, so that it
can be killed or stopped while it holds locks.
"""

import json
import random
import sys
import time
from abc import ABC, abstractmethod
from typing import Any

import boto3

Answer = dict[str, Any]


class Talker(ABC):
    """Carries out commands. A handle is the client's object for a held lock."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}
        self.lease = 0.0  # seconds, set by `open`

    # -- different for each client ----------------------------------------------------------------------------------

    @abstractmethod
    def open(self, *, table: str, lease: float, heartbeat: float, sort_key_name: str | None = None) -> None:
        """Create two clients: one renews its locks every ``heartbeat`` seconds, and the other never renews them."""

    @abstractmethod
    def take(self, key: str, *, silent: bool, wait: float, refresh: float, **options: Any) -> Any:
        """Acquire a lock. Raises an error if it is refused.

        wait: 0: one try; otherwise the client waits for this many seconds more than a lease.
        """

    def describe(self, handle: Any) -> Answer:
        return {"version": handle.version, "data": None if handle.data is None else handle.data.decode()}

    @abstractmethod
    def give_back(self, handle: Any, data: str | None = None) -> bool:
        """Release a lock. Returns False if another client has taken it."""

    @abstractmethod
    def is_fresh(self, handle: Any) -> bool:
        """Whether the lock is valid for long enough that a write which follows is still within the lease.

        An application checks this before it writes.
        """

    @abstractmethod
    def read(self, key: str, sort_key: str | None = None) -> Answer: ...

    def refusal(self, error: Exception) -> str:
        """The name by which an application recognizes an error."""
        return type(error).__name__

    # -- commands ---------------------------------------------------------------------------------------------------

    def talk(self) -> None:
        _say({"ready": True})
        for line in sys.stdin:
            command = json.loads(line)
            _say(self._obey(command.pop("do"), command))

    def _obey(self, do: str, command: dict[str, Any]) -> Answer:
        try:
            answer: Answer = getattr(self, f"do_{do}")(**command)
        except Exception as error:  # noqa: BLE001 - the test that sent the command judges the error
            return {"error": self.refusal(error), "message": str(error)}
        return answer

    def do_open(self, **options: Any) -> Answer:
        self.open(**options)
        return {"opened": True}

    def do_acquire(self, key: str, **options: Any) -> Answer:
        self.held[key] = self.take(key, **{"silent": False, **options})
        return {"granted": True, **self.describe(self.held[key])}

    def do_release(self, key: str, data: str | None = None) -> Answer:
        return {"released": self.give_back(self.held.pop(key), data)}

    def do_read(self, **which: Any) -> Answer:
        return self.read(**which)

    def do_fresh(self, key: str) -> Answer:
        return {"fresh": self.is_fresh(self.held[key])}

    def do_count(
        self, key: str, counters: str, seconds: float, wait: float, refresh: float, abandon: float = 0.0
    ) -> Answer:
        """Increment an unprotected counter under the lock, again and again.

        Now and then the lock is neither renewed nor released.
        """
        counter = _Counter(counters)
        end = time.monotonic() + seconds
        tally = {"done": 0, "abandoned": 0, "refused": 0}
        while time.monotonic() < end:
            leave = random.random() < abandon
            try:
                handle = self.take(key, silent=leave, wait=wait, refresh=refresh)
            except Exception as error:
                if self.refusal(error) not in REFUSALS:
                    raise
                tally["refused"] += 1
                time.sleep(refresh)
                continue
            value = counter.get()
            time.sleep(random.random() ** 4 * self.lease / 2)  # mostly short, but now and then half a lease
            if self.is_fresh(handle):
                counter.put(value + 1)
                tally["done"] += 1
            if leave:
                tally["abandoned"] += 1
            else:
                self.give_back(handle)
            time.sleep(random.random() * 0.08)  # without a pause, the one that releases nearly always wins again
        return tally


#: The names of the clients' errors for a lock that is held by somebody else.
REFUSALS = {
    "LockNotGrantedError",  # ours, and Go's
    "LockTimeoutError",
    "LockNotGrantedException",  # Java's
    "LockCurrentlyUnavailableException",
    "ACQUIRE_TIMEOUT",  # Python's
}


class _Counter:
    """A number in a table of its own. It is read and then written, without any condition."""

    def __init__(self, table: str) -> None:
        self._table = boto3.resource("dynamodb").Table(table)

    def get(self) -> int:
        item = self._table.get_item(Key={"key": "counter"}, ConsistentRead=True).get("Item", {"n": 0})
        return int(item["n"])

    def put(self, value: int) -> None:
        self._table.put_item(Item={"key": "counter", "n": value})


def _say(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)
