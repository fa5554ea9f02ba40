"""What acquire, heartbeat and ensure can be asked for beyond the plain lock."""

import time
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from lambda_lock import PYTHON
from lambda_lock.errors import LockArgumentError, LockLostError, LockNotGrantedError, LockTimeoutError, TransportError
from lambda_lock.runtime.heartbeat import Renewals
from rig.wire import Wire
from tests.support.clients import Make
from tests.support.clocks import LeapingClock, StandingClock
from tests.support.context import Context
from tests.support.faults import held_up
from tests.support.waiting import wait_until

# replace=True: the row is rewritten


def test_a_replacement_reads_and_puts_and_leaves_no_foreign_column_but_what_belongs_to_an_event(wire, wired, rows):
    first = wired.acquire("a", data=b"kept", attributes={"colour": "red"})
    first.release()
    rows.change("a", completedUntil={"N": "4000000000"}, result={"S": "1"})
    wire.clear()
    lock = wired.acquire("a", replace=True, attributes={"size": 1})
    assert wire.operations == ["GetItem", "PutItem"]
    row = rows["a"]
    assert set(row) == {
        "key", "ownerName", "leaseDuration", "recordVersionNumber", "data", "fencingToken", "ttl", "size",
        "completedUntil", "result",
    }  # fmt: skip
    assert int(row["ttl"]["N"]) >= 4_000_000_000 + 86_400
    assert row["ownerName"] == {"S": lock.owner}
    assert row["recordVersionNumber"] == {"S": lock.version}
    assert (lock.data, lock.attributes) == (b"kept", {"size": Decimal(1)})
    assert lock.fencing_token == first.fencing_token + 1 == int(row["fencingToken"]["N"])
    lock.heartbeat()
    assert lock.release() is True
    assert not rows.is_held("a")


@pytest.mark.parametrize(
    ("stored", "options", "after"),
    [
        (b"old", {}, b"old"),
        (b"old", {"data": b"new"}, b"new"),
        (b"old", {"data": b""}, b""),
        (b"old", {"data": b"new", "replace_data": False}, b"old"),
        (None, {"data": b"new", "replace_data": False}, b"new"),
        (None, {}, None),
    ],
)
def test_a_replacement_carries_the_data_over_unless_other_is_given(stored, options, after, client):
    client.acquire("a", data=stored).release()
    lock = client.acquire("a", replace=True, **options)
    assert lock.data == client.get("a").data == after


def test_a_held_lock_is_not_replaced_and_costs_one_read_to_ask(wire, wired, rows):
    rows.put_held("a", expires_at=time.time() + 60, owner="other#1")
    before = rows["a"]
    with pytest.raises(LockNotGrantedError) as caught:
        wired.acquire("a", replace=True, wait=0)
    assert caught.value.holder == "other#1"
    assert wire.operations == ["GetItem"]
    assert rows["a"] == before


@pytest.mark.parametrize("before", ["nothing", "dead", "foreign"])
def test_a_row_that_nobody_holds_or_only_the_dead_is_replaced(before, make, rows):
    if before == "dead":
        rows.put_held("a", expires_at=time.time() - 10)
    elif before == "foreign":
        rows.put_foreign("a", lease_seconds=1)
    client = make(clock=LeapingClock(), heartbeat_period=0)
    lock = client.acquire("a", replace=True, data=b"x", wait=10 if before == "foreign" else 0)
    assert rows["a"]["ownerName"] == {"S": lock.owner}
    assert before != "dead" or lock.fencing_token == 8
    assert lock.release() is True
    assert client.acquire("a").fencing_token == lock.fencing_token + 1


@pytest.mark.parametrize(("wait", "exists"), [(0, True), (0.5, True), (0, False)])
def test_a_replacement_loses_the_race_against_a_claim_between_its_read_and_its_put(
    wait, exists, wire, wired, make, rows
):
    other = make(endpoint_url=rows.engine.url)
    if exists:
        other.acquire("a", attributes={"colour": "red"}).release()
    with held_up(wire.hold("PutItem"), lambda: wired.acquire("a", replace=True, wait=wait)) as result:
        winner = other.acquire("a", wait=0)
        before = rows["a"]
    with pytest.raises(LockNotGrantedError) as caught:
        result()
    assert caught.value.holder == winner.owner
    assert rows["a"] == before
    assert winner.release() is True


