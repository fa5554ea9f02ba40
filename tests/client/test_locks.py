"""Taking locks, what is stored with them, and giving them back."""

import os
import time
from decimal import Decimal

import pytest

from lambda_lock import GO, PYTHON, LockClient
from lambda_lock.errors import LockAlreadyReleasedError, LockNotGrantedError, LockTimeoutError
from tests.support.clocks import LeapingClock
from tests.support.faults import held_up


def test_an_uncontended_lock_costs_one_request_to_acquire_and_one_to_release(wire, wired):
    for number in range(2):  # the second time the row is there
        lock = wired.acquire("a", wait=60)
        assert wire.operations == ["UpdateItem"] * (2 * number + 1)
        assert lock.release() is True
        assert wire.operations == ["UpdateItem"] * (2 * number + 2)
    assert [request.delivered for request in wire.requests] == [1] * 4


def test_a_new_client_sends_nothing_before_its_first_lock(wire, wired):
    assert wired.held() == ()
    assert wire.operations == []


def test_a_held_lock_is_refused_to_others_in_one_request(wire, wired, make):
    held = wired.acquire("a")
    wire.clear()
    with pytest.raises(LockNotGrantedError) as caught:
        make().acquire("a", wait=0)
    assert wire.operations == ["UpdateItem"]
    assert (caught.value.key, caught.value.holder) == ("a", held.owner)
    assert held.owner in str(caught.value)
    assert caught.value.retry_after is not None
    assert 15 < caught.value.retry_after <= 22
    assert not isinstance(caught.value, LockTimeoutError)


def test_a_wait_that_runs_out_names_the_holder_and_how_long_it_waited(client, make):
    held = client.acquire("a")
    with pytest.raises(LockTimeoutError) as caught:
        make(clock=LeapingClock()).acquire("a", wait=10, refresh_period=1)
    assert caught.value.holder == held.owner
    assert 9.9 <= caught.value.waited < 60  # it is measured from the first request on


def test_who_waits_gets_the_lock_once_it_is_released(wire, wired, make, rows):
    held = make(endpoint_url=rows.engine.url).acquire("a")
    polled = wire.delay_reply("GetItem")  # it has been refused
    with held_up(polled, lambda: wired.acquire("a", wait=20, refresh_period=0.05)) as result:
        held.release()
    lock = result()
    assert lock.is_held
    assert rows["a"]["ownerName"]["S"] == lock.owner


def test_try_acquire_gives_none_for_contention_only(client, make):
    with client.acquire("a"):
        assert make().try_acquire("a") is None
        assert make().try_acquire("a", wait=0.1) is None
    assert make().try_acquire("a").is_held


def test_the_handle_says_what_it_holds(client, rows):
    lock = client.acquire("a", lease_duration=30, data=b"x")
    item = rows["a"]
    assert (lock.key, lock.sort_key, lock.data, lock.lease_duration) == ("a", None, b"x", 30.0)
    assert (lock.owner, lock.version) == (item["ownerName"]["S"], item["recordVersionNumber"]["S"])
    assert str(lock.fencing_token) == item["fencingToken"]["N"]
    assert (lock.is_held, lock.is_expired, lock.lost) == (True, False, False)
    assert 20 < lock.remaining <= 30
    lock.raise_if_lost()
    assert "'a' held for" in repr(lock)
    lock.release()
    assert (lock.is_held, lock.is_expired, lock.remaining) == (False, True, 0)
    assert "released" in repr(lock)


