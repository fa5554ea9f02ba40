"""Commit under several locks: one transaction, carried out only while all are held."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lambda_lock import PYTHON, MultiLock
from lambda_lock.errors import (
    CommitRefusedError,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockConfigurationError,
    LockLostError,
    TransportError,
)
from rig.wire import Answer
from tests.support.rows import Rows

FOREVER = float("inf")
COMMIT = "TransactWriteItems"


def add(rows: Rows, key: str, amount: int) -> dict[str, Any]:
    """Carried out twice it would show."""
    return {
        "Update": {
            "TableName": rows.table,
            "Key": {"key": {"S": key}},
            "UpdateExpression": "ADD #n :amount",
            "ExpressionAttributeNames": {"#n": "value"},
            "ExpressionAttributeValues": {":amount": {"N": str(amount)}},
        }
    }


def impossible(rows: Rows, key: str) -> dict[str, Any]:
    item = add(rows, key, 1)
    item["Update"]["ConditionExpression"] = "attribute_exists(#n)"
    return item


def value(rows: Rows, key: str) -> int | None:
    item = rows.get(key)
    return None if item is None else int(item["value"]["N"])


def taken_over(rows: Rows, key: str) -> None:
    rows.put_held(key, expires_at=time.time() + 60, owner="another#1")


def transfer(rows: Rows) -> list[dict[str, Any]]:
    return [add(rows, "one", -5), add(rows, "other", 5)]


def has_ended(locks: MultiLock) -> None:
    assert not locks.is_held
    for act in (locks.heartbeat, locks.release, lambda: locks.commit([{"Put": {"TableName": "orders"}}])):
        with pytest.raises(LockAlreadyReleasedError):
            act()


def held(rows: Rows, keys: str) -> list[bool]:
    return [rows.is_held(key) for key in keys]


def test_writes_and_all_releases_are_one_request(wire, wired, rows):
    locks = wired.acquire_all(["a", "b"])
    wire.clear()
    locks.commit(transfer(rows))
    assert wire.operations == [COMMIT]
    assert (value(rows, "one"), value(rows, "other")) == (-5, 5)
    assert held(rows, "ab") == [False, False]
    has_ended(locks)
    assert not locks.lost
    assert wired.try_acquire_all(["a", "b"], queue=False) is not None


def test_within_the_block_nothing_more_is_released(wire, wired, rows):
    with wired.acquire_all(["a", "b"]) as locks:
        locks.commit(transfer(rows))
        wire.clear()
    assert wire.count() == 0


@pytest.mark.parametrize("lost", ["a", "b", "c"])
def test_if_any_lock_is_not_ours_nothing_is_written_and_the_others_are_released(lost, client, rows):
    locks = client.acquire_all(["a", "b", "c"])
    taken_over(rows, lost)
    with pytest.raises(LockLostError) as refused:
        locks.commit(transfer(rows))
    assert (refused.value.key, refused.value.holder) == (lost, "another#1")
    assert value(rows, "one") is None
    assert held(rows, "abc") == [key == lost for key in "abc"]
    assert locks.lost
    has_ended(locks)


def test_a_refusal_by_the_items_own_conditions_releases_all(client, rows):
    locks = client.acquire_all(["a", "b"])
    with pytest.raises(CommitRefusedError) as refused:
        locks.commit([add(rows, "one", 1), impossible(rows, "other")])
    assert refused.value.reasons == ("None", "ConditionalCheckFailed")
    assert value(rows, "one") is None
    assert held(rows, "ab") == [False, False]
    assert not locks.lost
    has_ended(locks)


def test_a_lost_reply_is_sent_again_and_nothing_is_written_twice(wire, impatient, rows):
    locks = impatient.acquire_all(["a", "b"])
    wire.drop_reply(COMMIT, times=2)
    locks.commit(transfer(rows))
    assert (value(rows, "one"), value(rows, "other")) == (-5, 5)
    assert held(rows, "ab") == [False, False]


def test_a_commit_without_any_answer_is_unknown_and_may_be_released(wire, impatient, rows):
    locks = impatient.acquire_all(["a", "b"])
    fault = wire.drop_request(times=FOREVER)
    with pytest.raises(TransportError) as unknown:
        locks.commit(transfer(rows))
    assert unknown.value.ambiguous
    assert not locks.is_held
    fault.times = 0
    assert locks.release() is True
    assert held(rows, "ab") == [False, False]


def test_a_refusal_whose_releases_get_no_answer_is_proven_by_the_same_commit(wire, impatient, rows):
    locks = impatient.acquire_all(["a", "b"])
    wire.drop_reply("UpdateItem", times=FOREVER)  # they are carried out
    with pytest.raises(CommitRefusedError):
        locks.commit([impossible(rows, "other")])
    assert wire.count(COMMIT) == 2
    assert held(rows, "ab") == [False, False]


def test_a_refusal_is_told_though_others_have_the_locks_after_releases_without_an_answer(wire, impatient, rows):
    locks = impatient.acquire_all(["a", "b"])

    def taken(answer: Answer) -> None:
        for key in "ab":
            taken_over(rows, key)

    wire.alter_reply(taken, "UpdateItem")
    wire.drop_request("UpdateItem", times=FOREVER)
    with pytest.raises(CommitRefusedError) as refused:
        locks.commit([impossible(rows, "other")])
    assert refused.value.reasons == ("ConditionalCheckFailed",)
    assert held(rows, "ab") == [True, True]


def test_items_and_locks_are_a_hundred_at_most(wire, wired, rows):
    locks = wired.acquire_all(["a", "b"])
    wire.clear()
    items = [add(rows, f"account-{number}", 1) for number in range(99)]
    with pytest.raises(LockArgumentError, match="1 to 98 items, not 99: DynamoDB allows 100, and the 2 locks need one"):
        locks.commit(items)
    with pytest.raises(LockArgumentError):
        locks.commit([])
    with pytest.raises(LockArgumentError):
        locks.commit([{"Get": {}}])
    assert wire.count() == 0
    assert locks.is_held
    locks.commit(items[:98])
    assert value(rows, "account-97") == 1


def test_locks_that_delete_their_rows_cannot_commit(make, new_table):
    name = new_table(PYTHON.partition_key, PYTHON.sort_key)
    with make(name, schema=PYTHON).acquire_all(["a", "b"]) as locks:
        with pytest.raises(LockConfigurationError, match="deletes its row"):
            locks.commit([{"Put": {"TableName": "orders"}}])
        assert locks.is_held
