"""Locks that are used in the wrong way, at the wrong time or in the wrong place: each is told with its remedy."""

import asyncio
import itertools
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import (
    AsyncLockClient,
    ClientClosedError,
    Lock,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockClient,
    LockFormatError,
    LockLostError,
    OwnerMismatchError,
    SessionMonitorNotSetError,
)
from tests.support.elsewhere import in_child

from .conftest import refused

PUT: dict[str, Any] = {"TableName": "orders", "Item": {"key": {"S": "7"}}}


# -- a lock that is held ----------------------------------------------------------------------------------------------

HELD = [
    *refused(
        LockFormatError,
        (lambda c, h: c.release(h), "not Lock", "lock.release()"),
        (lambda c, h: c.adopt(h), "takes the str that hand_over()"),
    ),
    *refused(SessionMonitorNotSetError, (lambda c, h: h.is_almost_expired, "pass safe_time=")),
    *refused(
        TypeError,
        (lambda c, h: h.ensure("5"), "seconds must be a number of seconds, not '5'"),
        (lambda c, h: h.commit({"Put": PUT}), "commit takes a list of items"),
        (lambda c, h: multiprocessing.reduction.ForkingPickler.dumps(h), "stays in its process", "hand_over()"),
    ),
    *refused(
        LockArgumentError,
        (lambda c, h: h.commit([]), "1 to 99 items, not 0"),
        (lambda c, h: h.commit([{"Put": PUT}] * 100), "99 items, not 100", "needs"),
        (lambda c, h: h.commit([PUT]), "must be {'Put' | 'Update'"),
        (lambda c, h: h.commit([{"put": PUT}]), "but it has 'put'"),
        (
            lambda c, h: h.commit([{"Put": {"Item": PUT["Item"]}}]),
            "item 0 of the commit names no table: give it its TableName",
        ),
        (lambda c, h: h.heartbeat(data=b"x", delete_data=True), "takes data= or delete_data=True, not both"),
    ),
]


@pytest.mark.parametrize(("act", "kind", "words"), HELD)
def test_what_cannot_be_done_with_a_lock_is_told_and_it_stays_held(act, kind, words, client, memory, told):
    lock = client.acquire("a")
    before = memory.requests
    told(kind, lambda: act(client, lock), *words)
    assert memory.requests == before
    assert lock.is_held


def test_a_commit_of_the_lock_s_own_row_is_told(client, told):
    lock = client.acquire("a")
    own = {"Delete": {"TableName": os.environ["LAMBDA_LOCK_TABLE"], "Key": {"key": {"S": "a"}}}}
    words = ("writes a row twice, or the row of lock 'a', which it releases", "leave that row to the lock")
    told(LockArgumentError, lambda: lock.commit([own]), *words)


def entered(lock: Any) -> None:
    with lock:
        pytest.fail("runs without the lock")


def left(lock: Lock) -> None:
    with lock:
        pass


ENDED = [
    *refused(
        LockAlreadyReleasedError,
        (lambda lock: lock.release(), "a handle is released once"),
        (lambda lock: lock.heartbeat(), "acquire it again"),
        (lambda lock: lock.commit([{"Put": PUT}]), "'a'"),
        (lambda lock: lock.hand_over(), "'a'"),
        (entered, "acquire it again"),
    ),
    *refused((LockAlreadyReleasedError, LockLostError), (lambda lock: lock.ensure(5), "'a'")),
]


@pytest.mark.parametrize(("act", "kind", "words"), ENDED)
@pytest.mark.parametrize("end", [Lock.release, Lock.hand_over, left])
def test_a_lock_that_has_ended_is_not_used_again(act, kind, words, end, client, memory, told):
    lock = client.acquire("a")
    end(lock)
    before = memory.requests
    told(kind, lambda: act(lock), *words)
    assert memory.requests == before


def test_several_locks_that_have_ended_are_not_entered_again(client, told):
    locks = client.acquire_all(["a", "b"])
    locks.release()
    told(LockAlreadyReleasedError, lambda: entered(locks), "were released or committed: acquire them again")


@pytest.mark.parametrize("take", [lambda tasks: tasks.acquire("a"), lambda tasks: tasks.acquire_all(["a", "b"])])
def test_async_locks_that_have_ended_are_not_entered_again(take, memory, told):
    async def again() -> None:
        async with AsyncLockClient() as tasks:
            lock = await take(tasks)
            await lock.release()
            async with lock:
                pytest.fail("runs without the lock")

    told(LockAlreadyReleasedError, lambda: asyncio.run(again()), "again")


def test_a_token_is_adopted_once(client, told):
    token = client.acquire("a").hand_over()
    with client.adopt(token):
        told(LockLostError, lambda: client.adopt(token), "lock 'a' is no longer ours", "Acquire it again")


def test_a_client_that_was_closed_acquires_nothing(client, told):
    client.close()
    told(ClientClosedError, lambda: client.acquire("a"), "this LockClient was closed: create a new one")


def test_a_forked_child_is_told_whose_lock_it_is(client, told):
    lock = client.acquire("a")
    words = (f"lock 'a' was acquired by process {os.getpid()}", "Acquire it here, or leave it to the parent")
    acts = (lock.release, lock.heartbeat, lock.hand_over, lambda: entered(lock))
    assert len(in_child(lambda: [told(OwnerMismatchError, act, *words) for act in acts])()) == 4


def test_what_only_python_can_tell_is_an_error_all_the_same(client, told):
    """docs/troubleshooting.md says what its words mean."""

    async def awaited() -> None:
        await client.acquire("a")

    told(TypeError, lambda: asyncio.run(awaited()), "Lock")
    told(TypeError, lambda: entered(client.rate_limit("b", 10)), "float")


# -- one key, two kinds -----------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[LockClient], Any]] = {
    "lock": lambda client: client.acquire("a", wait=0),
    "semaphore": lambda client: client.acquire("a", wait=0, permits=2),
    "rate limit": lambda client: client.rate_limit("a", 5, wait=0),
}


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(KINDS, 2)])
def test_a_key_of_one_kind_is_not_another_kind(first, second, client, told):
    held = KINDS[first](client)
    told(LockFormatError, lambda: KINDS[second](client), f"a {first}, not a {second}", "another key")
    assert held is not None
