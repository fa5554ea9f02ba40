"""Dead holders, and clocks that are wrong."""

import math
import time
from dataclasses import replace
from email.utils import formatdate

import pytest

from lambda_lock.errors import LockFormatError
from rig.wire import Answer, Wire
from tests.support.clocks import LeapingClock, SkewedClock
from tests.support.waiting import wait_until


@pytest.fixture
def clock() -> LeapingClock:
    return LeapingClock()


@pytest.fixture
def dates(wire: Wire, clock: LeapingClock) -> list[float]:
    """The Dates of all answers that came over the wire, epoch seconds. DynamoDB's clock leaps with the client's."""
    seen: list[float] = []

    def note(answer: Answer) -> Answer:
        seen.append(math.floor(clock.wall()))
        headers = [(name, value) for name, value in answer.headers if name.lower() != "date"]
        return replace(answer, headers=[*headers, ("Date", formatdate(seen[-1], usegmt=True))])

    wire.alter_reply(note, times=float("inf"))
    return seen


def test_a_fail_fast_call_takes_over_a_dead_holder_once_its_stored_expiry_has_passed(make, rows, clock, dates):
    client = make(clock=clock, heartbeat_period=0)
    expiry = time.time() + 1.5
    rows.put_held("a", expires_at=expiry, lease_seconds=3600)
    refused = []
    while (lock := client.try_acquire("a")) is None:
        refused.append(dates[-1])
        clock.leapt += 0.05
    assert refused
    assert max(refused) < expiry
    judged, granted = dates[-2:]  # the refused claim that showed the holder, and the take-over
    assert expiry <= judged <= granted
    assert lock.is_held
    assert lock.fencing_token == 8


def test_a_holder_that_died_is_replaced_by_who_waits(make, rows, clock):
    dead = make(heartbeat_period=0)
    held = dead.acquire("a", lease_duration=1)
    dead.close(release=False)
    before = clock.monotonic()
    lock = make(clock=clock, heartbeat_period=0).acquire("a", wait=20)
    assert clock.monotonic() - before >= 1  # it saw the version stand still for its lease
    assert lock.fencing_token == held.fencing_token + 1
    assert rows.version("a") == lock.version


def test_repeated_fail_fast_calls_free_a_dead_foreign_lock_after_its_lease(make, rows, clock):
    client = make(clock=clock, heartbeat_period=0)
    rows.put_foreign("a", lease_seconds=20)
    before = clock.monotonic()
    assert client.try_acquire("a") is None
    first_seen = clock.monotonic()
    while (lock := client.try_acquire("a")) is None:
        clock.leapt += 1
    assert clock.monotonic() - before >= 20
    assert clock.monotonic() - first_seen < 40
    assert lock.is_held


def test_a_held_row_whose_lease_cannot_be_read_is_left_alone(client, rows):
    rows.put("a", ownerName={"S": "x"}, leaseDuration={"S": "soon"}, recordVersionNumber={"S": "v"})
    before = rows["a"]
    with pytest.raises(LockFormatError, match="'soon'") as caught:
        client.acquire("a", wait=0)
    assert "held by 'x'" in str(caught.value)
    assert rows["a"] == before


# Skewed wall clocks


@pytest.mark.parametrize("off", [600, -600])
def test_a_clock_minutes_off_is_corrected_within_one_acquire(off, wire, make, rows):
    client = make(clock=SkewedClock(off))
    lock = client.acquire("a", lease_duration=20)
    # The claim, which brings the first Date, and the take-over of the very version that was wrong.
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert abs(rows.expiry("a") - (time.time() + 22)) < 3
    assert 15 < lock.remaining <= 20
    lock.heartbeat()
    assert abs(rows.expiry("a") - (time.time() + 22)) < 3
    assert lock.release() is True
    wire.clear()
    with client.acquire("b"):  # the time is known now
        assert wire.count() == 1


@pytest.mark.parametrize("off", [600, -600])
def test_a_clock_minutes_off_neither_steals_nor_is_stolen_from(off, client, make):
    skewed = make(clock=SkewedClock(off))
    with client.acquire("a"):
        assert skewed.try_acquire("a") is None
    with skewed.acquire("a") as lock:
        assert client.try_acquire("a") is None
        lock.raise_if_lost()


@pytest.mark.parametrize("period", [None, 1.0, 3.0])
def test_a_slightly_slow_clock_is_renewed_before_its_shorter_validity_ends_whatever_the_users_period(period, make):
    """Five seconds slow, a lease of six is valid for about one and a half: others go by the stored expiry."""
    settings = {} if period is None else {"heartbeat_period": period}
    lock = make(clock=SkewedClock(-5), lease_duration=6, **settings).acquire("a")
    wait_until(lambda: lock.lost or lock.remaining > 4)  # the renewal knows the time
    assert lock.is_held


# Freezes


class FreezableClock(SkewedClock):
    """The machine's clocks, of which a freeze leaves some standing."""

    def __init__(self) -> None:
        self.behind = {"monotonic": 0.0, "boottime": 0.0, "wall": 0.0}

    def monotonic(self) -> float:
        return time.monotonic() + self.behind["monotonic"]

    def boottime(self) -> float:
        return time.monotonic() + self.behind["boottime"]

    def wall(self) -> float:
        return time.time() + self.behind["wall"]


@pytest.mark.parametrize("going", ["monotonic", "boottime", "wall"])
def test_a_freeze_is_noticed_by_whichever_clock_went_on(going, make):
    clock = FreezableClock()
    lock = make(clock=clock, heartbeat_period=0).acquire("a")
    clock.behind[going] += 19
    assert lock.remaining < 1.5
    assert lock.is_held
    clock.behind[going] += 2
    assert not lock.is_held
    assert lock.lost
