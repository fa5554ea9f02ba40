"""Records from Kafka, handed to real functions as Lambda hands them: what failed comes again, by partition and offset.

The engine has no Kafka. So these tests deliver a batch, and then what the answer asks for: `rig.events.kafka_from` does
what the Lambda Developer Guide says. An invocation that fails, or is killed, gets the whole batch again.
"""

import contextlib

import pytest

from rig import events
from rig.lambda_runtime import FunctionError

from .conftest import SETTLED_SECONDS, Shop
from .judge import Order

PLANS = {
    "a-1": ["raise before", "raise between"],
    "a-2": ["kill between"],
    "b-0": ["exit before"],
    "b-2": ["hang between"],
    "c-1": ["raise after"],
}


def orders(count: int, keys: dict[str, str]) -> list[Order]:
    """``count`` orders of each key, alternating. keys: the partition of each key."""
    names = [(f"{key}-{number}", key) for number in range(count) for key in keys]
    return [
        {"id": name, "customer": f"c-{key}", "group": key, "partition": keys[key], "plan": PLANS.get(name, [])}
        for name, key in names
    ]


def deliver(shop: Shop, sent: list[Order]) -> None:
    """Deliver a batch again and again, until nothing of it comes back."""
    shop.orders += sent
    batch = events.kafka([(order["partition"], order["group"], order) for order in sent])

    def is_done() -> bool:
        nonlocal batch
        with contextlib.suppress(FunctionError):  # the whole batch comes again
            batch = events.kafka_from(batch, shop.function.invoke(batch))
        return not batch["records"]

    shop.cloud.wait_until(is_done, seconds=SETTLED_SECONDS)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3])
def test_each_key_keeps_its_order_and_each_order_is_done_once_whatever_fails(open_shop, workers):
    """Among what fails: a process that is killed, one that exits, and one that hangs until its timeout."""
    shop = open_shop("orders.of_kafka", timeout=2, lock_key="customer#{value[customer]}", max_workers=workers)
    deliver(shop, orders(3, {"a": "orders-0", "b": "orders-1", "c": "orders-1"}))
    assert shop.wrongs() == []


@pytest.mark.long
def test_a_partition_keeps_its_order_among_all_its_keys_without_workers(open_shop):
    shop = open_shop("orders.of_kafka", timeout=3, lock_key="customer#{value[customer]}")
    sent = orders(3, {"a": "orders-0", "c": "orders-0"})
    deliver(shop, [order | {"group": order["partition"]} for order in sent])
    assert shop.wrongs() == []
