"""Clients on the real engine, and a look at the rows behind their backs."""

from __future__ import annotations

import os
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import Lock, LockClient, invocation
from lambda_lock.timeline import SystemClock
from rig.engine import Item, Ministack
from rig.wire import Request, Wire

Make = Callable[..., LockClient]
DEADLINE = 30.0  # seconds after which a test gives up waiting for what should have happened long ago


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside Lambda, no invocation seen."""
    monkeypatch.setattr(invocation, "_latest", None)
    monkeypatch.setattr(invocation, "_registered", None)


@pytest.fixture
def make(table: str) -> Iterator[Make]:
    """Makes clients, and ends them with the test; what they hold is left in the table."""
    clients: list[LockClient] = []

    def build(*arguments: Any, **options: Any) -> LockClient:
        clients.append(LockClient(*arguments, **options))
        return clients[-1]

    yield build
    for client in clients:
        client.close(release=False)


@pytest.fixture
def client(make: Make) -> LockClient:
    return make()


@pytest.fixture
def wired(wire: Wire, make: Make) -> LockClient:
    """A client whose requests go over the wire."""
    return make()


@pytest.fixture
def impatient(wire: Wire, make: Make) -> LockClient:
    """A client whose requests go over the wire, and for which pauses between them take no time."""
    return make(clock=LeapingClock(), heartbeat_period=0)


class Rows:
    """The table as the engine has it, past all clients and wires."""

    def __init__(self, engine: Ministack, table: str) -> None:
        self.engine = engine
        self.table = table

    def get(self, key: str) -> Item | None:
        request = {"TableName": self.table, "Key": {"key": {"S": key}}, "ConsistentRead": True}
        item: Item | None = self.engine.dynamodb("GetItem", request).get("Item")
        return item

    def __getitem__(self, key: str) -> Item:
        item = self.get(key)
        assert item is not None, f"there is no row {key!r}"
        return item

    def put(self, key: str, **attributes: dict[str, Any]) -> None:
        self.engine.dynamodb("PutItem", {"TableName": self.table, "Item": {"key": {"S": key}, **attributes}})

    def delete(self, key: str) -> None:
        self.engine.dynamodb("DeleteItem", {"TableName": self.table, "Key": {"key": {"S": key}}})

    def put_foreign(self, key: str, *, lease_seconds: float) -> None:
        """A lock held by an older client, of which nothing but its lease is known."""
        self.put(
            key,
            ownerName={"S": "an-older-client"},
            leaseDuration={"S": str(int(lease_seconds * 1000))},
            recordVersionNumber={"S": str(uuid.uuid4())},
        )

    def put_held(self, key: str, *, expires_at: float, owner: str = "somebody#1", lease_seconds: float = 20) -> None:
        """A lock held by a client of ours, with the stored expiry given in epoch seconds."""
        self.put(
            key,
            ownerName={"S": owner},
            leaseDuration={"S": str(int(lease_seconds * 1000))},
            recordVersionNumber={"S": f"L1:{int(expires_at * 1000):013d}:{uuid.uuid4().hex}"},
            fencingToken={"N": "7"},
        )

    def is_held(self, key: str) -> bool:
        item = self.get(key)
        return item is not None and "recordVersionNumber" in item and "isReleased" not in item

    def version(self, key: str) -> str:
        version: str = self[key]["recordVersionNumber"]["S"]
        return version

    def expiry(self, key: str) -> float:
        """The stored expiry, epoch seconds."""
        return int(self.version(key).split(":")[1]) / 1000


@pytest.fixture
def rows(engine: Ministack, table: str) -> Rows:
    return Rows(engine, table)


class SkewedClock(SystemClock):
    """The machine's clocks, but for a wall clock that is off by so many seconds."""

    def __init__(self, off: float) -> None:
        self.off = off

    def wall(self) -> float:
        return time.time() + self.off


class LeapingClock(SystemClock):
    """The machine's clocks, but sleeping takes no time: they are put forward instead."""

    def __init__(self) -> None:
        self.leapt = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.leapt

    boottime = monotonic

    def wall(self) -> float:
        return time.time() + self.leapt

    def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.leapt += seconds


class StandingClock(SystemClock):
    """Clocks that stand still until they are put forward; sleeping puts them forward."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.started = time.time()

    def monotonic(self) -> float:
        return self.now

    boottime = monotonic

    def wall(self) -> float:
        return self.started + self.now - 1_000_000.0

    def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.now += seconds


class Context:
    """A Lambda context with so many seconds left."""

    function_name = "function"
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self._seconds * 1000)


def wait_until(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    """Wait for something that can be seen but does not tell."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def look(lock: Lock) -> Lock:
    """The lock as it stands now: type checkers take it that a property does not change by itself."""
    return lock


def written(request: Request) -> set[str]:
    """The strings and numbers that a request writes or compares."""
    values = request.body.get("ExpressionAttributeValues", {})
    return {text for value in values.values() for text in value.values() if isinstance(text, str)}


def versions(wire: Wire) -> list[str]:
    """The versions of ours in the requests seen, in their order; one for each request that has any."""
    found = [sorted(text for text in written(request) if text.startswith("L1:")) for request in wire.requests]
    return [texts[-1] for texts in found if texts]


def in_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``function`` on a thread; returns what waits for its result or raises its error."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(DEADLINE)
        assert outcome, "the thread did not end"
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return result


def in_child(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``function`` in a forked child; returns what waits for its result or raises its error."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        try:
            os.close(reader)
            try:
                outcome: Any = (function(), None)
            except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
                outcome = (None, error)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(outcome, pipe)
        finally:
            os._exit(0)
    os.close(writer)

    def result() -> Any:
        with os.fdopen(reader, "rb") as pipe:
            raw = pipe.read()
        os.waitpid(pid, 0)
        assert raw, "the child died"
        value, error = pickle.loads(raw)
        if error is not None:
            raise error
        return value

    return result
