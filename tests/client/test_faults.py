"""A network that loses, repeats and delays, and a DynamoDB that will not serve."""

import json
import time
from typing import Any

import pytest

from lambda_lock.errors import (
    LockAlreadyReleasedError,
    LockConfigurationError,
    LockLostError,
    TransportError,
)
from rig.wire import Answer
from tests.support.clocks import LeapingClock
from tests.support.elsewhere import in_thread
from tests.support.faults import held_up, land
from tests.support.waiting import wait_until

from .conftest import versions

# Acquire


@pytest.mark.parametrize("options", [{}, {"wait": 0}], ids=str)
@pytest.mark.parametrize("lost", ["drop_reply", "drop_request"])
def test_a_lost_reply_to_a_claim_costs_one_more_request_and_leaves_no_ghost(lost, options, wire, wired, rows):
    getattr(wire, lost)("UpdateItem")
    lock = wired.acquire("a", **options)
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert len(set(versions(wire))) == 1  # the same claim, sent again
    assert lock.version == rows.version("a")
    assert str(lock.fencing_token) == rows["a"]["fencingToken"]["N"]
    lock.heartbeat()
    assert lock.release() is True


def test_a_late_copy_of_the_claim_does_not_take_the_lock_again(wire, wired, rows):
    late = wire.deliver_late("UpdateItem")
    lock = wired.acquire("a")
    land(late)
    assert lock.is_held
    lock.heartbeat()
    assert lock.release() is True
    assert not rows.is_held("a")


@pytest.mark.parametrize("fault", ["throttle", "unavailable"])
def test_throttling_and_5xx_are_retried(fault, wire, impatient):
    getattr(wire, fault)(times=2)
    lock = impatient.acquire("a", wait=0)
    assert wire.count() == 3
    getattr(wire, fault)(times=2)
    lock.heartbeat()
    getattr(wire, fault)(times=2)
    assert lock.release() is True
    getattr(wire, fault)(times=2)
    assert impatient.get("a") is not None


def test_an_outage_is_a_transport_error_and_not_contention(wire, impatient, rows):
    wire.throttle(times=float("inf"))
    with pytest.raises(TransportError, match="kept refusing the request for lock 'a'") as caught:
        impatient.try_acquire("a")
    assert not caught.value.ambiguous
    assert rows.get("a") is None


def test_who_waits_outlives_an_outage(wire, impatient):
    wire.unavailable(times=12)
    assert impatient.acquire("a", wait=60, refresh_period=0.05).is_held


def test_an_answer_without_a_date_is_given_back_and_refused(wire, wired, rows):
    def undated(answer: Answer) -> Answer:
        return Answer(answer.status, [field for field in answer.headers if field[0].lower() != "date"], answer.body)

    wire.alter_reply(undated, times=float("inf"))
    with pytest.raises(LockConfigurationError, match="this is not DynamoDB"):
        wired.acquire("a")
    assert not rows.is_held("a")


# Release


@pytest.mark.parametrize(("delete", "operation"), [(False, "UpdateItem"), (True, "DeleteItem")])
def test_a_lost_reply_to_a_release_ends_in_true(delete, operation, wire, wired, rows):
    lock = wired.acquire("a", delete_on_release=delete)
    wire.drop_reply(operation)
    assert lock.release() is True
    assert wire.count() == 3
    assert not rows.is_held("a")
    assert (rows.get("a") is None) is delete


def test_a_lost_reply_to_a_release_after_which_another_took_the_lock_ends_in_true(wire, wired, make, rows):
    other = make(endpoint_url=rows.engine.url)
    lock = wired.acquire("a")
    taken = []

    def lost(answer: Answer) -> None:
        taken.append(other.acquire("a", wait=0))

    wire.alter_reply(lost, "UpdateItem")
    assert lock.release() is True
    assert taken[0].is_held
    assert rows["a"]["ownerName"]["S"] == taken[0].owner
    assert rows.is_held("a")


