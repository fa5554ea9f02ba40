"""Only the Java client updates rows in place, supports sort keys of the application, and lists a table."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lambda_lock import JAVA
from tests.support.waiting import DEADLINE, wait_until

from .conftest import LEASE, REFRESH
from .peers import JAVA_CLIENT
from .test_sharing import TRY, take

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kind", [JAVA_CLIENT], ids=str, indirect=True)]


@pytest.mark.parametrize("update", [True, False])  # withUpdateExistingLockRecord(true) keeps unknown attributes
def test_a_row_that_it_updates_keeps_our_columns_one_that_it_replaces_does_not_and_our_claim_works(
    update, client, peer, rows
):
    lock = client.acquire("k", attributes={"team": "blue"})
    assert lock.release() is True
    take(peer, update=update, keep=True)
    if update:
        assert rows["k"]["team"] == {"S": "blue"}
        assert rows["k"]["fencingToken"] == {"N": str(lock.fencing_token)}
    else:
        assert set(rows["k"]) == {"key", "ownerName", "leaseDuration", "recordVersionNumber"}
    assert client.try_acquire("k") is None
    assert peer.ask("release", key="k") == {"released": True}
    with client.acquire("k", wait=0) as again:
        assert again.attributes == ({"team": "blue"} if update else {})
        assert again.fencing_token == lock.fencing_token + 1 if update else again.fencing_token > 0


def test_a_dead_lock_of_ours_that_it_took_over_in_place_is_held_by_it_alone(client, make, shared, peer, rows):
    """Our expiry, which has passed, was in the version that the client replaced. So we do not take its lock over."""
    dead = make(shared, JAVA, heartbeat_period=0).acquire("k", lease_duration=1)
    take(peer, wait=DEADLINE, update=True)
    assert rows["k"]["fencingToken"] == {"N": str(dead.fencing_token)}
    rows.after_a_renewal("k")
    assert client.try_acquire("k") is None
    assert dead.lost
    assert peer.ask("release", key="k") == {"released": True}


def test_a_ttl_of_ours_stays_on_a_row_that_it_updates_so_none_is_written_where_a_table_is_shared(
    client, shared, make, peer, rows
):
    """DynamoDB would delete its live lock at that time. With ttl=None, our next claim removes the ttl."""
    make(shared, JAVA, ttl=86_400).acquire("k").release()
    stale = rows["k"]["ttl"]
    take(peer, update=True, keep=True)
    rows.after_a_renewal("k")
    assert rows["k"]["ttl"] == stale
    peer.ask("release", key="k")
    client.acquire("k", wait=0).release()
    take(peer, update=True)
    assert "ttl" not in rows["k"]


def test_our_waiters_are_served_in_order_behind_it_and_again_after_it_dropped_their_tickets(shared, make, peer, rows):
    take(peer, keep=True)
    order: list[int] = []

    def wait(number: int) -> None:
        with make(shared, JAVA).acquire("k", wait=DEADLINE):
            order.append(number)

    def places() -> int:
        return len(rows["k"].get("waiters", {"L": []})["L"])

    with ThreadPoolExecutor(2) as pool:
        waiting = []
        for number in range(2):
            waiting.append(pool.submit(wait, number))
            wait_until(lambda: places() == len(waiting))
        rows.remove("k", "waiters")  # as its claims do
        wait_until(lambda: places() == 2)
        assert peer.ask("release", key="k") == {"released": True}
        for future in waiting:
            future.result(DEADLINE)
    assert sorted(order) == [0, 1]
    assert places() == 0


def test_the_java_clients_fail_fast_call_takes_a_dead_lock_of_ours_once_it_has_seen_it_for_a_lease(
    our_peer, peer, rows
):
    take(our_peer)
    renewed = rows.after_a_renewal("k")
    our_peer.kill()
    while not peer.ask("acquire", key="k", **TRY).get("granted"):
        assert time.monotonic() - renewed < DEADLINE
        time.sleep(0.05)
    assert time.monotonic() - renewed >= LEASE


def test_the_java_clients_scan_of_all_locks_reads_our_rows_held_and_released(client, peer, engine, shared):
    client.acquire("released").release()
    with client.acquire("held", data=b"x", attributes={"n": 1}):
        take(peer, refresh=REFRESH)
        assert peer.ask("list") == {"count": 3}
        assert len(engine.scan(shared)) == 3
