"""What a schedule runs in: a client, its table, virtual time, and a record of all that the application is told."""

from __future__ import annotations

import gc
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from lambda_lock import Lock, LockClient, MultiLock
from lambda_lock.client import closing, held, lock, lock_client, multi_lock, renewer, session, taking
from lambda_lock.core import handover, keep, lease, protocol, several, transaction
from lambda_lock.core.outcome import Reply
from lambda_lock.core.row import Row, make_version, read_row
from lambda_lock.core.schema import JAVA
from lambda_lock.observe import hooks
from lambda_lock.runtime import drive, first_use, heartbeat, signalsafe, timeline
from lambda_lock.testing.memory import Memory
from lambda_lock.transport import Transport
from rig.engine import Engine, Item
from tests.prove.mistakes import planted, put

from .scheduler import Clock, Queue, Scheduler, Threading

#: The modules in whose code threads are switched: all that threads of one process share.
TRACED = frozenset(
    str(module.__file__)
    for module in (
        *(closing, held, lock, lock_client, multi_lock, renewer, session, taking),
        *(hooks, drive, heartbeat, first_use, signalsafe, timeline),
        *(handover, keep, lease, protocol, several, transaction),
    )
)

LOCKS, ORDERS = "locks", "orders"
LEASE = 20.0  # seconds
THIEF = "thief#1"
_FAULTS = ("heartbeat", "callback_failed", "hook_failed", "hook_dropped", "release_failed", "forgotten")


class Table(Memory):
    """The in-memory tables of lambda_lock.testing. It evaluates the real requests, but is a part of this project."""

    def __init__(self, clock: Clock) -> None:
        super().__init__({ORDERS: ("id",)}, clock, JAVA)
        self.transport: Transport = self

    def item(self, table: str, key: dict[str, Any]) -> Item | None:
        found = [item for item in self.items(table) if key.items() <= item.items()]
        return found[0] if found else None

    def close(self) -> None:
        """There is nothing to close."""


class HttpTable:
    """A real engine, over HTTP."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        for name in (LOCKS, ORDERS):
            for item in engine.dynamodb("Scan", {"TableName": name})["Items"]:
                key = "key" if name == LOCKS else "id"
                engine.dynamodb("DeleteItem", {"TableName": name, "Key": {key: item[key]}})
        self._client = LockClient(LOCKS, region_name="us-east-1", endpoint_url=engine.url)
        self.transport = self._client.transport

    def item(self, table: str, key: dict[str, Any]) -> Item | None:
        request = {"TableName": table, "Key": key, "ConsistentRead": True}
        found: Item | None = self._engine.dynamodb("GetItem", request).get("Item")
        return found

    def put(self, table: str, item: Item) -> None:
        self._engine.dynamodb("PutItem", {"TableName": table, "Item": item})

    def close(self) -> None:
        self._client.close()


class Wire:
    """The transport of all clients of a world. After each request it compares locks and rows.

    DynamoDB's Date follows the virtual clock.
    """

    name, reason = "wire", "a schedule watches it"

    def __init__(self, world: World) -> None:
        self._world = world

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        world = self._world
        date = int(world.clock.wall())
        world.requests += 1
        try:
            reply: Reply = world.table.transport.send(operation, request, timeout=timeout)
            return Reply(reply.item, date)
        except Exception as error:
            if hasattr(error, "date"):
                error.date = date
            raise
        finally:
            world.look_for_false_holders()


class Told:
    """What the application was told: by the log, by hooks, and by callbacks."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.hooks: list[str] = []
        self.callbacks: list[str] = []
        self.faults: list[str] = []

    def on_lost(self, lock: Any) -> None:
        """The hook of a client."""
        self.hooks.append("lost")

    def on_released(self, lock: Any) -> None:
        """The hook of a client."""
        self.hooks.append("released")

    def lost(self, lock: Lock) -> None:
        """The callback of an acquire."""
        self.callbacks.append("lost")

    def logger(self) -> logging.Logger:
        made = logging.Logger("races", logging.INFO)
        made.addHandler(_Handler(self))
        return made


class _Handler(logging.Handler):
    """It has no lock: threads must not wait for one another unseen by the scheduler."""

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    def createLock(self) -> None:  # noqa: N802 - the name in logging
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "lock_event", "?")
        self._told.log.append(event)
        if event in _FAULTS:
            cause = record.exc_info[1] if record.exc_info else None
            self._told.faults.append(f"{event}: {record.getMessage()} {cause!r}")


