"""Locks on Lambda Managed Instances: two invocations at once in one environment, by the unmodified awslambdaric.

It runs in its multi-process mode. Nothing is killed at a deadline there: the handler goes on, without its lock.
"""

import time
from collections.abc import Iterator

import pytest

from rig.engine import Ministack
from rig.lambda_runtime import TimedOut
from rig.managed_instances import ManagedInstance

from .conftest import HANDLERS, LONG, holding

GRACE = 2.0  # seconds between the end of a lease and its stored expiry


@pytest.fixture
def instance(engine: Ministack, table: str) -> Iterator[ManagedInstance]:
    variables = engine.environment() | {"LAMBDA_LOCK_TABLE": table}
    with ManagedInstance("locking.handler", HANDLERS, environment=variables, function_name="orders") as running:
        yield running


def test_two_invocations_at_once_each_have_their_own_deadline(instance, go_on):
    hurried = holding(instance, go_on, 15.0, "r-1")
    patient = holding(instance, go_on, LONG, "r-2", of=2)
    go_on.touch()
    one, two = hurried.result(), patient.result()
    assert one["pid"] != two["pid"]
    assert one["owner"].startswith("orders/r-1#")
    assert two["owner"].startswith("orders/r-2#")
    assert one["lease"] <= 15 < two["lease"]


def test_of_two_invocations_at_once_that_want_one_lock_the_second_waits_for_the_first(instance, go_on):
    first = holding(instance, go_on, LONG, "r-1")
    second = instance.invoke({"id": 1}, LONG, request_id="r-2")
    assert not second.wait(0.5)
    freed_at = time.time()
    go_on.touch()
    assert first.result()["pid"] != second.result()["pid"]
    assert second.result()["granted_at"] > freed_at


def test_the_lock_of_a_process_that_ended_is_free_at_its_deadline_for_the_other_process(instance, rows):
    ended = instance.invoke({"id": 1, "exit": 1}, 5.0, request_id="r-1")
    instance.wait_for_line("holding r-1")
    expiry = rows.expiry("order-1")
    with pytest.raises(TimedOut):
        ended.result()
    assert ended.deadline is not None
    assert abs(expiry - (ended.deadline + GRACE)) < 1.5
    assert instance.invoke({"id": 1}, LONG).result()["granted_at"] > ended.deadline


def test_an_invocation_that_is_late_goes_on_without_its_lock_and_another_gets_it(instance, go_on):
    late = holding(instance, go_on, 4.0, "late")
    next_one = holding(instance, go_on, LONG, "next")
    with pytest.raises(TimedOut):
        late.result()
    go_on.touch()
    instance.wait_for_line("late held: False, lock 'order-1' is lost")
    assert next_one.result()["owner"].startswith("orders/next#")
