"""What people try who know threading.Lock or another library, and what they are told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from lambda_lock import (
    AsyncLockClient,
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    LockTimeoutError,
    release_on_sigterm,
)
from lambda_lock.testing import ManualClock, in_memory
from rig.engine import Engine


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 5}, "pass wait=5, in seconds"),
        ({"blocking": False}, "pass wait=0 to try once"),
        ({"colour": "red"}, r"acquire\w*\(\) got an unexpected keyword argument 'colour'$"),
    ],
)
def test_the_words_of_other_locks_are_answered_with_ours(options: dict[str, Any], words: str) -> None:
    client, async_client = LockClient("locks"), AsyncLockClient("locks")
    for act in (client.acquire, client.try_acquire):
        with pytest.raises(TypeError, match=words):
            act("a", **options)
    with pytest.raises(TypeError, match=words):
        client.acquire_all(["a"], **options)
    for awaited in (async_client.acquire("a", **options), async_client.acquire_all(["a"], **options)):
        with pytest.raises(TypeError, match=words):
            asyncio.run(awaited)


def test_a_client_that_asks_for_its_own_lock_is_told_so() -> None:
    clock = ManualClock()
    with in_memory(clock=clock), LockClient(clock=clock) as client, LockClient(clock=clock) as other:
        lock = client.acquire("a")
        with pytest.raises(LockNotGrantedError, match=r"this very client that holds it.*reentrant=True"):
            client.acquire("a", wait=0)
        with pytest.raises(LockTimeoutError, match="this very client that holds it"):
            client.acquire("a", wait=3)
        with pytest.raises(LockNotGrantedError, match="this very client that holds it"):
            client.acquire_all(["a", "b"], wait=0)
        with pytest.raises(LockNotGrantedError) as refused:
            other.acquire("a", wait=0)
        assert "very client" not in str(refused.value)
        lock.release()


def test_a_record_says_whether_somebody_holds_it() -> None:
    clock = ManualClock()
    with in_memory(clock=clock) as memory, LockClient(clock=clock) as client:
        memory.hold("a", lease_duration=10)
        memory.hold("b")
        memory.expire("b")
        client.acquire("c").release()
        held = client.acquire("d", permits=2)
        found = {record.key: record.is_held for record in client.list()}
        assert found == {"a": True, "b": False, "c": False, "d": True}
        held.release()
        clock.advance(30)
        record = client.get("a")
        assert record is not None
        assert not record.is_held


_WORKER = """
import sys, threading, time
from lambda_lock import LockClient, default_client, release_on_sigterm
release_on_sigterm()
def hold():
    default_client().acquire("by a thread", lease_duration=600)
    ready.set()
    time.sleep(600)
ready = threading.Event()
threading.Thread(target=hold, daemon=True).start()
ready.wait()
with default_client().acquire("by main", lease_duration=600):
    print("holding", flush=True)
    time.sleep(600)
"""


def test_a_worker_that_is_asked_to_stop_releases_what_it_holds(engine: Engine, table: str) -> None:
    worker = subprocess.Popen([sys.executable, "-c", _WORKER], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "holding\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()  # type: ignore[union-attr]
    with LockClient(table) as client:
        for key in ("by main", "by a thread"):
            record = client.get(key)
            assert record is not None
            assert record.is_released, key


_ASYNC_WORKER = """
import asyncio
from lambda_lock import AsyncLockClient, release_on_sigterm
async def main():
    client = AsyncLockClient()
    release_on_sigterm(client)
    async with client.acquire("a", lease_duration=600):
        print("holding", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def test_an_async_worker_does_too(engine: Engine, table: str) -> None:
    worker = subprocess.Popen([sys.executable, "-c", _ASYNC_WORKER], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "holding\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()  # type: ignore[union-attr]
    with LockClient(table) as client:
        record = client.get("a")
        assert record is not None
        assert record.is_released


def test_an_applications_own_handler_of_sigterm_stays() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with in_memory():
            release_on_sigterm(LockClient())
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_it_is_called_in_the_main_thread_with_clients() -> None:
    with pytest.raises(TypeError, match="takes lock clients"):
        release_on_sigterm("locks")  # type: ignore[arg-type]
    raised: list[Exception] = []

    def call() -> None:
        try:
            release_on_sigterm(LockClient("locks"))
        except LockConfigurationError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(raised) == 1