@pytest.mark.parametrize(
    ("name", "value"), [("data", {"B": "bGF0ZQ=="}), ("completedUntil", {"N": "1800000000"}), ("result", {"S": "1"})]
)
def test_what_a_late_release_stores_between_read_and_put_is_not_overwritten(name, value, wire, wired, rows):
    """The release keeps version and token: they alone do not show that anything changed."""
    rows.put_held("a", expires_at=time.time() - 10)
    with held_up(wire.hold("PutItem"), lambda: wired.acquire("a", replace=True, wait=0)) as result:
        rows.change("a", isReleased={"S": "1"}, **{name: value})
    lock = result()
    assert rows["a"][name] == value
    assert rows["a"]["ownerName"] == {"S": lock.owner}
    assert rows.is_held("a")


def test_a_lost_reply_to_a_replacement_costs_one_more_request_and_one_token(wire, wired, rows):
    first = wired.acquire("a")
    first.release()
    wire.clear()
    wire.drop_reply("PutItem")
    lock = wired.acquire("a", replace=True, wait=0, data=b"x")
    assert wire.operations == ["GetItem", "PutItem", "PutItem"]
    assert lock.fencing_token == first.fencing_token + 1
    assert lock.data == b"x"
    assert lock.release() is True
    assert not rows.is_held("a")


def test_a_replacement_without_an_answer_is_given_back(wire, impatient, rows):
    put = wire.drop_reply("PutItem", times=float("inf"))
    with pytest.raises(TransportError):
        impatient.acquire("a", replace=True, wait=0)
    assert put.reached.is_set()
    assert not rows.is_held("a")
    assert impatient.held() == ()


def test_a_replacement_in_the_python_schema(make, new_table):
    client = make(new_table("lock_key", "sort_key"), schema=PYTHON)
    lock = client.acquire("a", replace=True)
    assert client.try_acquire("a", replace=True) is None
    assert lock.release() is True
    assert client.get("a") is None


# only_if_exists


