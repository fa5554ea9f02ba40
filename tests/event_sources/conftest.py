"""Orders that the engine's queues and rules deliver to real functions, and what the engine knows about them later."""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rig.cloud import ACCOUNT, SERVICES, Cloud, Function, Queue
from rig.engine import REGION, Item, Ministack

from . import judge
from .judge import Order

HANDLERS = Path(__file__).parent / "handlers"
SETTLED_SECONDS = 60.0  # after which a test gives up waiting
BATCHES_AT_ONCE = 5  # the default of an event source mapping in the engine
LOCK_ACTIONS = ("GetItem", "PutItem", "UpdateItem", "DeleteItem")

_numbers = itertools.count(1)


class Shop:
    """A function that does orders. It has tables of its own, and a role with the permissions that lambda_lock needs."""

    def __init__(self, cloud: Cloud, handler: str, timeout: int, options: Mapping[str, Any]) -> None:
        self.name = f"shop-{next(_numbers)}"
        self.cloud = cloud
        self.orders: list[Order] = []
        tables = {what: cloud.engine.create_table(f"{self.name}-{what}") for what in ("locks", "journal", "effects")}
        self.locks, self.journal, self.effects = tables.values()
        self.function: Function = cloud.function(
            handler,
            HANDLERS,
            timeout=timeout,
            environment={
                "LAMBDA_LOCK_TABLE": self.locks,
                "JOURNAL": self.journal,
                "EFFECTS": self.effects,
                "OPTIONS": json.dumps(options),
            },
            allow=[
                {"Action": [f"dynamodb:{action}" for action in LOCK_ACTIONS], "Resource": _table(self.locks)},
                {"Action": "dynamodb:UpdateItem", "Resource": _table(self.effects)},
                {"Action": "sqs:ChangeMessageVisibility*", "Resource": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}*"},
            ],
        )

    def queue(self, *orders: Order, dead_letter_after: int, visibility: int = 1) -> Queue:
        """A queue with these orders, and a FIFO queue if they have groups. None of them has been delivered yet."""
        fifo = ".fifo" if "group" in orders[0] else ""
        queue = self.cloud.queue(f"{self.name}{fifo}", visibility=visibility, dead_letter_after=dead_letter_after)
        self.orders += orders
        for group, together in itertools.groupby(orders, lambda order: order.get("group")):
            queue.send(*together, group=group)
        return queue

    def warm_up(self) -> None:
        """Start processes for the batches that come at once. While one starts later, visibility timeouts would pass."""
        with ThreadPoolExecutor(BATCHES_AT_ONCE) as pool:
            list(pool.map(self.function.invoke, [{"Records": []}] * BATCHES_AT_ONCE))

    def settle(self, queue: Queue) -> None:
        """Wait until the queue is empty, no process is working, and the leases of killed processes are over."""
        self.cloud.wait_until(
            lambda: queue.is_empty() and not self.working() and not self.held(), seconds=SETTLED_SECONDS
        )

    def working(self) -> list[int]:
        return [pid for pid in judge.open_processes(self.notes()) if Path(f"/proc/{pid}").exists()]

    def held(self) -> list[str]:
        """The locks and events that are held: they are not released, and their stored expiry has not passed."""
        now = time.time() * 1000
        rows = self.cloud.engine.scan(self.locks)
        return [row["key"]["S"] for row in rows if "isReleased" not in row and _expiry_ms(row) > now]

    def done(self) -> list[str]:
        """The events that count as done."""
        return [row["key"]["S"] for row in self.cloud.engine.scan(self.locks) if "completedUntil" in row]

    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(item["note"]["S"]) for item in self.cloud.engine.scan(self.journal)]

    def wrongs(self, queue: Queue | None = None) -> list[str]:
        """What went wrong with the orders of this shop. This removes the dead letters from their queue."""
        effects = {
            item["key"]["S"]: {what: int(value["N"]) for what, value in item.items() if what != "key"}
            for item in self.cloud.engine.scan(self.effects)
        }
        return judge.wrongs(self.orders, self.notes(), effects, dead_letters(queue) if queue else ())

    def serve(
        self, *orders: Order, dead_letter_after: int, visibility: int = 1, **mapping: Any
    ) -> list[dict[str, Any]]:
        """Let a queue call the function until all has settled, and nothing went wrong. Returns the notes."""
        queue = self.queue(*orders, dead_letter_after=dead_letter_after, visibility=visibility)
        self.cloud.subscribe(queue, self.function, **mapping)
        self.settle(queue)
        assert self.wrongs(queue) == []
        return self.notes()


Open = Callable[..., Shop]


@pytest.fixture(scope="package")
def cloud() -> Iterator[Cloud]:
    with Ministack(auth=True, services=SERVICES) as engine, Cloud(engine) as running:
        yield running


@pytest.fixture
def open_shop(cloud: Cloud) -> Open:
    def build(handler: str = "orders.handler", *, timeout: int = 10, **options: Any) -> Shop:
        return Shop(cloud, handler, timeout, {"lock_key": "customer#{body[customer]}"} | options)

    return build


def dead_letters(queue: Queue) -> list[str]:
    """The orders in the dead-letter queue."""
    found: list[str] = []
    while messages := queue.dead_letters.receive():
        found += [json.loads(message["Body"])["id"] for message in messages]
    return found


def _table(name: str) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def _expiry_ms(row: Item) -> int:
    return int(row["recordVersionNumber"]["S"].split(":")[1])
