"""Another client and ours share a table. Only one holds a lock at a time, and when it ends, the other can have it."""

import time
from typing import Any

import pytest

from lambda_lock import Lock, LockClient, LockNotGrantedError, LockTimeoutError
from tests.support.waiting import DEADLINE

from .conftest import LEASE, REFRESH
from .peers import JAVA_CLIENT, KINDS, PYTHON_CLIENT, Peer
from .talk import REFUSALS

pytestmark = pytest.mark.long

TRY: dict[str, Any] = {"wait": 0, "refresh": REFRESH}
WAIT: dict[str, Any] = {"wait": DEADLINE, "refresh": REFRESH}
KEEPERS = [kind for kind in KINDS if kind.keeps_rows]


def take(peer: Peer, key: str = "k", **options: Any) -> dict[str, Any]:
    """Let a peer acquire a lock that is free."""
    answer = peer.ask("acquire", key=key, **{**TRY, **options})
    assert answer.get("granted"), answer
    return answer


def try_until_granted(client: LockClient, key: str) -> Lock:
    """Try again until the lock is granted, as repeated invocations do. Each try is one decision."""
    end = time.monotonic() + DEADLINE
    while (lock := client.try_acquire(key)) is None:
        assert time.monotonic() < end, "the lock is never granted"
        time.sleep(0.05)
    return lock


# -- only one holds the lock ------------------------------------------------------------------------------------------


def test_while_it_holds_and_renews_we_are_refused_for_longer_than_a_lease(client, peer, rows):
    take(peer)
    with pytest.raises(LockNotGrantedError) as refused:
        client.acquire("k", wait=0)
    assert refused.value.holder == rows.owner("k")
    with pytest.raises(LockTimeoutError) as timed_out:
        client.acquire("k", wait=1.6 * LEASE)
    assert timed_out.value.holder == rows.owner("k")
    assert client.try_acquire("k") is None
    assert peer.ask("release", key="k") == {"released": True}


def test_while_we_hold_and_renew_it_is_refused_for_longer_than_a_lease(client, peer):
    with client.acquire("k") as lock:
        assert peer.ask("acquire", key="k", **TRY)["error"] in REFUSALS
        assert peer.ask("acquire", key="k", wait=0.6 * LEASE, refresh=REFRESH)["error"] in REFUSALS
        lock.raise_if_lost()
    take(peer)


def test_a_wait_ends_when_the_other_releases(client, peer):
    take(peer)
    assert client.try_acquire("k") is None
    peer.tell("release", key="k")
    lock = client.acquire("k", wait=DEADLINE)
    assert peer.answer() == {"released": True}
    peer.tell("acquire", key="k", **WAIT)
    assert lock.release() is True
    assert peer.answer().get("granted")


# -- when the holder dies, the other takes over, but not before the lease is over -------------------------------------


@pytest.mark.parametrize(
    "acquire",
    [
        lambda client: client.acquire("k", wait=DEADLINE),
        lambda client: try_until_granted(client, "k"),
        lambda client: client.acquire_all(["a", "k"], wait=DEADLINE),
    ],
    ids=["waiting", "failing fast", "with another key"],
)
def test_when_it_is_killed_we_take_over_but_not_before_its_lease_is_over(client, peer, rows, acquire):
    take(peer)
    renewed = rows.after_a_renewal("k")
    peer.kill()
    lock = acquire(client)
    assert time.monotonic() - renewed >= LEASE
    assert lock.is_held
    for key in getattr(lock, "keys", ["k"]):
        assert rows.owner(key) == lock.owner
    assert lock.release() is True


def test_when_we_are_killed_it_takes_over_but_not_before_our_lease_is_over(our_peer, peer, rows):
    take(our_peer)
    owner = rows.owner("k")
    renewed = rows.after_a_renewal("k")
    peer.tell("acquire", key="k", **WAIT)
    our_peer.kill()
    assert peer.answer().get("granted")
    assert time.monotonic() - renewed >= LEASE
    assert rows.owner("k") != owner
    assert peer.ask("release", key="k") == {"released": True}


def test_a_holder_of_its_kind_that_was_paused_and_robbed_does_us_no_harm(client, peer):
    take(peer)
    peer.pause()
    lock = client.acquire("k", wait=DEADLINE)
    peer.resume()
    assert peer.ask("release", key="k") == {"released": False}
    lock.heartbeat()
    assert lock.release() is True


def test_a_holder_of_ours_that_was_paused_and_robbed_knows_it_and_does_it_no_harm(our_peer, peer, rows):
    take(our_peer)
    our_peer.pause()
    take(peer, **WAIT)
    owner = rows.owner("k")
    our_peer.resume()
    assert our_peer.ask("fresh", key="k") == {"fresh": False}
    assert our_peer.ask("release", key="k") == {"released": False}
    assert rows.owner("k") == owner
    assert peer.ask("release", key="k") == {"released": True}


# -- each reads the rows that the other leaves ------------------------------------------------------------------------


