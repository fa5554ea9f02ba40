"""Another number of permits is being deployed: callers with the old and the new one share a semaphore."""

from __future__ import annotations

import logging
import threading

import pytest

from lambda_lock import LockFormatError, LockNotGrantedError
from tests.support.waiting import wait_until

from .conftest import told


def test_whoever_sees_more_taken_than_its_number_says_so_once_for_a_key(make, caplog):
    old, new = make(), make()
    for _ in range(4):
        new.acquire("gpu", permits=5, wait=0)
    for _ in range(3):
        with pytest.raises(LockNotGrantedError):
            old.acquire("gpu", permits=2, wait=0)
    (record,) = told(caplog, "permits_differ")
    assert (record.levelno, record.lock_key) == (logging.WARNING, "gpu")
    assert "of semaphore 'gpu', 4 permits are taken, and its callers here let in 2" in record.getMessage()
    assert new.try_acquire("gpu", permits=5) is not None
    assert new.try_acquire("gpu", permits=5) is None
    assert len(told(caplog, "permits_differ")) == 1  # whoever passes the larger number sees nothing wrong
    for _ in range(2):
        new.acquire("cpu", permits=2, wait=0)
    assert old.try_acquire("cpu", permits=1) is None
    assert [each.lock_key for each in told(caplog, "permits_differ")] == ["gpu", "cpu"]


def test_one_who_waits_and_is_granted_with_another_number_of_permits_says_so(make, caplog, rows):
    old, new = make(refresh_period=0.05), make()
    held = [new.acquire("gpu", permits=5, wait=0) for _ in range(3)]
    waiter = threading.Thread(target=lambda: old.acquire("gpu", permits=2, wait=60).release())
    waiter.start()
    wait_until(lambda: "waiters" in rows["gpu"] and rows["gpu"]["waiters"]["L"])
    for lock in held:
        lock.release()
    waiter.join(60)
    assert not waiter.is_alive()
    assert len(told(caplog, "permits_differ")) == 1


def test_one_who_wants_several_says_so_too_where_those_who_hold_took_one_each(make, caplog):
    old, new = make(), make()
    for _ in range(3):
        new.acquire("gpu", permits=5, wait=0)
    assert old.try_acquire("gpu", permits=2, take=2) is None
    (record,) = told(caplog, "permits_differ")
    assert "3 permits are taken, and its callers here let in 2" in record.getMessage()


def test_equal_numbers_and_permits_of_the_dead_are_nothing_to_tell(make, caplog):
    one, other = make(), make()
    first = one.acquire("gpu", permits=2, wait=0)
    with one.acquire("gpu", permits=2, wait=0):
        assert other.try_acquire("gpu", permits=2) is None
    first.release()
    assert told(caplog, "permits_differ") == []


def test_a_semaphores_key_that_becomes_a_locks_names_the_command_and_works_after_it(client):
    client.acquire("gpu", permits=5).release()
    with pytest.raises(LockFormatError, match=r"'gpu' is a semaphore, not a lock.*lambda-lock erase"):
        client.acquire("gpu", wait=0)
    assert client.erase("gpu")
    client.acquire("gpu", wait=0).release()
    with pytest.raises(LockFormatError, match=r"'gpu' is a lock, not a semaphore.*lambda-lock erase"):
        client.acquire("gpu", permits=5, wait=0)
