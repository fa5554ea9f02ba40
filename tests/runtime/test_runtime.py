"""Locks in functions that the unmodified awslambdaric runs: served, timed out, frozen and killed as Lambda does it."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from rig.lambda_runtime import FunctionError, TimedOut
from rig.wire import Request
from tests.support.elsewhere import in_thread
from tests.support.waiting import wait_until

from .conftest import LONG

GRACE = 2.0  # seconds between the end of a lease and its stored expiry
SLACK = 8.0  # seconds that a busy machine may take


# Held while the handler runs, and no longer


def test_a_lock_is_held_while_the_handler_runs_and_released_with_its_answer(start, rows, wire, tmp_path):
    environment = start(function_name="orders")
    invocation = environment.invoke({"id": 1, "until": str(tmp_path / "go-on")}, LONG, request_id="r-1")
    environment.wait_for_line("holding r-1")
    assert rows.is_held("order-1")
    assert rows["order-1"]["ownerName"]["S"].startswith("orders/r-1#")
    (tmp_path / "go-on").touch()
    answer = invocation.result()
    assert not rows.is_held("order-1")
    assert answer["held"]
    assert answer["lost"] is None
    assert wire.operations == ["UpdateItem", "UpdateItem"]


def test_a_warm_environment_costs_two_requests_a_lock_over_one_connection(start, wire):
    environment = start()
    tokens = [environment.invoke({"id": 1}, 10).result()["token"] for _ in range(3)]
    assert tokens == [tokens[0], tokens[0] + 1, tokens[0] + 2]
    assert wire.operations == ["UpdateItem"] * 6
    assert wire.connections == 1
    assert environment.cold_starts == 1


def test_the_lease_ends_with_the_invocation(start, rows, tmp_path):
    environment = start()
    invocation = environment.invoke({"id": 1, "until": str(tmp_path / "go-on")}, 5.0, request_id="r-1")
    environment.wait_for_line("holding r-1")
    assert invocation.deadline is not None
    assert 3000 < int(rows["order-1"]["leaseDuration"]["S"]) <= 5000
    assert abs(rows.expiry("order-1") - (invocation.deadline + GRACE)) < 1.5
    (tmp_path / "go-on").touch()
    invocation.result()


def test_an_environment_that_was_frozen_between_invocations_locks_again(start, wire):
    environment = start(freeze_between=True)
    first = environment.invoke({"id": 1}, 10).result()
    wire.cut_connections()  # as a front end does with idle ones
    second = environment.invoke({"id": 1}, 10).result()
    assert second["pid"] == first["pid"]
    assert second["token"] == first["token"] + 1
    assert wire.operations == ["UpdateItem"] * 4


# Killed at the timeout


def test_an_invocation_killed_at_its_timeout_frees_its_lock_for_the_next(start, rows):
    environment = start()
    killed = environment.invoke({"id": 1, "sleep": LONG}, 3.0, request_id="r-1")
    environment.wait_for_line("holding r-1")
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


def test_who_waits_while_the_holder_is_killed_gets_the_lock(start, rows):
    first, second = start(), start()
    killed = first.invoke({"id": 1, "sleep": LONG}, 2.5, request_id="r-1")
    first.wait_for_line("holding r-1")
    expiry = rows.expiry("order-1")
    waiting = second.invoke({"id": 1}, LONG)
    with pytest.raises(TimedOut):
        killed.result()
    answer = waiting.result()
    assert killed.deadline is not None
    assert killed.deadline - 0.2 <= answer["granted_at"] <= expiry + SLACK
    assert answer["held"]


# Frozen in mid-hold


def test_a_freeze_longer_than_the_lease_is_noticed_before_the_handler_goes_on(start, rows, tmp_path):
    go_on = tmp_path / "go-on"
    frozen, other = start(lease=1.5), start()
    invocation = frozen.invoke({"id": 1, "until": str(go_on)}, LONG, request_id="r-1")
    frozen.wait_for_line("holding r-1")
    frozen.freeze()
    successor = other.invoke({"id": 1, "until": str(tmp_path / "never")}, LONG, request_id="r-2")
    other.wait_for_line("holding r-2")  # it has taken over, and works
    go_on.touch()
    frozen.thaw()
    answer = invocation.result()
    assert answer["held"] is False
    assert "'order-1' is lost" in answer["lost"]
    assert rows["order-1"]["ownerName"]["S"] != answer["owner"]
    assert rows.is_held("order-1")  # its end released nothing of the other's
    (tmp_path / "never").touch()
    result = successor.result()
    assert result["held"] is True
    assert result["lost"] is None
    assert result["token"] == answer["token"] + 1
    assert frozen.wait_for_line("'order-1'")  # a warning: its result is still returned


def test_a_freeze_shorter_than_the_lease_harms_nothing(start, tmp_path):
    go_on = tmp_path / "go-on"
    environment = start(lease=6)
    invocation = environment.invoke({"id": 1, "until": str(go_on)}, LONG, request_id="r-1")
    environment.wait_for_line("holding r-1")
    environment.freeze()
    time.sleep(1)
    go_on.touch()
    environment.thaw()
    answer = invocation.result()
    assert answer["held"] is True
    assert answer["lost"] is None


# Threads and renewals


def test_an_invocation_that_needs_no_heartbeat_leaves_no_thread(start):
    environment = start("locking.either")
    before = environment.invoke({"look": True}, 10).result()
    during = environment.invoke({"id": 1}, 10).result()  # the lease of 20 s reaches to the deadline
    after = environment.invoke({"look": True}, 10).result()
    assert before["pid"] == after["pid"]
    assert before["threads"] == during["threads"] == after["threads"] == []
    assert before["tasks"] == during["tasks"] == after["tasks"]


@pytest.mark.long
def test_a_long_invocation_is_renewed_and_nothing_is_sent_after_it(start, wire, rows):
    environment = start("locking.either", lease=2)
    invocation = environment.invoke({"id": 1, "sleep": 3.5}, LONG, request_id="r-1")
    answer = invocation.result()
    assert answer["held"] is True
    assert answer["threads"] == ["lambda_lock-heartbeat", "lambda_lock-renewal"]
    assert wire.count() >= 5
    assert not rows.is_held("order-1")
    wire.clear()
    wait_until(lambda: sleeps(environment.pid))
    assert wire.operations == []
    again = environment.invoke({"id": 1, "sleep": 1.2}, LONG).result()
    assert again["held"] is True
    assert again["threads"] == ["lambda_lock-heartbeat", "lambda_lock-renewal"]


def sleeps(pid: int | None) -> bool:
    """Whether its threads do nothing for longer than the lease, and than a look at the clocks. That takes as long."""
    before = switches(pid)
    time.sleep(2.3)
    return switches(pid) == before


def switches(pid: int | None) -> int:
    """How often the threads of a process but the runtime's, which polls, have gone to sleep so far.

    It polls on the first thread, or on one of a ThreadPoolExecutor. /proc has the names of threads since Python 3.14.
    """
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        lines = status.read_text().splitlines()
        if status.parent.name == str(pid) or lines[0].endswith("\tThreadPoolExecu"):
            continue
        total += int(next(line for line in lines if line.startswith("voluntary_ctxt_switches")).split()[1])
    return total


def test_no_renewal_is_planned_near_the_deadline(start, wire):
    environment = start(lease=3)
    answer = environment.invoke({"id": 1, "sleep": 1.5}, 3.2).result()
    assert answer["held"] is True
    assert answer["threads"] == []
    assert wire.operations == ["UpdateItem", "UpdateItem"]


# Several environments


@pytest.mark.long
def test_several_environments_lose_no_increment(start, engine, table, rows):
    counters = engine.create_table(f"{table}-counters")
    variables = {"ENGINE_PORT": str(engine.port), "COUNTERS": counters}
    environments = [start("locking.count", environment=variables) for _ in range(3)]

    def invoke(number: int) -> list[int]:
        return [environments[number].invoke({}, LONG).result() for _ in range(6)]

    results = [in_thread(partial(invoke, number)) for number in range(3)]
    counted = [value for result in results for value in result()]
    assert sorted(counted) == list(range(1, 19))
    assert not rows.is_held("counter")


def test_contention_surfaces_as_its_error_and_names_the_holder(start, tmp_path, wire):
    holder, other = start(function_name="orders"), start("locking.fail_fast")
    invocation = holder.invoke({"id": 1, "until": str(tmp_path / "go-on")}, LONG, request_id="r-1")
    holder.wait_for_line("holding r-1")
    with pytest.raises(FunctionError, match="'order-1' is held by orders/r-1#") as caught:
        other.invoke({"id": 1}, LONG).result()
    assert caught.value.type == "LockNotGrantedError"
    assert other.invoke({"id": 2}, LONG).result()["held"]
    assert other.cold_starts == 1
    (tmp_path / "go-on").touch()
    invocation.result()
    assert other.invoke({"id": 1}, LONG).result()["held"]


def test_a_wait_ends_in_time_for_the_work_and_not_with_the_invocation(start, tmp_path):
    holder, other = start(), start()
    invocation = holder.invoke({"id": 1, "until": str(tmp_path / "go-on")}, LONG, request_id="r-1")
    holder.wait_for_line("holding r-1")
    other.invoke({"id": 2}, LONG).result()  # warm
    with pytest.raises(FunctionError) as caught:
        other.invoke({"id": 1}, 4.0).result()
    assert caught.value.type == "LockTimeoutError"
    (tmp_path / "go-on").touch()
    invocation.result()


def test_too_little_time_left_is_said_to_be_the_reason(start):
    environment = start()
    environment.invoke({"id": 1}, LONG).result()
    with pytest.raises(FunctionError, match="left before the invocation's deadline") as caught:
        environment.invoke({"id": 1}, 0.9).result()
    assert caught.value.type == "LockNotGrantedError"


# Errors of the handler


def test_the_handlers_exception_comes_through_unchanged_and_the_lock_is_released(start, rows):
    environment, plain = start(), start("locking.plain")
    with pytest.raises(FunctionError) as bare:
        plain.invoke({"id": 1, "raise": "no luck"}, LONG).result()
    with pytest.raises(FunctionError) as caught:
        environment.invoke({"id": 1, "raise": "no luck"}, LONG).result()
    assert (caught.value.type, caught.value.message) == (bare.value.type, bare.value.message) == ("Unlucky", "no luck")
    assert "in work" in caught.value.trace[-1]
    assert 'raise Unlucky(event["raise"])' in caught.value.trace[-1]
    assert not rows.is_held("order-1")
    assert environment.cold_starts == 1
    assert environment.invoke({"id": 1}, LONG).result()["held"]


def ends(request: Request) -> bool:
    """Whether it is a release: claims are the only ones here that ask for the new row."""
    return request.operation == "UpdateItem" and "ReturnValues" not in request.body


def test_a_refused_release_hides_neither_error_nor_result(start, rows, wire):
    wire.answer(400, "AccessDeniedException", "UpdateItem", times=float("inf"), when=ends)
    environment = start()
    with pytest.raises(FunctionError) as caught:
        environment.invoke({"id": 1, "raise": "no luck"}, LONG).result()
    assert (caught.value.type, caught.value.message) == ("Unlucky", "no luck")
    assert "in work" in caught.value.trace[-1]
    assert environment.wait_for_line("'order-1' was not released")
    answer = environment.invoke({"id": 2}, LONG).result()
    assert answer["key"] == "order-2"
    assert environment.wait_for_line("'order-2' was not released")
    assert rows.is_held("order-1")
    assert rows.is_held("order-2")


def test_a_release_without_an_answer_hides_no_error(start, wire, rows):
    lost = wire.drop_reply("UpdateItem", times=float("inf"), when=ends)
    environment = start()
    with pytest.raises(FunctionError) as caught:
        environment.invoke({"id": 1, "raise": "no luck"}, LONG).result()
    assert (caught.value.type, caught.value.message) == ("Unlucky", "no luck")
    assert lost.reached.is_set()
    assert environment.wait_for_line("'order-1' was not released")
    assert not rows.is_held("order-1")


def test_a_lock_lost_meanwhile_does_not_hide_the_result(start, rows, tmp_path):
    environment = start()
    invocation = environment.invoke({"id": 1, "until": str(tmp_path / "go-on")}, LONG, request_id="r-1")
    environment.wait_for_line("holding r-1")
    rows.put_held("order-1", expires_at=time.time() + 60, owner="other#1")
    (tmp_path / "go-on").touch()
    assert invocation.result()["key"] == "order-1"
    assert environment.wait_for_line("'order-1'")
    assert rows["order-1"]["ownerName"]["S"] == "other#1"


def test_a_missing_field_is_an_error_of_its_own_and_sends_nothing(start, wire):
    with pytest.raises(FunctionError, match="id") as caught:
        start().invoke({"name": "no id here"}, LONG).result()
    assert caught.value.type == "KeyTemplateError"
    assert wire.operations == []


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