def test_get_reads_without_taking(wire, wired):
    assert wired.get("a") is None
    lock = wired.acquire("a", data=b"x", attributes={"colour": "red"})
    wire.clear()
    record = wired.get("a")
    assert wire.operations == ["GetItem"]
    assert wire.requests[0].body["ConsistentRead"] is True
    assert (record.key, record.owner, record.version) == ("a", lock.owner, lock.version)
    assert (record.data, record.attributes) == (b"x", {"colour": "red"})
    assert (record.fencing_token, record.lease_duration) == (lock.fencing_token, 20.0)
    assert (record.is_released, record.is_expired) == (False, False)
    assert 15 < record.expires_at - record.read_at < 25
    lock.release(data=b"last")
    record = wired.get("a")
    assert wire.requests[-1].body["ConsistentRead"] is True
    assert (record.data, record.attributes) == (b"last", {"colour": "red"})
    assert (record.owner, record.fencing_token) == (lock.owner, lock.fencing_token)
    assert (record.is_released, record.is_expired) == (True, False)


def test_get_says_that_a_dead_holders_lease_is_over(client, rows):
    rows.put_held("a", expires_at=time.time() - 5)
    record = client.get("a")
    assert (record.is_expired, record.is_released) == (True, False)


def test_held_lists_what_is_held_now(client):
    first, second = client.acquire("a"), client.acquire("b")
    assert set(client.held()) == {first, second}
    first.release()
    assert client.held() == (second,)


# What is stored


def test_data_comes_back_to_the_next_holder_and_to_readers(client):
    every_byte = bytes(range(256))
    client.acquire("a", data=every_byte).release()
    assert client.acquire("a").data == client.get("a").data == every_byte


def test_no_data_leaves_what_is_stored_and_empty_data_empties_it(client):
    client.acquire("a", data=b"x").release()
    with client.acquire("a") as lock:
        assert lock.data == b"x"
    with client.acquire("a", data=b"") as lock:
        assert lock.data == b""
    with client.acquire("a") as lock:
        assert lock.data == b""


def test_without_replace_data_only_a_row_without_data_gets_some(client):
    with client.acquire("a", data=b"first", replace_data=False) as lock:
        assert lock.data == b"first"
    with client.acquire("a", data=b"second", replace_data=False) as lock:
        assert lock.data == b"first"
    with client.acquire("a", data=b"third") as lock:
        assert lock.data == b"third"


def test_release_and_heartbeat_can_store_data(client, rows):
    lock = client.acquire("a", data=b"x", attributes={"colour": "red"})
    lock.heartbeat(data=b"y")
    assert (lock.data, rows["a"]["data"]) == (b"y", {"B": "eQ=="})
    for _ in range(2):  # the second time there is none: as well
        lock.heartbeat(delete_data=True)
        assert lock.data is None
        assert "data" not in rows["a"]
    assert rows["a"]["colour"] == {"S": "red"}
    lock.heartbeat(data=b"w")
    assert (lock.data, rows["a"]["data"]) == (b"w", {"B": "dw=="})
    lock.release(data=b"z")
    assert rows["a"]["data"] == {"B": "eg=="}
    assert rows["a"]["isReleased"] == {"S": "1"}


def test_attributes_come_back_as_the_python_values_they_were(client, rows):
    values = {
        "text": "ünï",
        "whole": -12,
        "large": 10**30,
        "decimal": Decimal("1.25"),
        "yes": True,
        "nothing": None,
        "bytes": b"\x00\xff",
        "list": [1, "a", [True, None]],
        "map": {"in": {"ner": 1}},
        "words": {"a", "b"},
        "numbers": {1, 2},
        "blobs": {b"a", b"b"},
        "size": "a reserved word of DynamoDB",
        "with.dot and space": "any name will do",
    }
    lock = client.acquire("a", attributes=values)
    assert lock.attributes == client.get("a").attributes == values
    assert rows["a"]["yes"] == {"BOOL": True}
    lock.release()
    assert client.acquire("a").attributes == values  # the row is kept, and so are they


def test_attributes_of_the_next_holder_go_beside_the_ones_there(client):
    client.acquire("a", attributes={"one": 1, "two": 2}).release()
    assert client.acquire("a", attributes={"two": 3}).attributes == {"one": 1, "two": 3}


