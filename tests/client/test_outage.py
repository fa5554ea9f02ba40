"""hold_on_unavailable: a lock that is held on through an outage of DynamoDB's, and what still loses it."""

import logging
import time
from typing import Any
from unittest.mock import Mock

import pytest

from lambda_lock import JAVA, PYTHON, Lock
from lambda_lock.core.outcome import ServiceError
from lambda_lock.errors import LockAlreadyReleasedError, LockConfigurationError, LockLostError, TransportError
from rig.wire import Wire
from tests.support.clients import Make
from tests.support.clocks import LeapingClock
from tests.support.rows import Rows
from tests.support.waiting import wait_until

ALWAYS = float("inf")

OUTAGES = [
    pytest.param(lambda wire: wire.unavailable(times=ALWAYS), id="503"),
    pytest.param(lambda wire: wire.drop_request(times=ALWAYS), id="cut off"),
    pytest.param(lambda wire: wire.drop_reply(times=ALWAYS), id="replies lost"),
]


@pytest.fixture
def held_on(make: Make) -> tuple[LeapingClock, Lock]:
    """A lock that is held on through outages, whose pauses take no time. It is renewed by hand."""
    clock = LeapingClock()
    return clock, make(clock=clock, heartbeat_period=0, hold_on_unavailable=True).acquire("a", lease_duration=2)


class Limbo:
    """A lock whose validity ended in an outage, for whose clock pauses take no time. It is renewed by hand."""

    def __init__(self, wire: Wire, make: Make) -> None:
        self.wire = wire
        self.clock = LeapingClock()
        self.told: list[Lock] = []
        self.client = make(clock=self.clock, heartbeat_period=0, hold_on_unavailable=True)
        self.lock = self.client.acquire("a", lease_duration=2, safe_time=1, on_lost=self.told.append)
        wire.unavailable(times=ALWAYS)
        with pytest.raises(TransportError):
            self.lock.heartbeat()
        self.clock.leapt += 2
        assert not self.lock.is_held

    def end(self) -> None:
        self.wire.clear()


def take_over(make: Make, rows: Rows, **options: Any) -> Lock:
    """Have another client acquire the lock once its holder's lease is over, past the wire. Its pauses take no time."""
    other = make(endpoint_url=rows.engine.url, clock=LeapingClock(), heartbeat_period=0)
    return other.acquire("a", wait=60, refresh_period=0.1, **options)


@pytest.fixture
def limbo(wire: Wire, make: Make) -> Limbo:
    return Limbo(wire, make)


@pytest.mark.long
@pytest.mark.parametrize("outage", OUTAGES)
def test_a_lock_is_held_again_once_a_renewal_comes_through(outage, wire, make, rows):
    told: list[Lock] = []
    client = make(heartbeat_period=0.2, hold_on_unavailable=True)
    lock = client.acquire("a", lease_duration=2, on_lost=told.append)
    token = lock.fencing_token
    outage(wire)
    wait_until(lambda: not lock.is_held)
    assert (lock.lost, lock.remaining, lock.is_expired, client.held()) == (False, 0, True, ())
    seen = wire.count()
    wait_until(lambda: wire.count() > seen + 1)  # it goes on trying
    assert (lock.lost, lock.is_held) == (False, False)
    wire.clear()
    wait_until(lambda: lock.is_held)
    assert client.held() == (lock,)
    assert lock.fencing_token == token == int(rows["a"]["fencingToken"]["N"])
    assert told == []
    assert lock.release() is True


@pytest.mark.parametrize("then", ["held", "released", "deleted"])
def test_a_lock_that_another_had_in_the_outage_is_lost_although_it_may_be_free_again(then, limbo, make, rows):
    other = take_over(make, rows)
    if then != "held":
        other.release(delete=then == "deleted")
    assert not limbo.lock.lost  # no answer has said so
    limbo.end()
    with pytest.raises(LockLostError):
        limbo.lock.heartbeat()
    wait_until(lambda: limbo.told)
    assert limbo.told == [limbo.lock]
    with pytest.raises(LockLostError) as caught:
        limbo.lock.raise_if_lost()
    assert caught.value.holder == (other.owner if then == "held" else None)
    assert limbo.lock.lost
    assert not limbo.lock.is_held
    assert limbo.lock.release() is False
    assert rows.is_held("a") is (then == "held")


@pytest.mark.parametrize("schema", [JAVA, PYTHON], ids=str)
def test_a_lock_that_deletes_its_row_is_lost_at_the_end_of_its_validity(schema, new_table, wire, make):
    """Another may have had it and deleted the row, and a late copy of the claim have brought owner and token back."""
    clock = LeapingClock()
    name = new_table(schema.partition_key, schema.sort_key)
    client = make(name, schema=schema, clock=clock, heartbeat_period=0, hold_on_unavailable=True)
    lock = client.acquire("a", lease_duration=2, delete_on_release=True)
    wire.unavailable(times=ALWAYS)
    clock.leapt += 1
    with pytest.raises((TransportError, LockLostError)):
        lock.heartbeat()
    clock.leapt += 1
    assert lock.lost
    wire.clear()
    with pytest.raises(LockLostError):
        lock.heartbeat()
    assert wire.operations == []


