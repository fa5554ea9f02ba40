"""A lock handed over: the first handle ends, the process that adopts it continues, and no other does."""

import copy
import json
import time
from pathlib import Path

import pytest

from lambda_lock import JAVA, PYTHON, Lock, LockClient
from lambda_lock.core.handover import write_handover
from lambda_lock.errors import (
    LockAlreadyReleasedError,
    LockConfigurationError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    TransportError,
)
from tests.support.clocks import LeapingClock, SkewedClock
from tests.support.context import Context
from tests.support.faults import land
from tests.support.waiting import wait_until

WORKER = Path(__file__).with_name("worker.py")
FOREVER = float("inf")


def handed_over(lock: Lock, client: LockClient) -> str:
    """Hand over, and let two seconds pass: within one, Dates may be too coarse for a version above the one there."""
    string = lock.hand_over()
    client.__session__.timeline.clock.sleep(2)
    return string


def forged(lock: Lock, **changes: object) -> str:
    """A string for ``lock`` that hand_over did not give."""
    other = copy.copy(lock.__held__.hold)
    for name, value in changes.items():
        setattr(other, name, value)
    return write_handover(other)


# Going on


def test_another_process_goes_on_with_the_lock_and_releases_it(client, rows, start):
    lock = client.acquire("a", data=b"state")
    process = start(WORKER, lock.hand_over())
    said = json.loads(process.stdout.readline())
    assert said == ["a", lock.owner, lock.fencing_token + 1, True, "state"]
    assert client.try_acquire("a") is None
    assert rows.is_held("a")
    assert process.communicate("go on\n", timeout=30)[0] == "true\n"
    assert process.returncode == 0
    assert not rows.is_held("a")


def test_the_first_handle_is_held_no_more_and_leaving_its_block_sends_nothing(wire, wired, rows):
    with wired.acquire("a") as lock:
        lock.hand_over()
        wire.clear()
        assert (lock.is_held, lock.remaining, wired.held()) == (False, 0, ())
        with pytest.raises(LockAlreadyReleasedError):
            lock.transact_item()
        with pytest.raises(LockLostError):
            lock.raise_if_lost()
    assert wire.operations == []
    assert rows.is_held("a")


def test_the_lease_handed_over_is_the_full_one_not_that_of_the_invocation_or_one_that_is_named(client, rows):
    lock = client.acquire("a", lease_duration=100, context=Context(10))
    assert lock.lease_duration <= 10
    string = lock.hand_over()
    assert rows["a"]["leaseDuration"] == {"S": "100000"}
    assert rows.expiry("a") > time.time() + 95
    adopted = client.adopt(string)
    assert adopted.lease_duration == 100
    string = adopted.hand_over(lease_duration=300)
    assert rows["a"]["leaseDuration"] == {"S": "300000"}
    assert client.adopt(string, lease_duration=400).lease_duration == 400


def test_what_was_adopted_is_renewed_by_itself_and_may_be_handed_on(client, rows):
    first = client.acquire("a", lease_duration=1.5)
    second = client.adopt(first.hand_over())
    version = rows.version("a")
    wait_until(lambda: rows.version("a") != version)
    third = client.adopt(second.hand_over())
    assert third.fencing_token == first.fencing_token + 2
    assert third.release() is True


def test_the_string_is_plain_and_names_key_and_sort_key(make, new_table):
    client = make(new_table("pk", "sk"), partition_key_name="pk", sort_key_name="sk")
    string = client.acquire("schlüssel 🔑", sort_key="a.b").hand_over()
    assert string.isascii()
    assert not set(string) & set(" \t\n\"'\\")
    adopted = client.adopt(string)
    assert (adopted.key, adopted.sort_key) == ("schlüssel 🔑", "a.b")


@pytest.mark.parametrize(
    ("schema", "options", "says"), [(JAVA, {"delete_on_release": True}, "delete_on_release"), (PYTHON, {}, "PYTHON")]
)
def test_a_lock_that_deletes_its_row_is_not_handed_over_and_stays_held(schema, options, says, wire, make, new_table):
    """A late copy of the claim could bring owner and token back, and the string would be good twice."""
    client = make(new_table(schema.partition_key, schema.sort_key), schema=schema)
    lock = client.acquire("a", **options)
    wire.clear()
    with pytest.raises(LockConfigurationError, match=says):
        lock.hand_over()
    assert wire.operations == []
    assert lock.is_held
    lock.heartbeat()
    assert lock.release() is True
    assert client.get("a") is None


# Late requests of the first handle


def test_a_late_renewal_of_the_first_handle_is_refused(wire, wired, rows):
    lock = wired.acquire("a", lease_duration=60)
    late = wire.deliver_late("UpdateItem")
    lock.heartbeat()
    adopted = wired.adopt(lock.hand_over())
    version = rows.version("a")
    land(late)
    assert rows.version("a") == version
    adopted.heartbeat()
    assert adopted.is_held


# Lost replies


def test_a_lost_reply_of_handing_over_costs_a_request_and_gives_the_string(wire, wired):
    lock = wired.acquire("a")
    wire.drop_reply("UpdateItem")
    string = lock.hand_over()
    assert wire.count() == 3
    assert wired.adopt(string).is_held


@pytest.mark.parametrize("fault", ["drop_reply", "drop_request"])
def test_where_handing_over_gets_no_answer_the_string_is_given_all_the_same(fault, wire, impatient, make, engine):
    lock = impatient.acquire("a")
    getattr(wire, fault)("UpdateItem", times=FOREVER)
    string = lock.hand_over()
    adopted = make(endpoint_url=engine.url).adopt(string)
    assert adopted.fencing_token == lock.fencing_token + 1


