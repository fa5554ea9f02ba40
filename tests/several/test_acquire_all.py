"""Several locks at once: all or none, in one order, one handle for all."""

import logging
import pickle
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from lambda_lock import (
    GO,
    PYTHON,
    ClientClosedError,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockError,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
    MultiLock,
    OwnerMismatchError,
    TransportError,
)
from lambda_lock.testing import lambda_context
from rig.wire import Request, Wire
from tests.client.test_heartbeat_faults import WATCHER, fresh_heartbeat, no_threads
from tests.support.clients import drop
from tests.support.clocks import LeapingClock, StandingClock
from tests.support.elsewhere import in_child, in_thread
from tests.support.faults import held_up
from tests.support.waiting import wait_until

__all__ = ["fresh_heartbeat", "no_threads"]


def key_of(request: Request) -> str:
    key: str = request.body["Key"]["key"]["S"]
    return key


def keys_of(wire: Wire) -> list[str]:
    return [key_of(request) for request in wire.requests]


def is_for(key: str) -> Any:
    return lambda request: key_of(request) == key


# Taken


def test_free_locks_cost_one_request_each_to_take_and_one_to_release(wire, wired):
    with wired.acquire_all(["b", "c", "a"]):
        assert wire.operations == ["UpdateItem"] * 3
        assert keys_of(wire) == ["a", "b", "c"]
        wire.clear()
    assert wire.operations == ["UpdateItem"] * 3
    assert keys_of(wire) == ["c", "b", "a"]


def test_the_handle_shows_all_locks(client, rows):
    client.acquire("b").release()
    with client.acquire_all(("b", "a"), lease_duration=30) as locks:
        assert locks.keys == ("a", "b")
        assert {rows[key]["ownerName"]["S"] for key in "ab"} == {locks.owner}
        assert locks.fencing_tokens == {key: int(rows[key]["fencingToken"]["N"]) for key in "ab"}
        assert (locks.is_held, locks.lost) == (True, False)
        assert 25 < locks.remaining <= 30
        locks.raise_if_lost()
        assert "MultiLock 'a', 'b' held for " in repr(locks)
        assert {lock.key: lock.fencing_token for lock in client.held()} == locks.fencing_tokens
    assert (locks.is_held, locks.lost, locks.remaining) == (False, False, 0)
    assert "released" in repr(locks)
    assert client.held() == ()
    with pytest.raises(LockLostError, match="was released"):
        locks.raise_if_lost()


def test_fifty_keys_are_taken_together_and_a_repr_names_three_of_them(client, rows):
    keys = [f"{number:02}" for number in range(50)]
    with client.acquire_all(key for key in reversed(keys)) as locks:
        assert locks.keys == tuple(keys)
        assert all(rows.is_held(key) for key in keys)
        assert "'00', '01', '02' and 47 more held for" in repr(locks)
    assert not any(rows.is_held(key) for key in keys)


@pytest.mark.parametrize("schema", [GO, PYTHON])
def test_several_locks_are_taken_renewed_and_released_in_the_other_schemas(schema, make, new_table):
    name = new_table(schema.partition_key, schema.sort_key) if schema.sort_key else None
    client = make(name, schema=schema, partition_key_name=schema.partition_key if name else "key")
    with client.acquire_all(["a", "b"]) as locks:
        assert client.try_acquire("a") is None
        locks.heartbeat()
    assert client.try_acquire("a") is not None


def test_a_sort_key_is_that_of_all_keys(make, new_table):
    client = make(new_table(sort_key="sk"), sort_key_name="sk")
    with client.acquire_all(["a", "b"], sort_key="one"):
        assert client.try_acquire("a", sort_key="one") is None
        with client.acquire_all(["a", "b"], sort_key="two", wait=0):
            pass


# Not taken


