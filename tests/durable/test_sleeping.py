"""Executions sleep where the table has a waker. The shipped waker runs on the engine's stream, beside them."""

import json
import re
import threading
from typing import Any

import pytest
from aws_durable_execution_sdk_python.config import ParallelConfig
from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.lambda_service import ErrorObject

from lambda_lock import Lock, LockClient
from lambda_lock.durable import durable_lock
from tests.support.rows import Rows
from tests.support.waiting import DEADLINE, wait_until

from .executions import HOUR, SECOND, Handler, error_of, names, result, within

NAME, ACQUIRE, SLEEP, LIE_DOWN, RELEASE = (
    f"{act} lock 'a'" for act in ("name", "acquire", "sleep for", "lie down for", "release")
)
ONE_SLEEP = [NAME, ACQUIRE, SLEEP, LIE_DOWN, ACQUIRE]


@pytest.fixture
def lone_wake(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waker that does nothing: it is down."""
    monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")


def entries(rows: Rows, key: str = "a") -> list[list[Any]]:
    """The sleepers of a lock, the first one first: holder, kind, callback, permits, ttl."""
    item = rows.get(f"{key}~sleepers") or {}
    return [json.loads(entry["S"]) for entry in item.get("asleep", {"L": []})["L"]]


def asleep(rows: Rows, count: int, key: str = "a") -> None:
    wait_until(lambda: len(entries(rows, key)) == count)


def hold(client: LockClient, inside: list[str] | None = None) -> Handler:
    """A durable function that notes each of its two steps under the lock, and waits in between."""
    noted = [] if inside is None else inside

    def handler(event: str, context: DurableContext) -> int:
        with durable_lock(context, "a", lease_duration=HOUR, client=client) as lock:
            lock.step(lambda _: noted.append(event))
            lock.wait(SECOND)
            lock.step(lambda _: noted.append(event))
            return lock.fencing_token

    return handler


@pytest.fixture
def held(client: LockClient) -> Lock:
    """The lock, which somebody else holds."""
    return client.acquire("a", lease_duration=HOUR)


# Awake, asleep, woken


def test_an_execution_sleeps_until_the_lock_is_released_and_goes_on_with_it(deploy, client, held, rows, wake):
    executions = deploy(hold(client))
    waker = wake(executions)
    arn = executions.start("one")
    asleep(rows, 1)
    wait_until(lambda: "sleepers" in rows["a"])
    assert executions.invocations == 1
    held.release()
    ended = executions.end(arn)
    assert result(ended) > held.fencing_token
    assert names(ended) == [*ONE_SLEEP, RELEASE]
    assert len(waker.called) == 1
    assert executions.invocations == 3, "until it sleeps, from there to the wait, and the rest"
    assert entries(rows) == []
    assert not rows.is_held("a")


def test_branches_of_one_execution_sleep_and_take_turns(deploy, client, held, rows, wake):
    inside: list[str] = []
    one = hold(client, inside)

    def handler(event: Any, context: DurableContext) -> list[int]:
        branches = [lambda branch, name=name: one(name, branch) for name in ("left", "right")]
        return context.parallel(branches, config=ParallelConfig()).get_results()

    executions = deploy(handler)
    wake(executions)
    arn = executions.start()
    asleep(rows, 2)
    held.release()
    assert len(set(result(executions.end(arn)))) == 2
    assert inside[0] == inside[1]
    assert inside[2] == inside[3]


def test_the_second_of_several_keys_is_slept_for_while_the_first_is_held_and_renewed(deploy, client, rows, wake):
    held = client.acquire("b", lease_duration=HOUR)
    executions = deploy(within(client, lambda _, locks: locks.step(lambda _: locks.fencing_tokens), key=["b", "a"]))
    wake(executions)
    arn = executions.start()
    asleep(rows, 1, "b")
    assert rows.is_held("a")
    assert entries(rows, "a") == []
    held.release()
    assert list(result(executions.end(arn))) == ["a", "b"]


# A wake-up is a hint


@pytest.mark.parametrize("end", ["called", "failed"])
def test_a_callback_that_a_stranger_ends_grants_nothing(end, deploy, client, held, rows, lone_wake):
    executions = deploy(hold(client))
    arn = executions.start("one")
    asleep(rows, 1)
    (before,) = entries(rows)
    if end == "called":
        executions.runner.send_callback_success(before[2], b'"you have the lock"')
    else:
        executions.runner.send_callback_failure(before[2], ErrorObject.from_message("by hand"))
    wait_until(lambda: entries(rows) and entries(rows)[0][2] != before[2])
    (after,) = entries(rows)
    assert after[0] == before[0], "the holder, in its own place"
    assert rows["a"]["ownerName"]["S"] == held.owner
    held.release()
    executions.runner.send_callback_success(after[2])
    assert result(executions.end(arn)) > held.fencing_token


def test_without_a_call_the_execution_tries_again_when_its_callback_times_out(
    deploy, client, held, rows, lone_wake, monkeypatch
):
    monkeypatch.setattr("lambda_lock.durable.acquiring._SHORTEST_SLEEP", 1)
    executions = deploy(hold(client))
    arn = executions.start("one")
    asleep(rows, 1)
    (before,) = entries(rows)
    wait_until(lambda: entries(rows)[0][2] != before[2])
    held.release()
    assert result(executions.end(arn)) > held.fencing_token
    assert entries(rows) == [], "who got it without a call leaves no entry"


def test_a_wait_that_is_over_ends_the_sleep_and_leaves_nothing_behind(deploy, client, held, rows, lone_wake):
    ended = deploy(within(client, lambda *_: None, wait=1)).ended()
    kind, said = error_of(ended)
    assert kind == "LockTimeoutError"
    assert re.search(f"is held by {held.owner}, even after [1-9]", said)
    assert names(ended) == ONE_SLEEP
    assert entries(rows) == []


def test_an_execution_that_does_not_wait_does_not_sleep(deploy, client, held, rows, lone_wake):
    assert deploy(within(client, lambda *_: None, wait=0)).fail()[0] == "LockNotGrantedError"
    assert rows.get("a~sleepers") is None


# Where it polls


def test_an_execution_polls_where_256_sleep_already_and_lies_down_when_there_is_room(
    deploy, client, held, rows, lone_wake
):
    crowd = [{"S": json.dumps([f"execution-{number}", "durable", "x", None, 86400])} for number in range(256)]
    rows.put("a~sleepers", asleep={"L": crowd}, newest={"S": "x"})
    polled = threading.Event()

    def make_room() -> None:
        rows.put("a~sleepers", asleep={"L": crowd[1:]}, newest={"S": "x"})
        polled.set()

    executions = deploy(hold(client), at={4: make_room})
    arn = executions.start("one")
    assert polled.wait(DEADLINE)
    wait_until(lambda: entries(rows)[-1][2] != "x")
    held.release()
    executions.runner.send_callback_success(entries(rows)[-1][2])
    ended = executions.end(arn)
    assert result(ended) > held.fencing_token
    assert names(ended) == [*ONE_SLEEP, RELEASE], "it polls in the operation that writes the entry, with its callback"


def test_an_execution_whose_entry_cannot_be_written_polls(deploy, client, held, rows, lone_wake):
    """The row where its sleepers would be is a lock's own."""
    rows.put_foreign("a~sleepers", lease_seconds=HOUR)
    before = rows["a~sleepers"]
    assert deploy(hold(client), at={4: held.release}).run("one") > held.fencing_token
    assert rows["a~sleepers"] == before


def test_an_entry_whose_answer_is_lost_is_written_once(deploy, held, make, wire, rows, lone_wake):
    executions = deploy(hold(make()))
    dropped = wire.drop_reply("UpdateItem", when=lambda request: b"newest" in request.raw)
    arn = executions.start("one")
    assert dropped.reached.wait(DEADLINE)
    asleep(rows, 1)
    wait_until(lambda: executions.invocations and len(entries(rows)) == 1)
    held.release()
    executions.runner.send_callback_success(entries(rows)[0][2])
    assert result(executions.end(arn)) > held.fencing_token


def test_a_client_of_another_table_than_the_connected_one_polls(deploy, held, make, rows, lone_wake, monkeypatch):
    named = make(rows.table)
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", "another")
    assert deploy(hold(named), at={3: held.release}).run("one") > held.fencing_token
    assert rows.get("a~sleepers") is None


# The environment changes under an execution


def test_an_execution_that_polls_when_the_table_gets_a_waker_sleeps_from_its_next_try_on(
    deploy, client, held, rows, wake, monkeypatch
):
    """One operation for all its tries so far, and no other operation before it."""
    monkeypatch.delenv("LAMBDA_LOCK_WAKE")
    executions = deploy(hold(client), at={3: lambda: monkeypatch.setenv("LAMBDA_LOCK_WAKE", "1")})
    waker = wake(executions)
    arn = executions.start("one")
    asleep(rows, 1)
    held.release()
    ended = executions.end(arn)
    assert result(ended) > held.fencing_token
    assert names(ended)[:5] == ONE_SLEEP
    assert len(waker.called) == 1


def test_an_execution_that_sleeps_when_the_waker_is_removed_polls_after_its_time_out(
    deploy, client, held, rows, lone_wake, monkeypatch
):
    monkeypatch.setattr("lambda_lock.durable.acquiring._SHORTEST_SLEEP", 1)
    executions = deploy(hold(client), at={4: held.release})
    arn = executions.start("one")
    asleep(rows, 1)
    monkeypatch.delenv("LAMBDA_LOCK_WAKE")
    ended = executions.end(arn)
    assert result(ended) > held.fencing_token
    assert names(ended)[:5] == ONE_SLEEP
    assert entries(rows) == []


def test_executions_that_take_several_permits_sleep_and_are_woken_in_order_with_what_they_take(
    deploy, client, rows, wake
):
    held = client.acquire("a", permits=5, take=4, lease_duration=HOUR)
    taken: list[tuple[int, int]] = []

    def handler(take: int, context: DurableContext) -> int:
        with durable_lock(context, "a", permits=5, take=take, lease_duration=HOUR, client=client) as lock:
            lock.step(lambda _: taken.append((take, client.get("a").taken)))
            return lock.fencing_token

    executions = deploy(handler)
    wake(executions)
    arns = []
    for number, take in enumerate((5, 2)):
        arns.append(executions.start(take, name=str(take)))
        asleep(rows, number + 1)
    wait_until(lambda: "sleepers" in rows["a"])
    assert entries(rows)[0][3:] == [5, 86_400, 5]
    assert client.try_acquire("a", permits=5, take=1) is None, "what is free is for the one that sleeps first"
    assert held.release()
    first, second = [result(executions.end(arn)) for arn in arns]
    assert first < second
    assert taken == [(5, 5), (2, 2)]
    assert entries(rows) == []
