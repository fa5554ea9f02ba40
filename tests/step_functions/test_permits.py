"""The state machine of docs/step-functions.md with permits: at most two executions at once, whatever comes."""

from collections.abc import Callable, Iterator

import pytest

from lambda_lock import LockClient

from . import page
from .conftest import Execution, Shop

Holders = Callable[[], set[str]]


@pytest.fixture(scope="module")
def machine(shop: Shop) -> str:
    return shop.machine(page.machines(page.of_permits(shop.arns))[0])


@pytest.fixture(scope="module")
def machine_and_rule(shop: Shop) -> Iterator[str]:
    first, second = page.machines(page.of_permits(shop.arns))
    machine = shop.machine(first)
    with shop.rule("permit-ended", machine, second):
        yield machine


@pytest.fixture
def holders(locks: LockClient) -> Holders:
    """The executions that have a permit."""

    def of_row() -> set[str]:
        record = locks.get("orders")
        return set() if record is None else {str(each.owner).rpartition("#")[0] for each in record.holders}

    return of_row


def started(shop: Shop, machine: str, **plan: list[str]) -> Execution:
    return shop.start(machine, shop.new_order(**plan))


def test_a_third_execution_waits_by_its_retries_until_one_of_two_has_ended(shop, machine, holders):
    inside = [started(shop, machine) for _ in range(2)]
    tasks = [execution.asked() for execution in inside]
    assert holders() == {execution.arn for execution in inside}
    third = started(shop, machine)
    shop.cloud.wait_until(lambda: third.errors().count("LockNotGrantedError") > 2)
    assert third.states() == ["Acquire"]
    assert holders() == {execution.arn for execution in inside}
    inside[0].answer(tasks[0])
    task = third.asked()
    assert holders() == {inside[1].arn, third.arn}
    inside[1].answer(tasks[1])
    third.answer(task)
    assert all(each.has_succeeded() for each in (*inside, third))
    assert holders() == set()


def test_an_aborted_execution_is_followed_by_the_release_of_its_permit_alone(shop, machine_and_rule, holders):
    aborted, other = (started(shop, machine_and_rule) for _ in range(2))
    task = other.asked()
    aborted.asked()
    aborted.stop()
    shop.cloud.wait_until(lambda: holders() == {other.arn})
    other.answer(task)
    assert other.has_succeeded()
    assert holders() == set()
