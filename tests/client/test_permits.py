"""Semaphores on the real engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import (
    GO,
    JAVA,
    PYTHON,
    AsyncLockClient,
    CommitRefusedError,
    Holder,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
    current_lock,
    with_lock,
)
from lambda_lock.testing import lambda_context
from rig.wire import Wire
from tests.support.rows import Rows
from tests.support.waiting import wait_until

WORKER = Path(__file__).with_name("permit_worker.py")


def operations(wire: Wire) -> list[str]:
    return [request.operation for request in wire.requests]


def test_a_free_permit_takes_one_request_the_very_first_two_and_a_release_one(wire, wired):
    first = wired.acquire("api", permits=2, wait=5)
    assert operations(wire) == ["UpdateItem"] * 2
    second = wired.acquire("api", permits=2, wait=5)
    assert operations(wire) == ["UpdateItem"] * 3
    first.release()
    second.release()
    assert operations(wire) == ["UpdateItem"] * 5
    with wired.acquire("api", permits=2, wait=0) as again:
        assert operations(wire) == ["UpdateItem"] * 6
        assert again.permits == 2
    assert operations(wire) == ["UpdateItem"] * 7


def test_no_more_than_n_are_granted_and_a_refusal_names_who_holds_in_one_request(wire, wired):
    held = [wired.acquire("api", permits=3) for _ in range(3)]
    before = len(wire.requests)
    with pytest.raises(LockNotGrantedError, match=r"^semaphore .* has no free permit: 3 of 3 are held, by") as refused:
        wired.acquire("api", permits=3, wait=0)
    assert len(wire.requests) == before + 1
    assert [holder.owner for holder in refused.value.holders] == [lock.owner for lock in held]
    assert [holder.fencing_token for holder in refused.value.holders] == [lock.fencing_token for lock in held]
    assert wired.try_acquire("api", permits=3) is None
    held[1].release()
    assert wired.try_acquire("api", permits=3) is not None


def test_a_record_shows_the_holders_of_a_semaphore_and_of_a_lock(make):
    client = make()
    held = [client.acquire("api", permits=3, data=b"x", attributes={"colour": "red"}) for _ in range(2)]
    record = client.get("api")
    assert record is not None
    assert [type(holder) for holder in record.holders] == [Holder, Holder]
    assert [(holder.owner, holder.fencing_token) for holder in record.holders] == [
        (lock.owner, lock.fencing_token) for lock in held
    ]
    assert all(holder.expires_at is not None and holder.expires_at > time.time() for holder in record.holders)
    assert (record.owner, record.version, record.lease_duration, record.expires_at) == (None,) * 4
    assert (record.is_released, record.is_expired, record.unreadable) == (False, False, ())
    assert (record.data, record.attributes) == (b"x", {"colour": "red"})
    assert record.fencing_token == held[-1].fencing_token
    for lock in held:
        lock.release()
    record = client.get("api")
    assert record is not None
    assert (record.is_released, record.holders) == (True, ())
    with client.acquire("lock") as lock:
        assert [one.holders[0].owner for one in client.list() if one.holders] == [lock.owner]
        assert repr(client.get("lock")).count(lock.owner) == 1
    assert client.get("lock").holders == ()


def test_a_semaphore_is_held_while_anybody_holds_a_permit_and_the_dead_hold_none(make, rows):
    client = make()

    def is_held(key: str = "api") -> bool:
        record = client.get(key)
        assert record is not None
        assert record.is_held is bool(record.holders)
        return record.is_held

    one, other = (client.acquire("api", permits=2) for _ in range(2))
    assert is_held()
    for number, lock in enumerate((one, other)):
        row = rows["api"]
        nonce = lock.owner.rpartition("#")[2]
        entry = row["permits"]["M"][nonce]["S"]
        row["permits"]["M"][nonce] = {"S": f"L1:1000000000000{entry[16:]}"}  # its lease is over
        rows.put("api", **{name: value for name, value in row.items() if name != "key"})
        assert is_held() is (number == 0)
    with client.acquire("lock"):
        assert is_held("lock")
    assert not is_held("lock")
    rows.put_held("dead", expires_at=time.time() - 5)
    assert not is_held("dead")
    rows.put_foreign("java", lease_seconds=20)
    assert is_held("java")  # no expiry is stored


@pytest.mark.parametrize(
    ("damage", "unreadable"),
    [
        ({"permits": None}, ("permits",)),
        ({"permits": {"S": "x"}}, ("permits",)),
        ({"permits": {"M": {"x": {"N": "1"}}}}, ("permits", "permitTokens")),
        ({"permitTokens": None}, ("permitTokens",)),
        ({"permitTokens": {"L": []}}, ("permitTokens",)),
        ({"permitTokens": {"M": {}}}, ("permitTokens",)),
    ],
)
def test_a_record_of_a_damaged_semaphore_says_what_cannot_be_read_and_not_that_it_is_free(
    damage, unreadable, make, rows
):
    make().acquire("api", permits=2)
    row = {**rows["api"], **damage}
    rows.put("api", **{name: value for name, value in row.items() if name != "key" and value is not None})
    record = make().get("api")
    assert record is not None
    assert (record.is_released, record.unreadable) == (False, unreadable)


def test_a_record_of_a_semaphore_names_tokens_without_entries(make, rows):
    make().acquire("api", permits=2)
    rows.put("api", **{name: value for name, value in rows["api"].items() if name != "key"} | {"permits": {"M": {}}})
    record = make().get("api")
    assert record is not None
    assert (record.is_released, record.unreadable) == (True, ("permitTokens",))


def test_a_schema_without_semaphores_does_not_take_one_for_free(make):
    make().acquire("api", permits=2)
    record = make(schema=JAVA.replace(permits=None)).get("api")
    assert record is not None
    assert (record.is_released, record.holders) == (False, ())


def test_renewals_keep_each_permit_for_itself(make):
    client = make()
    one, other = (client.acquire("api", permits=2, lease_duration=20) for _ in range(2))
    before = other.version
    one.heartbeat(data=b"new")
    one.ensure(60)
    assert one.remaining > 50
    assert client.get("api").data == b"new"
    other.heartbeat()
    assert other.version > before
    assert (one.is_held, other.is_held) == (True, True)


@pytest.mark.parametrize("held", [True, False])
def test_a_key_is_a_lock_or_a_semaphore_in_either_order(held, make, rows):
    client = make()
    for key, first, then, said in (
        ("a", None, 2, "'a' is a lock, not a semaphore"),
        ("b", 2, None, "'b' is a semaphore, not a lock"),
    ):
        lock = client.acquire(key, permits=first)
        if not held:
            lock.release()
        before = rows[key]
        for wait in (0, 5):
            with pytest.raises(LockFormatError, match=said):
                client.acquire(key, permits=then, wait=wait)
            with pytest.raises(LockFormatError, match=said):
                client.acquire(key, permits=then, wait=wait, reentrant=True)
        assert rows[key] == before


@pytest.mark.parametrize("permits", [0, -1, 101, 10**9])
def test_a_number_of_permits_out_of_range_is_refused(permits, wire, wired):
    with pytest.raises(LockArgumentError, match=f"permits={permits} is out of range: pass 1 to 100"):
        wired.acquire("api", permits=permits)
    with pytest.raises(LockArgumentError, match=f"permits={permits} is out of range: pass 1 to 100"):
        with_lock("api", permits=permits)(lambda event, context: None)
    assert not wire.requests


@pytest.mark.parametrize("permits", ["5", 2.0, True])
def test_a_number_of_permits_that_is_no_int_is_refused(permits, wired, wire):
    with pytest.raises(TypeError, match="permits must be an int"):
        wired.acquire("api", permits=permits)
    assert not wire.requests


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delete_on_release": True}, "delete_on_release=True is not possible with permits=2"),
        ({"replace": True}, "replace=True is not possible with permits=2"),
        ({"lease_duration": 31_622_401}, "lease_duration=31622401 is out of range: pass 1 to 31622400 seconds"),
    ],
)
def test_what_a_semaphore_cannot_do_is_refused_before_anything_is_sent(options, said, wire, wired):
    with pytest.raises(LockArgumentError, match=said):
        wired.acquire("api", permits=2, **options)
    assert not wire.requests


def test_the_schema_of_rows_that_are_deleted_has_no_semaphores(make):
    with pytest.raises(LockConfigurationError, match="permits=2 needs a row that is kept"):
        LockClient(schema=PYTHON).acquire("api", permits=2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"permits": None}, "the schema JAVA has permits=None. Give it a name"),
        ({"permit_tokens": None}, "the schema JAVA has permit_tokens=None. Give it a name"),
        ({"released": None}, "rows of the schema JAVA are deleted on release"),
    ],
)
def test_a_schema_that_lacks_what_a_semaphore_needs_is_refused_before_anything_is_sent(changes, said, wire, make):
    with pytest.raises(LockConfigurationError, match=f"^permits=2 needs .*{said}"):
        make(schema=JAVA.replace(**changes)).acquire("api", permits=2)
    assert not wire.requests


def test_a_lease_that_is_too_long_for_a_semaphore_is_refused_when_decorating():
    with pytest.raises(LockArgumentError, match="lease_duration=31622401 is out of range"):
        with_lock("api", permits=2, lease_duration=31_622_401)(lambda event, context: None)


def test_what_a_held_permit_cannot_do_is_refused_and_it_stays_held(wire, wired):
    lock = wired.acquire("api", permits=2)
    before = len(wire.requests)
    with pytest.raises(LockArgumentError, match=r"release\(delete=True\) is not possible for a permit"):
        lock.release(delete=True)
    with pytest.raises(LockArgumentError, match="lease_duration=31622401 is out of range"):
        lock.heartbeat(lease_duration=31_622_401)
    assert len(wire.requests) == before
    assert lock.is_held
    assert lock.release()


def test_the_names_of_the_maps_are_the_lock_s_own(make, engine):
    for name in ("permits", "permitTokens"):
        with pytest.raises(LockArgumentError, match=f"attributes: '{name}' belongs to the lock itself"):
            make().acquire("a", attributes={name: 1})
    with make(schema=GO).acquire("api", permits=1) as lock:
        assert lock.attributes == {}


def test_a_commit_writes_and_releases_the_own_permit(make, rows, table):
    client = make()
    one, other = (client.acquire("api", permits=2) for _ in range(2))
    put = {"Put": {"TableName": table, "Item": {"key": {"S": "order#7"}, "total": {"N": "5"}}}}
    one.commit([put])
    assert rows["order#7"]["total"] == {"N": "5"}
    assert list(rows["api"]["permits"]["M"]) == [other.owner.rpartition("#")[2]]


def test_a_refused_commit_is_told_though_the_reply_of_the_release_was_lost(wire, wired, rows, table):
    rows.put("taken")
    lock = wired.acquire("api", permits=2)
    new = {"ConditionExpression": "attribute_not_exists(#k)", "ExpressionAttributeNames": {"#k": "key"}}
    put = {"Put": {"TableName": table, "Item": {"key": {"S": "taken"}}, **new}}
    wire.drop_reply("UpdateItem")
    with pytest.raises(CommitRefusedError) as caught:
        lock.commit([put])
    assert caught.value.reasons == ("ConditionalCheckFailed",)
    assert rows["api"]["permits"] == {"M": {}}


def test_a_commit_of_a_permit_that_was_replaced_writes_nothing(make, rows, table):
    client = make()
    lock = client.acquire("api", permits=1)
    forget_holders(rows)
    put = {"Put": {"TableName": table, "Item": {"key": {"S": "order#7"}}}}
    with pytest.raises(LockLostError):
        lock.commit([put])
    assert rows.get("order#7") is None


def test_a_transact_item_guards_a_transaction_of_the_application(make, rows, engine, table):
    client = make()
    lock = client.acquire("api", permits=1)
    put = {"Put": {"TableName": table, "Item": {"key": {"S": "order#7"}}}}
    before = rows["api"]
    engine.dynamodb("TransactWriteItems", {"TransactItems": [put, lock.transact_item()]})
    assert rows["api"] == before
    assert lock.is_held
    item = lock.transact_item()
    lock.release()
    with pytest.raises(Exception, match="ConditionalCheckFailed"):
        engine.dynamodb("TransactWriteItems", {"TransactItems": [put, item]})


def forget_holders(rows: Rows) -> None:
    item = {name: value for name, value in rows["api"].items() if name != "key"}
    rows.put("api", **{**item, "permits": {"M": {}}, "permitTokens": {"M": {}}})


def test_a_holder_whose_entry_is_gone_hears_of_it_at_its_renewal_and_releases_nothing(make, rows):
    client = make()
    lock = client.acquire("api", permits=1)
    forget_holders(rows)
    with pytest.raises(LockLostError):
        lock.heartbeat()
    assert lock.lost
    assert not lock.release()


def test_with_lock_lets_n_calls_in_and_the_others_wait(make):
    client, inside, most, guard = make(), [0], [0], threading.Lock()

    @with_lock("api#{tenant}", permits=3, client=client, wait=60)
    def call(event: Any, context: Any) -> int | None:
        with guard:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        with guard:
            inside[0] -= 1
        return current_lock().permits

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: call({"tenant": "a"}, lambda_context(100)), range(16))) == {3}
    assert 2 <= most[0] <= 3


def test_tasks_of_asyncio_wait_for_permits_in_order(make, table):
    async def run() -> int:
        inside = most = 0
        async with AsyncLockClient() as client:

            async def work() -> None:
                nonlocal inside, most
                async with await client.acquire("api", permits=2, wait=60):
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0.05)
                    inside -= 1

            await asyncio.gather(*(work() for _ in range(8)))
        return most

    assert asyncio.run(run()) in (1, 2)  # a slow engine may let one leave before the next comes


def test_waiters_are_served_in_the_order_in_which_they_came(make, rows):
    held, order = [make().acquire("api", permits=2) for _ in range(2)], list[int]()
    leave = threading.Event()

    def take(number: int) -> None:
        with make().acquire("api", permits=2, wait=60):
            order.append(number)
            leave.wait(0.05)

    with ThreadPoolExecutor(5) as pool:
        taken = []
        for number in range(5):
            taken.append(pool.submit(take, number))
            wait_until(lambda: len(rows["api"].get("waiters", {"L": []})["L"]) == len(taken))
        with pytest.raises(LockTimeoutError, match="and 5 wait before this one") as refused:
            make().acquire("api", permits=2, wait=0.1)
        assert refused.value.ahead == 5
        held[0].release()
        for future in taken:
            future.result(60)
    assert order == [0, 1, 2, 3, 4]
    held[1].release()


@pytest.mark.long
@pytest.mark.parametrize(("permits", "rounds"), [(3, 12)])
def test_no_more_than_n_of_eight_processes_are_inside(permits, rounds, table, tmp_path):
    command = [sys.executable, str(WORKER), str(tmp_path), str(permits), str(rounds)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    most = [int(worker.communicate(timeout=120)[0]) for worker in workers]
    assert 1 < max(most) <= permits


def test_a_holder_that_is_killed_is_replaced_at_its_expiry(table, make, tmp_path):
    code = (
        "from lambda_lock import LockClient; import time\n"
        "lock = LockClient().acquire('api', permits=1, lease_duration=2)\nprint(flush=True); time.sleep(60)"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    worker.kill()
    worker.communicate()
    with pytest.raises(LockNotGrantedError):
        make().acquire("api", permits=1, wait=0)
    with make().acquire("api", permits=1, wait=30) as lock:
        assert [holder.owner for holder in lock_holders(make())] == [lock.owner]


def lock_holders(client: LockClient) -> tuple[Holder, ...]:
    record = client.get("api")
    assert record is not None
    return record.holders
