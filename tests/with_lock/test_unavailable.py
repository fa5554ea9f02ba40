"""A policy for an outage: whether a call runs without its lock, and how long a decision may take."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_lock import (
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    MultiLock,
    TransportError,
    current_dedup,
    current_lock,
    deduplicate,
    set_default_client,
    with_lock,
)
from lambda_lock.core.protocol import DECISION, SEND
from lambda_lock.testing import ManualClock, in_memory
from lambda_lock.testing.memory import Memory
from lambda_lock.transport import ConditionFailed, Reply


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", "locks")
    with in_memory(clock=clock) as memory:
        set_default_client(LockClient(clock=clock, heartbeat_period=0))
        yield memory
        set_default_client(None)


@pytest.mark.parametrize("error", ["unreachable", "throttled", "lost_reply"])
def test_in_an_outage_a_call_runs_without_its_lock_if_asked_to(error, memory, caplog, capsys, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "orders")

    handler = with_lock("a", wait=0, on_unavailable="run")(
        lambda event: (event, current_lock().is_held, current_lock().fencing_token)
    )
    memory.fail(error, times=None)
    assert handler("done") == ("done", True, 0)
    told = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.__dict__["lock_event"] for record in told] == ["unavailable"]
    failed, line = map(json.loads, capsys.readouterr().out.splitlines())
    assert failed["LockFailed"] == 1
    assert (line["LockUnavailable"], line["lock_key"]) == (1, "a")


@pytest.mark.usefixtures("memory")
def test_by_default_an_outage_raises(memory):
    memory.fail("unreachable", times=None)
    for decorator in (with_lock("a", wait=0), deduplicate("{id}", on_not_granted="skip")):
        with pytest.raises(TransportError):
            decorator(lambda id: pytest.fail("must not run"))("e")


@pytest.mark.parametrize("wait", [0, 5])
def test_contention_never_runs_a_call(wait, memory):
    memory.hold("a", lease_duration=600)
    handler = with_lock("a", wait=wait, on_unavailable="run")(lambda: pytest.fail("must not run"))
    with pytest.raises(LockNotGrantedError):
        handler()


def later(clock: ManualClock, memory: Memory, **options: Any) -> LockClient:
    """A client whose waits meet an outage after two seconds."""
    begins, sleep = clock.monotonic() + 2, clock.sleep

    def sleep_into_the_outage(seconds: float) -> None:
        sleep(seconds)
        if clock.monotonic() > begins:
            memory.fail("unreachable", times=None)

    clock.sleep = sleep_into_the_outage  # type: ignore[method-assign]
    return LockClient(clock=clock, heartbeat_period=0, **options)


@pytest.mark.parametrize("queue", [True, False])
@pytest.mark.parametrize("permits", [None, 1])
def test_an_outage_while_somebody_is_known_to_hold_the_lock_never_runs_a_call(permits, queue, memory, clock):
    """The wait ends in an outage, but the lease of the holder that it saw has not ended."""
    lock = LockClient(clock=clock, heartbeat_period=0).acquire("a", lease_duration=60, permits=permits)
    options: dict[str, Any] = {"wait": 5, "permits": permits, "queue": queue, "on_unavailable": "run"}
    handler = with_lock("a", client=later(clock, memory), **options)(lambda: pytest.fail("must not run"))
    with pytest.raises(LockNotGrantedError) as refused:
        handler()
    assert refused.value.holder == lock.owner
    assert isinstance(refused.value.__cause__, TransportError)


@pytest.mark.parametrize(("key", "permits"), [("a", None), ("a", 1), (["b", "a"], None)], ids=str)
def test_an_outage_that_outlasts_the_lease_of_the_holder_is_one(key, permits, memory, clock):
    lock = LockClient(clock=clock, heartbeat_period=0).acquire("a", lease_duration=4, permits=permits)
    options: dict[str, Any] = {"wait": 20, "permits": permits, "on_unavailable": "run"}
    assert with_lock(key, client=later(clock, memory), **options)(lambda: "done")() == "done"
    assert not lock.is_held


@pytest.mark.parametrize("queue", [True, False])
def test_a_holder_that_several_locks_have_seen_is_known_after_one_of_them_is_lost_too(queue, memory, clock):
    """ "a" is taken, "b" is seen to be held for long, and then an outage ends the lease of "a"."""
    memory.hold("b", lease_duration=600)
    client = later(clock, memory, queue=queue)
    handler = with_lock(["a", "b"], wait=60, client=client, on_unavailable="run")(lambda: pytest.fail("must not run"))
    with pytest.raises(LockNotGrantedError) as refused:
        handler()
    assert (refused.value.key, refused.value.holder) == ("b", "somebody else")
    assert isinstance(refused.value.__cause__, TransportError)


class Contradicting:
    """Each answer says that the next claim would be granted, and none is."""

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        raise ConditionFailed(None, int(time.time()))


def test_answers_that_contradict_each_other_are_no_outage():
    """DynamoDB does answer, and others may be taking the lock whenever it is free."""
    client = LockClient("locks", transport=Contradicting(), clock=ManualClock(), heartbeat_period=0)
    handler = with_lock("a", wait=0, client=client, on_unavailable="run")(lambda: pytest.fail("must not run"))
    with pytest.raises(TransportError, match="each answer said"):
        handler()


def test_a_denied_permission_and_the_functions_own_errors_never_run_a_call_again(memory):
    calls: list[int] = []

    @with_lock("a", on_unavailable="run")
    def handler() -> None:
        calls.append(1)
        raise TransportError(True, "the function's own")

    memory.fail("denied")
    with pytest.raises(LockConfigurationError):
        handler()
    assert calls == []
    with pytest.raises(TransportError, match="the function's own"):
        handler()
    assert calls == [1]


def test_an_event_that_ran_in_an_outage_is_not_done(memory):
    calls: list[str] = []

    @deduplicate("{id}", on_unavailable="run", validate=["id"], cache_size=1, result="json")
    def handler(id: str) -> str:
        calls.append(current_dedup().key)
        return "done"

    memory.fail("unreachable", times=40)
    handler("e")
    memory.fail("unreachable", times=None)
    handler("e")
    assert len(calls) == 2


def test_several_locks_and_async_functions_run_too(memory):
    handler = with_lock(["a", "b"], wait=0, on_unavailable="run")(lambda: current_lock(MultiLock).is_held)

    @with_lock("a", wait=0, on_unavailable="run")
    async def async_handler() -> bool:
        return current_lock().is_held

    memory.fail("unreachable", times=None)
    assert handler()
    assert asyncio.run(async_handler())


# -- decision_time


@pytest.mark.parametrize("seconds", [0.25, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("error", ["unreachable", "lost_reply"])
def test_a_decision_without_an_answer_takes_as_long_as_it_may(error, seconds, memory, clock):
    """A reply that was lost may have left a claim, so a release follows, within as long again."""
    memory.fail(error, times=None)
    began = clock.monotonic()
    with pytest.raises(TransportError):
        LockClient(clock=clock, decision_time=seconds).acquire("a", wait=0)
    took = clock.monotonic() - began
    assert took <= seconds * (1 if error == "unreachable" else 2) + 0.01


class Mute:
    """Takes requests and never answers: each send takes all of its time."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        self.clock.advance(timeout)
        raise TransportError(True)