def test_a_refusal_names_the_key_and_its_holder_and_leaves_nothing(wire, wired, rows):
    holder = wired.acquire("c")
    wire.clear()
    with pytest.raises(LockNotGrantedError) as refused:
        wired.acquire_all(["d", "c", "b", "a"], wait=0)
    assert (refused.value.key, refused.value.holder) == ("c", holder.owner)
    assert not isinstance(refused.value, LockTimeoutError)
    assert keys_of(wire) == ["a", "b", "c", "b", "a"]  # the newest is released first
    assert not rows.is_held("a")
    assert rows.get("d") is None
    assert pickle.loads(pickle.dumps(refused.value)).key == "c"
    assert wired.held() == (holder,)


def test_a_wait_is_one_for_all(make, wire):
    client = make(clock=LeapingClock(), heartbeat_period=0)
    make().acquire("b")
    with pytest.raises(LockTimeoutError) as refused:
        client.acquire_all(["a", "b"], wait=5)
    assert refused.value.key == "b"
    assert 4.9 < refused.value.waited < 10  # not 5 s for each
    assert client.try_acquire("a") is not None


def test_a_lock_that_becomes_free_is_taken_and_the_others_were_kept(client, make, rows):
    holder = make().acquire("b")
    taking = in_thread(lambda: client.acquire_all(["c", "b", "a"], wait=60))
    wait_until(lambda: rows.is_held("a") and rows["b"].get("waiters"))  # in its place in the queue
    assert rows.get("c") is None
    holder.release()
    with taking() as locks:
        assert locks.keys == ("a", "b", "c")
        assert locks.is_held


def test_two_that_name_the_keys_in_opposite_orders_never_stand_still(make):
    def work(keys: list[str]) -> int:
        client, done = make(), 0
        for _ in range(10):
            with client.acquire_all(keys, wait=60):
                done += 1
        return done

    threads = [in_thread(partial(work, keys)) for keys in (["a", "b"], ["b", "a"])]
    assert [thread() for thread in threads] == [10, 10]


class Stop(BaseException):
    """It ends more than a call."""


@pytest.mark.parametrize("end", [LockTimeoutError, Stop, ClientClosedError])
def test_a_wait_that_is_cancelled_interrupted_or_closed_leaves_nothing(end, make, rows):
    make().acquire("b")
    client = make()

    def check() -> bool:
        if rows.is_held("a") and end is Stop:
            raise Stop
        return end is LockTimeoutError and rows.is_held("a")

    taking = in_thread(lambda: client.acquire_all(["a", "b"], wait=60, cancel_check=check))
    wait_until(lambda: rows.get("a") is not None)
    if end is ClientClosedError:
        client.close()
    with pytest.raises(end) as caught:
        taking()
    if isinstance(caught.value, LockTimeoutError):
        assert "cancelled" in str(caught.value)
        assert caught.value.key == "b"
    assert not rows.is_held("a")


def test_too_little_time_is_an_error_also_for_try(client, rows):
    with pytest.raises(LockNotGrantedError) as refused:
        client.try_acquire_all(["a", "b"], context=lambda_context(remaining=0.5))
    assert refused.value.too_late
    assert rows.get("a") is None


def test_an_outage_names_the_key_and_leaves_the_rest_to_its_lease(wire, impatient, rows, caplog):
    wire.unavailable(when=is_for("d"), times=float("inf"))
    wire.unavailable(when=lambda request: "ReturnValues" not in request.body, times=float("inf"))  # the releases
    with caplog.at_level(logging.WARNING, "lambda_lock"), pytest.raises(TransportError) as failed:
        impatient.acquire_all(["a", "b", "c", "d"], wait=0)
    assert failed.value.key == "d"
    assert set(keys_of(wire)[3:]) == {"d", "c", "b"}  # two without an answer: "a" is not tried
    assert "'a' was not released" in caplog.text
    assert impatient.held() == ()


# Kept while waiting


@pytest.mark.parametrize("settings", [{}, {"heartbeat_period": 0}], ids=str)
def test_what_is_held_is_renewed_while_a_later_one_is_waited_for(settings, make, rows):
    holder, client = make().acquire("b"), make(lease_duration=1.0, **settings)
    taking = in_thread(lambda: client.acquire_all(["a", "b"], wait=60))
    wait_until(lambda: rows.is_held("a"))
    first, owner = rows.version("a"), rows["a"]["ownerName"]
    wait_until(lambda: rows.version("a") != first)
    holder.release()
    locks, last = taking(), rows.version("a")
    assert rows["a"]["ownerName"] == owner
    if settings:
        wait_until(lambda: not locks.is_held)  # from here on nothing renews it
        assert rows.version("a") == last