@pytest.mark.parametrize("lost", ["drop_reply", "drop_request"])
def test_a_release_whose_outcome_is_unknown_says_so_and_a_later_one_tells_the_truth(lost, wire, impatient, rows):
    lock = impatient.acquire("a")
    getattr(wire, lost)("UpdateItem", times=float("inf"))
    with pytest.raises(TransportError, match="unknown") as caught:
        lock.release()
    assert caught.value.ambiguous
    assert caught.value.key == "a"
    assert caught.value.__cause__ is not None
    assert not lock.is_held
    assert rows.is_held("a") is (lost == "drop_request")
    wire.clear()
    assert lock.release() is True  # now, or the first time
    assert wire.count() == 1
    assert not rows.is_held("a")
    with pytest.raises(LockAlreadyReleasedError):
        lock.release()


def test_an_unknown_release_of_a_row_that_another_has_is_not_claimed_to_be_done(wire, make, rows):
    lock = make(heartbeat_period=0, clock=(clock := LeapingClock())).acquire("a")
    clock.sleep(20)
    assert lock.lost
    wire.drop_request("UpdateItem", times=float("inf"))
    with pytest.raises(TransportError):
        lock.release()
    wire.clear()
    rows.put_held("a", expires_at=time.time() + 60)
    with pytest.raises(TransportError) as caught:
        lock.release()
    assert caught.value.ambiguous
    assert rows.is_held("a")


@pytest.mark.parametrize("then", ["another's", "released", "gone"])
@pytest.mark.parametrize("fault", ["drop_request", "drop_reply", "unavailable"])
def test_a_release_of_a_lock_that_is_known_to_be_lost_is_false_after_a_lost_reply_too(fault, then, wire, wired, rows):
    lock = wired.acquire("a", lease_duration=60)
    if then == "another's":
        rows.put_held("a", expires_at=time.time() + 60)
    elif then == "released":
        rows.change("a", isReleased={"S": "1"})
    else:
        rows.delete("a")
    with pytest.raises(LockLostError):
        lock.heartbeat()
    getattr(wire, fault)("UpdateItem")
    assert lock.release() is False
    assert rows.is_held("a") is (then == "another's")


def test_a_refused_release_is_an_error_unless_best_effort(wire, wired, caplog):
    lock = wired.acquire("a")
    wire.answer(400, "AccessDeniedException", "UpdateItem", times=2)
    with pytest.raises(LockConfigurationError, match="dynamodb:UpdateItem"):
        lock.release()
    assert lock.release(best_effort=True) is False
    assert "'a' was not released" in caplog.text
    assert lock.release() is True


def conflict(answer: Answer) -> Answer:
    """What a global table with strong consistency answers where another Region writes at once."""
    body = {"__type": "com.amazonaws.dynamodb.v20120810#ReplicatedWriteConflictException", "message": "says the wire"}
    headers = [(name, value) for name, value in answer.headers if name.lower() in ("content-type", "date")]
    return Answer(400, headers, json.dumps(body).encode())


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("act", ["acquire", "heartbeat", "release"])
def test_a_write_that_another_region_makes_at_once_is_sent_again_and_may_have_been_made(
    wire, wired, rows, act, carried_out
):
    def fail_in(current: str) -> None:
        if act == current and carried_out:
            wire.alter_reply(conflict, "UpdateItem")
        elif act == current:
            wire.answer(400, "ReplicatedWriteConflictException", "UpdateItem")

    fail_in("acquire")
    lock = wired.acquire("a", wait=0)
    fail_in("heartbeat")
    lock.heartbeat()
    fail_in("release")
    assert lock.release() is True
    assert wire.count("UpdateItem") == 4
    assert not rows.is_held("a")


def test_an_error_of_release_does_not_hide_the_error_of_the_block(wire, wired):
    lock = wired.acquire("a")
    wire.answer(400, "AccessDeniedException", "UpdateItem", times=float("inf"))
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError


# Renewal


def test_a_renewal_whose_reply_is_lost_is_tried_again_above_itself(wire, wired, rows):
    lock = wired.acquire("a")
    wire.drop_reply("UpdateItem")
    lock.heartbeat()
    sent = versions(wire)
    assert len(sent) == 3
    assert sent == sorted(sent)
    assert len(set(sent)) == 3  # each attempt has a version of its own
    assert lock.version == rows.version("a") == sent[-1]
    assert lock.is_held


