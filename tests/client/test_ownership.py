"""Whose lock it is: by object, line of execution, token and time."""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from lambda_lock.client.renewer import Renewer
from lambda_lock.errors import (
    ClientClosedError,
    LockAlreadyReleasedError,
    LockError,
    LockLostError,
    SessionMonitorNotSetError,
)
from rig.wire import Request
from tests.support.clocks import LeapingClock, StandingClock
from tests.support.elsewhere import in_thread
from tests.support.faults import held_up
from tests.support.waiting import wait_until

# Re-entrancy


@pytest.mark.plain
def test_the_same_thread_enters_again_and_only_the_last_release_sends(wire, wired):
    outer = wired.acquire("a", reentrant=True)
    with wired.acquire("a", reentrant=True) as inner:
        assert inner is outer
    assert outer.is_held
    assert wire.count() == 1
    assert outer.release() is True
    assert wire.count() == 2
    assert not outer.is_held
    with pytest.raises(LockAlreadyReleasedError):
        outer.release()


def test_another_thread_contends_whatever_it_asks(client, make):
    with client.acquire("a", reentrant=True):
        assert in_thread(lambda: client.try_acquire("a", reentrant=True))() is None
        assert client.try_acquire("a") is None  # so does the same one, without reentrant or by another client
        assert make().try_acquire("a", reentrant=True) is None


def test_a_thread_does_not_inherit_the_locks_of_an_ended_one(client):
    """The system gives a new thread the number of one that has ended."""
    held = []
    first = threading.Thread(target=lambda: held.append(client.acquire("a", reentrant=True)))
    first.start()
    number = first.ident
    first.join()
    again: list[object] = []
    for _ in range(50):
        second = threading.Thread(target=lambda: again.append(client.try_acquire("a", reentrant=True)))
        second.start()
        second.join()
        assert again.pop() is None
        if second.ident == number:
            return
    pytest.skip("the system did not give out a thread's number again")


def test_a_lost_lock_is_not_entered_again(client, rows):
    lock = client.acquire("a", reentrant=True)
    rows.put_held("a", expires_at=time.time() + 60)
    with pytest.raises(LockLostError):
        lock.heartbeat()
    assert client.try_acquire("a", reentrant=True) is None


# Old handles and new locks


def test_the_second_release_is_an_error(wire, wired):
    lock = wired.acquire("a")
    assert lock.release() is True
    wire.clear()
    with pytest.raises(LockAlreadyReleasedError, match="'a' was released before"):
        lock.release()
    with pytest.raises(LockAlreadyReleasedError):
        lock.heartbeat()
    assert wire.operations == []


def test_an_old_handle_does_nothing_to_the_next_lock_of_its_key(client, rows):
    old = client.acquire("a")
    old.release()
    new = client.acquire("a")
    for act in (old.release, old.heartbeat):
        with pytest.raises(LockAlreadyReleasedError):
            act()
    assert new.is_held
    assert new in client.held()
    assert rows["a"]["ownerName"]["S"] == new.owner
    assert rows.is_held("a")


def test_an_old_handle_that_was_lost_does_not_release_the_next_lock_or_stop_its_heartbeat(client, rows):
    old = client.acquire("a")
    rows.delete("a")
    new = client.acquire("a", lease_duration=3)
    assert old.release() is False
    with pytest.raises(LockAlreadyReleasedError):
        old.release()
    first = rows.expiry("a")
    wait_until(lambda: rows.expiry("a") > first + 1.2)
    assert client.held() == (new,)
    new.heartbeat()
    assert new.release() is True


def test_the_same_owner_with_another_token_is_not_the_same_lock(client, rows):
    """As a late copy of the claim would leave it, after release and deletion."""
    lock = client.acquire("a")
    rows.change("a", fencingToken={"N": str(lock.fencing_token + 1)})
    with pytest.raises(LockLostError):
        lock.heartbeat()
    assert not lock.is_held


# Lost


def test_release_says_false_where_another_has_the_row_and_leaves_it_alone(client, rows):
    lock = client.acquire("a")
    rows.put_held("a", expires_at=time.time() + 60, owner="other#1")
    before = rows["a"]
    assert lock.release() is False
    assert rows["a"] == before


def test_release_says_false_where_the_row_is_gone(client, rows):
    lock = client.acquire("a")
    rows.delete("a")
    assert lock.release() is False
    assert rows.get("a") is None


def test_release_after_the_end_of_validity_still_releases_a_row_that_nobody_took(make, rows):
    lock = make(heartbeat_period=0).acquire("a", lease_duration=1)
    assert lock.wait_lost(10)
    assert lock.release() is True
    assert not rows.is_held("a")


def test_a_refused_renewal_is_lost_and_names_the_new_holder(wire, wired, rows):
    lock = wired.acquire("a", data=b"x")
    rows.put_held("a", expires_at=time.time() + 60, owner="other#1")
    with pytest.raises(LockLostError) as caught:
        lock.heartbeat(delete_data=True)
    assert lock.data == b"x"
    assert (caught.value.key, caught.value.holder) == ("a", "other#1")
    assert "other#1" in str(caught.value)
    assert lock.lost
    assert not lock.is_held
    assert lock.remaining == 0
    assert wired.held() == ()
    with pytest.raises(LockLostError):
        lock.raise_if_lost()
    wire.clear()
    with pytest.raises(LockLostError):
        lock.heartbeat()
    assert wire.operations == []  # lost is final


