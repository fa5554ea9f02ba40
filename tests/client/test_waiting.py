"""Cancelling a wait, and closing a client while others wait and renew."""

import threading
import time
from unittest.mock import Mock

import pytest

from lambda_lock.errors import ClientClosedError, LockNotGrantedError, LockTimeoutError
from lambda_lock.runtime.timeline import SystemClock
from tests.support.clocks import LeapingClock
from tests.support.context import Context
from tests.support.elsewhere import in_thread
from tests.support.faults import held_up, land
from tests.support.waiting import wait_until

# The invocation's deadline


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"wait": 90, "reserve": 50}, "wait=90 was cut to 10.0 s: {left} reserve=50 {remedies}, raise the function's"),
        ({"wait": 90}, "wait=90 was cut to 45.0 s: {left} {quarter} {remedies}, raise"),
        ({}, "The wait was at most 45.0 s: {left} {quarter} {remedies}, raise"),
        ({"reserve": 0}, "The wait was at most 60.0 s: {left} reserve=0 for the work. Raise the function's timeout"),
        ({"wait": 5, "reserve": 80}, "wait=5 was cut to 0.0 s: {left} reserve=80 {remedies}"),
        ({"wait": 5}, "5.0 s of waiting. Wait longer, or let the caller try again"),
        ({"wait": 0}, "Try again later, or pass wait=seconds"),
    ],
    ids=str,
)
def test_a_wait_that_the_deadline_cut_short_is_not_told_to_wait_longer(options, says, make, rows):
    says = says.format(
        left="the invocation had 60.0 s left, less",
        quarter="15.0 s (reserve: a quarter, at least 1 s)",
        remedies="for the work. Pass a smaller reserve=",
    )
    rows.put_held("a", expires_at=time.time() + 3600, lease_seconds=3600)
    with pytest.raises(LockNotGrantedError) as caught:
        make(clock=LeapingClock()).acquire("a", context=Context(60), **options)
    assert says in str(caught.value)
    assert ("Wait longer" in str(caught.value)) == ("Wait longer" in says)
    assert caught.value.holder == "somebody#1"


# cancel_check


@pytest.mark.parametrize("wait", [60, float("inf")])
@pytest.mark.parametrize("replace", [False, True])
def test_a_wait_is_cancelled_from_another_thread(wait, replace, wire, wired, rows):
    rows.put_held("a", expires_at=time.time() + 3600, lease_seconds=3600)
    before = rows["a"]
    cancelled = threading.Event()
    options = {"wait": wait, "replace": replace, "refresh_period": 0.1, "cancel_check": cancelled.is_set}
    with held_up(wire.delay_reply("GetItem", seconds=0), lambda: wired.acquire("a", **options)) as result:
        cancelled.set()
    with pytest.raises(LockTimeoutError, match="waiting for lock 'a' was cancelled by cancel_check") as caught:
        result()
    assert caught.value.key == "a"
    assert wired.held() == ()
    assert rows["a"].pop("waiters", None) in (None, {"L": []})  # which are the same
    assert {**rows["a"], "waiters": None} == {**before, "waiters": None}


def test_a_cancelled_wait_does_not_take_the_lock_later(client, make):
    held = make().acquire("a")
    with pytest.raises(LockTimeoutError):
        client.acquire("a", wait=60, cancel_check=lambda: True)
    assert client.try_acquire("a", wait=60, cancel_check=lambda: True) is None
    held.release()
    with make().acquire("a", wait=0):
        assert client.held() == ()


@pytest.mark.parametrize("error", [ZeroDivisionError, StopIteration])
def test_an_error_of_cancel_check_ends_the_wait_and_leaves_nothing_held_whatever_it_is(error, client, make, rows):
    def fail() -> bool:
        raise error("of the application's")

    with make().acquire("a") as held:
        with pytest.raises((ZeroDivisionError, RuntimeError)) as caught:
            client.acquire("a", wait=60, cancel_check=fail)
        assert isinstance(caught.value.__cause__ if error is StopIteration else caught.value, error)
        assert rows["a"]["ownerName"] == {"S": held.owner}
    assert client.held() == ()
    assert not rows.is_held("a")


def test_a_wait_that_is_not_cancelled_goes_on(client, make):
    held = make().acquire("a")
    cancel = Mock()
    cancel.side_effect = lambda: cancel.call_count == 3 and not held.release()
    assert client.acquire("a", wait=60, refresh_period=0.1, cancel_check=cancel).is_held
    assert cancel.call_count >= 3


def test_a_free_lock_is_taken_without_asking(client):
    cancel = Mock(return_value=True)
    assert client.acquire("a", wait=60, cancel_check=cancel).is_held
    cancel.assert_not_called()


def test_a_cancel_after_a_claim_whose_replies_are_lost_leaves_nothing_held(wire, wired, rows):
    claim = wire.drop_reply("UpdateItem", times=3)  # each is carried out
    with pytest.raises(LockTimeoutError, match="cancelled"):
        wired.acquire("a", wait=60, cancel_check=claim.reached.is_set)
    assert wired.held() == ()
    wait_until(lambda: not rows.is_held("a"))
    assert rows["a"]["isReleased"] == {"S": "1"}


def test_a_cancel_while_dynamodb_is_away_ends_the_wait(wire, impatient, rows):
    outage = wire.unavailable(times=float("inf"))
    with pytest.raises(LockTimeoutError, match="cancelled"):
        impatient.acquire("a", wait=60, cancel_check=outage.reached.is_set)
    assert rows.get("a") is None


# Closing


def test_closing_does_not_wait_for_a_renewal_in_flight_which_then_changes_nothing(wire, wired, rows):
    lock = wired.acquire("a", lease_duration=3)
    renewal = wire.hold("UpdateItem")
    assert renewal.reached.wait(30)
    wired.close()
    assert not rows.is_held("a")
    after = rows["a"]
    land(renewal)
    assert rows["a"] == after
    assert not lock.is_held
    assert not lock.lost


def test_closing_one_client_leaves_another_ones_locks_and_renewals_alone(make, rows):
    one, other = make(), make()
    one.acquire("a")
    lock = other.acquire("b", lease_duration=3)
    one.close()
    first = rows.expiry("b")
    wait_until(lambda: rows.expiry("b") > first + 1)
    assert lock.is_held


@pytest.mark.plain
def test_closing_releases_a_lock_that_was_entered_several_times(client, rows):
    lock = client.acquire("a")
    for _ in range(3):
        assert client.acquire("a", reentrant=True, wait=0) is lock
    client.close()
    assert not rows.is_held("a")
    assert not lock.is_held


def test_a_lost_lock_is_not_released_by_closing(wire, make, rows):
    clock = LeapingClock()
    client = make(clock=clock, heartbeat_period=0)
    lock = client.acquire("a")
    clock.leapt += 60
    assert lock.lost
    wire.clear()
    client.close()
    assert wire.operations == []
    assert rows.is_held("a")


@pytest.mark.parametrize("looks", [1, 2])  # at the clocks, before the first request
def test_an_acquire_that_begins_while_another_thread_closes_the_client_sends_nothing(looks, make, wire, monkeypatch):
    """The process may end right after that, before a grant can be given back."""
    clock = SystemClock()
    client = make(clock=clock, heartbeat_period=0)
    seen = Mock(wraps=clock.monotonic)

    def monotonic() -> float:
        now: float = seen()
        if seen.call_count == looks:
            in_thread(client.close)()
        return now

    monkeypatch.setattr(clock, "monotonic", monotonic)
    with pytest.raises(ClientClosedError):
        client.acquire("a", wait=0)
    assert wire.operations == []
