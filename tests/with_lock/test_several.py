"""@with_lock with a list of keys, as `def` and as `async def`."""

from __future__ import annotations

import queue
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
    payload_hash,
    set_default_client,
    with_lock,
)
from tests.support.decorated import done

from .conftest import commit, is_free, put

pytestmark = pytest.mark.usefixtures("table")
ACCOUNTS = ["account#{detail[from]}", "account#{detail[to]}"]


def transfer(source: str, target: str) -> dict[str, Any]:
    return {"detail": {"from": source, "to": target}}


def test_the_function_runs_while_it_holds_all_of_them(locked, other):
    @locked(ACCOUNTS)
    def handler(event: dict[str, Any]) -> tuple[str, ...]:
        locks: Any = current_lock(MultiLock if locked is with_lock else AsyncMultiLock)
        assert locks.is_held
        assert not is_free(other, "account#1")
        assert not is_free(other, "account#2")
        return tuple(locks.keys)

    assert handler(transfer("2", "1")) == ("account#1", "account#2")
    assert is_free(other, "account#1")
    assert is_free(other, "account#2")


def test_templates_and_functions_mix_and_equal_keys_count_once(locked):
    keys = ["a#{detail[from]}", lambda event: "a#" + event["detail"]["to"], payload_hash("detail[from]")]
    kind: Any = MultiLock if locked is with_lock else AsyncMultiLock
    handler = locked(keys)(lambda event: current_lock(kind).keys)
    assert "a#1" in handler(transfer("1", "1"))
    assert len(handler(transfer("1", "1"))) == 2  # the third is a hash
    assert len(handler(transfer("1", "2"))) == 3


def test_a_key_that_is_held_is_named_or_answered_and_nothing_else_stays_held(locked, other):
    handler = locked(ACCOUNTS, wait=0)(lambda event: None)
    skipped = locked(ACCOUNTS, wait=0, on_not_granted="skip")(lambda event: "ran")
    named = locked(ACCOUNTS, wait=0, on_not_granted=lambda event, error: error.key)(lambda event: "ran")
    with other.acquire("account#2") as holder:
        with pytest.raises(LockNotGrantedError) as refused:
            handler(transfer("1", "2"))
        assert (refused.value.key, refused.value.holder) == ("account#2", holder.owner)
        assert (skipped(transfer("1", "2")), named(transfer("1", "2"))) == (None, "account#2")
        assert is_free(other, "account#1")
    assert skipped(transfer("1", "2")) == "ran"


def test_commit_ends_the_call_without_another_request(locked, wire, table):
    handler = locked(ACCOUNTS)(lambda event: commit(put(table, "done")))
    handler(transfer("1", "2"))
    assert wire.operations == ["UpdateItem", "UpdateItem", "TransactWriteItems"]


def test_a_lost_lock_is_told_on_lost_with_the_multi_lock_and_logged_and_the_result_is_returned(locked, rows, caplog):
    lost: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @locked(ACCOUNTS, lease_duration=1.0, on_lost=lost.put)
    def handler(event: dict[str, Any]) -> object:
        rows.delete("account#1")
        return lost.get(timeout=30)

    assert type(handler(transfer("1", "2"))) is MultiLock
    assert "finished although its lock 'account#1, account#2' was lost" in caplog.text


def test_a_nested_lock_on_one_of_the_keys_is_refused_at_once():
    def nothing() -> None: ...

    handler = with_lock(ACCOUNTS)(lambda event, call: call())
    for inner in (with_lock("account#2")(nothing), with_lock(["account#3", "account#2"])(nothing)):
        with pytest.raises(LockConfigurationError, match="'account#2' already"):
            handler(transfer("1", "2"), inner)
    with pytest.raises(LockConfigurationError, match="'account#1' already"):
        with_lock("account#1")(handler)(transfer("1", "2"), nothing)
    handler(transfer("1", "2"), with_lock("account#4")(nothing))


def test_a_nested_lock_on_a_key_that_is_held_still_is_refused_at_once_after_another_key_is_lost(rows):
    told = threading.Event()
    set_default_client(LockClient(lease_duration=1.0))

    @with_lock(ACCOUNTS, on_lost=lambda locks: told.set(), wait=0)
    def handler(event: dict[str, Any]) -> None:
        rows.delete("account#1")
        assert told.wait(30)
        with pytest.raises(LockConfigurationError, match="'account#2' already"):
            with_lock("account#2", wait=0)(lambda: None)()
        with_lock("account#1", wait=0)(lambda: None)()  # the lost one is anybody's

    handler(transfer("1", "2"))


def test_a_missing_field_names_the_template(locked):
    handler = locked(ACCOUNTS)(lambda event: None)
    with pytest.raises(KeyTemplateError, match=r"account#\{detail\[to\]\}"):
        handler({"detail": {"from": "1"}})


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
        commit(put(table, "done"))
        assert not locks.is_held
        return locks.keys, locks.fencing_tokens, locks.owner

    keys = ("account#1", "account#2")
    assert handler(transfer("2", "1")) == (keys, {"account#1": 0, "account#2": 0}, "disabled")
    assert wire.operations == ["TransactWriteItems"]
