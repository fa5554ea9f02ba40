"""What attacks on the queue found: several processes on one table, wrong clocks, rows that lie."""

import heapq
from functools import partial
from itertools import count
from typing import Any

import pytest

from lambda_lock.core import acquire, keep, requests
from lambda_lock.core.lease import ClockReading
from lambda_lock.core.outcome import ConditionFailed, ServiceError
from lambda_lock.core.protocol import Conversation, Resumption, Send, Wait
from lambda_lock.core.queue import PATIENCE, Queue
from lambda_lock.core.row import MOST_WAITERS
from lambda_lock.errors import LockNotGrantedError, LockTimeoutError

from .driver import NOW
from .test_queue import Waiting, driver, held, released_with

__all__ = ["driver", "held"]


class Crowd:
    """Several processes on one table, interleaved request by request in virtual time."""

    def __init__(self) -> None:
        self.table = Waiting()
        self.now = 0.0
        self.events: list[tuple[float, int, Any]] = []
        self.numbers = count()

    def at(self, time: float, act: Any) -> None:
        heapq.heappush(self.events, (time, next(self.numbers), act))

    def run(self, until: float) -> None:
        while self.events and self.events[0][0] <= until:
            self.now, _, act = heapq.heappop(self.events)
            self.table.now = self.now
            act()


class Member:
    def __init__(self, crowd: Crowd, trip: float = 0.004) -> None:
        self.crowd, self.trip = crowd, trip
        self.process = Waiting()
        seed = next(crowd.numbers)
        self.process.entropy.jitter = lambda: (seed * 0.37) % 1
        nonces = count()
        self.process.entropy.nonce = lambda: f"{seed:04x}{next(nonces):04x}" + "0" * 24
        self.result: Any = None

    def reading(self) -> ClockReading:
        return ClockReading(self.crowd.now, self.crowd.now, NOW + self.crowd.now)

    def talk(self) -> Conversation:
        return Conversation(self.process.memory, self.process.entropy, self.reading())

    def acquiring(self, wait: float, queue: Any) -> Any:
        wanted = self.process.wanted(wait_until=self.crowd.now + wait, queue=queue, waits=wait > 0)
        return acquire.acquire(wanted, self.talk())

    def acquire(self, wait: float) -> None:
        self.drive(self.acquiring(wait, Queue if wait else None))

    def drive(self, steps: Any) -> None:
        def resume(event: Resumption | None) -> None:
            try:
                step = steps.send(event)
            except StopIteration as end:
                self.result = end.value
                return
            except LockTimeoutError as error:
                self.result = error
                return
            now = self.crowd.now
            if isinstance(step, Wait):
                self.crowd.at(now + step.seconds, lambda: resume(Resumption(self.reading())))
                return
            outcome: list[Any] = []
            self.crowd.at(now + self.trip / 2, lambda: outcome.append(self.land(step)))
            self.crowd.at(now + self.trip, lambda: resume(Resumption(self.reading(), outcome[0])))

        resume(None)

    def land(self, step: Send) -> Any:
        try:
            return self.crowd.table.apply(step.operation, step.request)
        except (ConditionFailed, ServiceError) as refused:
            refused.date = int(NOW + self.crowd.now)
            return refused


def test_waiters_that_give_up_at_one_moment_leave_no_tickets():
    crowd = Crowd()
    Member(crowd).acquire(0)
    for number in range(32):
        waiter = Member(crowd, trip=0.004 + number * 0.0001)
        crowd.at(0.1 + 0.05 * number, lambda waiter=waiter: waiter.acquire(10 - crowd.now))
    crowd.run(15)
    assert crowd.table.places == []


@pytest.mark.parametrize("held_ms", [1, 20, 50])
def test_a_dead_waiter_costs_the_next_one_few_reads(driver, held_ms):
    released_with(driver, "dead", seconds=30)
    driver.damage(heldMs={"N": str(held_ms)})
    driver.acquire(wait_until=driver.now + 30)
    assert driver.kinds.count("read") <= 30


def test_the_retry_after_of_a_free_lock_does_not_count_the_last_holder_s_lease(driver, held):
    driver.wait("another1", seconds=20)
    driver.at = [(0.7, held), (0.7, lambda: driver.damage(heldMs=None))]

    moved = lambda: driver.put([*driver.others(f"new-{len(driver.sent)}", seconds=20), *driver.waiters])  # noqa: E731
    driver.at.append((0.9, lambda: driver.before.update(claim=[moved] * 9)))  # its place moves each time
    refused = driver.times_out(1.0)
    assert "is free" in str(refused)
    assert (refused.retry_after or 0) < 5


def test_an_append_called_invalid_at_the_end_of_the_wait_is_not_the_error_of_the_wait(driver, held):
    driver.troubles["append"] = [ServiceError("ValidationException", "Item size has exceeded the maximum")]
    driver.before["append"] = [lambda: driver.pass_time(1)]
    driver.times_out(0.9)