@pytest.mark.parametrize("renew", [lambda lock: lock.ensure(1), lambda lock: lock.heartbeat()])
def test_a_renewal_by_hand_brings_it_back_or_says_that_the_outcome_is_unknown(renew, limbo):
    with pytest.raises(TransportError):
        renew(limbo.lock)
    assert not limbo.lock.lost
    limbo.end()
    renew(limbo.lock)
    assert limbo.lock.is_held
    assert limbo.lock.remaining > 1
    assert limbo.told == []


def test_a_freeze_alone_loses_it(wire, held_on):
    clock, lock = held_on
    clock.leapt += 3
    assert lock.lost
    wire.clear()
    with pytest.raises(LockLostError):
        lock.heartbeat()
    assert wire.operations == []


def test_a_freeze_after_an_outage_that_was_over_loses_it(limbo):
    limbo.end()
    limbo.lock.heartbeat()
    limbo.clock.leapt += 3
    assert limbo.lock.lost
    wait_until(lambda: limbo.told)


def test_a_refusal_of_dynamodbs_is_no_outage_and_names_the_permission(wire, held_on):
    clock, lock = held_on
    wire.answer(400, "AccessDeniedException", "UpdateItem")
    with pytest.raises(LockConfigurationError, match="dynamodb:UpdateItem") as caught:
        lock.heartbeat()
    assert isinstance(caught.value.__cause__, ServiceError)
    assert lock.is_held
    clock.leapt += 3
    assert lock.lost


def test_danger_is_told_in_an_outage_and_loss_is_not_and_the_heartbeat_does_not_spin(wire, make):
    danger: list[Lock] = []
    lost: list[Lock] = []
    options = {"safe_time": 0.5, "on_danger": danger.append, "on_lost": lost.append}
    lock = make(heartbeat_period=0.2, hold_on_unavailable=True).acquire("a", lease_duration=2, **options)
    wire.unavailable(times=ALWAYS)
    wait_until(lambda: not lock.is_held)
    wait_until(lambda: danger)
    before, seen = time.monotonic(), wire.count()
    wait_until(lambda: wire.count() >= seen + 3)
    # The back-off has reached its cap of a second: about two a second, where a loop makes hundreds.
    assert wire.count() - seen <= 10 + 10 * (time.monotonic() - before)
    assert (danger, lost) == ([lock], [])
    assert lock.is_almost_expired


def test_a_lock_that_nobody_renews_by_itself_is_let_go_by_the_heartbeat(limbo, caplog):
    assert limbo.lock.__held__.renewer.tick() is None  # until a renewal by hand comes through
    limbo.end()
    limbo.lock.heartbeat()
    assert limbo.lock.__held__.renewer.tick() is not None
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("hold_on", [False, True])
def test_an_outage_met_by_a_renewal_by_hand_does_not_break_the_monitor(hold_on, wire, make, caplog):
    told: list[Lock] = []
    lock = make(heartbeat_period=0, hold_on_unavailable=hold_on).acquire(
        "a", lease_duration=1, safe_time=0.5, on_danger=told.append
    )
    wire.unavailable(times=ALWAYS)
    with pytest.raises((TransportError, LockLostError)):
        lock.heartbeat()
    wait_until(lambda: not lock.is_held)
    assert told == [lock]
    assert lock.lost is not hold_on
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.plain
def test_waiting_for_the_loss_does_not_spin_in_an_outage(limbo, monkeypatch):
    monotonic = Mock(side_effect=limbo.clock.monotonic)
    monkeypatch.setattr(limbo.clock, "monotonic", monotonic)
    assert limbo.lock.wait_lost(0.5) is False
    assert monotonic.call_count < 50


# The end of a lock in an outage


@pytest.mark.parametrize("first", ["in the outage", "after it"])
def test_a_release_in_the_outage_is_unknown_and_one_after_it_gives_back_what_nobody_took(first, limbo, rows):
    if first == "in the outage":
        with pytest.raises(TransportError):
            limbo.lock.release()
        assert rows.is_held("a")
    limbo.end()
    assert limbo.lock.release() is True
    assert not rows.is_held("a")


def test_a_release_after_the_outage_leaves_alone_what_another_took(limbo, make, rows):
    other = take_over(make, rows)
    limbo.end()
    assert limbo.lock.release() is False
    assert other.is_held
    assert rows["a"]["ownerName"] == {"S": other.owner}


@pytest.mark.parametrize("release", [True, False])
def test_closing_the_client_gives_back_what_is_held_on_unless_it_is_told_not_to(release, limbo, wire, rows):
    limbo.end()
    limbo.client.close(release=release)
    with pytest.raises(LockAlreadyReleasedError):
        limbo.lock.heartbeat()
    assert limbo.lock.__held__.renewer.tick() is None
    assert limbo.lock.wait_lost(0.1) is False
    assert wire.count() == release
    assert rows.is_held("a") is not release