class World:
    """One schedule: the library on threads of a scheduler."""

    key = "k"
    item: ClassVar = {"Put": {"TableName": ORDERS, "Item": {"id": {"S": "1"}}}}

    def __init__(self, scheduler: Scheduler, clock: Clock, table: Table | HttpTable) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self.table = table
        self.told = Told()
        self.requests = 0
        self.false_holders: list[str] = []
        self.watched: list[Lock] = []  # whose is_held is compared with the table
        self.client = self.new_client()
        self.kept: Any = None  # the lock that is held
        self.notes: dict[str, Any] = {}  # of one scenario

    def new_client(self, **settings: Any) -> LockClient:
        wire: Any = Wire(self)
        settings |= {"lease_duration": LEASE, "logger": self.told.logger(), "hooks": [self.told]}
        return LockClient(LOCKS, transport=wire, **settings)

    def acquire(self, key: str = "k", client: LockClient | None = None, **options: Any) -> Lock:
        """Acquire a lock whose is_held is compared with the table from now on."""
        lock = (client or self.client).acquire(key, on_lost=self.told.lost, **options)
        self.watched.append(lock)
        return lock

    def acquire_all(self, *keys: str) -> MultiLock:
        return self.client.acquire_all(keys, on_lost=lambda _: self.told.callbacks.append("lost"), wait=5)

    def steal(self, key: str = "k") -> None:
        """Let another holder have the row, against all rules: the next request of the lock is refused."""
        item = self.table.item(LOCKS, {"key": {"S": key}})
        assert item is not None
        self.watched.clear()
        token = self.row(key).require_token(key) + 1
        version = make_version(int(self.clock.wall() * 1000 + 20_000), os.urandom(16).hex())
        changes = {JAVA.owner: {"S": THIEF}, JAVA.version: {"S": version}, JAVA.token: {"N": str(token)}}
        self.table.put(LOCKS, {**item, **changes})

    def find(self, key: str = "k") -> Row | None:
        return read_row(self.table.item(LOCKS, {"key": {"S": key}}), JAVA, key)

    def row(self, key: str = "k") -> Row:
        found = self.find(key)
        assert found is not None
        return found

    def is_free(self, key: str = "k") -> bool:
        found = self.find(key)
        return found is None or found.is_free

    def is_written(self) -> bool:
        """Whether the commit of this schedule has written its item."""
        return self.table.item(ORDERS, {"id": {"S": "1"}}) is not None

    def look_for_false_holders(self) -> None:
        """Compare the is_held of each watched lock with its row, at this moment."""
        with self.scheduler.unseen():
            for lock in self.watched:
                if not lock.is_held:
                    continue
                row = self.find(lock.key)
                if row is None or row.is_free or row.owner != lock.owner:
                    self.false_holders.append(f"{lock!r} says that it is held, the row names {row and row.owner}")

    def do(self, function: Callable[[], Any]) -> Any:
        """Run a function on a thread of the scheduler, without switches."""
        (result,) = self.scheduler.run([function]).results
        if isinstance(result, BaseException):
            raise result
        return result

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with all that is due in it."""
        self.do(lambda: self.clock.sleep(seconds))


@contextmanager
def world(policy: str, every: str, engine: Engine | None = None) -> Iterator[World]:
    """A world whose library uses the scheduler's threads, locks, queues and time. engine: None: tables in memory."""
    _end_the_heartbeat()
    scheduler = Scheduler(TRACED, policy=policy, every=every)
    clock = Clock(scheduler, float(int(time.time())))
    threads = Threading(scheduler)
    table = Table(clock) if engine is None else HttpTable(engine)
    changes = [put(module, "threading", threads) for module in (heartbeat, first_use, signalsafe, renewer, hooks)]
    changes += [put(module, "time", clock) for module in (heartbeat, drive, closing, first_use)]
    changes += [put(heartbeat, "SimpleQueue", lambda: Queue(scheduler)), put(first_use, "_turn", signalsafe.Turn())]
    if engine is None:  # an engine remembers the names of transactions
        changes.append(put(os, "urandom", random.Random(1).randbytes))  # the same run for the same plan
    with planted(*changes):
        _restart(clock)
        collects = gc.isenabled()
        gc.disable()  # finalizers come where a plan puts them, not where the collector happens to run
        made = World(scheduler, clock, table)
        try:
            yield made
        finally:
            heartbeat.HEARTBEAT.__init__()  # type: ignore[misc]  # ends its thread
            scheduler.close()
            made.watched.clear()
            table.close()
            if collects:
                gc.enable()
    _restart(timeline.SystemClock())


def _end_the_heartbeat() -> None:
    """End the thread that an earlier test of this process has started. A heartbeat that begins anew forgets it."""
    thread, heartbeat.HEARTBEAT._thread = heartbeat.HEARTBEAT._thread, None
    if thread is not None:
        heartbeat.HEARTBEAT._commands.put(None)
        thread.join()


def _restart(clock: Any) -> None:
    """Let the process's timeline and heartbeat begin anew, with this clock."""
    timeline.SYSTEM.__init__(clock)  # type: ignore[misc]
    heartbeat.HEARTBEAT.__init__()  # type: ignore[misc]
