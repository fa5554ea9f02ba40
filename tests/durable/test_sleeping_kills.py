"""Processes of executions that lie down, sleep or get up are killed, or their execution is stopped."""

import signal
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.waiting import wait_until

from .executions import HOUR
from .service import Service
from .test_sleeping import entries
from .waker import RunningWaker

KILLED = -signal.SIGKILL


@pytest.fixture
def waker(service: Service, wake: Callable[..., RunningWaker]) -> RunningWaker:
    return wake(call=lambda callback: service.client.send_durable_execution_callback_success(CallbackId=callback))


@pytest.mark.parametrize("permits", [None, 1])
@pytest.mark.parametrize("kill", ["before acquire a", "before lie_down a", "lie_down a", "acquire a", "release a"])
def test_an_execution_that_sleeps_goes_on_in_another_process(service, client, rows, waker, kill, permits):
    """Before and after its entry is written, and with the lock that was claimed for it."""
    held = client.acquire("a", permits=permits, lease_duration=HOUR)
    event: dict[str, Any] = {"kill": kill} | ({} if permits is None else {"permits": permits})
    arn = service.start(event)
    wait_until(lambda: len(entries(rows)) == 1 and (KILLED in service.exits or kill in ("acquire a", "release a")))
    wait_until(lambda: service.exits[-1:] == [0])
    held.release()
    first, last = service.end(arn)
    assert first == last
    assert service.exits.count(KILLED) == 1
    assert service.ran() == ["one", "two"]
    wait_until(lambda: entries(rows) == [])
    assert client.try_acquire("a", permits=permits) is not None


def test_a_call_that_comes_before_the_entry_is_checkpointed_is_not_lost(service, client, rows, waker, tmp_path):
    """The process dies once it was called. The next one lies down again, with a callback that was called already."""
    held = client.acquire("a", lease_duration=HOUR)
    arn = service.start({"kill": "lie_down a", "until": "called"})
    wait_until(lambda: len(entries(rows)) == 1)
    held.release()
    wait_until(lambda: waker.called)
    (tmp_path / "called").touch()
    first, last = service.end(arn)
    assert first == last
    assert service.exits.count(KILLED) == 1
    assert service.ran() == ["one", "two"]


@pytest.mark.parametrize("kill", ["before get_up a", "get_up a"])
def test_an_execution_that_gives_up_in_another_process_leaves_no_entry(service, client, rows, monkeypatch, kill):
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")
    client.acquire("a", lease_duration=HOUR)
    arn = service.start({"kill": kill, "wait": 1})
    wait_until(lambda: service.status(arn) != "RUNNING", 60)
    error = service.client.get_durable_execution(DurableExecutionArn=arn)["Error"]
    assert error["ErrorType"].endswith("LockTimeoutError")
    assert service.exits.count(KILLED) == 1
    assert entries(rows) == []


def test_the_entry_of_an_execution_that_was_stopped_is_passed_over(service, client, rows, wake):
    """Lambda refuses the call then. The testing package does not, so this is done for it."""

    def call(callback: str) -> None:
        if service.status(stopped) != "RUNNING":
            answer: Any = {"Error": {"Code": "ResourceNotFoundException", "Message": "the execution was stopped"}}
            raise ClientError(answer, "SendDurableExecutionCallbackSuccess")
        service.client.send_durable_execution_callback_success(CallbackId=callback)

    waker = wake(call=call)
    held = client.acquire("a", lease_duration=HOUR)
    stopped = service.start({})
    wait_until(lambda: len(entries(rows)) == 1)
    service.client.stop_durable_execution(DurableExecutionArn=stopped)
    held.release()
    wait_until(lambda: entries(rows) == [])
    wait_until(lambda: not rows.is_held("a"))
    assert waker.called == []
