"""Several executions, or branches of one, want the same lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from aws_durable_execution_sdk_python.config import Duration, ParallelConfig
from aws_durable_execution_sdk_python.context import DurableContext

from lambda_lock import LockNotGrantedError, LockTimeoutError, TransportError
from lambda_lock.durable import durable_lock
from lambda_lock.durable.acquiring import Polling
from tests.support.waiting import DEADLINE

from .executions import Executions, deploy, error_of, result

__all__ = ["deploy"]
Deploy = Callable[..., Executions]
SECOND = Duration.from_seconds(1)
HOUR = 3600
YEAR = 365 * 24 * HOUR


def test_an_execution_that_finds_the_lock_held_is_suspended_until_it_is_free(deploy, client):
    """In real time. The invocations of one do not overlap with the other's block."""
    inside: list[str] = []

    def handler(event: str, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=HOUR, poll=1, client=client) as lock:
            for _ in range(3):
                lock.step(lambda _: inside.append(event))
                lock.wait(SECOND)

    executions = deploy(handler, skip_time=False)
    arns = [executions.start(name, name=name) for name in ("one", "two")]
    ended = [executions.end(arn) for arn in arns]
    assert [one.error for one in ended] == [None, None]
    assert inside in (["one"] * 3 + ["two"] * 3, ["two"] * 3 + ["one"] * 3)
    for one in ended:
        names = [operation.name for operation in one.operations if operation.name]
        assert names == ["name lock 'a'", "acquire lock 'a'", "release lock 'a'"]


def test_branches_of_one_execution_take_turns(deploy, client):
    inside: list[int] = []

    def branch(number: int) -> Callable[[DurableContext], int]:
        def run(context: DurableContext) -> int:
            with durable_lock(context, "a", lease_duration=HOUR, poll=1, client=client) as lock:
                for _ in range(2):
                    lock.step(lambda _: inside.append(number))
                    lock.wait(SECOND)
                return lock.fencing_token

        return run

    def handler(event: Any, context: DurableContext) -> list[int]:
        return context.parallel([branch(1), branch(2), branch(3)], config=ParallelConfig()).get_results()

    tokens = deploy(handler, skip_time=False).run()
    assert len(set(tokens)) == 3
    assert inside[::2] == inside[1::2]
    assert sorted(inside) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("inner", ["a", ["b", "a"]])
def test_a_block_within_a_block_on_the_same_key_is_refused_at_once(inner, deploy, client, rows):
    def handler(event: dict[str, Any], context: DurableContext) -> None:
        with (
            durable_lock(context, "a", lease_duration=60, client=client),
            durable_lock(context, inner, lease_duration=60, client=client),
        ):
            pass

    executions = deploy(handler)
    kind, said = error_of(executions.end(executions.start()))
    assert kind == "LockConfigurationError"
    assert "this execution has the lock 'a' already, in a block around this one" in said
    assert not rows.is_held("a")
    assert rows.get("b") is None


def test_wait_0_tries_once_and_says_who_has_it(deploy, client, wire, wired):
    held = client.acquire("a", lease_duration=HOUR)

    def handler(event: Any, context: DurableContext) -> list[Any]:
        outcomes = []
        for _ in range(2):
            try:
                with durable_lock(context, "a", lease_duration=HOUR, wait=0, client=wired):
                    pass
            except LockNotGrantedError as error:
                outcomes.append([type(error).__name__, error.key, error.holder])
            context.wait(SECOND)  # a replay: the same again, from the checkpoint
        return outcomes

    wire.clear()
    assert deploy(handler).run() == [["LockNotGrantedError", "a", held.owner]] * 2
    assert wire.count() == 2


def test_a_wait_that_runs_out_is_an_error_and_leaves_nothing_behind(deploy, client, rows):
    held = client.acquire("a", lease_duration=HOUR)
    before = rows["a"]

    def handler(event: Any, context: DurableContext) -> list[Any]:
        try:
            with durable_lock(context, "a", lease_duration=HOUR, wait=150, client=client):
                return []
        except LockTimeoutError as error:
            return [error.holder, error.waited, str(error)]

    executions = deploy(handler)
    holder, waited, message = executions.run()
    assert holder == held.owner
    assert 150 <= waited < 152
    assert message == (
        f"lock 'a' is held by {held.owner}, even after {waited:.0f} s of waiting. "
        "Pass durable_lock a longer wait=, or let the caller try again"
    )
    assert executions.invocations == 4  # after 0, 60, 120 and 150 s
    assert rows["a"] == before


