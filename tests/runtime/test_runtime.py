"""Locks in functions that the unmodified awslambdaric runs: served, timed out, frozen and killed as Lambda does it."""

import pytest

from rig.lambda_runtime import FunctionError, LambdaEnvironment, TimedOut
from rig.wire import Request

from .conftest import LONG, holding

GRACE = 2.0  # seconds between the end of a lease and its stored expiry
SLACK = 8.0  # seconds that a busy machine may take


# Held while the handler runs, and no longer


def test_a_lock_is_held_while_the_handler_runs_and_released_with_its_answer(start, rows, wire, go_on):
    invocation = holding(start(function_name="orders"), go_on)
    assert rows.is_held("order-1")
    assert rows["order-1"]["ownerName"]["S"].startswith("orders/r-1#")
    go_on.touch()
    answer = invocation.result()
    assert not rows.is_held("order-1")
    assert answer["held"]
    assert answer["lost"] is None
    assert wire.operations == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_warm_environment_costs_two_requests_a_lock_over_one_connection(frozen, start, wire):
    environment = start(freeze_between=frozen)
    answers = []
    for _ in range(3):
        answers.append(environment.invoke({"id": 1}, 10).result())
        if frozen:
            wire.cut_connections()  # as a front end does with idle ones
    token = answers[0]["token"]
    assert [answer["token"] for answer in answers] == [token, token + 1, token + 2]
    assert len({answer["pid"] for answer in answers}) == 1
    assert wire.operations == ["UpdateItem"] * 6
    assert wire.connections == (3 if frozen else 1)
    assert environment.cold_starts == 1


def test_the_lease_ends_with_the_invocation(start, rows, go_on):
    invocation = holding(start(), go_on, 5.0)
    assert 3000 < int(rows["order-1"]["leaseDuration"]["S"]) <= 5000
    assert invocation.deadline is not None
    assert abs(rows.expiry("order-1") - (invocation.deadline + GRACE)) < 1.5
    go_on.touch()
    invocation.result()


# Killed at the timeout


def test_an_invocation_killed_at_its_timeout_frees_its_lock_for_the_next(start, rows, go_on):
    environment = start()
    killed = holding(environment, go_on, 3.0)
    expiry = rows.expiry("order-1")
    token = int(rows["order-1"]["fencingToken"]["N"])
    with pytest.raises(TimedOut):
        killed.result()
    assert killed.deadline is not None
    assert abs(expiry - (killed.deadline + GRACE)) < 1.5  # the lease ended with the invocation
    assert rows.version("order-1").startswith(f"L1:{int(expiry * 1000)}")  # nothing was sent at the end
    answer = environment.invoke({"id": 1}, LONG).result()
    assert answer["pid"] != killed.pid
    assert answer["token"] == token + 1
    assert killed.deadline <= answer["granted_at"] <= expiry + SLACK
    assert not rows.is_held("order-1")


# Frozen in mid-hold


def test_a_freeze_longer_than_the_lease_is_noticed_before_the_handler_goes_on(start, rows, go_on):
    frozen, other = start(lease=1.5), start()
    invocation = holding(frozen, go_on)
    frozen.freeze()
    successor = holding(
        other, other_goes_on := go_on.with_name("other"), request_id="r-2"
    )  # it has taken over, and works
    go_on.touch()
    frozen.thaw()
    answer = invocation.result()
    assert answer["held"] is False
    assert "'order-1' is lost" in answer["lost"]
    assert rows["order-1"]["ownerName"]["S"] != answer["owner"]
    assert rows.is_held("order-1")  # its end released nothing of the other's
    other_goes_on.touch()
    result = successor.result()
    assert (result["held"], result["lost"], result["token"]) == (True, None, answer["token"] + 1)
    assert frozen.wait_for_line("'order-1'")  # a warning: its result is still returned


# Threads and renewals


def test_an_invocation_that_needs_no_heartbeat_leaves_no_thread(start):
    environment = start("locking.either")
    before = environment.invoke({"look": True}, 10).result()
    during = environment.invoke({"id": 1}, 10).result()  # the lease of 20 s reaches to the deadline
    after = environment.invoke({"look": True}, 10).result()
    assert before["pid"] == after["pid"]
    assert before["threads"] == during["threads"] == after["threads"] == []
    assert before["tasks"] == during["tasks"] == after["tasks"]


# Several environments


