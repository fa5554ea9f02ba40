"""release_on_sigterm: what it releases, whose handlers stay, and what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from lambda_lock import (
    LockClient,
    LockConfigurationError,
    release_on_sigterm,
)
from lambda_lock.testing import in_memory

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


def test_a_worker_that_is_asked_to_stop_releases_what_it_holds(engine, table):
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


def test_an_async_worker_that_is_asked_to_stop_releases_what_it_holds(engine, table):
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


def test_an_applications_own_handler_of_sigterm_stays():
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with in_memory():
            release_on_sigterm(LockClient())
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_release_on_sigterm_is_called_in_the_main_thread_with_clients():
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
