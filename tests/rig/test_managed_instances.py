"""The environment of a managed instance serves several invocations at once, by processes that nothing kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.lambda_runtime import FunctionError, TimedOut
from rig.managed_instances import ManagedInstance

HANDLERS = Path(__file__).parent / "handlers"
LONG = 60.0  # a timeout that no test reaches


@pytest.fixture
def instance() -> Iterator[ManagedInstance]:
    with ManagedInstance("echo.handler", HANDLERS, function_name="orders") as running:
        yield running


def test_two_invocations_at_once_are_served_by_two_processes_and_an_error_is_that_of_one(instance, tmp_path):
    event = {"until": str(tmp_path / "go-on")}
    first = instance.invoke(event, LONG, request_id="r-1")
    second = instance.invoke(event, LONG / 2, request_id="r-2")
    instance.wait_for_line("handling r-1")
    instance.wait_for_line("handling r-2")
    (tmp_path / "go-on").touch()
    one, two = first.result(), second.result()
    assert one["pid"] != two["pid"]
    assert (one["request_id"], two["request_id"]) == ("r-1", "r-2")
    assert one["remaining"] > LONG / 2 * 1000 > two["remaining"]
    with pytest.raises(FunctionError, match="ValueError: out of luck"):
        instance.invoke({"raise": "out of luck"}, LONG).result()


def test_an_invocation_that_is_late_fails_for_its_caller_and_its_process_goes_on(instance, tmp_path):
    late = instance.invoke({"until": str(tmp_path / "go-on")}, 0.5)
    with pytest.raises(TimedOut):
        late.result()
    (tmp_path / "go-on").touch()
    pids = {instance.invoke({"until": str(tmp_path / "go-on")}, LONG).result()["pid"] for _ in range(4)}
    assert len(pids) <= 2