def test_what_keeps_a_handler_from_running_surfaces_as_its_error(start, go_on, wire):
    other = start("locking.fail_fast")
    for event, seconds, kind, words in (
        ({"name": "no id here"}, LONG, "KeyTemplateError", "id"),
        ({"id": 1}, 0.9, "LockNotGrantedError", "left before the invocation's deadline"),
    ):
        other.invoke({"id": 3}, LONG).result()  # warm
        wire.clear()
        with pytest.raises(FunctionError, match=words) as caught:
            other.invoke(event, seconds).result()
        assert caught.value.type == kind
        assert wire.operations == []
    invocation = holding(start(function_name="orders"), go_on)
    with pytest.raises(FunctionError, match="'order-1' is held by orders/r-1#") as caught:
        other.invoke({"id": 1}, LONG).result()
    assert caught.value.type == "LockNotGrantedError"
    assert other.invoke({"id": 2}, LONG).result()["held"]
    assert other.cold_starts == 1
    go_on.touch()
    invocation.result()
    assert other.invoke({"id": 1}, LONG).result()["held"]


def test_a_wait_ends_in_time_for_the_work_and_not_with_the_invocation(start, go_on):
    invocation, other = holding(start(), go_on), start()
    other.invoke({"id": 2}, LONG).result()  # warm
    with pytest.raises(FunctionError) as caught:
        other.invoke({"id": 1}, 4.0).result()
    assert caught.value.type == "LockTimeoutError"
    go_on.touch()
    invocation.result()


# Errors of the handler


def unlucky(environment: LambdaEnvironment) -> list[str]:
    """The trace of the handler's own error, which comes through."""
    with pytest.raises(FunctionError) as caught:
        environment.invoke({"id": 1, "raise": "no luck"}, LONG).result()
    assert (caught.value.type, caught.value.message) == ("Unlucky", "no luck")
    return caught.value.trace


def test_the_handlers_exception_comes_through_unchanged_and_the_lock_is_released(start, rows):
    environment = start("locking.either")
    with pytest.raises(FunctionError) as bare:
        environment.invoke({"look": True, "raise": "no luck"}, LONG).result()
    assert (bare.value.type, bare.value.message) == ("Unlucky", "no luck")
    trace = unlucky(environment)
    assert "in work" in trace[-1]
    assert 'raise Unlucky(event["raise"])' in trace[-1]
    assert not rows.is_held("order-1")
    assert environment.cold_starts == 1
    assert environment.invoke({"id": 1}, LONG).result()["held"]


def ends(request: Request) -> bool:
    """Whether it is a release: claims are the only ones here that ask for the new row."""
    return request.operation == "UpdateItem" and "ReturnValues" not in request.body


@pytest.mark.parametrize("answered", [True, False])
def test_a_release_that_is_refused_or_gets_no_answer_hides_neither_error_nor_result(answered, start, rows, wire):
    if answered:
        fault = wire.answer(400, "AccessDeniedException", "UpdateItem", times=float("inf"), when=ends)
    else:
        fault = wire.drop_reply("UpdateItem", times=float("inf"), when=ends)
    environment = start()
    assert "in work" in unlucky(environment)[-1]
    assert fault.reached.is_set()
    assert environment.wait_for_line("'order-1' was not released")
    assert rows.is_held("order-1") is answered
    if answered:
        answer = environment.invoke({"id": 2}, LONG).result()
        assert answer["key"] == "order-2"
        assert environment.wait_for_line("'order-2' was not released")
        assert rows.is_held("order-2")


# SnapStart


SNAP_START = {"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}


def test_a_lock_at_import_time_is_refused_to_a_snapstart_function(start, wire):
    with pytest.raises(FunctionError, match="while a SnapStart function initialises") as caught:
        start("at_import.handler", environment=SNAP_START).invoke({}, LONG).result()
    assert caught.value.type == "LockConfigurationError"
    assert "Acquire it in the handler" in caught.value.message
    assert wire.operations == []


def test_a_lock_at_import_time_is_granted_to_other_functions(start, rows):
    start("at_import.handler").invoke({}, LONG).result()
    assert rows.is_held("at-import")


def test_a_snapstart_function_locks_in_its_handler(start, rows):
    environment = start(environment=SNAP_START)
    tokens = [environment.invoke({"id": 1}, LONG).result()["token"] for _ in range(2)]
    assert tokens == [tokens[0], tokens[0] + 1]
    assert not rows.is_held("order-1")
