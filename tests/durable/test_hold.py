"""The hold of a durable lock and the attempts that invocations have on it, without a durable function around them."""

import time
from typing import Any

import pytest

from lambda_lock import ClientClosedError, Lock, LockClient, LockLostError, TransportError, register_lambda_context
from lambda_lock.durable.holds import DurableHold
from tests.support.context import Context
from tests.support.waiting import wait_until

HOUR = 3600


def begun(client: LockClient, lease_duration: float = HOUR, holder: str = "execution-1") -> DurableHold:
    hold = DurableHold(client, "a", lease_duration)
    hold.acquire(holder)
    return hold


def in_another_invocation(hold: DurableHold, client: LockClient) -> DurableHold:
    again = DurableHold(client, hold.key, hold.lease_duration)
    again.begin(hold.owner, hold.token)
    return again


def test_the_lease_is_not_cut_to_the_invocation(client, rows):
    """A function may be killed at any moment, and is run again only after its deadline."""
    register_lambda_context(Context(30))
    try:
        hold = begun(client)
        assert rows.expiry("a") > time.time() + HOUR - 60
        hold.leave()
        in_another_invocation(hold, client).verified().heartbeat()
        assert rows.expiry("a") > time.time() + HOUR - 60
    finally:
        register_lambda_context(None)


def test_an_attempt_that_ended_is_neither_held_nor_renewed_here(client, rows):
    hold = begun(client)
    for end in (hold.renew_and_end, hold.leave):
        assert rows.is_held("a")
        end()
        assert client.held() == ()
    assert rows.is_held("a")


def test_nothing_is_resumed_once_the_block_was_left(wire, wired):
    """A thread of a branch may still run when the block was left, and its invocation suspended."""
    hold = begun(wired)
    hold.renew_and_end()
    hold.leave()
    wire.clear()
    with pytest.raises(LockLostError, match="was left"):
        hold.verified()
    assert wire.count() == 0


def test_a_renewal_that_was_just_made_is_not_made_again(wire, wired):
    hold = begun(wired)
    hold.renew_and_end()
    before = wire.count()
    hold.renew_and_end()
    assert wire.count() == before
    hold.verified()
    hold.renew_and_end()
    assert wire.count() >= before + 2


def test_a_validity_that_ran_out_within_an_invocation_is_no_loss(make):
    hold = begun(make(heartbeat_period=0), lease_duration=1)
    first = hold.verified()
    wait_until(lambda: not first.is_held)
    second = hold.verified()
    assert second.is_held
    assert second.fencing_token == first.fencing_token


def test_an_attempt_that_close_ended_before_its_step_is_no_hold(client, rows, monkeypatch):
    """A signal handler closes the client between the resume and the step."""
    hold = begun(client)
    hold.renew_and_end()
    resume = client.resume

    def closed(**options: Any) -> Lock:
        attempt = resume(**options)
        client.close()
        return attempt

    monkeypatch.setattr(client, "resume", closed)
    with pytest.raises(ClientClosedError):
        hold.verified()
    assert not rows.is_held("a")


@pytest.mark.parametrize("times", [2, 3])
def test_a_hold_whose_lease_ends_before_its_step_is_resumed_again_a_few_times(make, monkeypatch, times):
    """The environment is frozen between the resume and the step."""
    client = make(heartbeat_period=0)
    hold = begun(client, lease_duration=1)
    hold.renew_and_end()
    resume, attempts = client.resume, []

    def frozen(**options: Any) -> Lock:
        attempts.append(resume(**options))
        if len(attempts) <= times:
            wait_until(lambda: not attempts[-1].is_held)
        return attempts[-1]

    monkeypatch.setattr(client, "resume", frozen)
    if times < 3:
        assert hold.verified() is attempts[-1]
        return
    with pytest.raises(TransportError, match="3 times"):
        hold.verified()
    assert hold.verified().is_held


def test_an_attempt_that_a_newer_one_has_refused_does_not_come_back(make):
    zombie = begun(make())
    zombie.verified()
    newest = in_another_invocation(zombie, make()).verified()
    with pytest.raises(LockLostError):
        zombie.verified().heartbeat()
    with pytest.raises(LockLostError):
        zombie.verified()
    with pytest.raises(LockLostError):
        zombie.renew_and_end()
    assert not zombie.release()
    newest.heartbeat()


def test_a_renewal_of_unknown_outcome_is_an_error(wire, impatient):
    """A hand-over would keep silent about it, and the wait that follows needs the whole lease."""
    hold = begun(impatient)
    wire.unavailable(times=float("inf"))
    with pytest.raises(TransportError):
        hold.renew_and_end()
    assert impatient.held() == ()