def test_a_renewal_that_fails_while_a_later_one_is_waited_for_is_logged(make, wire, rows, caplog):
    holder, client = make().acquire("b"), make(lease_duration=2.0)
    with caplog.at_level(logging.INFO, "lambda_lock"):
        taking = in_thread(lambda: client.acquire_all(["a", "b"], wait=60))
        wait_until(lambda: rows.is_held("a"))
        wire.throttle("UpdateItem", when=lambda request: key_of(request) == "a")
        wait_until(lambda: "renewal of lock 'a' failed, trying again" in caplog.text)
        holder.release()
        taking().release()


def test_before_it_returns_each_lock_has_nearly_its_whole_lease(make, wire, rows):
    clock = StandingClock()
    client = make(clock=clock, heartbeat_period=0, lease_duration=20)
    rows.take_over("b")

    def free() -> bool:
        if clock.now > 1_000_003:
            rows.delete("b")
        return False

    with client.acquire_all(["a", "b"], wait=60, cancel_check=free) as locks:
        assert locks.remaining > 17.5
        renewals = [request for request in wire.requests if key_of(request) == "a"]
        assert len(renewals) >= 2


def test_an_acquire_all_that_loses_a_lock_while_waiting_begins_anew(make, rows, caplog):
    holder, lost = make().acquire("b"), list[MultiLock]()
    client = make(lease_duration=1.0)
    with caplog.at_level(logging.DEBUG, "lambda_lock"):
        taking = in_thread(lambda: client.acquire_all(["a", "b"], wait=60, on_lost=lost.append))
        wait_until(lambda: rows.is_held("a"))
        first = rows["a"]["ownerName"]
        rows.delete("a")  # as an operator might: the next renewal finds it gone
        wait_until(lambda: rows.get("a") is not None and rows["a"]["ownerName"] != first)
        holder.release()
        with taking() as locks:
            assert locks.is_held
            assert rows["a"]["ownerName"]["S"] == rows["b"]["ownerName"]["S"] == locks.owner != first["S"]
    assert lost == []  # nobody had them yet
    assert "is lost" not in caplog.text


# Bad input


@pytest.mark.parametrize(
    ("keys", "kind", "says"),
    [
        ("ab", TypeError, r"must be a list of keys, not 'ab' \(str\): write \['ab'\]"),
        (b"ab", TypeError, "must be a list of keys"),
        (7, TypeError, "must be a list of keys, not 7"),
        (None, TypeError, "must be a list of keys, not None"),
        ([], LockArgumentError, "keys is empty"),
        (["a", 7], TypeError, r"keys\[1\] must be a str, not 7"),
        (["a", ""], LockArgumentError, r"keys\[1\] is empty"),
        (["a", "\ud800"], LockArgumentError, r"keys\[1\] .* not valid Unicode"),
        (["a" * 2049], LockArgumentError, "2049 bytes"),
        ([str(number) for number in range(51)], LockArgumentError, "more than 50 different keys"),
    ],
)
def test_bad_keys_are_refused_before_anything_is_sent(keys, kind, says, wire, wired):
    for acquire in (wired.acquire_all, wired.try_acquire_all):
        with pytest.raises(kind, match=says):
            acquire(keys)
    assert wire.count() == 0


@pytest.mark.parametrize("options", [{"wait": -1}, {"safe_time": 30}, {"on_danger": print}, {"sort_key": "x"}])
def test_bad_options_are_refused_before_anything_is_sent(options, wire, wired):
    with pytest.raises(LockArgumentError):
        wired.acquire_all(["a", "b"], **options)
    assert wire.count() == 0


# Released