def test_owners_begin_with_the_prefix_given_and_are_never_the_same(make):
    client = make(owner_prefix="billing")
    owners = []
    for _ in range(3):
        with client.acquire("a") as lock:
            owners.append(lock.owner)
    assert all(owner.startswith("billing#") for owner in owners)
    assert len(set(owners)) == 3


def test_owners_name_host_and_process_where_no_prefix_is_given(client):
    assert client.acquire("a").owner.startswith(f"{os.uname().nodename}/{os.getpid()}#")


def test_the_row_says_the_lease_that_was_asked_for(make, rows):
    client = make(lease_duration=7)
    assert client.acquire("a").lease_duration == 7.0
    assert rows["a"]["leaseDuration"] == {"S": "7000"}
    lock = client.acquire("b", lease_duration=12.5)
    item = rows["b"]
    assert lock.lease_duration == 12.5
    assert item["leaseDuration"] == {"S": "12500"}
    assert abs(rows.expiry("b") - (time.time() + 14.5)) < 10
    # What the older clients read, and what else there is
    assert set(item) == {"key", "ownerName", "leaseDuration", "recordVersionNumber", "fencingToken", "ttl"}
    assert len(item["recordVersionNumber"]["S"]) == 49
    lock.release()
    assert rows["b"] == item | {"isReleased": {"S": "1"}, "heldMs": rows["b"]["heldMs"]}
    client.acquire("b")
    assert "isReleased" not in rows["b"]


def test_heartbeat_can_change_the_lease(client, rows):
    lock = client.acquire("a")
    lock.heartbeat(lease_duration=60)
    assert lock.lease_duration == 60
    assert 50 < lock.remaining <= 60
    assert rows["a"]["leaseDuration"] == {"S": "60000"}
    lock.heartbeat(lease_duration=10)
    assert 5 < lock.remaining <= 10


@pytest.mark.parametrize(("settings", "seconds"), [({"ttl": 100}, 100), ({}, 86_400)], ids=["", "by default"])
def test_a_row_is_kept_for_its_ttl_after_its_expiry(settings, seconds, make, rows):
    def is_kept() -> bool:
        return 0 <= int(rows["a"]["ttl"]["N"]) - (rows.expiry("a") + seconds) <= 1

    lock = make(**settings).acquire("a")
    assert is_kept()
    lock.heartbeat(lease_duration=300)
    assert is_kept()
    lock.release()
    assert is_kept()


def test_without_ttl_none_is_written_and_an_old_one_goes(make, rows):
    make().acquire("a").release()
    assert "ttl" in rows["a"]
    lock = make(ttl=None).acquire("a")
    for act in (lock.heartbeat, lock.release):
        assert "ttl" not in rows["a"]
        act()
    assert "ttl" not in rows["a"]


# Tables with a sort key, other schemas, other key names


def test_a_sort_key_makes_locks_of_one_key_independent(make, new_table):
    name = new_table("key", "part")
    client, other = (make(name, sort_key_name="part") for _ in range(2))
    lock = client.acquire("a", sort_key="one")
    assert lock.sort_key == "one"
    assert other.try_acquire("a", sort_key="one") is None
    second = other.try_acquire("a", sort_key="two")
    record = client.get("a", sort_key="two")
    assert (record.sort_key, record.owner, record.attributes) == ("two", second.owner, {})
    assert lock.release() is True


def test_key_names_come_from_arguments_or_the_environment(engine, make, new_table, monkeypatch):
    name = new_table("pk", "sk")
    with make(name, partition_key_name="pk", sort_key_name="sk").acquire("a", sort_key="s"):
        assert [(item["pk"], item["sk"]) for item in engine.scan(name)] == [({"S": "a"}, {"S": "s"})]
    for variable, value in (("TABLE", name), ("PARTITION_KEY", "pk"), ("SORT_KEY", "sk")):
        monkeypatch.setenv(f"LAMBDA_LOCK_{variable}", value)
    assert make().acquire("a", sort_key="s").release() is True


