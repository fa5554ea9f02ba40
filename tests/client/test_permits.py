"""Semaphores on the real engine."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lambda_lock import (
    GO,
    JAVA,
    PYTHON,
    CommitRefusedError,
    Holder,
    LockArgumentError,
    LockConfigurationError,
    LockFormatError,
    LockLostError,
    current_lock,
    with_lock,
)
from lambda_lock.testing import lambda_context


def test_a_record_shows_the_holders_of_a_semaphore_and_of_a_lock(client):
    held = [client.acquire("api", permits=3, data=b"x", attributes={"colour": "red"}) for _ in range(2)]
    record = client.get("api")
    shown = [(type(holder), holder.owner, holder.fencing_token) for holder in record.holders]
    assert shown == [(Holder, lock.owner, lock.fencing_token) for lock in held]
    assert all(holder.expires_at > time.time() for holder in record.holders)
    assert (record.owner, record.version, record.lease_duration, record.expires_at) == (None,) * 4
    assert (record.is_released, record.is_expired, record.unreadable) == (False, False, ())
    assert (record.data, record.attributes) == (b"x", {"colour": "red"})
    assert record.fencing_token == held[-1].fencing_token
    for lock in held:
        lock.release()
    record = client.get("api")
    assert (record.is_released, record.holders) == (True, ())
    with client.acquire("lock") as lock:
        assert [one.holders[0].owner for one in client.list() if one.holders] == [lock.owner]
        assert repr(client.get("lock")).count(lock.owner) == 1
    assert client.get("lock").holders == ()


def test_a_semaphore_is_held_while_anybody_holds_a_permit_and_the_dead_hold_none(client, rows):
    def is_held(key: str = "api") -> bool:
        record = client.get(key)
        assert record.is_held is bool(record.holders)
        return record.is_held

    locks = [client.acquire("api", permits=2) for _ in range(2)]
    assert is_held()
    for number, lock in enumerate(locks):
        nonce = lock.owner.rpartition("#")[2]
        entries = rows["api"]["permits"]["M"]
        entries[nonce] = {"S": f"L1:1000000000000{entries[nonce]['S'][16:]}"}  # its lease is over
        rows.change("api", permits={"M": entries})
        assert is_held() is (number == 0)
    with client.acquire("lock"):
        assert is_held("lock")
    assert not is_held("lock")
    rows.put_held("dead", expires_at=time.time() - 5)
    assert not is_held("dead")
    rows.put_foreign("java", lease_seconds=20)
    assert is_held("java")  # no expiry is stored


@pytest.mark.parametrize(
    ("damage", "schema", "unreadable"),
    [
        ({"permits": None}, JAVA, ("permits",)),
        ({"permits": {"S": "x"}}, JAVA, ("permits",)),
        ({"permits": {"M": {"x": {"N": "1"}}}}, JAVA, ("permits", "permitTokens")),
        ({"permitTokens": None}, JAVA, ("permitTokens",)),
        ({"permitTokens": {"L": []}}, JAVA, ("permitTokens",)),
        ({"permitTokens": {"M": {}}}, JAVA, ("permitTokens",)),
        ({"permits": {"M": {}}}, JAVA, ("permitTokens",)),  # free, but a token is left
        ({}, JAVA.replace(permits=None), ()),
    ],
)
def test_a_record_of_a_damaged_semaphore_says_what_cannot_be_read_and_not_that_it_is_free(
    damage, schema, unreadable, make, rows
):
    make().acquire("api", permits=2)
    rows.change("api", **damage)
    record = make(schema=schema).get("api")
    assert (record.is_released, record.unreadable) == (damage == {"permits": {"M": {}}}, unreadable)


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [(None, 2, "'a' is a lock, not a semaphore"), (2, None, "'a' is a semaphore, not a lock")],
    ids=["lock", "semaphore"],
)
def test_what_is_held_is_not_entered_again_as_another_kind(first, then, said, client, rows):
    client.acquire("a", permits=first)
    before = rows["a"]
    for wait in (0, 5):
        with pytest.raises(LockFormatError, match=said):
            client.acquire("a", permits=then, wait=wait, reentrant=True)
    assert rows["a"] == before


@pytest.mark.parametrize(
    ("schema", "options", "kind", "said"),
    [
        (JAVA, {"permits": -1}, LockArgumentError, "permits=-1 is out of range: pass 1 to 100"),
        (JAVA, {"permits": 101}, LockArgumentError, "permits=101 is out of range: pass 1 to 100"),
        (JAVA, {"permits": 2.0}, TypeError, "permits must be an int"),
        (JAVA, {"permits": True}, TypeError, "permits must be an int"),
        (JAVA, {"delete_on_release": True}, LockArgumentError, "delete_on_release=True is not possible with permits=2"),
        (JAVA, {"replace": True}, LockArgumentError, "replace=True is not possible with permits=2"),
        (JAVA, {"lease_duration": 31_622_401}, LockArgumentError, "lease_duration=31622401 .*: pass 1 to 31622400 sec"),
        (PYTHON, {}, LockConfigurationError, "^permits=2 needs a row that is kept"),
        (JAVA.replace(released=None), {}, LockConfigurationError, "^permits=2 needs .* JAVA are deleted on release"),
        (JAVA.replace(permits=None), {}, LockConfigurationError, "^permits=2 needs .*JAVA has permits=None. Give it a"),
        (JAVA.replace(permit_tokens=None), {}, LockConfigurationError, "^permits=2 .*JAVA has permit_tokens=None"),
    ],
)
def test_what_a_semaphore_cannot_do_is_refused_before_anything_is_sent(schema, options, kind, said, wire, make):
    with pytest.raises(kind, match=said):
        make(schema=schema).acquire("api", **{"permits": 2, **options})
    assert not wire.requests


@pytest.mark.parametrize("options", [{"permits": 0}, {"permits": 2, "lease_duration": 31_622_401}], ids=str)
def test_what_a_semaphore_cannot_do_is_refused_when_decorating(options):
    with pytest.raises(LockArgumentError, match=r"(permits=0|lease_duration=31622401) is out of range"):
        with_lock("api", **options)(lambda event, context: None)


def test_what_a_held_permit_cannot_do_is_refused_and_it_stays_held(wire, wired):
    lock = wired.acquire("api", permits=2)
    wire.clear()
    with pytest.raises(LockArgumentError, match=r"release\(delete=True\) is not possible for a permit"):
        lock.release(delete=True)
    with pytest.raises(LockArgumentError, match="lease_duration=31622401 is out of range"):
        lock.heartbeat(lease_duration=31_622_401)
    assert wire.operations == []
    assert lock.is_held
    assert lock.release()


@pytest.mark.parametrize("name", ["permits", "permitTokens"])
def test_the_names_of_the_maps_are_the_lock_s_own(name, make):
    with pytest.raises(LockArgumentError, match=f"attributes: '{name}' belongs to the lock itself"):
        make().acquire("a", attributes={name: 1})
    with make(schema=GO).acquire("api", permits=1) as lock:
        assert lock.attributes == {}


def put(table: str, key: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": {"key": {"S": key}}, **more}}


def test_a_commit_writes_and_releases_the_own_permit(client, rows, table):
    one, other = (client.acquire("api", permits=2) for _ in range(2))
    one.commit([put(table, "order#7")])
    assert rows.get("order#7") is not None
    assert list(rows["api"]["permits"]["M"]) == [other.owner.rpartition("#")[2]]


def test_a_refused_commit_is_told_though_the_reply_of_the_release_was_lost(wire, wired, rows, table):
    rows.put("taken")
    lock = wired.acquire("api", permits=2)
    only_new = {"ConditionExpression": "attribute_not_exists(#k)", "ExpressionAttributeNames": {"#k": "key"}}
    wire.drop_reply("UpdateItem")
    with pytest.raises(CommitRefusedError) as caught:
        lock.commit([put(table, "taken", **only_new)])
    assert caught.value.reasons == ("ConditionalCheckFailed",)
    assert rows["api"]["permits"] == {"M": {}}


@pytest.mark.parametrize("act", ["commit", "heartbeat"])
def test_a_holder_whose_entry_is_gone_hears_of_it_writes_nothing_and_releases_nothing(act, client, rows, table):
    lock = client.acquire("api", permits=1)
    rows.change("api", permits={"M": {}}, permitTokens={"M": {}})
    with pytest.raises(LockLostError):
        lock.commit([put(table, "order#7")]) if act == "commit" else lock.heartbeat()
    assert rows.get("order#7") is None
    assert lock.lost
    if act == "heartbeat":
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