def test_the_pauses_grow_with_the_time_waited():
    polling = Polling(None, 60)
    pauses, waited = [], 0.0
    while waited < YEAR:
        pauses.append(polling.pause(waited))
        waited += pauses[-1]
    assert pauses == sorted(pauses)
    assert pauses[:100] == [60] * 100
    assert pauses[-1] == 24 * HOUR
    assert len(pauses) < 1150  # of the 3,000 operations of an execution


@pytest.mark.parametrize(("wait", "waited", "pause"), [(0, 0, 0), (5, 4.5, 1), (90, 60, 30), (90, 90, 0)])
def test_the_last_pause_ends_with_the_wait(wait, waited, pause):
    assert Polling(wait, 60).pause(waited) == pause


def test_pauses_are_shorter_than_the_leases_that_are_held_meanwhile():
    assert Polling(None, 60, held=30).pause(0) == 25
    assert Polling(None, 60, held=HOUR).pause(0) == 60
    assert Polling(None, 60, held=HOUR).pause(YEAR) == HOUR - 5
    assert Polling(None, 60, held=2).pause(0) == 1


def test_a_block_is_waited_for_in_pauses_that_the_lease_of_the_block_around_it_covers(deploy, client, rows):
    client.acquire("b", lease_duration=HOUR)

    def handler(event: Any, context: DurableContext) -> float:
        with durable_lock(context, "a", lease_duration=20, client=client):
            try:
                with durable_lock(context, "b", lease_duration=HOUR, wait=50, client=client):
                    return 0
            except LockTimeoutError as error:
                return error.waited

    executions = deploy(handler)
    assert 50 <= executions.run() < 52
    assert executions.invocations == 5  # after 0, 15, 30, 45 and 50 s


# Outages and mistakes


def test_an_outage_is_waited_out_like_contention(deploy, wire, make):
    client = make(decision_time=0.5)
    outage = wire.unavailable(times=float("inf"))
    refused = threading.Event()

    def handler(event: Any, context: DurableContext) -> int:
        if executions.invocations == 3:
            outage.times = 0
            refused.set()
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            return lock.fencing_token

    executions = deploy(handler)
    assert executions.run() > 0
    assert refused.is_set()
    assert executions.invocations == 3


def test_an_outage_that_outlasts_the_wait_is_no_contention(deploy, wire, make):
    client = make(decision_time=0.5)
    wire.unavailable(times=float("inf"))

    def handler(event: Any, context: DurableContext) -> str:
        try:
            with durable_lock(context, "a", lease_duration=HOUR, wait=0, client=client):
                return ""
        except TransportError as error:
            return str(error.key)

    assert deploy(handler).run() == "a"


def test_an_acquire_that_lost_its_reply_goes_on_with_what_it_took(deploy, wire, make):
    client = make(decision_time=0.5)
    dropped = wire.drop_reply("UpdateItem")

    def handler(event: Any, context: DurableContext) -> int:
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            return lock.step(lambda _: lock.fencing_token)

    assert deploy(handler).run() > 0
    assert dropped.reached.wait(DEADLINE)


def test_a_table_that_is_missing_is_an_error_at_once(deploy, make):
    client = make("no-such-table")

    def handler(event: Any, context: DurableContext) -> None:
        with durable_lock(context, "a", lease_duration=HOUR, client=client):
            pass

    executions = deploy(handler)
    ended = executions.end(executions.start())
    assert error_of(ended)[0] == "LockConfigurationError"
    assert "no-such-table" in error_of(ended)[1]
    assert executions.invocations == 1


def test_the_default_client_reads_the_table_from_the_environment(deploy, rows):
    def handler(event: Any, context: DurableContext) -> bool:
        with durable_lock(context, "a", lease_duration=HOUR) as lock:
            return lock.step(lambda _: rows.is_held("a"))

    executions = deploy(handler)
    assert result(executions.end(executions.start())) is True
