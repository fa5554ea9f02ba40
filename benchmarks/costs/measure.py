"""Requests and units of each operation, counted at the wire."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lambda_lock import LockClient
from rig.engine import Engine
from rig.meter import Charge, Meter, size

HOLDERS = (1, 5, 20, 100)
KEYS = (2, 5, 50)
READERS = (1, 5, 20, 50, 100)
# As in Lambda: function and request id. The owner is in the row, and a write is charged by the row's size.
OWNER = "import-orders/3f9f1c1e-6d0f-4d8e-9d8a-0a2d3b7c5e41"

_PAST = "1000000000000"  # epoch ms: an expiry that has passed, with as many digits as all others
_EXPIRY = re.compile(r"(?<=^L1:)\d{13}(?=:)")


@dataclass(frozen=True)
class Cost:
    """What one operation takes. Units are of its writes or reads."""

    writes: int = 0
    reads: int = 0
    write_units: float = 0
    read_units: float = 0

    @classmethod
    def of(cls, charges: list[Charge]) -> Cost:
        writes, reads = [one for one in charges if not one.is_read], [one for one in charges if one.is_read]
        return cls(len(writes), len(reads), sum(one.units for one in writes), sum(one.units for one in reads))


Costs = dict[str, Cost]


class Bench:
    """A table of its own on an engine, and clients whose requests are metered."""

    def __init__(self, engine: Engine, table: str, meter: Meter) -> None:
        self.engine, self.table, self.meter = engine, table, meter
        self._clients: list[LockClient] = []
        self._kept: list[Any] = []

    def client(self, **settings: Any) -> LockClient:
        """A client that renews nothing by itself, with its own memory of DynamoDB's time, as in a new environment."""
        self._clients.append(
            LockClient(
                self.table,
                endpoint_url=self.meter.url,
                owner_prefix=OWNER,
                lease_duration=90.0,  # as many digits as usual, and no lease ends on a busy machine
                heartbeat_period=0,
                region_name="us-east-1",
                **settings,
            )
        )
        return self._clients[-1]

    def cost(self, act: Callable[[], Any]) -> Cost:
        self.meter.charges.clear()
        act()
        return Cost.of(self.meter.charges)

    def row(self, key: str) -> dict[str, Any]:
        request = {"TableName": self.table, "Key": {"key": {"S": key}}, "ConsistentRead": True}
        row: dict[str, Any] = self.engine.dynamodb("GetItem", request)["Item"]
        return row

    def let_die(self, key: str, owner: str) -> None:
        """Let the lease of one holder be over."""
        row = self.row(key)
        entries = row["permits"]["M"]
        nonce = owner.rpartition("#")[2]
        entries[nonce] = {"S": _EXPIRY.sub(_PAST, entries[nonce]["S"])}
        self.engine.dynamodb("PutItem", {"TableName": self.table, "Item": row})

    def keep(self, handle: Any) -> Any:
        """Keep a handle to the end: one that is dropped while it is held is reported."""
        self._kept.append(handle)
        return handle

    def close(self) -> None:
        for client in self._clients:
            client.close(release=False)


@contextmanager
def bench(engine: Engine, table: str) -> Iterator[Bench]:
    """A bench on an empty table that is there already."""
    with Meter(engine.url) as meter:
        running = Bench(engine, table, meter)
        try:
            yield running
        finally:
            running.close()


class _Fast:
    """This machine's clock, a minute fast."""

    monotonic = boottime = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def wall(self) -> float:
        return time.time() + 60


def readers(bench: Bench, count: int) -> tuple[Costs, int]:
    """A shared lock with so many readers inside. Returns the costs of the last one, and the bytes of the row."""
    key, client = f"config#{count}", bench.client()
    held: list[Any] = []

    def take() -> None:
        held.append(bench.keep(client.acquire(key, shared=True, wait=0)))

    for _ in range(count):
        take()
    held.pop().release()
    found = {"free": bench.cost(take)}
    full = size(bench.row(key))
    return found | {"release": bench.cost(held.pop().release)}, full


