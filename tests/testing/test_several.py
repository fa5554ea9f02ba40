"""Several locks at once in memory."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_lock import AsyncLockClient, CommitRefusedError, LockClient, LockNotGrantedError, current_lock, with_lock
from lambda_lock.testing import ManualClock, in_memory

ACCOUNTS = ["account#{from}", "account#{to}"]


def test_a_handler_takes_several_locks():
    @with_lock(ACCOUNTS, wait=0)
    def transfer(event: dict[str, str]) -> Any:
        locks: Any = current_lock()
        return locks.keys

    with in_memory() as memory:
        assert transfer({"from": "2", "to": "1"}) == ("account#1", "account#2")
        assert all(row.is_released for row in memory.rows())
        memory.hold("account#2", owner="somebody else")
        with pytest.raises(LockNotGrantedError) as refused:
            transfer({"from": "2", "to": "1"})
        assert (refused.value.key, refused.value.holder) == ("account#2", "somebody else")
        assert [row.key for row in memory.rows() if not row.is_released] == ["account#2"]


def test_a_holder_that_dies_is_replaced():
    with in_memory() as memory:
        memory.hold("b", lease_duration=60)
        assert LockClient().try_acquire_all(["a", "b"]) is None
        memory.expire("b")
        with LockClient().acquire_all(["a", "b"], wait=0) as locks:
            assert locks.is_held


def test_commit_writes_under_all_of_them():
    item: dict[str, Any] = {"Put": {"TableName": "orders", "Item": {"key": {"S": "o-1"}}}}
    item["Put"]["ConditionExpression"] = "attribute_not_exists(#k)"
    item["Put"]["ExpressionAttributeNames"] = {"#k": "key"}
    with in_memory(tables={"orders": ("key",)}) as memory:
        LockClient().acquire_all(["a", "b"]).commit([item])
        with pytest.raises(CommitRefusedError):
            LockClient().acquire_all(["a", "b"], wait=0).commit([item])
        assert all(row.is_released for row in memory.rows())


def test_a_manual_clock_waits_in_no_time():
    clock = ManualClock()
    with in_memory(clock=clock) as memory:
        memory.hold("b", lease_duration=10)
        with LockClient(clock=clock).acquire_all(["a", "b"], wait=60) as locks:  # takes over the dead holder's
            assert locks.remaining > 17


async def _awaited() -> None:
    async with await AsyncLockClient().acquire_all(["a", "b"]) as locks:
        assert locks.is_held


def test_several_locks_are_taken_in_memory_by_asyncio_too():
    import asyncio

    with in_memory() as memory:
        asyncio.run(_awaited())
        assert [row.key for row in memory.rows()] == ["a", "b"]
