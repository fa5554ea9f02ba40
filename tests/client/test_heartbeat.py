"""Renewal in the background, and what the application is told."""

import gc
import logging
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import Lock
from lambda_lock.errors import LockLostError
from lambda_lock.runtime.heartbeat import HEARTBEAT
from rig.wire import Wire
from tests.support.elsewhere import ran
from tests.support.rows import Rows
from tests.support.waiting import wait_until


class Told:
    """A callback that remembers: when it was called, with what, and on which thread."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.locks: list[Lock] = []
        self.threads: list[str] = []

    def __call__(self, lock: Lock) -> None:
        self.locks.append(lock)
        self.threads.append(threading.current_thread().name)
        self.called.set()


def outlast(seconds: float, rows: Rows, key: str = "a") -> None:
    """Wait until the lock has been renewed after so many seconds. (Stored expiries may jump by a second at a Date.)"""
    time.sleep(seconds)
    version = rows.version(key)
    wait_until(lambda: rows.version(key) != version)


def is_silent(wire: Wire, seconds: float) -> bool:
    """Whether nothing is sent for so many seconds, which should be several periods. Disarms all faults."""
    wire.clear()
    time.sleep(seconds)
    return wire.operations == []


def threads(kind: str) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == f"lambda_lock-{kind}"}


def test_a_lock_is_kept_over_several_leases(make, rows):
    lock = make().acquire("a", lease_duration=2.5)
    first = rows.expiry("a")
    other = make()
    while rows.expiry("a") < first + 5:
        lock.raise_if_lost()
        assert other.try_acquire("a") is None
        time.sleep(0.05)
    assert lock.release() is True


def test_a_period_of_the_users_is_kept(wire, make):
    lock = make(heartbeat_period=0.2, lease_duration=20).acquire("a")
    wait_until(lambda: wire.count("UpdateItem") >= 4)
    assert lock.remaining > 19


def test_renewals_keep_data_attributes_and_token(make, rows):
    lock = make(heartbeat_period=0.1).acquire("a", data=b"x", attributes={"colour": "red"})
    before = rows["a"]
    wait_until(lambda: rows.version("a") != before["recordVersionNumber"]["S"])
    after = rows["a"]
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"recordVersionNumber", "ttl"}
    assert set(before) == set(after)
    assert lock.version >= after["recordVersionNumber"]["S"]


def test_without_heartbeat_nothing_is_renewed(wire, make):
    lock = make(heartbeat_period=0).acquire("a", lease_duration=1)
    assert lock.wait_lost(10)
    assert wire.operations == ["UpdateItem"]


@pytest.mark.long
@pytest.mark.plain
def test_one_thread_renews_hundreds_of_locks(make, rows, wire):
    client = make(lease_duration=6, heartbeat_period=1.5, endpoint_url=rows.engine.url)
    locks = [client.acquire(f"a{number}") for number in range(300)]
    before = threads("renewal")
    for _ in range(3):  # renewals of each
        versions = {lock.key: lock.version for lock in locks}
        wait_until(lambda: all(lock.version != versions[lock.key] for lock in locks))  # noqa: B023
        assert all(lock.is_held for lock in locks)
        assert len(threads("heartbeat")) == 1
        assert 1 <= len(threads("renewal") - before) <= 8
    assert wire.count() == 0
    for lock in locks:
        assert lock.release() is True


SCRIPT = """
import threading
from lambda_lock import LockClient

def threads():
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]

client = LockClient(heartbeat_period=0)
with client.acquire("a"):
    assert threads() == [], threads()
client = LockClient()
assert threads() == []
with client.acquire("b"):
    assert threads() == ["lambda_lock-heartbeat"], threads()
with client.acquire("c"), client.acquire("d"):
    assert threads() == ["lambda_lock-heartbeat"], threads()
client.acquire("e")
print("ended")
"""


def test_the_thread_starts_with_the_first_lock_that_needs_it_and_does_not_keep_the_process(table):
    assert ran(SCRIPT) == "ended\n"


def switches(thread: threading.Thread) -> int:
    """How often a thread has gone to sleep so far."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("voluntary_ctxt_switches")).split()[1])


def test_after_the_release_nothing_is_sent_and_the_thread_sleeps(wire, make):
    lock = make(heartbeat_period=0.1).acquire("a", lease_duration=1)
    wait_until(lambda: wire.count() >= 3)  # it renews
    lock.release()
    gc.collect()  # what earlier tests left behind
    (thread,) = threads("heartbeat")

    def sleeps() -> bool:
        before = switches(thread)
        return is_silent(wire, 1.3) and switches(thread) == before  # longer than a look, and than a lease

    wait_until(sleeps)  # a renewal may have been on its way, and a plan of another test's may be due once more


def forget(locks: list[Lock]) -> None:
    """Drop the handle of a lock. What renews it must go with it."""
    gone = weakref.ref(locks[0].__held__.renewer)
    with pytest.warns(ResourceWarning, match="'a' was dropped"):  # noqa: PT031 - in whichever step it is collected
        locks.clear()
        wait_until(lambda: gc.collect() >= 0 and gone() is None)  # a tick may have had it in hand


def test_a_forgotten_lock_is_not_renewed_for_ever(wire, make, rows):
    client = make(heartbeat_period=0.1, keeping=False)
    locks = [client.acquire("a")]
    wait_until(lambda: wire.count() >= 3)
    forget(locks)
    assert is_silent(wire, 0.4)
    assert rows.is_held("a")  # until its stored expiry
    assert client.held() == ()