def test_a_replacement_of_what_must_exist_makes_no_row(wire, wired, rows):
    assert wired.try_acquire("a", replace=True, only_if_exists=True) is None
    assert wire.operations == ["GetItem"]
    rows.put("a", colour={"S": "red"})
    lock = wired.acquire("a", replace=True, only_if_exists=True, wait=0)
    assert lock.is_held
    assert "colour" not in rows["a"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_row_that_is_deleted_before_its_lock_is_taken_is_not_made_again(replace, wire, impatient, rows):
    if replace:
        rows.put("a")
    else:
        rows.put_held("a", expires_at=time.time() + 3600, lease_seconds=3600)
    stopped = wire.hold("PutItem" if replace else "GetItem")
    with held_up(stopped, lambda: impatient.acquire("a", replace=replace, only_if_exists=True, wait=30)) as result:
        rows.delete("a")
    with pytest.raises(LockTimeoutError, match="does not exist"):
        result()
    assert rows.get("a") is None


@pytest.mark.parametrize("replace", [False, True])
def test_who_waits_for_a_row_to_exist_gets_the_lock_once_it_does(replace, wire, wired, rows):
    options = {"only_if_exists": True, "replace": replace, "wait": 60, "refresh_period": 0.1}
    with held_up(wire.delay_reply("GetItem", seconds=0), lambda: wired.acquire("a", **options)) as result:
        assert rows.get("a") is None
        rows.put("a")
    assert result().is_held
    assert rows.is_held("a")


def test_a_wait_for_a_row_that_never_comes_runs_out_and_says_why(impatient, rows):
    with pytest.raises(LockTimeoutError, match="'a' does not exist") as caught:
        impatient.acquire("a", only_if_exists=True, wait=3)
    assert caught.value.holder is None
    assert caught.value.waited > 2.9
    assert rows.get("a") is None


# ensure(seconds)


def test_ensure_sends_nothing_where_enough_is_left(wire, wired):
    lock = wired.acquire("a", lease_duration=20)
    lock.ensure(10)
    lock.ensure(0)
    assert wire.count() == 1


@pytest.mark.parametrize("options", [{}, {"context": Context(100)}], ids=["", "within the invocation"])
def test_ensure_renews_with_a_lease_that_is_enough(options, wire, wired, rows):
    lock = wired.acquire("a", lease_duration=20, **options)
    before = rows.expiry("a")
    lock.ensure(60)
    assert wire.operations == ["UpdateItem"] * 2
    assert lock.remaining >= 60
    assert rows.expiry("a") >= before + 40
    lock.ensure(50)
    assert wire.count() == 2


def test_ensure_never_shortens_the_lease(wire, make):
    clock = StandingClock()
    lock = make(clock=clock, heartbeat_period=0).acquire("a", lease_duration=100)
    clock.now += 60
    wire.clear()
    lock.ensure(50)
    assert wire.count() == 1
    assert lock.lease_duration == 100
    assert lock.remaining > 90


@pytest.mark.parametrize("seconds", [9.995, 10, 60])
def test_what_the_invocation_cannot_keep_is_not_promised(seconds, make, wire, rows):
    lock = make(clock=StandingClock(), heartbeat_period=0).acquire("a", lease_duration=2, context=Context(10))
    wire.clear()
    with pytest.raises(LockArgumentError, match="the invocation ends"):
        lock.ensure(seconds)
    assert wire.operations == []
    assert lock.is_held
    assert lock.release() is True


def test_a_renewal_that_left_less_than_was_asked_for_is_no_success(make, wire):
    clock = StandingClock()
    lock = make(clock=clock, heartbeat_period=0).acquire("a", lease_duration=2, context=Context(20))
    with held_up(wire.delay_reply("UpdateItem"), lambda: lock.ensure(19)) as result:
        clock.now += 1.5
    with pytest.raises(LockArgumentError, match="the invocation ends"):
        result()
    assert lock.is_held


def test_ensure_of_a_lock_that_another_took_is_lost_and_sends_nothing_from_then_on(wire, wired, rows):
    lock = wired.acquire("a")
    rows.put_held("a", expires_at=time.time() + 60, owner="other#1")
    with pytest.raises(LockLostError) as caught:
        lock.ensure(60)
    assert caught.value.holder == "other#1"
    assert lock.lost
    wire.clear()
    with pytest.raises(LockLostError):
        lock.ensure(1)
    assert wire.operations == []


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", True])
def test_ensure_looks_at_its_argument(seconds, wire, wired):
    lock = wired.acquire("a")
    with pytest.raises(LockArgumentError if type(seconds) in (int, float) else TypeError, match="seconds"):
        lock.ensure(seconds)
    assert wire.count() == 1
    assert lock.is_held


# heartbeat_rate: slots on a clock that stands still


class Inline(Renewals):
    """Renewals that are sent at once, on the thread that ticks."""

    def put(self, lock: Any, left: float) -> None:
        lock.renew()


def ticking(clock: StandingClock, make: Make, rate: float | None, *keys: str) -> list[Any]:
    """Locks of one client, which are all due to be renewed at this moment."""
    client = make(clock=clock, heartbeat_rate=rate, heartbeat_period=100, lease_duration=1000)
    client.__session__._renewals = Inline(client)
    locks = [client.acquire(key) for key in keys]
    clock.now += 100
    return locks


def ticks(*locks: Any) -> list[float | None]:
    """For how long the heartbeat leaves each of them alone."""
    return [lock.__held__.renewer.tick() for lock in locks]


def renewed(wire: Wire) -> list[str]:
    """The keys of the renewals seen, in their order."""
    return [request.body["Key"]["key"]["S"] for request in wire.requests]


def test_the_renewals_of_all_locks_of_a_client_share_its_rate(wire, make):
    clock = StandingClock()
    locks = ticking(clock, make, 2, "a0", "a1", "a2", "a3")
    wire.clear()
    pauses = ticks(*locks)
    assert renewed(wire) == ["a0"]
    assert pauses == pytest.approx([100, 0.5, 1.0, 1.5])
    for seen in range(2, 5):
        clock.now += 0.5
        ticks(*locks)
        assert renewed(wire) == [f"a{n}" for n in range(seen)]
    clock.now += 98  # 100 s after its renewal the first is due again, and no other is before it
    assert ticks(locks[0]) == [pytest.approx(0.5)]
    assert wire.count() == 4


def test_without_a_rate_all_are_renewed_when_they_are_due(wire, make):
    locks = ticking(StandingClock(), make, None, "a", "b", "c", "d")
    wire.clear()
    ticks(*locks)
    assert renewed(wire) == ["a", "b", "c", "d"]


def test_a_failed_renewal_takes_a_new_slot(wire, make):
    clock = StandingClock()
    first, second = ticking(clock, make, 0.1, "a", "b")
    wire.clear()
    wire.unavailable("UpdateItem")
    ticks(first)
    assert ticks(second) == [pytest.approx(10)]
    clock.now += 1  # the back-off is over, but the next slot is the other's
    assert ticks(first) == [pytest.approx(19)]
    assert renewed(wire) == ["a"]
    clock.now += 9
    ticks(second)
    clock.now += 10
    ticks(first)
    assert renewed(wire) == ["a", "b", "a"]


def test_two_clients_have_a_rate_each(wire, make):
    clock = StandingClock()
    locks = ticking(clock, make, 0.1, "a") + ticking(clock, make, 0.1, "b")
    wire.clear()
    ticks(*locks)
    assert renewed(wire) == ["a", "b"]


def test_a_renewal_by_hand_waits_for_no_slot_and_one_that_was_not_used_is_not_kept_for_later(wire, make):
    clock = StandingClock()
    first, second = ticking(clock, make, 2, "a", "b")
    wire.clear()
    ticks(first, second)  # the second is put off by half a second ...
    second.heartbeat()  # ... and not needed any more
    assert renewed(wire) == ["a", "b"]
    clock.now += 100
    wire.clear()
    assert ticks(first, second)[1] == pytest.approx(0.5)
    assert renewed(wire) == ["a"]


def test_under_a_rate_no_lock_is_forgotten(wire, make):
    client = make(heartbeat_rate=20, heartbeat_period=0.1)  # five locks ask for 50 renewals a second
    locks = [client.acquire(f"a{n}") for n in range(5)]
    wire.clear()
    wait_until(lambda: wire.count("UpdateItem") >= 25)
    turns = Counter(renewed(wire)[:25])
    assert set(turns) == {lock.key for lock in locks}
    assert min(turns.values()) >= 3
    assert all(lock.is_held for lock in locks)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan"), "2", True])
def test_a_rate_that_is_none_is_refused(rate, make):
    with pytest.raises(LockArgumentError if type(rate) in (int, float) else TypeError, match="heartbeat_rate"):
        make(heartbeat_rate=rate)


# The session monitor


def test_safe_time_says_when_a_lock_is_almost_expired_and_danger_is_told_once_before_loss(make, rows):
    told: list[tuple[str, bool]] = []
    clock = LeapingClock()
    callbacks = {
        "on_danger": lambda lock: told.append(("danger", lock.is_held)),
        "on_lost": lambda lock: told.append(("lost", lock.is_held)),
    }
    lock = make(clock=clock, heartbeat_period=0).acquire("a", lease_duration=20, safe_time=5, **callbacks)
    for _ in range(2):
        assert lock.is_almost_expired is False
        clock.leapt += 16
        assert (lock.is_almost_expired, lock.is_held, lock.lost) == (True, True, False)  # a look notices
        wait_until(lambda: told)
        lock.heartbeat()
    assert told == [("danger", True)]
    rows.put_held("a", expires_at=time.time() + 60)
    with pytest.raises(LockLostError):
        lock.heartbeat()
    wait_until(lambda: len(told) == 2)
    assert told[1] == ("lost", False)
    assert lock.is_almost_expired is True


# Names from the environment


def test_key_names_given_or_of_the_environment_belong_to_their_table(table, make, new_table, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", new_table("pk"))
    monkeypatch.setenv("LAMBDA_LOCK_PARTITION_KEY", "another")
    monkeypatch.setenv("LAMBDA_LOCK_SORT_KEY", "")
    assert make(partition_key_name="pk").acquire("a").release() is True  # the argument beats the variable
    monkeypatch.setenv("LAMBDA_LOCK_SORT_KEY", "sk")
    assert make(table).acquire("a").release() is True  # of another table than that of the environment
