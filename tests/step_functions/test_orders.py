"""The state machine of docs/step-functions.md holds one lock from its first state to its last, and frees it."""

import itertools
import json

import pytest

from . import page
from .conftest import Execution, Shop


def tokens(shop: Shop, order: str) -> set[int]:
    """The fencing tokens of all the work on an order."""
    return {note["token"] for note in shop.notes(order) if "token" in note}


def ended_event(execution: Execution, status: str) -> dict[str, object]:
    """What EventBridge sends at the end of an execution, as far as the page uses it.

    Source: Step Functions Developer Guide, "Automating Step Functions event delivery with EventBridge".
    """
    detail = {"executionArn": execution.arn, "status": status, "input": json.dumps({"order": execution.order})}
    return {"source": "aws.states", "detail-type": "Step Functions Execution Status Change", "detail": detail}


def test_an_order_is_done_under_one_lock_which_is_free_in_the_end(shop, orders, is_free):
    execution = shop.start(orders, shop.new_order())
    task = execution.asked()
    assert not is_free(execution.order)
    execution.answer(task)
    assert execution.has_succeeded()
    assert execution.states() == ["Acquire", "Reserve", "Settle", "Approve", "Ship", "Release"]
    assert [note["what"] for note in shop.notes(execution.order)] == ["reserve", "ask", "ship"]
    assert len(tokens(shop, execution.order)) == 1
    assert is_free(execution.order)


@pytest.mark.long
def test_a_state_that_is_killed_before_its_result_is_tried_again_under_the_same_lock(shop, orders, is_free):
    once = {moment: ["kill"] for moment in ("reserve_answers", "ship", "ship_answers", "release_answers")}
    order = shop.new_order(acquire_answers=["kill", "kill"], reserve=["kill", "hang"], **once)
    execution = shop.start(orders, order)
    assert execution.has_succeeded(1)
    assert execution.errors().count("Runtime.ExitError") == 7
    assert execution.errors().count("Sandbox.Timedout") == 1
    attempts = shop.notes(order, "reserve") + shop.notes(order, "ship")
    assert len({note["owner"] for note in attempts}) == len(attempts) == 7
    assert len(tokens(shop, order)) == 1
    assert is_free(order)


@pytest.mark.parametrize("step", ["reserve", "ship"])
def test_a_state_that_fails_for_good_is_caught_and_the_lock_is_freed(shop, orders, is_free, step):
    execution = shop.start(orders, shop.new_order(**{step: ["raise", "kill", "raise", "raise"]}))
    if step == "ship":
        execution.answer(execution.asked())
    assert execution.failure() == "RuntimeError"
    assert execution.end()[1] == "OrderFailed"
    assert execution.states()[-2:] == ["GiveUp", "Failed"]
    assert len(shop.notes(execution.order, step)) == 4
    assert is_free(execution.order)


def test_a_second_execution_waits_by_its_retries_until_the_first_has_freed_the_lock(shop, orders):
    first = shop.start(orders, shop.new_order())
    task = first.asked()
    second = shop.start(orders, first.order)
    shop.cloud.wait_until(lambda: second.errors().count("LockNotGrantedError") >= 2)
    assert second.states() == ["Acquire"]
    first.answer(task)
    assert first.has_succeeded()
    assert second.has_succeeded(2)
    assert set(second.errors()) == {"LockNotGrantedError"}
    in_order = [note["token"] for note in shop.notes(first.order) if "token" in note]
    assert [len(list(same)) for _, same in itertools.groupby(in_order)] == [2, 2]
    assert in_order == sorted(in_order)


# The engine does not watch HeartbeatSeconds. On AWS their end is an error of the task, by this name.
@pytest.mark.parametrize("error", ["Declined", "States.HeartbeatTimeout"])
def test_a_task_token_that_is_failed_is_caught_and_the_lock_is_freed(shop, orders, is_free, error):
    execution = shop.start(orders, shop.new_order())
    execution.refuse(execution.asked(), error)
    assert execution.failure() == error
    assert "Ship" not in execution.states()
    assert is_free(execution.order)


@pytest.mark.long
def test_a_task_token_that_is_never_answered_is_caught_and_the_lock_is_freed(shop, orders, is_free):
    execution = shop.start(orders, shop.new_order())
    assert execution.failure() == "States.Timeout"
    assert len(shop.notes(execution.order, "ask")) == 1
    assert is_free(execution.order)


def test_a_lock_that_was_lost_is_not_tried_again_and_stays_with_its_new_holder(shop, orders, locks):
    execution = shop.start(orders, shop.new_order())
    task = execution.asked()
    key = f"order#{execution.order}"
    record = locks.get(key)
    assert record is not None
    assert locks.release(key=key, owner=record.owner, fencing_token=record.fencing_token)
    others = locks.acquire(key, wait=0)
    execution.answer(task)
    assert execution.failure() == "LockLostError"
    assert execution.errors() == ["LockLostError"]
    others.heartbeat()
    others.release()


@pytest.mark.parametrize("answers", [[], ["kill", "raise"]], ids=["at once", "and that is tried again"])
def test_an_aborted_execution_is_followed_by_the_release_of_its_lock(shop, orders_and_rule, is_free, answers):
    execution = shop.start(orders_and_rule, shop.new_order(ended_answers=answers))
    execution.asked()
    assert not is_free(execution.order)
    execution.stop()
    shop.cloud.wait_until(lambda: len(shop.notes(execution.order)) == 2 + len(answers))  # reserve, ask, kill, raise
    shop.cloud.wait_until(lambda: is_free(execution.order))
    assert execution.described()["status"] == "ABORTED"
    assert "GiveUp" not in execution.states()


def test_an_abort_while_another_execution_holds_the_lock_leaves_it_alone(shop, orders, orders_and_rule, locks):
    first = shop.start(orders, shop.new_order())
    task = first.asked()
    held = locks.get(f"order#{first.order}")
    second = shop.start(orders_and_rule, first.order)
    shop.cloud.wait_until(lambda: "LockNotGrantedError" in second.errors())
    second.stop()
    shop.functions["ended"].invoke(ended_event(second, "ABORTED"))
    after = locks.get(f"order#{first.order}")
    assert held is not None
    assert after is not None
    assert (after.version, after.is_held) == (held.version, True)
    first.answer(task)
    assert first.has_succeeded()


def test_a_lock_whose_acquire_failed_for_good_after_its_grant_is_freed_by_the_rule(shop, orders_and_rule, is_free):
    execution = shop.start(orders_and_rule, shop.new_order(acquire_answers=["kill"] * 6))
    assert execution.end()[:2] == ("FAILED", "Runtime.ExitError")
    assert execution.states() == ["Acquire"]
    shop.cloud.wait_until(lambda: is_free(execution.order))


def test_the_event_of_a_time_out_releases_the_lock_and_may_come_twice_and_late(shop, orders, is_free, locks):
    # The engine does not watch the TimeoutSeconds of an execution. So it is stopped, and the event is sent by hand.
    execution = shop.start(orders, shop.new_order())
    execution.asked()
    execution.stop()
    assert not is_free(execution.order)
    event = ended_event(execution, "TIMED_OUT")
    for _ in range(2):
        shop.functions["ended"].invoke(event)
        assert is_free(execution.order)
    with locks.acquire(f"order#{execution.order}", wait=0) as others:
        shop.functions["ended"].invoke(event)
        others.heartbeat()


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
