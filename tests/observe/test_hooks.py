"""Hooks hear what happens to a client's locks, in order, and can neither delay nor fail one."""

import asyncio
import logging
import threading
import time
from dataclasses import dataclass

import pytest

from lambda_lock import AsyncLockClient, Lock, LockClient, LockNotGrantedError, deduplicate
from lambda_lock.observe import hooks
from tests.support.clients import Make
from tests.support.elsewhere import in_child
from tests.support.waiting import wait_until

from .conftest import Listener

Hooked = tuple[Listener, LockClient]


@pytest.fixture
def hooked(make: Make) -> Hooked:
    """A listener, and a client whose locks it hears of."""
    listener = Listener()
    return listener, make(hooks=[listener])


# What they hear


def test_a_hook_hears_of_each_lock_in_order_on_a_daemon_thread(hooked):
    (listener, client), locks = hooked, []
    for key in "abc":
        with client.acquire(key) as lock:
            locks.append(lock)
    assert listener.events(6) == ["granted", "released"] * 3
    assert [lock for _, lock in listener.heard] == [lock for lock in locks for _ in range(2)]
    assert listener.threads == {("lambda_lock-hooks", True)}


def test_a_hook_hears_who_holds_the_lock_that_was_not_granted(hooked, rows):
    listener, client = hooked
    rows.put_held("a", expires_at=time.time() + 60)
    with pytest.raises(LockNotGrantedError) as caught:
        client.acquire("a", wait=0)
    assert listener.events(1) == ["not_granted"]
    ((_, error),) = listener.heard
    assert (type(error), str(error)) == (LockNotGrantedError, str(caught.value))
    assert (error.key, error.holder) == ("a", "somebody#1")
    assert error.__traceback__ is None  # it would keep the values of the call


def test_a_hook_hears_of_an_event_that_was_done_with_what_is_stored(hooked):
    listener, client = hooked
    handler = deduplicate("{id}", client=client, scope="", result="json")(lambda event: [1])
    assert [handler({"id": "e-1"}), handler({"id": "e-1"})] == [[1], [1]]
    assert listener.events(3) == ["granted", "released", "duplicate"]
    error = listener.heard[2][1]
    assert (error.key, error.result) == ("e-1", "[1]")
    assert error.completed_until > time.time()


@dataclass
class Receipt:
    id: str


@pytest.mark.parametrize("result", ["json", Receipt, None])
@pytest.mark.parametrize("cache_size", [0, 10])
def test_a_hook_is_not_given_what_is_stored_with_a_result(result, cache_size, hooked):
    listener, client = hooked

    @deduplicate("{id}", client=client, result=result, validate=["id"], cache_size=cache_size)
    def handler(event: dict[str, str]) -> Receipt:
        return Receipt(event["id"])

    given = [handler({"id": "e-1"}) for _ in range(3)]
    listener.events(4)
    texts = [error.result for event, error in listener.heard if event == "duplicate"]
    assert texts == [None if result is None else '{"id":"e-1"}'] * 2
    assert given[1:] == [None if result is None else Receipt("e-1")] * 2


def test_a_hook_hears_of_a_loss_that_no_call_looks_for(make):
    listener = Listener()
    lock = make(hooks=(listener,), heartbeat_period=0).acquire("a", lease_duration=1)
    assert listener.events(2) == ["granted", "lost"]
    assert listener.heard[1][1] is lock
    assert lock.lost


def test_a_lock_that_a_commit_released_is_heard_of_and_one_that_is_entered_again_once(hooked, table):
    listener, client = hooked
    client.acquire("a").commit([{"Put": {"TableName": table, "Item": {"key": {"S": "an order"}}}}])
    with client.acquire("a"), client.acquire("a", reentrant=True):
        pass
    client.acquire("b").release()
    assert listener.events(6) == ["granted", "released"] * 3


def test_hooks_of_an_async_client_hear_the_same_and_get_plain_locks(table, rows):
    listener = Listener()

    async def run() -> None:
        async with AsyncLockClient(hooks=[listener]) as client:
            async with await client.acquire("a"):
                assert await client.try_acquire("a") is None
            lock = await client.acquire("b")
            rows.put_held("b", expires_at=time.time() + 60)
            await lock.release()

    asyncio.run(run())
    assert listener.events(5) == ["granted", "not_granted", "released", "granted", "lost"]
    assert {type(subject) for _, subject in listener.heard} == {Lock, LockNotGrantedError}


def test_a_hook_has_only_the_methods_that_it_wants_and_there_may_be_several(make):
    class Gauge:
        held = 0

        def on_granted(self, lock: Lock) -> None:
            self.held += 1

    gauge, listener = Gauge(), Listener()
    make(hooks=(gauge, listener)).acquire("a").release()
    assert listener.events(2) == ["granted", "released"]
    assert gauge.held == 1