def test_the_go_schema_writes_go_durations(make, rows):
    client = make(schema=GO)
    with client.acquire("a", lease_duration=20):
        assert rows["a"]["leaseDuration"] == {"S": "20s"}
        assert make(schema=GO).try_acquire("a") is None
    assert rows["a"]["isReleased"] == {"S": "1"}


def test_the_python_schema_deletes_its_rows(engine, make, new_table):
    name = new_table("lock_key", "sort_key")
    lock = make(name, schema=PYTHON).acquire("a", lease_duration=20.5)
    (item,) = engine.scan(name)
    assert (item["sort_key"], item["lease_duration"]) == ({"S": "-"}, {"N": "20"})
    assert lock.lease_duration == 20.0
    assert "expiry_time" in item
    assert lock.release() is True
    assert engine.scan(name) == []


# Rows that come and go, tokens


def test_fencing_tokens_rise_over_releases(client, make):
    tokens = []
    for taker in (client, make(), client):
        with taker.acquire("a") as lock:
            tokens.append(lock.fencing_token)
    assert tokens == [tokens[0], tokens[0] + 1, tokens[0] + 2]
    assert abs(tokens[0] / 1000 - time.time()) < 60  # a new row's tokens begin with the time


def test_fencing_tokens_rise_over_a_take_over(client, rows):
    rows.put_held("a", expires_at=time.time() - 5)
    assert client.acquire("a", wait=0).fencing_token == 8


def test_delete_on_release_leaves_no_row(client, rows):
    lock = client.acquire("a", delete_on_release=True)
    assert rows.is_held("a")
    assert lock.release() is True
    assert rows.get("a") is None


def test_one_clients_fencing_tokens_rise_also_where_each_release_deletes_the_row(client):
    tokens = []
    for _ in range(20):
        with client.acquire("a", delete_on_release=True) as lock:
            tokens.append(lock.fencing_token)
    assert tokens == sorted(set(tokens))


def test_release_can_decide_whether_the_row_goes(client, rows):
    assert client.acquire("a").release(delete=True) is True
    assert rows.get("a") is None
    assert client.acquire("a", delete_on_release=True).release(delete=False) is True
    assert rows["a"]["isReleased"] == {"S": "1"}


def test_only_if_exists_takes_no_lock_without_a_row(client, rows):
    with pytest.raises(LockNotGrantedError) as caught:
        client.acquire("a", only_if_exists=True, wait=0)
    assert caught.value.holder is None
    assert rows.get("a") is None
    rows.put("a")
    for _ in range(2):
        client.acquire("a", only_if_exists=True, wait=0).release()


# Context managers


def test_leaving_the_lock_releases_it_also_on_an_error(client, rows):
    lock = client.acquire("a")
    assert rows.is_held("a")
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    assert not rows.is_held("a")
    with client.acquire("a") as lock:
        lock.release()  # leaving it then is no error


def test_leaving_the_client_releases_what_it_holds(wire, table, rows):
    with LockClient() as client:
        locks = [client.acquire("a"), client.acquire("b", delete_on_release=True)]
    assert not rows.is_held("a")
    assert rows.get("b") is None
    assert not any(lock.is_held for lock in locks)
    wire.clear()
    client.close()  # a second time: nothing
    client.close(release=False)
    assert wire.operations == []


def test_closing_without_release_leaves_the_rows_to_their_lease(wire, wired, rows):
    locks = [wired.acquire(key, lease_duration=3) for key in ("a", "b")]
    wired.close(release=False)
    wire.clear()
    assert [lock.__held__.renewer.tick() for lock in locks] == [None, None]
    assert wire.operations == []
    assert all(rows.is_held(lock.key) for lock in locks)
    assert not any(lock.is_held or lock.lost for lock in locks)
    with pytest.raises(LockAlreadyReleasedError):
        locks[0].release()
