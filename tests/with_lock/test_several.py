"""@with_lock with a list of keys, as `def` and as `async def`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lambda_lock import (
    AsyncMultiLock,
    KeyTemplateError,
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    MultiLock,
    current_lock,
    default_client,
    payload_hash,
    set_default_client,
    with_lock,
)
from tests.support.decorated import Boom, done
from tests.support.stand_ins import made

pytestmark = pytest.mark.usefixtures("table")
ACCOUNTS = ["account#{detail[from]}", "account#{detail[to]}"]


@pytest.fixture(autouse=True)
def fresh_default_client() -> Any:
    set_default_client(None)
    yield
    default_client().close(release=False)  # the wire that its requests went over may be gone
    set_default_client(None)


def transfer(source: str, target: str) -> dict[str, Any]:
    return {"detail": {"from": source, "to": target}}


def is_free(other: LockClient, key: str) -> bool:
    lock = other.try_acquire(key)
    return lock is not None and lock.release()


def test_the_function_runs_while_it_holds_all_of_them(locked, other):
    @locked(ACCOUNTS)
    def handler(event: dict[str, Any]) -> tuple[str, ...]:
        locks = current_lock(AsyncMultiLock) if isinstance(current_lock(), AsyncMultiLock) else current_lock(MultiLock)
        assert locks.is_held
        assert not is_free(other, "account#1")
        assert not is_free(other, "account#2")
        return locks.keys

    assert handler(transfer("2", "1")) == ("account#1", "account#2")
    assert is_free(other, "account#1")
    assert is_free(other, "account#2")


def test_templates_and_functions_mix_and_equal_keys_count_once(locked):
    @locked(["a#{detail[from]}", lambda event: "a#" + event["detail"]["to"], payload_hash("detail[from]")])
    def handler(event: dict[str, Any]) -> tuple[str, ...]:
        return current_lock(MultiLock if isinstance(current_lock(), MultiLock) else AsyncMultiLock).keys

    assert "a#1" in handler(transfer("1", "1"))
    assert len(handler(transfer("1", "1"))) == 2  # the third is a hash
    assert len(handler(transfer("1", "2"))) == 3


def test_several_locks_of_with_lock_cost_two_requests_a_key(locked, wire):
    handler = locked(ACCOUNTS)(lambda event: None)
    handler(transfer("1", "2"))
    assert wire.operations == ["UpdateItem"] * 4


def test_a_key_that_is_held_is_named_and_nothing_else_stays_held(locked, other):
    handler = locked(ACCOUNTS, wait=0)(lambda event: None)
    with other.acquire("account#2") as holder:
        with pytest.raises(LockNotGrantedError) as refused:
            handler(transfer("1", "2"))
        assert (refused.value.key, refused.value.holder) == ("account#2", holder.owner)
        assert is_free(other, "account#1")


def test_on_not_granted_is_for_several_locks_too(locked, other):
    skipped = locked(ACCOUNTS, wait=0, on_not_granted="skip")(lambda event: "ran")
    named = locked(ACCOUNTS, wait=0, on_not_granted=lambda event, error: error.key)(lambda event: "ran")
    with other.acquire("account#1"):
        assert skipped(transfer("1", "2")) is None
        assert named(transfer("1", "2")) == "account#1"
    assert skipped(transfer("1", "2")) == "ran"


def test_several_locks_of_with_lock_are_released_after_an_error(locked, other):
    @locked(ACCOUNTS)
    def handler(event: dict[str, Any]) -> None:
        raise Boom

    with pytest.raises(Boom):
        handler(transfer("1", "2"))
    assert is_free(other, "account#1")
    assert is_free(other, "account#2")


def test_commit_ends_the_call_without_another_request(locked, wire, table):
    @locked(ACCOUNTS)
    def handler(event: dict[str, Any], table: str) -> None:
        locks: Any = current_lock()
        done(locks.commit([{"Put": {"TableName": table, "Item": {"key": {"S": "done"}}}}]))

    handler(transfer("1", "2"), table)
    assert wire.operations == ["UpdateItem", "UpdateItem", "TransactWriteItems"]


def test_a_lost_lock_is_logged_and_the_result_is_returned(locked, engine, table, caplog):
    @locked(ACCOUNTS)
    def handler(event: dict[str, Any]) -> str:
        engine.dynamodb("DeleteItem", {"TableName": table, "Key": {"key": {"S": "account#1"}}})
        return "done"

    assert handler(transfer("1", "2")) == "done"
    assert "finished although its lock 'account#1, account#2' was lost" in caplog.text


def test_on_lost_gets_the_multi_lock(locked, engine, table):
    lost, told = list[Any](), threading.Event()

    def on_lost(locks: Any) -> None:
        lost.append(locks)
        told.set()

    @locked(ACCOUNTS, lease_duration=1.0, on_lost=on_lost)
    def handler(event: dict[str, Any]) -> None:
        engine.dynamodb("DeleteItem", {"TableName": table, "Key": {"key": {"S": "account#1"}}})
        assert told.wait(30)

    handler(transfer("1", "2"))
    assert [type(locks) for locks in lost] == [MultiLock]


def test_a_nested_lock_on_one_of_the_keys_is_refused_at_once(locked):
    def nothing() -> None: ...

    def handle(event: dict[str, Any]) -> None: ...

    inner = with_lock("account#2")(nothing)
    both = with_lock(["account#3", "account#2"])(nothing)
    outer = with_lock("account#1")(with_lock(ACCOUNTS)(handle))
    if locked is not with_lock:
        return  # an async function calls neither

    @locked(ACCOUNTS)
    def handler(event: dict[str, Any], call: Any) -> None:
        call()

    for call in (inner, both):
        with pytest.raises(LockConfigurationError, match="'account#2' already"):
            handler(transfer("1", "2"), call)
    with pytest.raises(LockConfigurationError, match="'account#1' already"):
        outer(transfer("1", "2"))
    handler(transfer("1", "2"), with_lock("account#4")(nothing))


def test_a_nested_lock_on_a_key_that_is_held_still_is_refused_at_once_after_another_key_is_lost(engine, table):
    told = threading.Event()
    set_default_client(LockClient(lease_duration=1.0))

    @with_lock(ACCOUNTS, on_lost=lambda locks: told.set(), wait=0)
    def handler(event: dict[str, Any]) -> None:
        engine.dynamodb("DeleteItem", {"TableName": table, "Key": {"key": {"S": "account#1"}}})
        assert told.wait(30)
        with pytest.raises(LockConfigurationError, match="'account#2' already"):
            with_lock("account#2", wait=0)(lambda: None)()
        with_lock("account#1", wait=0)(lambda: None)()  # the lost one is anybody's

    handler(transfer("1", "2"))


def test_a_missing_field_names_the_template(locked):
    handler = locked(ACCOUNTS)(lambda event: None)
    with pytest.raises(KeyTemplateError, match=r"account#\{detail\[to\]\}"):
        handler({"detail": {"from": "1"}})


@pytest.mark.parametrize(
    ("keys", "options", "kind", "says"),
    [
        ([], {}, TypeError, "names no lock"),
        ([7], {}, TypeError, "must be a str or a function"),
        ([["a"]], {}, TypeError, "must be a str or a function"),
        (["a#{"], {}, KeyTemplateError, "a#"),
        (["a"], {"reentrant": True}, TypeError, "reentrant=True is for a single key"),
        (["a"], {"permits": 2}, TypeError, "permits=2 is for a single key"),
        (["a"], {"key_jmespath": "id"}, TypeError, "exactly one of key="),
        ({"a"}, {}, TypeError, "must be a str or a function"),
    ],
)
def test_mistakes_are_errors_when_decorating(keys, options, kind, says):
    decorate: Any = with_lock
    with pytest.raises(kind, match=says):
        decorate(keys, **options)(transfer)


def test_while_locks_are_disabled_a_stand_in_says_that_they_are_held(locked, monkeypatch, wire, table):
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")

    @locked(ACCOUNTS)
    def handler(event: dict[str, Any]) -> Any:
        locks: Any = current_lock()
        assert locks.is_held
        assert not locks.lost
        assert locks.remaining > 0
        locks.raise_if_lost()
        done(locks.heartbeat())
        assert wire.count() == 0
        done(locks.commit([{"Put": {"TableName": table, "Item": {"key": {"S": "done"}}}}]))
        assert not locks.is_held
        return locks.keys, locks.fencing_tokens, locks.owner

    keys = ("account#1", "account#2")
    assert handler(transfer("2", "1")) == (keys, {"account#1": 0, "account#2": 0}, "disabled")
    assert wire.operations == ["TransactWriteItems"]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_stand_in_has_every_public_name(kind, monkeypatch):
    from lambda_lock.decorators.disabled import AsyncStandIn, StandIn

    stand_in = made(StandIn if kind == "plain" else AsyncStandIn, ("b", "a"))
    public = {name for name in dir(MultiLock) if not name.startswith("_")}
    assert public <= set(dir(stand_in))
    assert "'a', 'b'" in repr(stand_in)
    if kind == "plain":
        with stand_in:
            assert stand_in.is_held
    else:

        async def use() -> None:
            async with stand_in:  # type: ignore[attr-defined]
                assert stand_in.is_held

        asyncio.run(use())
    assert not stand_in.is_held