@pytest.mark.parametrize("end", [lambda client, locks: locks.release(), lambda client, locks: client.close()])
def test_after_a_release_or_the_close_of_the_client_all_has_ended(end, client, rows):
    locks = client.acquire_all(["a", "b"])
    end(client, locks)
    assert not locks.is_held
    assert not any(rows.is_held(key) for key in "ab")
    for act in (locks.release, locks.heartbeat, lambda: locks.commit([{"Put": {"TableName": "orders"}}])):
        with pytest.raises(LockAlreadyReleasedError):
            act()


def test_release_is_false_if_any_was_lost_and_the_others_are_released(client, rows):
    locks = client.acquire_all(["a", "b", "c"])
    rows.take_over("b")
    assert locks.release() is False
    assert [rows.is_held(key) for key in "abc"] == [False, True, False]
    assert locks.lost


def test_every_lock_is_tried_and_the_first_unknown_outcome_is_raised(wire, impatient, rows):
    locks = impatient.acquire_all(["a", "b", "c"])
    fault = wire.drop_reply(when=is_for("b"), times=float("inf"))
    with pytest.raises(TransportError) as unknown:
        locks.release()
    assert unknown.value.ambiguous
    assert unknown.value.key == "b"
    assert not any(rows.is_held(key) for key in "abc")
    fault.times = 0
    wire.clear()
    assert locks.release() is True
    assert keys_of(wire) == ["b"]


def test_the_end_of_the_block_logs_what_is_not_released(wire, impatient, caplog):
    caplog.set_level(logging.WARNING, "lambda_lock")
    locks = impatient.acquire_all(["a", "b"])
    wire.drop_request(times=float("inf"))
    with pytest.raises(ValueError, match="work"), locks:
        raise ValueError("work")
    assert "'b' was not released" in caplog.text
    assert "'a' was not released" in caplog.text
    assert impatient.held() == ()


def test_one_lock_that_was_released_by_itself_ends_the_handle(client, rows):
    locks = client.acquire_all(["a", "b"])
    client.held()[0].release()
    assert not locks.is_held
    assert not locks.lost
    assert locks.release() is True
    assert not rows.is_held("b")


def test_a_dropped_handle_is_warned_about_and_its_locks_are_released_by_close(make, rows):
    client = make(keeping=False)
    drop(lambda: client.acquire_all(["a", "b"]))
    assert rows.is_held("a")
    client.close()
    assert not any(rows.is_held(key) for key in "ab")


def test_in_a_forked_child_they_are_not_held_and_not_released(client, rows):
    with client.acquire_all(["a", "b"]) as locks:

        def child() -> tuple[bool, bool]:
            locks.__exit__(None, None, None)  # of a block that the parent had entered
            with pytest.raises(OwnerMismatchError, match="'a', 'b'"):
                locks.release()
            return locks.is_held, locks.lost

        assert in_child(child)() == (False, True)
        assert rows.is_held("a")
        assert locks.is_held


def test_two_threads_do_not_release_the_same_locks_at_once(wire, wired):
    locks = wired.acquire_all(["a", "b"])
    with held_up(wire.hold("UpdateItem"), locks.release) as first:
        with pytest.raises(LockAlreadyReleasedError, match="at this moment"):
            locks.release()
        locks.__exit__(None, None, None)  # nor does the end of a block
    assert first() is True


@pytest.mark.plain
def test_a_release_ends_a_lock_that_was_entered_again_within(client, rows):
    locks = client.acquire_all(["a", "b"])
    again = client.acquire("a", reentrant=True)
    assert again.release() is True
    assert locks.is_held
    with client.acquire("a", reentrant=True) as again:
        assert locks.release() is True
        assert not again.is_held
        assert not rows.is_held("a")
        assert not rows.is_held("b")
    with pytest.raises(LockAlreadyReleasedError):
        again.release()


# Renewed and lost


def test_a_heartbeat_renews_each_and_names_one_that_is_lost(wire, wired, rows):
    locks = wired.acquire_all(["a", "b", "c"])
    before = [rows.version(key) for key in "abc"]
    wire.clear()
    locks.heartbeat()
    assert keys_of(wire) == ["a", "b", "c"]
    renewed = [rows.version(key) for key in "abc"]
    assert all(new > old for new, old in zip(renewed, before, strict=True))
    rows.take_over("b")
    with pytest.raises(LockLostError) as lost:
        locks.heartbeat()
    assert (lost.value.key, lost.value.holder) == ("b", "another#1")
    assert rows.version("c") > renewed[2]
    assert (locks.lost, locks.is_held) == (True, False)
    with pytest.raises(LockLostError, match="'b'"):
        locks.raise_if_lost()


