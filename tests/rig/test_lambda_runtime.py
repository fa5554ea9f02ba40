"""The Lambda environment serves, times out, freezes and kills the unmodified awslambdaric as Lambda does."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.lambda_runtime import FunctionError, LambdaEnvironment, TimedOut
from rig.managed_instances import ManagedInstance
from tests.support.waiting import wait_until

HANDLERS = Path(__file__).parent / "handlers"
LONG = 60.0  # a timeout that no test reaches


@pytest.fixture
def start() -> Iterator[Callable[..., LambdaEnvironment]]:
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(LambdaEnvironment("echo.handler", HANDLERS, **options))


def state(pid: int) -> str:
    """The kernel's letter for the state of a process; T is stopped. Empty if the process is dead or does not exist."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if letter in "ZX" else letter


def test_an_event_goes_in_and_the_answer_comes_out_and_nothing_of_ours_is_inherited(start, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    environment = start(environment={"SOME_VARIABLE": "given"}, function_name="orders")
    answer = environment.invoke({"name": "ünï"}, LONG, request_id="r-1").result()
    assert answer["event"] == {"name": "ünï"}
    assert (answer["request_id"], answer["function"], answer["variable"]) == ("r-1", "orders", "given")
    assert 0 < answer["remaining"] <= LONG * 1000
    assert answer["arn"].endswith(":function:orders")
    assert answer["region"] == "us-east-1"
    environment.invoke({"sleep": LONG}, LONG)
    with pytest.raises(RuntimeError, match="is under way"):
        environment.invoke({}, LONG)


def test_an_error_leaves_the_process_and_one_that_ends_is_replaced(start):
    environment = start()
    with pytest.raises(FunctionError, match="no good") as caught:
        environment.invoke({"raise": "no good"}, LONG).result()
    assert caught.value.type == "ValueError"
    assert "in handler" in caught.value.trace[-1]
    assert environment.wait_for_line("[ERROR] ValueError: no good")
    environment.invoke({}, LONG).result()
    assert environment.cold_starts == 1
    with pytest.raises(FunctionError, match="exit status 3") as caught:
        environment.invoke({"exit": 3}, LONG).result()
    assert caught.value.type == "Runtime.ExitError"
    invocation = environment.invoke({"sleep": LONG}, LONG, request_id="r-2")
    environment.wait_for_line("handling r-2")
    assert environment.cold_starts == 2
    environment.kill()
    with pytest.raises(FunctionError, match="SIGKILL"):
        invocation.result()


def test_an_invocation_is_killed_at_its_timeout_and_the_next_is_a_cold_start(start):
    environment = start()
    invocation = environment.invoke({"sleep": LONG, "child": True}, 2.0)  # it starts its child within that time
    with pytest.raises(TimedOut, match=r"timed out after 2\.00 seconds"):
        invocation.result()
    child = int(environment.wait_for_line("child").split()[1])
    assert invocation.pid is not None
    assert state(invocation.pid) == ""
    wait_until(lambda: state(child) == "")  # when a group is killed, only its main process is waited for
    assert environment.pid is None
    assert environment.invoke({}, LONG).result()["pid"] != invocation.pid
    assert environment.cold_starts == 2


def test_a_frozen_process_stands_still_until_it_is_thawed(start, tmp_path):
    environment = start()
    invocation = environment.invoke({"until": str(tmp_path / "go")}, LONG, request_id="r-3")
    environment.wait_for_line("handling r-3")
    environment.freeze()
    assert state(environment.pid) == "T"
    (tmp_path / "go").touch()
    assert not invocation.wait(0.2)
    environment.thaw()
    assert invocation.result()["request_id"] == "r-3"


def test_the_process_can_be_frozen_between_invocations(start):
    environment = start(freeze_between=True)
    for _ in range(3):
        assert state(environment.invoke({}, LONG).result()["pid"]) == "T"
    assert environment.cold_starts == 1


def test_a_snap_start_function_can_be_frozen_between_its_snapshot_and_its_restore(start):
    states: list[str] = []

    def restore() -> None:
        environment.freeze()
        states.append(state(environment.pid or 0))
        environment.thaw()

    environment = start(environment={"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}, on_restore=restore)
    assert environment.invoke({}, LONG).result()["pid"] == environment.pid
    assert states == ["T"]


def test_a_process_that_is_killed_late_may_answer_after_its_deadline(start):
    environment = start(kill_late_seconds=LONG)
    environment.invoke({}, LONG).result()
    invocation = environment.invoke({"sleep": 0.5}, timeout_seconds=0.1)
    assert invocation.result()["pid"] == environment.pid


def test_a_closed_environment_leaves_neither_process_nor_thread(start):
    before = set(threading.enumerate())
    environment = start()
    pid = environment.invoke({}, LONG).result()["pid"]
    environment.close()
    assert state(pid) == ""
    wait_until(lambda: set(threading.enumerate()) <= before)  # one that has done its work ends a moment later


def test_an_invocation_of_a_managed_instance_that_is_late_fails_for_its_caller_and_its_process_goes_on(tmp_path):
    with ManagedInstance("echo.handler", HANDLERS, function_name="orders") as instance:
        late = instance.invoke({"until": str(tmp_path / "go-on")}, 0.5)
        with pytest.raises(TimedOut):
            late.result()
        (tmp_path / "go-on").touch()
        pids = {instance.invoke({"until": str(tmp_path / "go-on")}, LONG).result()["pid"] for _ in range(4)}
        assert len(pids) <= 2
