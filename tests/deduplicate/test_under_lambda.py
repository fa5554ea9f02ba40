"""Events under the unmodified awslambdaric: time-outs, crashes and freezes, from delivery to delivery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.engine import client_environment
from rig.lambda_runtime import FunctionError, LambdaEnvironment, TimedOut
from rig.wire import Wire

from .conftest import add, is_done, value

HANDLERS = Path(__file__).parent / "handlers"
LONG = 60.0  # a timeout that no test reaches
GRACE = 2.0  # seconds by which a stored expiry is later than the lease's end
Start = Callable[..., LambdaEnvironment]


@pytest.fixture
def start(table: str, wire: Wire) -> Iterator[Start]:
    """Starts environments of handlers/consumer.py, whose requests go over the wire."""
    environments: list[LambdaEnvironment] = []

    def make(handler: str = "consumer.handler", *, lease: float = 20, **options: Any) -> LambdaEnvironment:
        variables = client_environment(wire.url) | {"LAMBDA_LOCK_TABLE": table, "LEASE": str(lease)}
        environments.append(LambdaEnvironment(handler, HANDLERS, environment=variables, **options))
        return environments[-1]

    yield make
    for environment in environments:
        environment.close()


def delivered_until_it_runs(environment: LambdaEnvironment, event: dict[str, Any]) -> tuple[str, float, int]:
    """Deliver as a source does, until the event runs: its result, when it was delivered, how often it was refused."""
    for refused in range(200):
        delivered_at = time.time()
        try:
            return environment.invoke(event, LONG).result(), delivered_at, refused
        except FunctionError as error:
            if error.type != "LockNotGrantedError":
                raise
            time.sleep(0.05)
    pytest.fail("it never ran")


def test_a_second_delivery_is_a_duplicate_in_another_environment_too_and_runs_after_an_error(start, wire):
    first, second = start(), start()
    result = first.invoke({"id": "e"}, LONG, request_id="r-1").result()
    assert result == "done by r-1"
    assert wire.operations == ["UpdateItem"] * 2
    assert first.invoke({"id": "e"}, LONG).result() == result
    assert second.invoke({"id": "e"}, LONG).result() == result
    assert wire.operations == ["UpdateItem"] * 4
    with pytest.raises(FunctionError, match="Unlucky: out of luck"):
        first.invoke({"id": "failed", "raise": "out of luck"}, LONG).result()
    assert second.invoke({"id": "failed"}, LONG, request_id="r-2").result() == "done by r-2"  # at once


def test_after_a_time_out_the_next_delivery_runs_when_the_lease_is_over_and_not_before(start, rows, tmp_path):
    killed, next_one = start(), start()
    next_one.invoke({"id": "earlier"}, LONG).result()  # a process that only starts now may come when all is over
    invocation = killed.invoke({"id": "e", "until": str(tmp_path / "never")}, 4.0, request_id="r-1")
    killed.wait_for_line("holding r-1")
    expiry = rows.expiry("e")
    early = next_one.invoke({"id": "e"}, LONG)
    with pytest.raises(FunctionError, match="LockNotGrantedError"):  # not before
        early.result()
    with pytest.raises(TimedOut):
        invocation.result()
    assert not is_done(rows, "e")
    result, delivered_at, _ = delivered_until_it_runs(next_one, {"id": "e"})  # on a busy machine the lease may be over
    assert result.startswith("done by ")
    assert invocation.deadline is not None
    assert delivered_at > invocation.deadline
    assert abs(expiry - (invocation.deadline + GRACE)) < 1.5  # the lease ended with the invocation
    assert killed.invoke({"id": "e"}, LONG).result() == result


def test_after_a_crash_the_next_delivery_runs_when_the_lease_is_over_and_not_before(start, rows):
    crashing, next_one = start(lease=3), start(lease=3)
    next_one.invoke({"id": "earlier"}, LONG).result()
    with pytest.raises(FunctionError, match=r"Runtime\.ExitError"):
        crashing.invoke({"id": "e", "crash": True}, LONG, request_id="r-1").result()
    assert not is_done(rows, "e")
    crashed_at, owner = time.time(), rows["e"]["ownerName"]
    result, _, refused = delivered_until_it_runs(next_one, {"id": "e"})
    assert refused > 0
    assert time.time() - crashed_at > 0.5
    assert rows["e"]["ownerName"] != owner
    assert crashing.invoke({"id": "e"}, LONG).result() == result


@pytest.mark.parametrize("successor_is_done", [True, False])
def test_an_owner_that_was_frozen_past_its_lease_neither_completes_nor_releases_and_is_warned_about(
    successor_is_done, start, rows, tmp_path
):
    frozen, other = start(lease=1.5), start("consumer.waiting", lease=1.5)
    invocation = frozen.invoke({"id": "e", "until": str(tmp_path / "thawed")}, LONG, request_id="r-1")
    frozen.wait_for_line("holding r-1")
    frozen.freeze()
    successor = other.invoke({"id": "e", "until": str(tmp_path / "go-on")}, LONG, request_id="r-2")
    other.wait_for_line("holding r-2")
    if successor_is_done:
        (tmp_path / "go-on").touch()
        assert successor.result() == "done by r-2"
    owner = rows["e"]["ownerName"]
    (tmp_path / "thawed").touch()
    frozen.thaw()
    assert invocation.result() == "done by r-1"
    assert frozen.wait_for_line("was lost meanwhile: it may have run twice")
    assert rows["e"]["ownerName"] == owner
    assert rows.is_held("e") != successor_is_done
    (tmp_path / "go-on").touch()
    assert successor.result() == "done by r-2"
    assert frozen.invoke({"id": "e"}, LONG).result() == "done by r-2"


def test_effects_that_are_committed_happen_once_though_the_event_ran_twice(start, rows, tmp_path):
    frozen, other = start(lease=1.5), start("consumer.waiting", lease=1.5)
    event = {"id": "e", "until": str(tmp_path / "go-on"), "commit": add(rows, "sum")}
    invocation = frozen.invoke(event, LONG, request_id="r-1")
    frozen.wait_for_line("holding r-1")
    frozen.freeze()
    successor = other.invoke(event, LONG, request_id="r-2")
    other.wait_for_line("holding r-2")
    (tmp_path / "go-on").touch()
    assert successor.result() == "done by r-2"
    frozen.thaw()
    with pytest.raises(FunctionError, match="LockLostError"):
        invocation.result()
    assert value(rows, "sum") == 1
    assert frozen.invoke(event, LONG).result() == "committed by r-2"