@pytest.mark.parametrize("seconds", [0.25, 1.0, 3.0, 5.0, 20.0])
def test_where_no_send_is_answered_a_decision_and_its_release_take_about_twice_as_long_as_it_may(seconds):
    clock = ManualClock()
    client = LockClient("locks", transport=Mute(clock), clock=clock, decision_time=seconds)
    began = clock.monotonic()
    with pytest.raises(TransportError):
        client.acquire("a", wait=0)
    more = SEND if seconds >= DECISION else 0.0  # a release is not cut short where nobody asked for it
    assert clock.monotonic() - began <= 2 * seconds + more + 0.3  # the last send may take a moment more


def test_a_hold_that_is_gone_on_with_is_decided_within_it_too(memory, clock):
    client = LockClient(clock=clock, decision_time=1.0, heartbeat_period=0)
    string = client.acquire("a", holder="run-7").hand_over()
    memory.fail("unreachable", times=None)
    for go_on in (
        lambda: client.resume(string),
        lambda: client.adopt(string),
        lambda: client.acquire("a", holder="run-7", wait=0),
    ):
        began = clock.monotonic()
        with pytest.raises(TransportError):
            go_on()
        assert clock.monotonic() - began <= 1.01


def test_a_wait_outlasts_an_outage_that_is_longer_than_a_decision(memory, clock):
    memory.fail("unreachable", times=8)
    with LockClient(clock=clock, decision_time=0.25).acquire("a", wait=60) as lock:
        assert lock.is_held


@pytest.mark.parametrize(("wrong", "error"), [(0, LockArgumentError), (61, LockArgumentError), ("5", TypeError)])
def test_the_range_of_decision_time_is_checked(wrong, error):
    with pytest.raises(error, match="decision_time"):
        LockClient("locks", decision_time=wrong)
