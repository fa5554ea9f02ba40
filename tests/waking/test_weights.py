"""Sleepers of a semaphore, beside those who wait awake for more than one permit."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_lock.core.outcome import Reply
from lambda_lock.core.protocol import Hold
from lambda_lock.core.row import SLEEPERS
from lambda_lock.core.sleepers import Sleeper
from lambda_lock.core.tickets import make_ticket
from lambda_lock.errors import LockNotGrantedError
from lambda_lock.waker.look import Claim
from tests.core.driver import NOW, place
from tests.core.test_permit_weights import Weighing

ASLEEP = make_ticket(SLEEPERS, int(NOW + 20))
WRITER = make_ticket("a-writer", int(NOW + 20), 5)


def claimed(driver: Weighing, *waiters: str) -> Hold:
    driver.damage(waiters={"L": [{"S": ticket} for ticket in waiters]})
    read = Reply(driver.row, int(NOW + driver.now))
    return driver.run(Claim(place(), Sleeper("a", "task", "token", 5), read, driver.talk()).finish())


def left(driver: Weighing) -> list[Any]:
    return [ticket["S"] for ticket in driver.row["waiters"]["L"]]


def test_a_sleeper_comes_before_a_writer_that_came_later() -> None:
    driver = Weighing()
    driver.release(driver.acquire(permits=5, take=5))
    claimed(driver, ASLEEP, WRITER)
    assert left(driver) == [WRITER]
    assert driver.taken == (1, {})


@pytest.mark.parametrize("free", [5, 3])
def test_a_sleeper_does_not_pass_a_writer_that_came_before(free: int) -> None:
    driver = Weighing()
    driver.acquire(permits=5, take=5 - free) if free < 5 else driver.release(driver.acquire(permits=5, take=5))
    with pytest.raises(LockNotGrantedError):
        claimed(driver, WRITER, ASLEEP)
    assert left(driver) == [WRITER, ASLEEP]


def test_a_sleeper_is_let_in_beside_what_those_ahead_need() -> None:
    driver = Weighing()
    driver.release(driver.acquire(permits=5, take=5))
    three = make_ticket("somebody", int(NOW + 20), 3)
    claimed(driver, three, ASLEEP)
    assert left(driver) == [three]
    assert driver.taken == (1, {})
