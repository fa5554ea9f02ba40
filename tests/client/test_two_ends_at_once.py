"""Two last acts of one handle at once: one wins, the other is told so, and nothing false is said."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import Lock, LockClient
from lambda_lock.errors import LockAlreadyReleasedError
from lambda_lock.testing import in_memory
from tests.support.faults import held_up

from .test_heartbeat import Told

ACTS: dict[str, Callable[[Lock], Any]] = {
    "release": lambda lock: lock.release(),
    "quiet release": lambda lock: lock.release(best_effort=True),
    "commit": lambda lock: lock.commit([_item(lock)]),
    "hand over": lambda lock: lock.hand_over(),
}


def _item(lock: Lock) -> dict[str, Any]:
    table: str = lock.__held__.hold.place.table
    return {"Put": {"TableName": table, "Item": {"key": {"S": f"written under {lock.key}"}}}}


@pytest.mark.parametrize("act", ACTS)
def test_a_lock_that_has_ended_is_freed_at_once_and_not_by_the_garbage_collector(act):
    with in_memory():
        client = LockClient("locks")
        ACTS[act](client.acquire("before"))  # loads what is loaded once
        gc.collect()
        gc.disable()
        try:
            lock = client.acquire("a")
            gone = weakref.ref(lock.__held__)
            ACTS[act](lock)
            del lock
            assert gone() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("second", ACTS)
@pytest.mark.parametrize("first", ACTS)
def test_of_two_last_acts_one_wins_and_the_other_is_told(first, second, wire, wired, rows):
    lost = Told()
    lock = wired.acquire("a", on_lost=lost)
    stall = wire.hold("TransactWriteItems" if first == "commit" else "UpdateItem")
    with held_up(stall, lambda: ACTS[first](lock)) as winner, pytest.raises(LockAlreadyReleasedError):
        ACTS[second](lock)
    outcome = winner()
    assert not lock.lost
    assert lost.locks == []
    assert rows.is_held("a") is (first == "hand over")
    if first == "hand over":
        assert wired.adopt(outcome).release() is True
    with pytest.raises(LockAlreadyReleasedError):
        lock.release()


@pytest.mark.parametrize("first", ["the block", "close"])
def test_closing_while_the_block_is_left_disturbs_neither(first, wire, wired, rows):
    lost = Told()
    lock = wired.acquire("a", on_lost=lost)
    lock.__enter__()
    ends = [lambda: lock.__exit__(None, None, None), wired.close]
    one, other = ends if first == "the block" else reversed(ends)
    with held_up(wire.hold("UpdateItem"), one) as result:
        other()
    result()
    assert lost.locks == []
    assert not rows.is_held("a")
