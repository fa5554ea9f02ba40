"""Several locks at once: all or none, in one order, one handle for all."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from typing import Any

import pytest

from lambda_lock import (
    GO,
    PYTHON,
    ClientClosedError,
    Lock,
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
from tests.support.rows import Rows
from tests.support.waiting import DEADLINE, wait_until

__all__ = ["fresh_heartbeat", "no_threads"]


def key_of(request: Request) -> str:
    key: str = request.body["Key"]["key"]["S"]
    return key


def keys_of(wire: Wire) -> list[str]:
    return [key_of(request) for request in wire.requests]


def is_for(key: str) -> Any:
    return lambda request: key_of(request) == key


def taken_over(rows: Rows, key: str) -> None:
    # Its lease outlasts the test on the engine's clock too, which goes on where the client's stands still.
    rows.put_held(key, expires_at=time.time() + 3600, lease_seconds=3600, owner="another#1")


def now(locks: MultiLock) -> MultiLock:
    """The locks as they stand now: type checkers take it that a property does not change by itself."""
    return locks


# Taken


def test_free_locks_cost_one_request_each_to_take_and_one_to_release(wire, wired):
    with wired.acquire_all(["b", "c", "a"]):
        assert wire.operations == ["UpdateItem"] * 3
        assert keys_of(wire) == ["a", "b", "c"]
        wire.clear()
    assert wire.operations == ["UpdateItem"] * 3
    assert keys_of(wire) == ["c", "b", "a"]


def test_the_order_is_that_of_the_bytes_in_utf_8_and_equal_keys_count_once(client):
    keys = ["\uff5a", "\U0001f511", "é", "Z", "a", "Z"]  # UTF-16 would put the key symbol before the wide z
    with client.acquire_all(keys) as locks:
        assert locks.keys == ("Z", "a", "é", "\uff5a", "\U0001f511")
        assert locks.keys == tuple(sorted(set(keys), key=str.encode))


def test_the_handle_shows_all_locks(client, rows):
    client.acquire("b").release()
    with client.acquire_all(("b", "a"), lease_duration=30) as locks:
        assert locks.keys == ("a", "b")
        assert {rows[key]["ownerName"]["S"] for key in "ab"} == {locks.owner}
        assert locks.fencing_tokens == {key: int(rows[key]["fencingToken"]["N"]) for key in "ab"}
        assert locks.is_held
        assert not locks.lost
        assert 25 < locks.remaining <= 30
        locks.raise_if_lost()
        assert "MultiLock 'a', 'b' held for " in repr(locks)
        assert [lock.key for lock in client.held()] == ["a", "b"]
        assert {lock.key: lock.fencing_token for lock in client.held()} == locks.fencing_tokens
    assert not now(locks).is_held
    assert not now(locks).lost
    assert now(locks).remaining == 0
    assert "released" in repr(locks)
    assert client.held() == ()
    with pytest.raises(LockLostError, match="was released"):
        locks.raise_if_lost()


def test_a_repr_names_three_keys_at_most(client):
    with client.acquire_all(f"k{number}" for number in range(5)) as locks:
        assert "'k0', 'k1', 'k2' and 2 more held for" in repr(locks)


def test_fifty_keys_are_taken_together(client, rows):
    keys = [f"{number:02}" for number in range(50)]
    with client.acquire_all(reversed(keys)) as locks:
        assert locks.keys == tuple(keys)
        assert all(rows.is_held(key) for key in keys)
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
    holder = wired.acquire("b")
    wire.clear()
    with pytest.raises(LockNotGrantedError) as refused:
        wired.acquire_all(["c", "b", "a"], wait=0)
    assert (refused.value.key, refused.value.holder) == ("b", holder.owner)
    assert not isinstance(refused.value, LockTimeoutError)
    assert keys_of(wire) == ["a", "b", "a"]
    assert not rows.is_held("a")
    assert rows.get("c") is None
    assert holder.is_held
    assert pickle.loads(pickle.dumps(refused.value)).key == "b"
    assert wired.held() == (holder,)


def test_what_was_taken_is_released_the_newest_first(wire, wired):
    wired.acquire("c")
    wire.clear()
    assert wired.try_acquire_all(["a", "b", "c"]) is None
    assert keys_of(wire) == ["a", "b", "c", "b", "a"]


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
    wait_until(lambda: rows.is_held("a"))
    wait_until(lambda: rows["b"].get("waiters"))  # in its place in the queue
    assert rows.get("c") is None
    holder.release()
    with taking() as locks:
        assert locks.keys == ("a", "b", "c")
        assert locks.is_held


def test_two_that_name_the_keys_in_opposite_orders_never_stand_still(make):
    done: list[int] = []

    def work(keys: list[str]) -> None:
        client = make()
        for _ in range(10):
            with client.acquire_all(keys, wait=60):
                done.append(1)

    threads = [in_thread(lambda keys=keys: work(keys)) for keys in (["a", "b"], ["b", "a"])]  # type: ignore[misc]
    for thread in threads:
        thread()
    assert len(done) == 20


def test_cancel_check_ends_the_wait_and_leaves_nothing(make, rows):
    make().acquire("b")
    with pytest.raises(LockTimeoutError, match="cancelled") as cancelled:
        make().acquire_all(["a", "b"], wait=60, cancel_check=lambda: rows.is_held("a"))
    assert cancelled.value.key == "b"
    assert not rows.is_held("a")


def test_closing_the_client_ends_the_wait_and_leaves_nothing(make, rows):
    make().acquire("b")
    client = make()
    taking = in_thread(lambda: client.acquire_all(["a", "b"], wait=60))
    wait_until(lambda: rows.is_held("a"))
    client.close()
    with pytest.raises(ClientClosedError):
        taking()
    assert not rows.is_held("a")


def test_too_little_time_is_an_error_also_for_try(client, rows):
    with pytest.raises(LockNotGrantedError) as refused:
        client.try_acquire_all(["a", "b"], context=lambda_context(remaining=0.5))
    assert refused.value.too_late
    assert rows.get("a") is None


def test_a_denied_or_failed_claim_releases_the_others(wire, wired, rows):
    wire.answer(400, "ResourceNotFoundException", when=is_for("b"))
    with pytest.raises(Exception, match="not found") as failed:
        wired.acquire_all(["a", "b"], wait=0)
    assert getattr(failed.value, "key", None) == "b"
    assert not rows.is_held("a")


def test_an_outage_names_the_key_and_leaves_the_rest_to_its_lease(wire, impatient, rows, caplog):
    wire.unavailable(when=is_for("d"), times=float("inf"))
    wire.unavailable(when=lambda request: "ReturnValues" not in request.body, times=float("inf"))  # the releases
    with caplog.at_level(logging.WARNING, "lambda_lock"), pytest.raises(TransportError) as failed:
        impatient.acquire_all(["a", "b", "c", "d"], wait=0)
    assert failed.value.key == "d"
    assert set(keys_of(wire)[3:]) == {"d", "c", "b"}  # two without an answer: "a" is not tried
    assert "'a' was not released" in caplog.text
    assert impatient.held() == ()


def test_an_interrupt_leaves_nothing(wire, wired, rows):
    class Stop(BaseException):
        pass

    def stop() -> bool:
        raise Stop

    wired.acquire("b")
    with pytest.raises(Stop):
        wired.acquire_all(["a", "b"], wait=60, cancel_check=stop)
    assert not rows.is_held("a")


# Kept while waiting


def test_what_is_held_is_renewed_while_a_later_one_is_waited_for(make, rows):
    holder, client = make().acquire("b"), make(lease_duration=1.0)
    taking = in_thread(lambda: client.acquire_all(["a", "b"], wait=60))
    wait_until(lambda: rows.is_held("a"))
    first = rows.version("a")
    owner = rows["a"]["ownerName"]
    wait_until(lambda: rows.version("a") != first)
    holder.release()
    with taking() as locks:
        assert rows["a"]["ownerName"] == owner
        assert locks.is_held


def test_a_lock_that_waits_for_the_others_is_renewed_also_where_the_client_renews_nothing(make, rows):
    holder, client = make().acquire("b"), make(lease_duration=1.0, heartbeat_period=0)
    taking = in_thread(lambda: client.acquire_all(["a", "b"], wait=60))
    wait_until(lambda: rows.is_held("a"))
    first = rows.version("a")
    wait_until(lambda: rows.version("a") != first)
    holder.release()
    locks = taking()
    last = rows.version("a")
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
    taken_over(rows, "b")

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


def test_an_acquire_all_that_has_lost_a_lock_when_its_wait_is_over_is_refused(make, rows, wire):
    clock = StandingClock()

    def takes(seconds: float) -> Any:
        def late(answer: Any) -> Any:
            clock.now += seconds
            return answer

        return late

    client = make(clock=clock, heartbeat_period=0, lease_duration=20)
    wire.alter_reply(takes(1.5), when=is_for("a"))
    wire.alter_reply(takes(19), when=is_for("b"))
    with pytest.raises(LockNotGrantedError, match="was taken, but lost") as refused:
        client.acquire_all(["a", "b"], wait=0)
    assert refused.value.key == "a"
    assert not rows.is_held("a")
    assert not rows.is_held("b")


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


@pytest.mark.parametrize(
    "options",
    [
        {"wait": -1},
        {"lease_duration": 0.5},
        {"safe_time": 30},
        {"on_danger": print},
        {"reserve": -1},
        {"sort_key": "x"},
    ],
)
def test_bad_options_are_refused_before_anything_is_sent(options, wire, wired):
    with pytest.raises(LockArgumentError):
        wired.acquire_all(["a", "b"], **options)
    assert wire.count() == 0


def test_an_unknown_option_is_a_type_error(client):
    with pytest.raises(TypeError, match="data"):
        client.acquire_all(["a"], data=b"")


def test_a_generator_of_keys_is_read_once(client):
    with client.acquire_all(key for key in "ba") as locks:
        assert locks.keys == ("a", "b")


# Released


def test_a_second_release_is_an_error(client):
    locks = client.acquire_all(["a", "b"])
    assert locks.release() is True
    with pytest.raises(LockAlreadyReleasedError):
        locks.release()
    with pytest.raises(LockAlreadyReleasedError):
        locks.heartbeat()
    with pytest.raises(LockAlreadyReleasedError):
        locks.commit([{"Put": {"TableName": "orders"}}])


def test_release_is_false_if_any_was_lost_and_the_others_are_released(client, rows):
    locks = client.acquire_all(["a", "b", "c"])
    taken_over(rows, "b")
    assert locks.release() is False
    assert [rows.is_held(key) for key in "abc"] == [False, True, False]
    assert now(locks).lost


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


def test_a_release_gives_up_after_two_without_an_answer(wire, impatient):
    locks = impatient.acquire_all(["a", "b", "c", "d"])
    wire.clear()
    fault = wire.drop_request(times=float("inf"))
    with pytest.raises(TransportError) as failed:
        locks.release()
    assert failed.value.key == "d"
    assert set(keys_of(wire)) == {"d", "c"}
    assert not now(locks).is_held
    fault.times = 0
    assert locks.release() is True


def test_the_end_of_the_block_logs_what_is_not_released(wire, impatient, caplog):
    with caplog.at_level(logging.WARNING, "lambda_lock"), impatient.acquire_all(["a", "b"]):
        wire.drop_request(times=float("inf"))
    assert "'b' was not released" in caplog.text
    assert "'a' was not released" in caplog.text
    assert impatient.held() == ()


def test_the_block_releases_also_after_an_error(client, rows):
    with pytest.raises(ValueError, match="work"), client.acquire_all(["a", "b"]):
        raise ValueError("work")
    assert not rows.is_held("a")
    assert not rows.is_held("b")


def test_one_lock_that_was_released_by_itself_ends_the_handle(client, rows):
    locks = client.acquire_all(["a", "b"])
    client.held()[0].release()
    assert not locks.is_held
    assert not locks.lost
    assert locks.release() is True
    assert not rows.is_held("b")


def test_closing_the_client_releases_them(make, rows):
    client = make()
    locks = client.acquire_all(["a", "b"])
    client.close()
    assert not locks.is_held
    assert not rows.is_held("a")
    assert not rows.is_held("b")
    with pytest.raises(LockAlreadyReleasedError):
        locks.release()


def test_a_dropped_handle_is_warned_about_and_its_locks_are_released_by_close(make, rows):
    client = make(keeping=False)
    with pytest.warns(ResourceWarning, match="was dropped while the lock is held"):
        drop(lambda: client.acquire_all(["a", "b"]))
    assert rows.is_held("a")
    client.close()
    assert not rows.is_held("a")
    assert not rows.is_held("b")


def test_in_a_forked_child_they_are_not_held_and_not_released(client, rows):
    with client.acquire_all(["a", "b"]) as locks:

        def child() -> tuple[bool, bool, str]:
            held = locks.is_held
            locks.__exit__(None, None, None)  # of a block that the parent had entered
            try:
                locks.release()
            except OwnerMismatchError as error:
                return held, locks.lost, str(error)
            return held, locks.lost, ""

        held, lost, error = in_child(child)()
        assert (held, lost) == (False, True)
        assert "'a', 'b'" in error
        assert rows.is_held("a")
        assert locks.is_held


def test_two_threads_do_not_release_the_same_locks_at_once(wire, wired):
    locks = wired.acquire_all(["a", "b"])
    held_up = wire.hold("UpdateItem")
    first = in_thread(locks.release)
    assert held_up.reached.wait(DEADLINE)
    with pytest.raises(LockAlreadyReleasedError, match="at this moment"):
        locks.release()
    locks.__exit__(None, None, None)  # nor does the end of a block
    held_up.release()
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


def test_heartbeat_renews_each_of_them(wire, wired, rows):
    locks = wired.acquire_all(["a", "b"])
    before = [rows.version(key) for key in "ab"]
    wire.clear()
    locks.heartbeat()
    assert keys_of(wire) == ["a", "b"]
    assert [rows.version(key) for key in "ab"] > before


def test_a_heartbeat_renews_the_others_of_a_lost_one_and_names_it(client, rows):
    locks = client.acquire_all(["a", "b", "c"])
    taken_over(rows, "b")
    before = rows.version("c")
    with pytest.raises(LockLostError) as lost:
        locks.heartbeat()
    assert (lost.value.key, lost.value.holder) == ("b", "another#1")
    assert rows.version("c") > before
    assert locks.lost
    assert not locks.is_held
    with pytest.raises(LockLostError, match="'b'"):
        locks.raise_if_lost()


def test_a_heartbeat_in_an_outage_is_bounded(wire, impatient):
    locks = impatient.acquire_all(["a", "b", "c", "d"])
    wire.clear()
    fault = wire.drop_request(times=float("inf"))
    with pytest.raises(TransportError) as unknown:
        locks.heartbeat()
    assert unknown.value.key == "a"
    assert set(keys_of(wire)) == {"a", "b"}
    fault.times = 0
    locks.heartbeat()
    assert locks.is_held


def test_the_first_loss_is_signalled_once_with_the_handle_and_the_others_are_renewed_on(make, rows):
    lost, told = list[MultiLock](), threading.Event()

    def on_lost(locks: MultiLock) -> None:
        lost.append(locks)
        told.set()

    client = make(lease_duration=20, heartbeat_period=0.3)  # no lock is lost but those that are taken over
    locks = client.acquire_all(["a", "b", "c"], on_lost=on_lost)
    taken_over(rows, "b")
    assert told.wait(DEADLINE)
    assert lost == [locks]
    assert locks.lost
    first = rows.version("c")
    wait_until(lambda: rows.version("c") != first)
    taken_over(rows, "a")
    wait_until(lambda: [lock.key for lock in client.held()] == ["c"])
    assert locks.release() is False
    assert lost == [locks]


def test_danger_is_signalled_once_with_the_handle(make):
    danger, told = list[MultiLock](), threading.Event()

    def on_danger(locks: MultiLock) -> None:
        danger.append(locks)
        told.set()

    client = make(heartbeat_period=0, lease_duration=2.0)
    locks = client.acquire_all(["a", "b"], safe_time=1.5, on_danger=on_danger)
    assert told.wait(DEADLINE)
    wait_until(lambda: not locks.is_held)
    assert danger == [locks]


def test_a_danger_that_cannot_be_told_yet_does_not_keep_the_heartbeat_busy(make, rows):
    clock, pauses = StandingClock(), list[float | None]()
    client = make(clock=clock, lease_duration=20)
    taken_over(rows, "b")

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


def test_hooks_are_told_of_each_lock_once_all_are_held(make, rows):
    events: list[tuple[str, str]] = []

    class Hook:
        def on_granted(self, lock: Lock) -> None:
            events.append(("granted", lock.key))

        def on_released(self, lock: Lock) -> None:
            events.append(("released", lock.key))

        def on_not_granted(self, error: LockNotGrantedError) -> None:
            events.append(("not granted", str(error.key)))

    client = make(hooks=(Hook(),))
    holder = make().acquire("c")
    assert client.try_acquire_all(["a", "b", "c"]) is None
    holder.release()
    with client.acquire_all(["a", "b"]):
        pass
    wait_until(lambda: len(events) == 5)
    assert events == [("not granted", "c"), ("granted", "a"), ("granted", "b"), ("released", "b"), ("released", "a")]


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