def test_forged_hold_times_do_not_send_callers_away_for_days(driver, held):
    driver.wait(*(f"g{number}" for number in range(64)), seconds=30)
    driver.damage(heldMs={"N": "86400000"})
    refused = driver.refused()
    assert "wait before" in str(refused)
    assert (refused.retry_after or 0) < 2 * 86_400


@pytest.mark.parametrize("dead", [1, 2, 3])
def test_the_living_behind_the_dead_keep_their_tickets_and_their_order(dead):
    crowd = Crowd()
    holder = Member(crowd)
    holder.acquire(0)
    crowd.run(0.1)
    crowd.table.wait(*(f"dead-{number}" for number in range(dead)), seconds=30)
    living = [Member(crowd) for _ in range(5)]
    for number, waiter in enumerate(living):
        crowd.at(0.2 + 0.05 * number, lambda waiter=waiter: waiter.acquire(100))
    crowd.run(3.0)
    crowd.table.damage(isReleased={"S": "1"}, heldMs={"N": "100"})
    appended = len(crowd.table.places)
    crowd.run(3 + PATIENCE * dead + 4.5)
    granted = [number for number, waiter in enumerate(living) if waiter.result is not None]
    assert granted == [0]
    assert len(crowd.table.places) == appended - 2  # its own, and that of the first dead one


@pytest.mark.parametrize("wait", [0.3, 1.0, 1.5])
@pytest.mark.parametrize("dead", [1, 2, 64])
def test_short_waits_are_slowed_down_by_the_dead_until_their_tickets_expire(driver, dead, wait):
    released_with(driver, *(f"dead-{number}" for number in range(dead)), seconds=12)
    began = driver.now
    for _ in range(200):
        driver.sent.clear()
        before = driver.now
        driver.release(driver.acquire(wait_until=driver.now + wait))
        assert driver.now - before < wait + 0.1
        if before - began > 14.5:
            assert driver.now - before < 0.1
            assert driver.places == []
            return
        driver.now += 0.1
    raise AssertionError("it took too many calls")


def taking(member: Member, wait: float, queue: Any, granted: list[float]) -> Any:
    """The life of a caller that asks again and again: in order, by polling, or without waiting."""
    while True:
        try:
            hold = yield from member.acquiring(wait, queue)
        except LockNotGrantedError:
            if queue is None:
                yield Wait(0.05)
            continue
        granted.append(member.crowd.now)
        yield Wait(0.05 if queue else 0.15)
        yield from keep.release(hold, member.talk())
        yield Wait(0.02)


def foreign(member: Member) -> Any:
    """The life of a client of another library, which carries along the columns that it does not know."""
    number = count()
    place = member.process.wanted().place
    while True:
        event = yield Send(*requests.read(place), 1.0)
        item = event.outcome.item
        if item and "isReleased" in item:
            version = {"S": f"foreign-{next(number)}-{id(member)}"}
            unchanged = {"TableName": "locks", "ConditionExpression": "recordVersionNumber = :v"}
            put = {**item, "ownerName": {"S": "java"}, "recordVersionNumber": version}
            del put["isReleased"]
            values = {":v": item["recordVersionNumber"]}
            event = yield Send("PutItem", {**unchanged, "Item": put, "ExpressionAttributeValues": values}, 1.0)
            if not isinstance(event.outcome, ConditionFailed):
                yield Wait(0.15)
                release = {**unchanged, "Key": place.item_key, "UpdateExpression": "SET isReleased = :r"}
                values = {":v": version, ":r": {"S": "1"}}
                yield Send("UpdateItem", {**release, "ExpressionAttributeValues": values}, 1.0)
        yield Wait(0.1)


@pytest.mark.parametrize("wait", [0.3, *(pytest.param(wait, marks=pytest.mark.long) for wait in (1.0, 1.5, 30.0))])
@pytest.mark.parametrize("dead", [1, pytest.param(2, marks=pytest.mark.long), MOST_WAITERS])
@pytest.mark.parametrize("busy", ["pollers", "fail-fast callers", "clients of another library"])
def test_behind_the_dead_everybody_who_lives_is_granted_though_others_keep_the_lock_busy(busy, dead, wait):
    crowd = Crowd()
    released_with(crowd.table, *(f"dead-{number:02}" for number in range(dead)), seconds=12)
    crowd.table.now = 0.0
    waits = {"pollers": 30.0, "fail-fast callers": 0.0}
    for number in range(4):
        member = Member(crowd)
        life = taking(member, waits[busy], None, []) if busy in waits else foreign(member)
        crowd.at(0.01 * number, partial(member.drive, life))
    grants: list[list[float]] = [[] for _ in range(3)]
    for granted in grants:
        member = Member(crowd)
        crowd.at(0.5, partial(member.drive, taking(member, wait, Queue, granted)))

    def all_is_well() -> bool:
        dead = [name for name in crowd.table.names if name.startswith("dead")]
        return not dead and all(any(at > 14.5 for at in granted) for granted in grants)

    for until in range(15, 46):
        crowd.run(until)
        if all_is_well():  # it stays so: a place that was removed does not come back
            break
    assert all_is_well()
