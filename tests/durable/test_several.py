"""Several keys in one block of a durable function: all of them or none, in one order."""

from typing import Any

import pytest
from aws_durable_execution_sdk_python.context import DurableContext

from lambda_lock import (
    LockAlreadyReleasedError,
    LockClient,
    LockConfigurationError,
    LockLostError,
    LockTimeoutError,
    TransportError,
)
from lambda_lock.durable import DurableMultiLock, durable_lock
from lambda_lock.durable.holds import DurableHold, Holds
from rig.engine import EngineError
from rig.wire import Request

from .executions import HOUR, SECOND, SOON, names, within


def key_of(request: Request) -> str:
    key: str = request.body["Key"]["key"]["S"]
    return key


def test_executions_that_name_the_same_keys_in_opposite_order_take_turns(deploy, client):
    """In real time."""
    inside: list[str] = []

    def handler(event: list[str], context: DurableContext) -> None:
        with durable_lock(context, event, lease_duration=HOUR, poll=1, client=client) as locks:
            for _ in range(2):
                locks.step(lambda _: inside.append(event[0]))
                locks.wait(SECOND)

    executions = deploy(handler, skip_time=False)
    arns = [executions.start(keys, name=keys[0]) for keys in (["a", "b"], ["b", "a"])]
    assert [executions.end(arn).error for arn in arns] == [None, None]
    assert inside in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


def test_each_key_is_taken_once_in_the_order_of_their_bytes_and_released_in_the_reverse(deploy, wire, wired, rows):
    seen: list[Any] = []

    def act(_: DurableContext, locks: DurableMultiLock) -> None:
        seen.append([locks.keys, locks.fencing_tokens])
        assert locks.step(lambda _: [rows.is_held(key) for key in locks.keys]) == [True] * 3
        if executions.invocations == 1:
            assert [key_of(request) for request in wire.requests] == ["a", "b", "ö"]
        locks.wait(SECOND)
        locks.step(lambda _: None)
        wire.clear()

    executions = deploy(within(wired, act, key=["ö", "b", "a", "b"]))
    ended = executions.ended()
    assert ended.error is None
    assert [key_of(request) for request in wire.requests] == ["ö", "b", "a"]
    keys = ("a", "b", "ö")
    assert not any(rows.is_held(key) for key in keys)
    assert seen == [[keys, {key: int(rows[key]["fencingToken"]["N"]) for key in keys}]] * 2
    made = names(ended)
    assert [*made[:4], made[-1]] == [
        r"name locks 'a', 'b', '\xf6'",
        "acquire lock 'a'", "acquire lock 'b'", r"acquire lock '\xf6'",
        r"release locks 'a', 'b', '\xf6'",
    ]  # fmt: skip


def test_a_wait_renews_each_with_one_request(deploy, wire, wired):
    def act(_: DurableContext, locks: DurableMultiLock) -> None:
        locks.step(lambda _: None)
        if executions.invocations == 1:
            wire.clear()
        locks.wait(SECOND)

    executions = deploy(within(wired, act, key=["a", "b"]))
    executions.run()
    # Renewed once, and released by string in another invocation.
    assert [key_of(request) for request in wire.requests] == ["b", "a", "b", "a"]


def test_what_was_taken_is_kept_while_the_next_is_waited_for(deploy, client, make, rows):
    others = make().acquire("b", lease_duration=HOUR)
    versions: list[str] = []

    def look() -> None:
        assert rows.is_held("a")
        versions.append(rows.version("a"))
        if executions.invocations == 4:
            others.release()

    def held(_: DurableContext, locks: DurableMultiLock) -> list[str]:
        return locks.step(lambda _: [key for key in locks.keys if rows.is_held(key)])

    executions = deploy(within(client, held, key=["b", "a"]), at=dict.fromkeys((2, 3, 4), look))
    assert executions.run() == ["a", "b"]
    assert executions.invocations == 4
    assert versions == sorted(set(versions))
    assert len(versions) == 3


def test_one_wait_is_for_all_and_what_was_taken_is_released_when_it_is_over(deploy, client, make, rows):
    others = {key: make().acquire(key, lease_duration=HOUR) for key in ("a", "b")}
    held: list[bool] = []
    block = within(client, lambda *_: [], key=["a", "b"], wait=250)

    def handler(event: Any, context: DurableContext) -> list[Any]:
        try:
            return block(event, context)
        except LockTimeoutError as error:
            context.wait(SECOND)  # on the replay the same, from the checkpoints
            return [error.key, error.holder, error.waited]

    executions = deploy(handler, at={3: others["a"].release, 4: lambda: held.append(rows.is_held("a"))})
    key, holder, waited = executions.run()
    assert (key, holder) == ("b", others["b"].owner)
    assert 250 <= waited < 252
    assert executions.invocations == 7  # after 0, 60, 120, 180, 240 and 250 s; and the replay
    assert held == [True]
    assert not rows.is_held("a")
    assert rows.is_held("b")


