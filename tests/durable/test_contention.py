"""Several executions, or branches of one, want the same lock."""

import re
from typing import Any

import pytest
from aws_durable_execution_sdk_python.context import DurableContext

from lambda_lock import LockNotGrantedError
from lambda_lock.durable.acquiring import Polling

from .executions import HOUR, SECOND, within

YEAR = 365 * 24 * HOUR


@pytest.mark.parametrize("inner", ["a", ["b", "a"]])
def test_a_block_within_a_block_on_the_same_key_is_refused_at_once(inner, deploy, client, rows):
    nested = within(client, lambda *_: None, key=inner)
    kind, said = deploy(within(client, lambda context, _: nested(None, context))).fail()
    assert kind == "LockConfigurationError"
    assert "this execution has the lock 'a' already, in a block around this one" in said
    assert not rows.is_held("a")
    assert rows.get("b") is None


def test_wait_0_tries_once_and_says_who_has_it(deploy, client, wire, wired):
    held = client.acquire("a", lease_duration=HOUR)
    block = within(wired, lambda *_: None, wait=0)

    def handler(event: Any, context: DurableContext) -> list[Any]:
        refusals = []
        for _ in range(2):
            with pytest.raises(LockNotGrantedError) as refused:
                block(event, context)
            refusals.append([refused.type.__name__, refused.value.key, refused.value.holder])
            context.wait(SECOND)  # a replay: the same again, from the checkpoint
        return refusals

    wire.clear()
    assert deploy(handler).run() == [["LockNotGrantedError", "a", held.owner]] * 2
    assert wire.count() == 2


def test_a_wait_that_runs_out_is_an_error_and_leaves_nothing_behind(deploy, client, rows):
    held = client.acquire("a", lease_duration=HOUR)
    before = rows["a"]
    executions = deploy(within(client, lambda *_: None, wait=150))
    kind, said = executions.fail()
    assert kind == "LockTimeoutError"
    assert re.fullmatch(
        f"lock 'a' is held by {held.owner}, even after 15[01] s of waiting. "
        "Pass durable_lock a longer wait=, or let the caller try again",
        said,
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


def test_a_block_is_waited_for_in_pauses_that_the_lease_of_the_block_around_it_covers(deploy, client):
    client.acquire("b", lease_duration=HOUR)
    inner = within(client, lambda *_: None, key="b", wait=50)
    executions = deploy(within(client, lambda context, _: inner(None, context), lease_duration=20))
    assert re.search("even after 5[01] s of waiting", executions.fail()[1])
    assert executions.invocations == 5  # after 0, 15, 30, 45 and 50 s


# Outages and mistakes


def test_an_outage_is_waited_out_like_contention(deploy, wire, make):
    wire.unavailable(times=float("inf"))
    executions = deploy(within(make(decision_time=0.5), lambda _, lock: lock.fencing_token), at={3: wire.clear})
    assert executions.run() > 0
    assert executions.invocations == 3


def test_a_table_that_is_missing_is_an_error_at_once(deploy, make):
    executions = deploy(within(make("no-such-table"), lambda *_: None))
    kind, said = executions.fail()
    assert kind == "LockConfigurationError"
    assert "no-such-table" in said
    assert executions.invocations == 1


def test_the_default_client_reads_the_table_from_the_environment(deploy, rows):
    assert deploy(within(None, lambda _, lock: lock.step(lambda _: rows.is_held("a")))).run() is True