def test_a_heartbeat_without_an_answer_leaves_the_lock_held(wire, impatient):
    lock = impatient.acquire("a")
    wire.unavailable(times=float("inf"))
    with pytest.raises(TransportError) as caught:
        lock.heartbeat()
    assert caught.value.ambiguous
    assert "try again" in str(caught.value)
    assert lock.is_held
    wire.clear()
    lock.heartbeat()


def test_a_late_renewal_does_not_turn_the_expiry_back(wire, wired, rows):
    lock = wired.acquire("a")
    late = wire.deliver_late("UpdateItem")
    lock.heartbeat(lease_duration=5)  # the copy that is sent again is the one that arrives
    lock.heartbeat(lease_duration=60)
    version = rows.version("a")
    land(late)
    assert rows.version("a") == version
    assert lock.is_held


def test_a_shortened_lease_counts_from_its_first_send(wire, wired):
    """Its reply may be lost, but other clients go by the row."""
    lock = wired.acquire("a", lease_duration=60)
    with held_up(wire.delay_reply("UpdateItem"), lambda: lock.heartbeat(lease_duration=5)) as result:
        assert lock.remaining <= 5
    result()
    assert 3 < lock.remaining <= 5


def test_a_release_during_a_renewal_wins(wire, wired, rows):
    lock, renewal = wired.acquire("a"), wire.hold("UpdateItem")
    with held_up(renewal, lock.heartbeat) as result:
        assert lock.release() is True
    with pytest.raises(LockAlreadyReleasedError):
        result()
    wait_until(renewal.finished.is_set)
    assert not rows.is_held("a")


def test_renewals_of_one_lock_are_sent_one_after_the_other(wire, make):
    lock = make(heartbeat_period=0.1).acquire("a")
    first = wire.delay_reply("UpdateItem")  # the heartbeat's
    assert first.reached.wait(30)
    result = in_thread(lock.heartbeat)
    time.sleep(0.3)  # nothing can be waited for
    assert wire.count() == 2
    first.release()
    result()
    second = wire.delay_reply("UpdateItem", seconds=None)
    assert second.reached.wait(30)
    count = wire.count()
    time.sleep(0.3)
    assert wire.count() == count
    second.release()
    sent = versions(wire)
    assert sent == sorted(sent)


# An interrupted acquire


class Interrupted:
    """A transport on top of another. Its n-th send is interrupted, before it or after it."""

    def __init__(self, inner: Any, number: int, when: str = "after") -> None:
        self.inner, self.left, self.when = inner, number, when

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        self.left -= 1
        if self.left == 0 and self.when == "before":
            raise KeyboardInterrupt
        reply = self.inner.send(operation, request, timeout=timeout)
        if self.left == 0:
            raise KeyboardInterrupt
        return reply


@pytest.mark.parametrize(
    ("of", "number", "when"), [("claim", 1, "before"), ("claim", 1, "after"), ("take-over", 2, "after")]
)
def test_an_interrupt_in_the_claim_leaves_nothing_held(of, number, when, client, make, rows):
    if of == "take-over":
        rows.put_held("a", expires_at=time.time() - 5)
    interrupted = make(transport=Interrupted(client.transport, number, when))
    with pytest.raises(KeyboardInterrupt):
        interrupted.acquire("a")
    assert not rows.is_held("a")
    assert interrupted.held() == ()


def test_an_interrupted_wait_leaves_the_holder_alone(client, make, rows):
    held = client.acquire("a")
    with pytest.raises(KeyboardInterrupt):
        make(transport=Interrupted(client.transport, 3)).acquire("a", refresh_period=0.05)
    assert rows["a"]["ownerName"]["S"] == held.owner
    assert rows.is_held("a")


def test_a_lost_lock_is_not_renewed_by_a_late_answer(wire, make):
    lock = make(heartbeat_period=0).acquire("a", lease_duration=1)
    with held_up(wire.delay_reply("UpdateItem"), lock.heartbeat) as result:
        assert lock.wait_lost(10)
    with pytest.raises(LockLostError):
        result()
    assert lock.lost