def test_a_row_that_was_released_and_kept_or_deleted_is_acquired_by_the_other(client, peer, rows, kind):
    def left() -> bool:
        row = rows.get("k")
        assert row is None or row["isReleased"] == {"S": "1"}
        return row is not None

    for keep in (True, True, False, False) if kind.keeps_rows else (False, False):
        take(peer, keep=keep)
        assert peer.ask("release", key="k") == {"released": True}
        assert left() == keep
        how = {"delete": not keep} if kind.keeps_rows else {}
        assert client.acquire("k", wait=0).release(**how) is True
        assert left() == keep


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("kind", KEEPERS, ids=str, indirect=True)
def test_a_semaphore_is_refused_by_the_other_and_left_as_it_is(held, client, peer, rows):
    lock = client.acquire("k", permits=2)
    if not held:
        lock.release()
    before = {name: value for name, value in rows["k"].items() if name != "permits"}  # renewed meanwhile
    for wait in (0, 2 * LEASE):
        answer = peer.ask("acquire", key="k", wait=wait, refresh=REFRESH)
        assert "error" in answer, answer
        assert not answer.get("granted"), answer
    assert {name: value for name, value in rows["k"].items() if name != "permits"} == before
    assert lock.is_held is held
    with client.acquire("k", permits=2, wait=0):
        assert len(rows["k"]["permits"]["M"]) == 1 + held
    if held:
        lock.release()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.stores_data], ids=str, indirect=True)
def test_data_written_by_one_is_read_by_the_other(client, peer):
    take(peer, keep=True, data="theirs")
    record = client.get("k")
    assert record is not None
    assert record.data == b"theirs"
    assert peer.ask("release", key="k", data="theirs at the end") == {"released": True}
    lock = client.acquire("k", wait=0)
    assert lock.data == b"theirs at the end"
    lock.heartbeat(data=b"ours")
    assert peer.ask("read", key="k")["data"] == "ours"
    lock.release(data=b"ours at the end")
    assert peer.ask("read", key="k")["data"] == "ours at the end"


def test_who_holds_it_is_read_by_the_other(client, peer, kind):
    take(peer)
    record = client.get("k")
    assert record is not None
    assert not record.is_released
    assert record.lease_duration == LEASE
    assert record.expires_at is None  # only our rows have an expiry
    assert record.owner == peer.ask("read", key="k")["owner"]
    peer.ask("release", key="k")
    with client.acquire("k", wait=0) as lock:
        read = peer.ask("read", key="k")
        assert (read["owner"], read["version"], read["lease"]) == (lock.owner, lock.version, LEASE)
        assert kind.schema.token in read["others"]


def test_attributes_of_its_application_are_read_by_us_and_outlive_our_take_over(client, peer):
    take(peer, attributes={"colour": "green"})
    record = client.get("k")
    assert record is not None
    assert record.attributes == {"colour": "green"}
    peer.kill()
    with client.acquire("k", wait=DEADLINE, attributes={"shape": "round"}) as lock:
        assert lock.attributes == {"colour": "green", "shape": "round"}


def test_attributes_of_our_application_and_what_older_rows_of_ours_carry_do_no_harm_to_it(
    kind, shared, make, peer, rows
):
    """Rows from before the table was shared have a ttl and a fencing token."""
    before = make(shared, kind.schema, ttl=86_400)
    with before.acquire("k", wait=0, attributes={"team": "blue", "weight": 3, "tags": ["a", "b"]}):
        assert {"tags", "team", "weight"} <= set(peer.ask("read", key="k")["others"].split(","))
    take(peer)
    assert before.try_acquire("k") is None
    rows.after_a_renewal("k")
    assert peer.ask("release", key="k") == {"released": True}
    assert before.acquire("k", wait=0).release() is True


@pytest.mark.parametrize(
    ("kind", "sort_key", "error"),
    [(JAVA_CLIENT, {"sort_key": "2"}, "LockCurrentlyUnavailableException"), (PYTHON_CLIENT, {}, "ACQUIRE_TIMEOUT")],
    ids=str, indirect=["kind"],
)  # fmt: skip
def test_locks_with_a_sort_key_are_shared_one_by_one(kind, sort_key, error, make_table, make, start):
    """The Python client always has one, which is "-" unless the application names another."""
    table = make_table(kind.schema, sort_key="part")
    peer = start(kind, table, sort_key_name="part")
    client = make(table, kind.schema, sort_key_name="part")
    take(peer, sort_key="1")
    assert client.try_acquire("k", sort_key="1") is None
    with client.acquire("k", wait=0, **sort_key):
        assert peer.ask("acquire", key="k", **sort_key, **TRY)["error"] == error
    assert peer.ask("read", key="k", **sort_key).get("data") is None
    take(peer, **sort_key)


# -- several keys at once, one of which it wants too ------------------------------------------------------------------


def test_while_it_holds_one_of_several_keys_we_get_none_of_them_and_leave_it_the_others(client, peer, rows):
    take(peer, "b")
    with pytest.raises(LockNotGrantedError) as refused:
        client.acquire_all(["c", "b", "a"], wait=0)
    assert (refused.value.key, refused.value.holder) == ("b", rows.owner("b"))
    take(peer, "a")
    assert client.try_acquire_all(["a", "b"]) is None
    for key in ("a", "b"):
        assert peer.ask("release", key=key) == {"released": True}
    with client.acquire_all(["a", "b", "c"], wait=0) as locks:
        for key in locks.keys:
            assert peer.ask("acquire", key=key, **TRY)["error"] in REFUSALS
        locks.heartbeat()
    take(peer, "b")