@pytest.mark.parametrize(("act", "tried"), [("heartbeat", "ab"), ("release", "dc")])
def test_a_heartbeat_or_release_in_an_outage_gives_up_after_two_without_an_answer(act, tried, wire, impatient):
    locks = impatient.acquire_all(["a", "b", "c", "d"])
    wire.clear()
    fault = wire.drop_request(times=float("inf"))
    with pytest.raises(TransportError) as unknown:
        getattr(locks, act)()
    assert unknown.value.key == tried[0]
    assert set(keys_of(wire)) == set(tried)
    assert locks.is_held is (act == "heartbeat")
    fault.times = 0
    assert getattr(locks, act)() is (True if act == "release" else None)


def test_the_first_loss_is_signalled_once_with_the_handle_and_the_others_are_renewed_on(make, rows):
    lost: list[MultiLock] = []
    client = make(lease_duration=20, heartbeat_period=0.3)  # no lock is lost but those that are taken over
    locks = client.acquire_all(["a", "b", "c"], on_lost=lost.append)
    rows.take_over("b")
    wait_until(lambda: lost)
    assert locks.lost
    first = rows.version("c")
    wait_until(lambda: rows.version("c") != first)
    rows.take_over("a")
    wait_until(lambda: [lock.key for lock in client.held()] == ["c"])
    assert locks.release() is False
    assert lost == [locks]


def test_danger_is_signalled_once_with_the_handle(make):
    danger: list[MultiLock] = []
    client = make(heartbeat_period=0, lease_duration=2.0)
    locks = client.acquire_all(["a", "b"], safe_time=1.5, on_danger=danger.append)
    wait_until(lambda: danger)
    wait_until(lambda: not locks.is_held)
    assert danger == [locks]


def test_a_danger_that_cannot_be_told_yet_does_not_keep_the_heartbeat_busy(make, rows):
    clock, pauses = StandingClock(), list[float | None]()
    client = make(clock=clock, lease_duration=20)
    rows.take_over("b")

    def cancelled() -> bool:
        if 1_000_005.2 < clock.now < 1_000_006.4:  # in danger already, and not due for its renewal
            (held,) = client.held()
            pauses.append(held.__held__.renewer.tick())
        return clock.now > 1_000_006.4

    with pytest.raises(LockTimeoutError):
        client.acquire_all(
            ["a", "b"], wait=60, safe_time=15, refresh_period=0.2, cancel_check=cancelled, on_danger=lambda _: None
        )
    assert pauses
    assert 0 not in pauses


def test_hooks_are_told_of_each_lock_once_all_are_held(make):
    events: list[tuple[str, str]] = []

    def note(name: str) -> Any:
        return lambda about: events.append((name, about.key))

    names = ("on_granted", "on_released", "on_not_granted")
    client = make(hooks=(SimpleNamespace(**{name: note(name) for name in names}),))
    holder = make().acquire("c")
    assert client.try_acquire_all(["a", "b", "c"]) is None
    holder.release()
    with client.acquire_all(["a", "b"]):
        pass
    wait_until(lambda: len(events) == 5)
    assert events == [
        ("on_not_granted", "c"),
        *(("on_granted", key) for key in "ab"),
        *(("on_released", k) for k in "ba"),
    ]


@pytest.mark.usefixtures("fresh_heartbeat")
def test_a_heartbeat_that_cannot_start_is_an_error_with_nothing_left_held(make, rows, no_threads):
    client = make(lease_duration=2.5)
    no_threads.names = {WATCHER}
    with pytest.raises(LockError, match="heartbeat thread does not start"):
        client.acquire_all(["a", "b"])
    assert not rows.is_held("a")
    assert client.held() == ()
    no_threads.names = set()
    with client.acquire_all(["a", "b"]) as locks:
        assert locks.is_held
