"""The items of a Map that take the lock of one order exclude each other."""

from __future__ import annotations

import itertools
import json

from . import page
from .conftest import Execution


def test_two_items_of_a_map_with_one_order_take_turns(shop, is_free):
    """The first one fails in its work and is tried again, so the other one asks for the lock meanwhile."""
    machine = shop.machine(page.definition("Items: one item", shop.arns))
    order, other = shop.new_order(reserve=["raise"]), shop.new_order()
    given = json.dumps({"orders": [order, other, order]})
    started = shop.cloud.client("stepfunctions").start_execution(stateMachineArn=machine, input=given)
    execution = Execution(shop, started["executionArn"], order)
    assert execution.has_succeeded()
    work = shop.notes(order, "reserve")
    turns = [token for token, _ in itertools.groupby(note["token"] for note in work)]
    assert len(work) == 3
    assert len(turns) == len(set(turns)) == 2
    holders = [holder for holder, _ in itertools.groupby(note["owner"].rpartition("#")[0] for note in work)]
    assert sorted(holders) == [f"{execution.arn}/0", f"{execution.arn}/2"]
    assert len(shop.notes(other, "reserve")) == 1
    assert is_free(order)
    assert is_free(other)