def test_a_lock_that_was_renewed_by_hand_and_is_not_kept_is_forgotten(make):
    locks = [make(heartbeat_period=0.6, keeping=False).acquire("a")]
    time.sleep(0.2)
    locks[0].heartbeat()  # the first entry in the plan is stale now
    wait_until(lambda: sum(entry[2]() is locks[0].__held__.renewer for entry in HEARTBEAT._due) == 1)
    forget(locks)


def test_renewals_go_on_through_an_outage_shorter_than_the_validity(wire, make):
    lock = make(heartbeat_period=0.2).acquire("a", lease_duration=3)
    wire.unavailable("UpdateItem", times=3)
    wait_until(lambda: wire.count() >= 5)
    wait_until(lambda: lock.remaining > 2.5)
    lock.raise_if_lost()


def test_an_outage_longer_than_the_validity_loses_the_lock_at_its_end(wire, make):
    lost = Told()
    lock = make(heartbeat_period=0.1).acquire("a", lease_duration=1, on_lost=lost)
    wire.unavailable("UpdateItem", times=float("inf"))
    assert lost.called.wait(10)
    assert not lock.is_held
    assert lock.lost
    wait_until(lambda: is_silent(wire, 0.3))  # lost is final; one may have been on its way
    assert not lock.is_held


# What the application is told


def test_danger_is_told_once_on_a_thread_of_its_own_and_lost_after_it(make):
    danger, lost = Told(), Told()
    lock = make(heartbeat_period=0).acquire("a", lease_duration=1, safe_time=0.6, on_danger=danger, on_lost=lost)
    assert danger.called.wait(10)
    assert not lost.locks or lock.lost
    assert lost.called.wait(10)
    assert lock.lost
    for told in (danger, lost):
        assert told.locks == [lock]
        assert told.threads == ["lambda_lock-callback"]
    with pytest.raises(LockLostError):
        lock.raise_if_lost()


def test_a_client_can_have_a_safe_time_for_all_its_locks(make):
    danger = Told()
    lock = make(heartbeat_period=0, lease_duration=1, safe_time=0.8).acquire("a", on_danger=danger)
    assert danger.called.wait(10)
    assert danger.locks == [lock]


def test_neither_danger_nor_lost_is_told_after_the_release(make):
    danger, lost = Told(), Told()
    client = make(heartbeat_period=0)
    lock = client.acquire("a", lease_duration=3, safe_time=0.5, on_danger=danger, on_lost=lost)
    other = client.acquire("b", lease_duration=3, on_lost=(others := Told()))
    lock.release()
    assert others.called.wait(10)  # its validity began later
    assert not lock.lost
    assert danger.locks == lost.locks == []
    assert other.lost


def test_while_renewals_come_through_no_danger_is_told(make, rows):
    danger = Told()
    lock = make(heartbeat_period=0.1).acquire("a", lease_duration=3, safe_time=0.7, on_danger=danger)
    outlast(2.4, rows)  # without renewals it would be told by now
    assert danger.locks == []
    assert lock.is_held


def test_after_the_danger_renewal_goes_on(wire, make):
    danger = Told()
    lock = make(heartbeat_period=0.2).acquire("a", lease_duration=4, safe_time=3, on_danger=danger)
    wire.unavailable("UpdateItem", times=float("inf"))
    assert danger.called.wait(10)
    wire.clear()
    wait_until(lambda: lock.remaining > 3.1)
    assert lock.is_held
    assert len(danger.locks) == 1


def test_a_refused_renewal_is_told_as_lost(make, rows, caplog):
    lost = Told()
    lock = make(heartbeat_period=0.1).acquire("a", lease_duration=10, on_lost=lost)
    rows.put_held("a", expires_at=time.time() + 60, owner="other#1")
    assert lost.called.wait(10)
    assert lost.locks == [lock]
    with pytest.raises(LockLostError) as caught:
        lock.raise_if_lost()
    assert caught.value.holder == "other#1"
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.getMessage() == "lock 'a' is lost"
    assert record.__dict__["lock_key"] == "a"
    assert record.__dict__["lock_owner"] == lock.owner
    assert rows["a"]["ownerName"]["S"] == "other#1"


def test_a_callback_that_fails_is_logged_and_harms_nothing(make, caplog, rows):
    def fail(lock: Lock) -> None:
        raise RuntimeError("a callback's own")

    client = make(heartbeat_period=0.3)
    lock = client.acquire("a", lease_duration=6, safe_time=5.9, on_danger=fail)
    wait_until(lambda: "a callback of lock 'a' failed" in caplog.text)
    assert "a callback's own" in caplog.text
    version = rows.version("a")
    wait_until(lambda: rows.version("a") != version)
    assert lock.is_held


def test_a_callback_that_blocks_does_not_hold_up_renewals(make, rows):
    go_on = threading.Event()
    client = make(heartbeat_period=0.2)
    lock = client.acquire("a", lease_duration=2.5, safe_time=2.4, on_danger=lambda lock: go_on.wait(30))
    try:
        outlast(2.5, rows)
        assert lock.is_held
    finally:
        go_on.set()


def test_a_lock_may_be_released_by_its_own_callback(make, rows):
    outcome: list[Any] = []
    lock = make(heartbeat_period=0).acquire(
        "a", lease_duration=1.5, safe_time=1.2, on_danger=lambda lock: outcome.append(lock.release())
    )
    wait_until(lambda: outcome)
    assert outcome == [True]
    assert not rows.is_held("a")
    assert not lock.is_held
