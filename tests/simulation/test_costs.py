"""How many requests a lock and an event cost hours later, and beside another run of it."""

from typing import Any
from uuid import uuid4

import pytest

from lambda_lock.core import keep
from lambda_lock.core.protocol import Entropy, Hold
from lambda_lock.errors import DuplicateEventError
from tests.core.driver import Driver, OnTable


def release(process: Driver, hold: Hold, *, complete: bool = False) -> bool:
    return process.run(keep.release(hold, process.talk(), complete=complete))


def test_a_released_row_of_long_ago_takes_one_request():
    process = OnTable()
    release(process, process.acquire())
    process.now += 3000
    before = len(process.sent)
    process.acquire()
    assert [operation for operation, _ in process.sent[before:]] == ["UpdateItem"]


def test_a_new_event_takes_two_requests_a_duplicate_one_and_one_whose_window_has_passed_three():
    process = OnTable()
    assert release(process, process.acquire(window=60), complete=True)
    assert len(process.sent) == 2
    with pytest.raises(DuplicateEventError):
        process.acquire(window=60)
    assert len(process.sent) == 3
    process.now += 70
    assert release(process, process.acquire(window=60))
    assert [operation for operation, _ in process.sent] == ["UpdateItem"] * 6


def test_an_event_that_another_completes_meanwhile_takes_who_waits_no_claim_more():
    owner = OnTable()
    hold = owner.acquire(window=60)

    def answer(operation: str, request: dict[str, Any]) -> Any:
        owner.now = waiter.now
        if waiter.now > 5 and not hold.ended:
            release(owner, hold, complete=True)
        return owner.apply(operation, request)

    waiter = Driver(answer)
    waiter.entropy = Entropy(lambda: uuid4().hex, lambda: 0.5)  # other names than the owner's
    with pytest.raises(DuplicateEventError):
        waiter.acquire(window=60, waits=True, wait_until=30.0)
    assert [operation for operation, _ in waiter.sent].count("UpdateItem") == 1
