"""The state machine of docs/waiting-asleep.md: who is refused lies down, and is woken when the lock is free."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lambda_lock import LockClient

from . import page
from .conftest import Execution, Shop
from .waking import waker


@pytest.fixture(scope="module")
def woken(shop: Shop) -> Iterator[None]:
    """A waker runs."""
    shop.plan("waker")
    with waker(shop):
        yield


@pytest.fixture(scope="module")
def machine(shop: Shop, woken: None) -> str:
    """The state machine of the page, without its rule."""
    return shop.machine(page.asleep(shop.arns))


def row_of(shop: Shop, key: str) -> dict[str, Any]:
    """The row of those who sleep until the lock is free. Empty if there is none yet."""
    rows = shop.cloud.engine.scan(shop.locks)
    return next((dict(row) for row in rows if row["key"]["S"] == f"{key}~sleepers"), {})


def sleepers(shop: Shop, key: str) -> list[str]:
    """The entries of those who sleep until the lock is free, in their order."""
    return [str(each["S"]) for each in row_of(shop, key).get("asleep", {"L": []})["L"]]


def wait_asleep(shop: Shop, execution: Execution, key: str | None = None) -> None:
    """Wait until the execution has lain down."""
    where = f"order#{execution.order}" if key is None else key
    shop.cloud.wait_until(lambda: any(execution.arn in each for each in sleepers(shop, where)))


def two(shop: Shop, machine: str, **plan: list[str]) -> tuple[Execution, str, Execution]:
    """An execution that has the lock of an order and has asked, its task, and another that sleeps until it is free."""
    first = shop.start(machine, shop.new_order(**plan))
    task = first.asked()
    second = shop.start(machine, first.order)
    wait_asleep(shop, second)
    return first, task, second


def fail(shop: Shop, execution: Execution, key: str, error: str) -> None:
    """Fail the token with which it lies down, as AWS does, and wait until it has lain down again."""
    before = row_of(shop, key)["newest"]
    (entry,) = sleepers(shop, key)
    execution.refuse(json.loads(entry)[2], error)
    shop.cloud.wait_until(lambda: row_of(shop, key)["newest"] != before)


def test_executions_that_sleep_are_served_in_their_order_and_none_of_them_polls(shop, machine, is_free):
    first = shop.start(machine, shop.new_order())
    tasks = [first.asked()]
    waiting = []
    for _ in range(3):
        waiting.append(shop.start(machine, first.order))
        wait_asleep(shop, waiting[-1])
    for number, execution in enumerate([first, *waiting], start=1):
        execution.answer(tasks[-1])
        assert execution.has_succeeded()
        if number <= len(waiting):
            tasks.append(waiting[number - 1].asked(number + 1))
    for execution in waiting:
        assert execution.states()[:4] == ["Acquire", "Sleep", "Acquire", "Reserve"]
        assert execution.errors() == ["LockNotGrantedError"]
    in_order = [note["token"] for note in shop.notes(first.order) if "token" in note]
    assert in_order == sorted(in_order)
    assert len(set(in_order)) == 4
    assert is_free(first.order)
    assert sleepers(shop, f"order#{first.order}") == []


def test_the_step_that_lies_down_is_tried_again_after_an_error_and_sleeps_once(shop, machine, is_free):
    """The engine waits on where a function with a task token failed. So the token is failed, as AWS does then.

    On AWS each try has a token of its own. The engine's tries have one.
    """
    first, task, second = two(shop, machine)
    key = f"order#{first.order}"
    for error in ("Runtime.ExitError", "Sandbox.Timedout"):
        fail(shop, second, key, error)
    assert len(sleepers(shop, key)) == 1
    first.answer(task)
    assert second.has_succeeded(2)
    assert first.has_succeeded()
    assert is_free(first.order)


@pytest.mark.parametrize(
    ("plan", "killed"),
    [({"sleep_answers": ["kill"]}, 0), ({"acquire_answers": ["", "kill", "kill"]}, 2)],
    ids=["after it lay down", "after it was woken"],
)
def test_a_function_that_is_killed_has_lain_down_or_taken_the_lock_all_the_same(shop, machine, is_free, plan, killed):
    first, task, second = two(shop, machine, **plan)
    if not killed:
        shop.cloud.wait_until(lambda: shop.notes(first.order, "kill at sleep answers"))
    first.answer(task)
    assert second.has_succeeded(2)
    assert killed in (0, second.errors().count("Runtime.ExitError"))
    assert is_free(first.order)


@pytest.mark.parametrize(
    "moment", ["called", *(pytest.param(moment, marks=pytest.mark.long) for moment in ("call", "answers"))]
)
def test_a_waker_that_is_killed_is_followed_by_one_that_goes_on_where_it_was(shop, machine, is_free, moment):
    first, task, second = two(shop, machine)
    third = shop.start(machine, first.order)
    wait_asleep(shop, third)
    before = len(shop.notes("waker"))
    shop.plan("waker", **{moment: ["kill"]})
    first.answer(task)
    tasks = []
    for number in (2, 3):
        shop.cloud.wait_until(lambda number=number: len(shop.notes(first.order, "ask")) == number, 120)
        tasks.append(shop.notes(first.order, "ask")[-1]["task"])
        second.answer(tasks[-1])
    assert all(each.has_succeeded() for each in (first, second, third))
    assert len(shop.notes("waker")) == before + 1
    shop.cloud.wait_until(lambda: sleepers(shop, f"order#{first.order}") == [])
    assert is_free(first.order)


@pytest.mark.long
def test_an_execution_that_was_aborted_asleep_does_not_hold_up_the_next_for_more_than_a_minute(shop, machine, is_free):
    """The engine accepts a call to an execution that was aborted, so its minute passes. AWS refuses it: no minute."""
    first, task, aborted = two(shop, machine)
    following = shop.start(machine, first.order)
    wait_asleep(shop, following)
    aborted.stop()
    first.answer(task)
    shop.cloud.wait_until(lambda: len(shop.notes(first.order, "ask")) == 2, seconds=120)
    assert following.has_succeeded(2)
    assert aborted.described()["status"] == "ABORTED"
    assert is_free(first.order)


def test_an_abort_in_the_moment_of_the_call_is_followed_by_the_release_of_what_was_taken(shop, woken, is_free):
    machine = shop.machine(page.asleep(shop.arns))
    with shop.rule("asleep-ended", machine, page.machines(shop.arns)[1]):
        first, task, second = two(shop, machine, acquire_answers=["", "hang"])
        first.answer(task)
        shop.cloud.wait_until(lambda: shop.notes(first.order, "hang at acquire answers"))  # it has the lock, and hangs
        second.stop()
        shop.cloud.wait_until(lambda: is_free(first.order))


@contextmanager
def looking_twice(shop: Shop, locks: LockClient, definition: dict[str, Any]) -> Iterator[Execution]:
    """An execution that lies down, as the lock is held, and looks at the lock again in the block."""
    machine, order = shop.machine(definition), shop.new_order()
    with locks.acquire(f"order#{order}", wait=0):
        execution = shop.start(machine, order)
        yield execution
        assert execution.states()[:4] == ["Acquire", "Sleep", "Acquire", "Sleep"]
    assert execution.has_succeeded(1)


def test_an_execution_that_nobody_wakes_looks_again_at_the_time_out_of_its_sleep(shop, woken, locks):
    definition = page.asleep(shop.arns)
    definition["States"]["Sleep"]["TimeoutSeconds"] = 2  # 3600 on the page
    with looking_twice(shop, locks, definition) as execution:
        shop.cloud.wait_until(lambda: execution.states().count("Sleep") == 2)


def test_an_execution_that_cannot_lie_down_looks_at_the_lock_after_its_retries(shop, woken, locks):
    """Since 256 sleep, or its function knows of no waker any more. Its token is failed as AWS does, see above."""
    definition = page.asleep(shop.arns)
    definition["States"]["Sleep"]["Retry"][1] |= {"IntervalSeconds": 1, "MaxAttempts": 1}  # 5 and 10 on the page
    with looking_twice(shop, locks, definition) as execution:
        wait_asleep(shop, execution)
        for error in ("LockNotGrantedError", "LockConfigurationError"):
            fail(shop, execution, f"order#{execution.order}", error)


def test_a_holder_that_died_is_followed_by_the_first_sleeper_when_its_lease_ends(shop, machine, locks):
    """Nobody writes then: the waker's queue tells it to look."""
    order = shop.new_order()
    dead = LockClient(shop.locks, lease_duration=3, heartbeat_period=0)
    held = dead.acquire(f"order#{order}", wait=0)
    dead.close(release=False)
    assert not held.is_held
    execution = shop.start(machine, order)
    wait_asleep(shop, execution)
    assert execution.has_succeeded(1)
    assert execution.states()[:4] == ["Acquire", "Sleep", "Acquire", "Reserve"]


def test_executions_that_wait_for_one_of_two_permits_sleep_and_are_woken_one_by_one(shop, woken, locks):
    machine = shop.machine(page.asleep(page.of_permits(shop.arns)))
    inside = [shop.start(machine, shop.new_order()) for _ in range(2)]
    tasks = [execution.asked() for execution in inside]
    third, fourth = (shop.start(machine, shop.new_order()) for _ in range(2))
    for execution in (third, fourth):
        wait_asleep(shop, execution, "orders")
    inside[0].answer(tasks[0])
    shop.cloud.wait_until(lambda: shop.notes(third.order, "ask") or shop.notes(fourth.order, "ask"))
    assert not (shop.notes(third.order, "ask") and shop.notes(fourth.order, "ask"))
    inside[1].answer(tasks[1])
    assert all(each.has_succeeded(1) for each in (third, fourth))
    assert all(each.has_succeeded() for each in inside)
    record = locks.get("orders")
    assert record is None or not record.holders
    assert sleepers(shop, "orders") == []