def test_a_handle_says_what_became_of_it(wire, impatient, rows):
    lost = impatient.acquire("a")
    rows.put_held("a", expires_at=time.time() + 60, owner="other#1")
    assert lost.release() is False
    assert repr(lost).endswith(f"Lock 'a' lost, token {lost.fencing_token}>")

    handed_over = impatient.acquire("b")
    adopted = impatient.adopt(handed_over.hand_over())
    assert "'b' handed over" in repr(handed_over)
    assert "'b' held for" in repr(adopted)

    given_up = impatient.acquire("c")
    wire.drop_request("UpdateItem", times=float("inf"))
    assert given_up.release(best_effort=True) is False
    assert "'c' given up, release not confirmed" in repr(given_up)


def test_validity_ends_without_renewals_by_itself(make):
    lock = make(heartbeat_period=0).acquire("a", lease_duration=1)
    lock.raise_if_lost()
    assert lock.wait_lost(10) is True
    assert not lock.is_held
    assert lock.remaining == 0
    with pytest.raises(LockLostError, match="'a' is lost"):
        lock.raise_if_lost()
    with pytest.raises(LockLostError):
        lock.heartbeat()


def test_a_holders_validity_ends_before_anybody_may_take_over(make, rows):
    lock = make(heartbeat_period=0).acquire("a", lease_duration=1)
    other = make()
    wait_until(lambda: not lock.is_held)
    assert other.try_acquire("a") is None  # GRACE: the stored expiry is later
    taken = other.acquire("a", wait=10, refresh_period=0.2)
    assert taken.fencing_token == lock.fencing_token + 1
    assert lock.lost
    assert lock.release() is False
    assert rows.is_held("a")


def test_wait_lost_ends_with_the_release_and_with_its_timeout(client):
    lock = client.acquire("a")
    assert lock.wait_lost(0.05) is False
    result = in_thread(lock.wait_lost)
    lock.release()
    assert result() is False


def test_wait_lost_wakes_when_a_renewal_is_refused(client, rows):
    lock = client.acquire("a", lease_duration=1.5)
    result = in_thread(lambda: lock.wait_lost(20))
    rows.put_held("a", expires_at=time.time() + 60, owner="other#1")
    assert result() is True
    assert lock.release() is False


# Almost expired


def test_almost_expired_is_asked_of_locks_with_a_safe_time(client):
    with client.acquire("a") as lock, pytest.raises(SessionMonitorNotSetError, match="safe_time=seconds") as caught:
        _ = lock.is_almost_expired
    assert caught.value.key == "a"
    assert isinstance(caught.value, LockError)
    with client.acquire("a", safe_time=19.99) as lock:
        wait_until(lambda: lock.is_almost_expired)
        assert lock.is_held


# Closed clients


def test_a_closed_client_takes_reads_and_renews_nothing(client):
    client.close()
    for act in (client.acquire, client.try_acquire, client.get, client.erase):
        with pytest.raises(ClientClosedError):
            act("a")


def about(key: str) -> Callable[[Request], bool]:
    return lambda request: request.body["Key"]["key"]["S"] == key


def test_closing_the_client_ends_a_waiting_acquire(wire, wired, make, rows):
    others = make(endpoint_url=rows.engine.url)
    theirs = [others.acquire(key) for key in ("x", "y")]
    locks = [wired.acquire(key, lease_duration=3) for key in ("a", "b")]
    first = rows.expiry("a")
    wait_until(lambda: rows.expiry("a") > first)  # it is renewed
    polls = [wire.delay_reply("GetItem", seconds=0, when=about(lock.key)) for lock in theirs]
    results = [in_thread(partial(wired.acquire, lock.key, wait=60)) for lock in theirs]
    assert all(poll.reached.wait(30) for poll in polls)
    wired.close()
    for result in results:
        with pytest.raises(ClientClosedError):
            result()
    assert not any(rows.is_held(lock.key) for lock in locks)
    assert not any(lock.is_held for lock in locks)
    assert all(lock.is_held and rows.is_held(lock.key) for lock in theirs)
    assert [lock.release() for lock in theirs] == [True, True]


@pytest.mark.parametrize("wait", [0, 60])
def test_a_grant_that_arrives_after_closing_is_given_back(wait, wire, wired, rows):
    with held_up(wire.delay_reply("UpdateItem"), lambda: wired.acquire("a", wait=wait)) as result:
        wired.close()
    with pytest.raises(ClientClosedError):
        result()
    wait_until(lambda: not rows.is_held("a"))
    assert wired.held() == ()


@pytest.mark.parametrize("outage", ["503", "cut off", "denied"])
def test_closing_releases_the_other_locks_although_one_fails(outage, wire, make, rows, caplog):
    client = make(clock=LeapingClock(), heartbeat_period=0)
    locks = [client.acquire(key) for key in "abc"]
    always = {"times": float("inf"), "when": about("b")}
    if outage == "503":
        wire.unavailable("UpdateItem", **always)
    elif outage == "cut off":
        wire.drop_request("UpdateItem", **always)
    else:
        wire.answer(400, "AccessDeniedException", "UpdateItem", **always)
    client.close()
    assert [rows.is_held(key) for key in "abc"] == [False, True, False]
    assert not any(lock.is_held for lock in locks)
    assert [record.lock_key for record in caplog.records if "was not released" in record.message] == ["b"]


def test_two_threads_that_see_the_danger_at_once_tell_it_once(make, monkeypatch):
    barrier, is_first = threading.Barrier(2), Renewer._is_first

    def meet(renewer: Renewer, signal: str) -> bool:
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(1)
        return is_first(renewer, signal)

    told: list[object] = []
    clock = StandingClock()
    lock = make(clock=clock, heartbeat_period=0).acquire("a", safe_time=1, on_danger=told.append)
    monkeypatch.setattr(Renewer, "_is_first", meet)
    clock.now += lock.remaining - 0.5
    for result in [in_thread(lambda: lock.lost) for _ in range(2)]:
        assert result() is False
    wait_until(lambda: told)
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "lambda_lock-callback"])
    assert told == [lock]
