"""Who is given which handle, and when it goes: one Lock for one grant, kept by nobody but the application."""

import asyncio
import functools
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, Lock, LockClient
from lambda_lock.runtime.heartbeat import Heartbeat
from lambda_lock.testing import ManualClock, in_memory
from lambda_lock.testing.memory import Memory


@pytest.fixture
def memory() -> Iterator[Memory]:
    with in_memory() as memory:
        yield memory


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("memory", "no_collector")
def test_a_handle_that_was_waited_for_is_collected_as_soon_as_it_is_dropped():
    clock = ManualClock()
    with LockClient("locks", clock=clock) as other, LockClient("locks", clock=clock) as client:
        before = other.acquire("a")

        def give_way() -> bool:
            if before.is_held:
                before.release()
            return False

        with pytest.warns(ResourceWarning, match="dropped while the lock is held"):
            client.acquire("a", wait=9, cancel_check=give_way)
        assert client.held() == ()


@pytest.mark.usefixtures("memory", "no_collector")
def test_a_refused_acquire_leaves_nothing_to_the_garbage_collector():
    class Argument:
        def __call__(self, lock: Lock) -> None: ...

    with LockClient("locks") as other, LockClient("locks") as client, other.acquire("a"):
        argument = Argument()
        gone = weakref.ref(argument)
        assert client.try_acquire("a", on_lost=argument) is None
        del argument
        assert gone() is None


@pytest.mark.usefixtures("memory")
def test_a_callback_that_comes_before_acquire_returns_gets_the_whole_lock(monkeypatch):
    watch, told, is_told = Heartbeat.watch, list[Any](), threading.Event()

    def watched(heartbeat: Heartbeat, *arguments: Any) -> None:
        watch(heartbeat, *arguments)
        is_told.wait(10)

    def on_danger(lock: Lock) -> None:
        try:
            told.extend((lock, lock.lost))
        finally:
            is_told.set()

    monkeypatch.setattr(Heartbeat, "watch", watched)
    with LockClient("locks") as client:
        lock = client.acquire("a", lease_duration=2, safe_time=1.9999, on_danger=on_danger)
        assert told == [lock, False]


@pytest.mark.usefixtures("memory")
def test_the_hooks_of_an_async_client_get_one_and_the_same_lock():
    class Hook:
        def __init__(self) -> None:
            self.began = weakref.WeakKeyDictionary[Lock, float]()
            self.seen: list[bool] = []
            self.told = threading.Event()

        def on_granted(self, lock: Lock) -> None:
            self.began[lock] = time.monotonic()
            self.told.set()

        def on_released(self, lock: Lock) -> None:
            self.seen.append(lock in self.began)
            self.told.set()

    hook = Hook()

    async def hold() -> None:
        async with AsyncLockClient("locks", hooks=(hook,)) as client, await client.acquire("a"):
            await asyncio.to_thread(hook.told.wait, 10)
            hook.told.clear()

    asyncio.run(hold())
    assert hook.told.wait(10)
    assert hook.seen == [True]


def test_a_heartbeat_that_waits_for_another_one_leaves_a_manual_clock_alone(monkeypatch):
    clock, send, sending = ManualClock(), Memory.send, threading.Event()

    def slowly(*arguments: Any, **options: Any) -> Any:
        sending.set()
        time.sleep(0.1)
        return send(*arguments, **options)

    with in_memory(clock=clock), LockClient("locks", clock=clock) as client:
        lock = client.acquire("a")
        monkeypatch.setattr(Memory, "send", slowly)
        before = clock.monotonic()
        other = threading.Thread(target=lock.heartbeat)
        other.start()
        assert sending.wait(10)
        lock.heartbeat()
        other.join()
        assert clock.monotonic() == before
        lock.release()


@pytest.mark.usefixtures("memory")
def test_an_async_client_takes_its_options_though_the_application_wraps_acquire(monkeypatch):
    acquire = LockClient.acquire

    @functools.wraps(acquire)
    def traced(*arguments: Any, **options: Any) -> Lock:
        return acquire(*arguments, **options)

    async def take() -> float:
        async with AsyncLockClient("locks") as client, await client.acquire("a", lease_duration=5) as lock:
            return lock.lease_duration

    monkeypatch.setattr(LockClient, "acquire", traced)
    assert asyncio.run(take()) == 5


def test_a_handle_that_is_dropped_after_its_lease_leaves_nothing_behind():
    clock = ManualClock()
    with in_memory(clock=clock):
        client = LockClient(clock=clock, heartbeat_period=0, lease_duration=10)
        for _ in range(100):
            lock = client.acquire("a")
            clock.advance(30)
            del lock
        gc.collect()
        assert client.__session__.open_locks.holds() == frozenset()