# What they cannot do


def test_a_hook_that_fails_is_logged_and_the_others_are_called(make, caplog):
    class Failing:
        def on_granted(self, lock: Lock) -> None:
            raise SystemExit("a hook's own")

    listener = Listener()
    make(hooks=(Failing(), listener)).acquire("a").release()
    assert listener.events(2) == ["granted", "released"]
    (record,) = caplog.records
    told = record.__dict__
    assert (record.levelno, told["lock_event"], told["lock_key"]) == (logging.ERROR, "hook_failed", "a")
    assert "a hook's own" in (record.exc_text or record.message)


def test_a_hook_that_hangs_delays_no_lock_and_keeps_no_more_than_so_many(make, rows, monkeypatch, caplog):
    go_on = threading.Event()

    class Hanging(Listener):
        def on_granted(self, lock: Lock) -> None:
            go_on.wait(30)
            super().on_granted(lock)

    monkeypatch.setattr(hooks, "_MOST", 5)
    hanging = Hanging()
    client = make(hooks=(hanging,))
    try:
        for number in range(4):
            client.acquire(f"lock-{number}").release()  # 8 events: one in the hook, 5 waiting, 2 dropped
            assert not rows.is_held(f"lock-{number}")
        assert hanging.heard == []
    finally:
        go_on.set()
    dropped = [record for record in caplog.records if record.__dict__["lock_event"] == "hook_dropped"]
    assert 2 <= len(dropped) <= 3  # the first event may still have waited
    assert len(hanging.events(8 - len(dropped))) == 8 - len(dropped)


def test_a_hook_may_take_locks_of_the_same_client(make, rows):
    class Auditor(Listener):
        def on_granted(self, lock: Lock) -> None:
            super().on_granted(lock)
            if lock.key == "a":
                client.acquire("audit").release()

    auditor = Auditor()
    client = make(hooks=(auditor,))
    client.acquire("a").release()
    auditor.events(4)
    heard = [(event, lock.key) for event, lock in auditor.heard]
    assert sorted(heard) == [(event, key) for event in ("granted", "released") for key in ("a", "audit")]


def test_a_forked_child_hears_of_its_own_locks(make):
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Listener):
        def on_granted(self, lock: Lock) -> None:
            super().on_granted(lock)
            if lock.key == "parents":
                entered.set()
                go_on.wait(30)

    slow = Slow()
    client = make(hooks=(slow,))
    lock = client.acquire("parents")
    assert entered.wait(30)  # the hooks' thread is busy when the child is made

    def child() -> list[tuple[str, str]]:
        slow.heard.clear()
        client.acquire("childs").release()
        slow.events(2)
        return [(event, lock.key) for event, lock in slow.heard]

    try:
        assert in_child(child)() == [("granted", "childs"), ("released", "childs")]
    finally:
        go_on.set()
    lock.release()
    assert slow.events(2) == ["granted", "released"]


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_where_no_thread_can_be_started_the_lock_is_none_the_wiser(hooked, monkeypatch, caplog):
    listener, client = hooked
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        lock = client.acquire("a")
    assert "can't start new thread" in caplog.text
    assert lock.release()
    assert listener.events(2) == ["granted", "released"]  # the next event had better luck


def test_a_release_that_finds_its_lock_lost_says_so_where_no_thread_can_be_started_for_on_lost(
    client, rows, monkeypatch, caplog
):
    lock = client.acquire("a", on_lost=lambda lock: None)
    rows.put_held("a", expires_at=time.time() + 60)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert lock.release() is False
    assert [record.__dict__["lock_event"] for record in caplog.records] == ["lost", "callback_failed"]


def test_no_thread_is_left_when_all_is_told(hooked):
    listener, client = hooked
    client.acquire("a").release()
    listener.events(2)
    wait_until(lambda: "lambda_lock-hooks" not in {thread.name for thread in threading.enumerate()})


# Objects that are not hooks


class Waiting:
    async def on_lost(self, lock: Lock) -> None:
        raise AssertionError


class Attribute:
    on_lost = "no method"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([object()], "on_granted, on_lost, on_released, on_not_granted, on_duplicate"),
        ([Listener(), None], "not None"),
        ([Listener], "an object"),
        ("on_lost", "any of the methods"),
        (Listener(), r"write hooks=\(hook,\)"),
        (None, "not NoneType"),
        ([Waiting()], "nothing would await it"),
        ([Attribute()], "on_lost of .* must be a plain method"),
    ],
)
@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_what_is_no_hook_is_refused_when_the_client_is_built(kind, given, says):
    with pytest.raises(TypeError, match=says):
        kind("locks", hooks=given)