def test_a_throttled_handing_over_is_an_error_and_the_lock_may_be_released_then(wire, impatient, rows):
    lock = impatient.acquire("a")
    wire.throttle("UpdateItem", times=FOREVER)
    with pytest.raises(TransportError) as caught:
        lock.hand_over()
    assert not caught.value.ambiguous
    assert caught.value.key == "a"
    wire.clear()
    assert lock.release() is True
    assert not rows.is_held("a")


def test_a_lost_reply_of_adopting_is_a_grant_and_raises_the_token_once(wire, impatient, rows):
    lock = impatient.acquire("a")
    string = handed_over(lock, impatient)
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    wire.clear()
    wire.drop_reply("UpdateItem")
    adopted = impatient.adopt(string)
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert adopted.fencing_token == lock.fencing_token + 1
    assert rows["a"]["fencingToken"] == {"N": str(adopted.fencing_token)}


@pytest.mark.parametrize("arrived", [True, False])
def test_an_adoption_that_is_given_up_is_released_or_never_arrived(arrived, wire, impatient, rows):
    string = handed_over(impatient.acquire("a"), impatient)
    lose = wire.drop_reply if arrived else wire.drop_request
    lose("UpdateItem", times=FOREVER, when=lambda request: "ReturnValues" in request.body)
    with pytest.raises(TransportError) as caught:
        impatient.adopt(string)
    assert caught.value.ambiguous
    assert impatient.held() == ()
    assert rows.is_held("a") is not arrived
    if not arrived:
        wire.clear()
        assert impatient.adopt(string).is_held


# Time


def test_adopting_reads_first_while_dynamodb_s_time_is_unknown(wire, wired, make):
    string = wired.acquire("a").hand_over()
    wire.clear()
    make().adopt(string)
    assert wire.operations == ["GetItem", "UpdateItem"]


@pytest.mark.parametrize("off", [-3600.0, 3600.0])
def test_a_process_whose_clock_is_an_hour_off_adopts_all_the_same(off, client, make, rows):
    string = client.acquire("a").hand_over()
    adopted = make(clock=SkewedClock(off)).adopt(string)
    assert adopted.remaining > 15
    assert rows.expiry("a") < time.time() + 25


def test_adopted_for_a_short_invocation_the_stored_expiry_is_cut_to_it(client, rows):
    lock = client.acquire("a", lease_duration=3600)
    string = lock.hand_over()
    assert rows.expiry("a") > time.time() + 3500
    adopted = client.adopt(string, context=Context(20))
    assert adopted.lease_duration <= 20
    assert rows.expiry("a") < time.time() + 25  # no waiter waits an hour for a lease that ends with the invocation
    assert str(adopted.fencing_token) == rows["a"]["fencingToken"]["N"]
    adopted.heartbeat()
    assert adopted.release() is True


def test_adopted_with_less_than_a_second_left_it_is_not_taken(client, rows):
    string = client.acquire("a").hand_over()
    with pytest.raises(LockNotGrantedError) as caught:
        client.adopt(string, context=Context(0.5))
    assert caught.value.too_late
    assert client.adopt(string).is_held


# Refused


def test_a_second_adoption_of_one_string_is_refused(client, make, rows):
    lock = client.acquire("a")
    string = lock.hand_over()
    adopted = client.adopt(string)
    with pytest.raises(LockLostError) as caught:
        make().adopt(string)
    assert caught.value.key == "a"
    assert "adopted" in str(caught.value)
    adopted.heartbeat()
    assert adopted.release()
    with pytest.raises(LockLostError):
        client.adopt(string)
    assert not rows.is_held("a")


def test_a_string_is_refused_once_another_took_the_lock_or_its_row_is_gone(client, make, rows):
    string = client.acquire("a").hand_over()
    rows.delete("a")
    holder = make().acquire("a")
    with pytest.raises(LockLostError) as caught:
        client.adopt(string)
    assert caught.value.holder == holder.owner
    holder.heartbeat()
    rows.delete("a")
    with pytest.raises(LockLostError):
        client.adopt(string)
    assert rows.get("a") is None


def test_a_string_is_good_after_its_lease_as_long_as_nobody_took_the_lock(make):
    clock = LeapingClock()
    client = make(clock=clock, heartbeat_period=0)
    string = client.acquire("a", lease_duration=1).hand_over()
    clock.sleep(60)
    assert client.adopt(string).is_held


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("changes", [{"token": 1}, {"owner": "somebody#1"}], ids=["token", "owner"])
def test_a_forged_string_is_refused(changes, known, client, make):
    lock = client.acquire("a")
    with pytest.raises(LockLostError):
        (client if known else make()).adopt(forged(lock, **changes))
    lock.heartbeat()
    assert lock.is_held


def test_a_string_of_another_table_is_refused_before_anything_is_sent(wire, wired, make, table):
    string = wired.acquire("a").hand_over()
    wire.clear()
    with pytest.raises(LockFormatError, match="table"):
        make("another-table").adopt(string)
    assert wire.operations == []
    assert make(f"arn:aws:dynamodb:us-east-1:000000000000:table/{table}").adopt(string).is_held  # the same table


def test_a_lock_that_was_lost_is_not_handed_over(client, rows):
    lock = client.acquire("a")
    rows.put_held("a", expires_at=time.time() + 60, owner="another#1")
    with pytest.raises(LockLostError) as caught:
        lock.hand_over()
    assert caught.value.holder == "another#1"
    assert not lock.is_held
    assert lock.release() is False