def test_a_step_does_not_run_once_one_of_the_locks_is_lost(deploy, client, make, rows):
    taker = make()
    ran: list[object] = []

    def act(context: DurableContext, locks: DurableMultiLock) -> list[str]:
        context.wait(SECOND)
        context.step(lambda _: taker.acquire("b", lease_duration=HOUR).owner)
        with pytest.raises(LockLostError) as lost:
            locks.step(ran.append, config=SOON)
        return [str(lost.value.key), str(lost.value)]

    key, message = deploy(within(client, act, key=["a", "b"], lease_duration=1)).run()
    assert key == "None"
    assert "lock 'b'" in message
    assert ran == []
    assert not rows.is_held("a")
    assert rows.is_held("b")  # by the taker


def test_a_transaction_has_an_update_for_each_lock(deploy, client, engine, table):
    items: list[dict[str, Any]] = []

    def write(key: str) -> str:
        put = {"Put": {"TableName": table, "Item": {"key": {"S": key}}}}
        try:
            engine.dynamodb("TransactWriteItems", {"TransactItems": [*items, put]})
        except EngineError as error:
            return str(error.code)
        return "written"

    def work(locks: DurableMultiLock) -> str:
        items[:] = locks.transact_items()
        assert len(items) == 2
        return write("x")

    block = within(client, lambda _, locks: locks.step(lambda _: work(locks)), key=("a", "b"))
    written = deploy(lambda event, context: [block(event, context), write("y")]).run()
    assert written == ["written", "TransactionCanceledException"]


def test_tokens_are_read_within_the_block(deploy, client):
    def handler(event: Any, context: DurableContext) -> list[Any]:
        made = durable_lock(context, ["a"], lease_duration=60, client=client)
        with pytest.raises(LockAlreadyReleasedError, match="was not entered"):
            made.fencing_tokens  # noqa: B018
        with made as locks:
            assert locks is made
            return [list(locks.fencing_tokens), repr(locks)]

    assert deploy(handler).run() == [["a"], "<DurableMultiLock 'a' entered>"]


# Outages, without a durable function around


def taken(client: LockClient, keys: str) -> Holds:
    holds = Holds([DurableHold(client, key, HOUR) for key in keys])
    for hold in holds.all:
        hold.acquire("execution-1")
        holds.taken.append(hold)
    return holds


def test_in_an_outage_two_releases_are_tried_and_all_are_told(wire, impatient, caplog):
    holds = taken(impatient, "abcd")
    wire.clear()
    wire.unavailable(times=float("inf"))
    with pytest.raises(TransportError) as caught:
        holds.release()
    assert {key_of(request) for request in wire.requests} == {"c", "d"}
    holds.leave_to_lease(caught.value)
    assert [f"lock '{key}' was not released" in caplog.text for key in "abcd"] == [True] * 4
    wire.clear()
    holds.release()
    assert [key_of(request) for request in wire.requests] == ["d", "c", "b", "a"]


def test_one_release_that_fails_does_not_keep_the_others(wire, wired, rows, caplog):
    holds = taken(wired, "abc")
    wire.answer(400, "AccessDeniedException", times=float("inf"), when=lambda request: key_of(request) == "b")
    with pytest.raises(LockConfigurationError) as caught:
        holds.release()
    assert [rows.is_held(key) for key in "abc"] == [False, True, False]
    caplog.clear()
    holds.leave_to_lease(caught.value)
    assert [f"lock '{key}' was not released" in caplog.text for key in "abc"] == [False, True, False]


def test_a_suspension_in_an_outage_tries_two_renewals_and_ends_all_attempts(wire, impatient, caplog):
    caplog.set_level("INFO", "lambda_lock")
    holds = taken(impatient, "abcd")
    wire.clear()
    wire.unavailable(times=float("inf"))
    holds.suspend()
    assert {key_of(request) for request in wire.requests} == {"c", "d"}
    assert impatient.held() == ()
    assert [f"lock '{key}' was not renewed" in caplog.text for key in "abcd"] == [True] * 4
