"""Sleepers of a semaphore that counts weights, beside those who wait awake."""

import asyncio
import json
from typing import Any

import pytest

from lambda_lock import AsyncLockClient
from lambda_lock.core.outcome import Reply
from lambda_lock.core.protocol import Hold
from lambda_lock.core.row import SLEEPERS, ticket_take
from lambda_lock.core.sleepers import Sleeper, read_sleeper
from lambda_lock.core.tickets import make_ticket
from lambda_lock.errors import LockNotGrantedError
from lambda_lock.waker.look import Claim
from tests.core.driver import NOW, place
from tests.core.test_permit_weights import Weighing

from .support import Scene

ASLEEP = make_ticket(SLEEPERS, int(NOW + 20))
WRITER = make_ticket("a-writer", int(NOW + 20), 5)


def claimed(driver: Weighing, *waiters: str) -> Hold:
    driver.damage(waiters={"L": [{"S": ticket} for ticket in waiters]})
    read = Reply(driver.row, int(NOW + driver.now))
    return driver.run(Claim(place(), Sleeper("a", "task", "token", 5), read, driver.talk()).finish())


def left(driver: Weighing) -> list[Any]:
    return [ticket["S"] for ticket in driver.row["waiters"]["L"]]


THREE = make_ticket("somebody", int(NOW + 20), 3)


@pytest.mark.parametrize(
    ("waiters", "stay"),
    [((ASLEEP, WRITER), WRITER), ((THREE, ASLEEP), THREE)],
    ids=["before a writer that came later", "beside what those ahead need"],
)
def test_a_sleeper_is_let_in(waiters, stay):
    driver = Weighing()
    driver.release(driver.acquire(permits=5, take=5))
    claimed(driver, *waiters)
    assert left(driver) == [stay]
    assert driver.taken == (1, {})


@pytest.mark.parametrize("free", [5, 3])
def test_a_sleeper_does_not_pass_a_writer_that_came_before(free):
    driver = Weighing()
    driver.acquire(permits=5, take=5 - free) if free < 5 else driver.release(driver.acquire(permits=5, take=5))
    with pytest.raises(LockNotGrantedError):
        claimed(driver, WRITER, ASLEEP)
    assert left(driver) == [WRITER, ASLEEP]


def waiting(scene: Scene) -> list[int]:
    """What those take who have a ticket."""
    return [ticket_take(ticket["S"]) for ticket in scene.row().get("waiters", {"L": []})["L"]]


def test_a_sleeper_is_claimed_for_with_what_it_takes(scene):
    held = scene.client.acquire("k", permits=5, take=4, wait=0)
    scene.lies_down("a", permits=5, take=3)
    scene.look()
    assert (scene.calls.called, waiting(scene)) == ([], [3])
    held.release()
    scene.look()
    assert scene.calls.called == ["token-a"]
    assert scene.client.get("k").taken == 3
    with scene.client.acquire("k", permits=5, take=3, holder="a", wait=0) as lock:
        assert lock.take == 3


def test_a_sleeping_writer_is_not_passed_by_readers_that_try_or_lie_down_later(scene):
    reader = scene.client.acquire("k", shared=True, wait=0)
    scene.lies_down("writer", shared=False)
    scene.look()
    scene.lies_down("reader", shared=True)
    scene.look()
    assert waiting(scene) == [100]
    assert scene.client.try_acquire("k", shared=True) is None
    reader.release()
    scene.look()
    assert scene.calls.called == ["token-writer"]
    writer = scene.client.acquire("k", shared=False, holder="writer", wait=0)
    assert (writer.take, waiting(scene)) == (100, [1])
    writer.release()
    scene.look()
    assert scene.calls.called == ["token-writer", "token-reader"]
    assert scene.client.acquire("k", shared=True, holder="reader", wait=0).release()


def test_the_ticket_says_what_the_first_sleeper_takes_once_the_one_before_it_got_up(scene):
    held = scene.client.acquire("k", permits=5, take=5, wait=0)
    scene.lies_down("light", permits=5, take=1)
    scene.look()
    scene.lies_down("heavy", permits=5, take=4)
    assert waiting(scene) == [1]
    assert scene.gets_up("light")
    scene.look()
    assert waiting(scene) == [4]
    assert held.release()


def test_a_task_lets_an_execution_sleep_with_what_it_takes(scene):
    held = scene.client.acquire("k", permits=5, take=5, wait=0)

    async def sleep() -> None:
        async with AsyncLockClient("locks") as client:
            await client.sleep("k", holder="a", task_token="token-a", permits=5, take=2)

    asyncio.run(sleep())
    scene.look()
    assert waiting(scene) == [2]
    assert held.release()


def test_an_entry_reads_as_it_was_written_and_says_what_is_taken_only_if_its_acquire_does():
    for permits, ttl, take, parts in ((5, 60, None, 5), (3, None, None, 5), (5, 60, 1, 6), (5, 60, 3, 6)):
        written = Sleeper("é#x/1", "task", "token", permits, ttl, take)
        assert len(json.loads(written.entry()["S"])) == parts
        read: Any = read_sleeper(written.entry())
        assert vars(read) == vars(written)


@pytest.mark.parametrize("more", [[0], [6], ["2"], [True], [1.0], [1, 1], [None, 1]], ids=str)
def test_an_entry_with_a_weight_that_cannot_be_is_a_strangers(more):
    assert read_sleeper({"S": json.dumps(["a", "task", "token", 5, 60, *more])}) is None
    assert read_sleeper({"S": json.dumps(["a", "task", "token", None, 60, 1])}) is None
