"""FIFO queues: each group keeps its order, even if messages in the middle fail.

Messages that follow a failure in the same group and batch come back with it, and use up a receive as well. If they
follow a poison message, they go to the dead-letter queue too, unless the batch size is one.
"""

import pytest

from . import judge
from .judge import Order

PATIENT = 100
PLANS = {
    "a": {1: ["raise before", "raise between"], 4: ["raise answering"]},
    "b": {2: ["exit before"]},
    "c": {0: ["raise before"], 3: ["kill between"]},
}


def orders(count: int, groups: str, **more: object) -> list[Order]:
    """``count`` orders of each group. The groups alternate."""
    return [
        {"id": f"{group}-{number}", "customer": f"c-{group}", "group": group, **more}
        for number in range(count)
        for group in groups
    ]


@pytest.mark.long
def test_each_group_keeps_its_order_whatever_fails_in_its_middle(open_shop):
    shop = open_shop(max_workers=3, lease_duration=3)
    sent = orders(6, groups="abc")
    for order in sent:
        group, number = order["id"].split("-")
        order["plan"] = PLANS[group].get(int(number), [])
    shop.serve(*sent, dead_letter_after=PATIENT)


def test_a_group_whose_batch_ran_out_of_time_goes_on_where_it_stopped(open_shop):
    shop = open_shop("orders.decorated", timeout=2)
    assert judge.returns(shop.serve(*orders(4, groups="ab", seconds=0.3), dead_letter_after=PATIENT)) > 0


def test_a_group_goes_on_in_its_order_behind_poison(open_shop):
    shop = open_shop()
    sent = orders(4, groups="ab")
    sent[2]["plan"] = judge.POISON
    shop.serve(*sent, dead_letter_after=2, batch_size=1)


def test_in_larger_batches_what_follows_poison_in_its_group_dies_with_it(open_shop):
    shop = open_shop()
    sent = orders(4, groups="ab")
    sent[2]["plan"] = judge.POISON
    queue = shop.queue(*sent, dead_letter_after=2)
    shop.cloud.subscribe(queue, shop.function)
    shop.settle(queue)
    assert "dead letters: ['a-1', 'a-2', 'a-3'], not ['a-1']" in shop.wrongs(queue)
