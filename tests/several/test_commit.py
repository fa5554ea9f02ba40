"""Commit under several locks: one transaction, carried out only while all are held."""

from typing import Any

import pytest

from lambda_lock import PYTHON, LockClient, MultiLock
from lambda_lock.errors import (
    CommitRefusedError,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockConfigurationError,
    LockLostError,
    TransportError,
)
from rig.wire import Answer, Wire
from tests.support.rows import Rows
from tests.transactions.test_commit import COMMIT, FOREVER, add, value


def transfer(rows: Rows, **more: Any) -> list[dict[str, Any]]:
    return [add(rows, "one", -5), add(rows, "other", 5, **more)]


IMPOSSIBLE = {"ConditionExpression": "attribute_exists(#n)"}


@pytest.fixture
def locks(impatient: LockClient, wire: Wire) -> MultiLock:
    taken = impatient.acquire_all(["a", "b"])
    wire.clear()
    return taken


def held(rows: Rows, keys: str) -> list[bool]:
    return [rows.is_held(key) for key in keys]


def test_writes_and_all_releases_are_one_request(wire, wired, rows):
    with wired.acquire_all(["a", "b"]) as locks:
        wire.clear()
        locks.commit(transfer(rows))
        assert held(rows, "ab") == [False, False]
    assert wire.operations == [COMMIT]
    assert (value(rows, "one"), value(rows, "other")) == (-5, 5)
    assert (locks.is_held, locks.lost) == (False, False)
    for act in (locks.heartbeat, locks.release, lambda: locks.commit(transfer(rows))):
        with pytest.raises(LockAlreadyReleasedError):
            act()
    assert wired.try_acquire_all(["a", "b"], queue=False) is not None


@pytest.mark.parametrize("lost", ["a", "b", "c"])
def test_if_any_lock_is_not_ours_nothing_is_written_and_the_others_are_released(lost, client, rows):
    locks = client.acquire_all(["a", "b", "c"])
    rows.take_over(lost)
    with pytest.raises(LockLostError) as refused:
        locks.commit(transfer(rows))
    assert (refused.value.key, refused.value.holder) == (lost, "another#1")
    assert value(rows, "one") is None
    assert held(rows, "abc") == [key == lost for key in "abc"]
    assert (locks.is_held, locks.lost) == (False, True)
    with pytest.raises(LockAlreadyReleasedError):
        locks.release()


@pytest.mark.parametrize("replies", ["arrive", "are lost"])
def test_a_refusal_by_the_items_own_conditions_releases_all(replies, wire, locks, rows):
    """If the releases get no answer, the same commit proves that they were carried out."""
    if replies == "are lost":
        wire.drop_reply("UpdateItem", times=FOREVER)
    with pytest.raises(CommitRefusedError) as refused:
        locks.commit(transfer(rows, **IMPOSSIBLE))
    assert refused.value.reasons == ("None", "ConditionalCheckFailed")
    assert wire.count(COMMIT) == (1 if replies == "arrive" else 2)
    assert value(rows, "one") is None
    assert held(rows, "ab") == [False, False]
    assert (locks.is_held, locks.lost) == (False, False)
    if replies == "arrive":
        with pytest.raises(LockAlreadyReleasedError):
            locks.release()


def test_a_commit_without_any_answer_is_unknown_and_may_be_released(wire, locks, rows):
    fault = wire.drop_request(times=FOREVER)
    with pytest.raises(TransportError) as unknown:
        locks.commit(transfer(rows))
    assert unknown.value.ambiguous
    assert not locks.is_held
    fault.times = 0
    assert locks.release() is True
    assert held(rows, "ab") == [False, False]


def test_a_refusal_is_told_though_others_have_the_locks_after_releases_without_an_answer(wire, locks, rows):
    def taken(answer: Answer) -> None:
        for key in "ab":
            rows.take_over(key)

    wire.alter_reply(taken, "UpdateItem")
    wire.drop_request("UpdateItem", times=FOREVER)
    with pytest.raises(CommitRefusedError) as refused:
        locks.commit([add(rows, "other", 1, **IMPOSSIBLE)])
    assert refused.value.reasons == ("ConditionalCheckFailed",)
    assert held(rows, "ab") == [True, True]


def test_items_and_locks_are_a_hundred_at_most(wire, locks, rows):
    items = [add(rows, f"account-{number}", 1) for number in range(99)]
    with pytest.raises(LockArgumentError, match="1 to 98 items, not 99: DynamoDB allows 100, and the 2 locks need one"):
        locks.commit(items)
    for number in range(2):
        with pytest.raises(LockArgumentError):
            locks.commit([{"Get": {}}] * number)
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