def semaphore(bench: Bench, holders: int) -> tuple[Costs, int]:
    """A semaphore with so many permits, all of them held. Returns the costs, and the bytes of the row."""
    key, client, found = f"api#{holders}", bench.client(), Costs()
    options: dict[str, Any] = {"permits": holders, "wait": 0}
    held = []

    def take(by: LockClient = client, **more: Any) -> None:
        held.append(bench.keep(by.acquire(key, **{**options, **more})))

    found["first"] = bench.cost(take)
    for _ in range(holders - 1):
        take()
    held.pop().release()
    found["free"] = bench.cost(take)
    found["renewal"] = bench.cost(held[-1].heartbeat)
    full = size(bench.row(key))
    found["refused"] = bench.cost(lambda: client.try_acquire(key, **options))
    found["release"] = bench.cost(held.pop().release)
    found["correction"] = bench.cost(lambda: take(bench.client(clock=_Fast())))
    bench.let_die(key, held.pop().owner)
    found["dead"] = bench.cost(take)
    found["waiter"] = _wait(bench, key, options, held[0].release)
    return found, full


def lock(bench: Bench) -> tuple[Costs, int]:
    """The costs of an ordinary lock, and the bytes of its row."""
    client, found = bench.client(), Costs()
    held: list[Any] = []

    def take(by: LockClient = client) -> None:
        held.append(bench.keep(by.acquire("lock", wait=0)))

    found["first"] = bench.cost(take)
    held.pop().release()
    found["free"] = bench.cost(take)
    found["renewal"] = bench.cost(held[-1].heartbeat)
    full = size(bench.row("lock"))
    found["refused"] = bench.cost(lambda: client.try_acquire("lock"))
    found["release"] = bench.cost(held.pop().release)
    found["correction"] = bench.cost(lambda: take(bench.client(clock=_Fast())))
    row = bench.row("lock")
    row["recordVersionNumber"] = {"S": _EXPIRY.sub(_PAST, row["recordVersionNumber"]["S"])}
    bench.engine.dynamodb("PutItem", {"TableName": bench.table, "Item": row})
    found["dead"] = bench.cost(take)
    found["waiter"] = _wait(bench, "lock", {}, held[-1].release)
    return found, full


def _wait(bench: Bench, key: str, options: dict[str, Any], free: Callable[[], Any]) -> Cost:
    """Wait for somebody's release, hold and release. Of the reads only one is counted: how many depends on the wait."""
    waiter = bench.client()
    bench.meter.charges.clear()
    thread = threading.Thread(target=lambda: waiter.acquire(key, **{**options, "wait": 60}).release())
    thread.start()
    while not (any(one.is_read for one in bench.meter.charges) and bench.row(key).get("waiters", {}).get("L")):
        time.sleep(0.01)  # it has its ticket: that write, too, is one of the full row
    mark = len(bench.meter.charges)
    free()
    thread.join()
    charges = bench.meter.charges
    freed = next(number for number, one in enumerate(charges) if number >= mark and not one.is_read and not one.refused)
    del charges[freed]  # the other's release
    looks = [one for one in charges if one.is_read]
    return Cost.of([one for one in charges if not one.is_read] + looks[:1])


def several(bench: Bench, keys: int) -> Costs:
    """So many locks, taken together."""
    client, found = bench.client(), Costs()
    names = [f"account#{keys}#{number:02}" for number in range(keys)]
    held: list[Any] = []

    def take() -> None:
        held.append(client.acquire_all(names, wait=0))

    def refuse() -> None:
        assert client.try_acquire_all(names) is None, "all were free"

    found["take"] = bench.cost(take)
    found["renewal"] = bench.cost(held[-1].heartbeat)
    found["release"] = bench.cost(held.pop().release)
    take()
    found["commit"] = bench.cost(lambda: held.pop().commit([_item(bench.table, number) for number in range(2)]))
    with client.acquire(names[-1]):
        found["refused"] = bench.cost(refuse)
    return found


def _item(table: str, number: int) -> dict[str, Any]:
    """A write of the application, of less than 1 KB."""
    return {"Put": {"TableName": table, "Item": {"key": {"S": f"balance#{number}"}}}}
