"""What attacks on the drivers showed: races of close, handlers of the log, leaks, and the ends of outages."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, Lock, LockClient
from lambda_lock.core import lease
from lambda_lock.errors import ClientClosedError, LockError, TransportError
from lambda_lock.runtime import first_use
from lambda_lock.runtime.first_use import FirstUse
from lambda_lock.runtime.heartbeat import Renewals
from lambda_lock.runtime.signalsafe import Caller, OpenLocks, Turn
from lambda_lock.testing import ManualClock, in_memory
from rig.wire import Wire
from tests.support.clients import Make, drop
from tests.support.elsewhere import in_child, in_thread
from tests.support.rows import Rows
from tests.support.waiting import wait_until

from .test_heartbeat import Told
from .test_heartbeat_faults import Hangs


@pytest.mark.plain
def test_an_acquire_whose_client_is_closed_at_the_grant_says_so_and_holds_nothing(
    client: LockClient, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach = OpenLocks.attach

    def close_first(self: OpenLocks, *arguments: Any) -> None:
        client.close()
        attach(self, *arguments)

    monkeypatch.setattr(OpenLocks, "attach", close_first)
    with pytest.raises(ClientClosedError):
        client.acquire("a")
    assert not rows.is_held("a")


def test_what_an_interrupted_close_began_to_release_is_released_by_the_next(make: Make, rows: Rows) -> None:
    client = make(keeping=False)
    with pytest.warns(ResourceWarning):
        drop(lambda: client.acquire("a"))
    send, sent = client.transport.send, list[object]()

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if not sent:
            sent.append(arguments)
            raise KeyboardInterrupt
        return send(*arguments, **options)

    client.transport.send = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        client.close()
    assert rows.is_held("a")
    client.close()
    assert not rows.is_held("a")


def test_a_release_that_failed_is_made_up_for_by_close_though_its_handle_is_gone(
    wire: Wire, make: Make, rows: Rows
) -> None:
    client = make(keeping=False)
    lock = client.acquire("a")
    wire.answer(400, "AccessDeniedException", "UpdateItem")
    with pytest.raises(LockError):
        lock.release()
    del lock
    gc.collect()
    client.close()
    assert not rows.is_held("a")


class Handler(logging.Handler):
    def __init__(self, act: Any) -> None:
        super().__init__()
        self.act = act

    def emit(self, record: logging.LogRecord) -> None:
        self.act(record)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("an-application-with-odd-handlers")
    logger.propagate = False
    yield logger
    logger.handlers.clear()


class Heard:
    """A hook that remembers what was lost."""

    def __init__(self) -> None:
        self.lost: list[Lock] = []

    def on_lost(self, lock: Lock) -> None:
        self.lost.append(lock)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_logging_handler_that_fails_keeps_no_loss_from_being_told(
    make: Make, rows: Rows, logger: logging.Logger, error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(record: logging.LogRecord) -> None:
        raise error("the handler's own")

    logger.addHandler(Handler(fail))
    lost, heard = Told(), Heard()
    lock = make(logger=logger, lease_duration=1, heartbeat_period=0, hooks=[heard]).acquire("a", on_lost=lost)
    assert lost.called.wait(10)
    wait_until(lambda: heard.lost == [lock])


def test_a_logging_handler_that_blocks_delays_no_other_lock(
    wire: Wire, make: Make, rows: Rows, logger: logging.Logger
) -> None:
    blocked, go_on = threading.Event(), threading.Event()

    def block(record: logging.LogRecord) -> None:
        if record.__dict__.get("lock_event") == "lost":
            blocked.set()
            go_on.wait(60)

    logger.addHandler(Handler(block))
    losing = make(logger=logger, lease_duration=1, heartbeat_period=0).acquire("losing", safe_time=0.1)
    with make(heartbeat_period=0.2, endpoint_url=rows.engine.url).acquire("kept") as kept:
        assert blocked.wait(10)
        first = rows.expiry("kept")
        wait_until(lambda: rows.expiry("kept") > first + 2)
        assert kept.is_held
        go_on.set()
    assert losing.lost


def test_a_handle_that_is_dropped_after_its_lease_leaves_nothing_behind() -> None:
    clock = ManualClock()
    with in_memory(clock=clock):
        client = LockClient(clock=clock, heartbeat_period=0, lease_duration=10)
        for _ in range(100):
            lock = client.acquire("a")
            clock.advance(30)
            del lock
        gc.collect()
        assert client.__session__.open_locks.holds() == frozenset()


def test_senders_are_as_many_in_a_second_burst_as_in_the_first() -> None:
    """Ones that were idle in between must not be counted for more than they are."""

    class Burst:
        def __init__(self) -> None:
            self.inside, self.most, self.done = 0, 0, 0
            self.guard, self.gate = threading.Lock(), threading.Event()

        def renew(self) -> bool:
            with self.guard:
                self.inside += 1
                self.most = max(self.most, self.inside)
            self.gate.wait(30)
            with self.guard:
                self.inside -= 1
                self.done += 1
            return True

    client = threading.Event()  # which is not collected meanwhile
    renewals = Renewals(client)
    for _ in range(3):
        burst = Burst()
        for _ in range(50):
            renewals.put(burst, left=0.0)
        wait_until(lambda burst=burst: burst.inside == 8)  # type: ignore[misc]
        burst.gate.set()
        wait_until(lambda burst=burst: burst.done == 50)  # type: ignore[misc]
        assert burst.most == 8
    renewals.close()


def test_of_the_renewals_that_wait_the_one_whose_lock_ends_first_is_sent_first() -> None:
    order: list[float] = []
    gate = threading.Event()

    class Held:
        def __init__(self, before: float) -> None:
            self.before = before

        def renew(self) -> bool:
            gate.wait(30)
            order.append(self.before)
            return True

    renewals = Renewals(gate)  # which is not collected meanwhile
    occupied = [Held(0.0) for _ in range(8)]
    waiting = [Held(before) for before in (*(100.0 + n for n in range(50)), 50.0, 20.0, 90.0, 30.0)]
    for held in occupied + waiting:
        renewals.put(held, held.before)
    gate.set()
    wait_until(lambda: len(order) == len(occupied) + len(waiting))
    # Eight threads note themselves: each may be overtaken by those that began after it.
    places = {before: place for place, before in enumerate(order)}
    assert max(places[before] for before in (20.0, 30.0, 50.0, 90.0)) < 8 + 4 + 8
    renewals.close()


def test_a_turn_ends_with_its_ticket() -> None:
    turn, mine, another = Turn(), Caller(), Caller()
    assert turn.take(mine)
    assert not turn.take(another)
    del mine  # as where an interrupt kept it from being given back
    assert turn.take(another)


def test_a_look_at_the_end_of_an_outage_does_not_lose_the_lock(
    make: Make, client: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    with in_memory(clock=clock) as memory:
        holder = LockClient(clock=clock, heartbeat_period=0, lease_duration=10, hold_on_unavailable=True)
        lock = holder.acquire("a")
        with monkeypatch.context() as outage:  # undo() would undo the environment as well
            outage.setattr(memory, "send", _down)
            clock.advance(6)
            with pytest.raises(TransportError):
                lock.heartbeat()
            clock.advance(60)
        looks: list[bool] = []
        validity = lease.validity

        def look_meanwhile(*arguments: Any) -> float:
            looks.append(in_thread(lambda: lock.lost)())
            return validity(*arguments)

        monkeypatch.setattr(lease, "validity", look_meanwhile)
        lock.heartbeat()
        assert looks == [False]
        assert lock.is_held


def _down(operation: str, request: dict[str, Any], *, timeout: float) -> Any:
    raise TransportError(True, "no answer")


@pytest.mark.long
def test_an_async_renewal_waits_for_the_one_under_way_but_not_for_ever(make: Make, client: LockClient) -> None:
    hangs = Hangs(client.transport)

    async def work() -> None:
        async with AsyncLockClient(lease_duration=60, heartbeat_period=0.1, transport=hangs) as asynchronous:
            lock = await asynchronous.acquire("a")
            while not hangs.reached.is_set():
                await asyncio.sleep(0.01)
            with pytest.raises(TransportError, match="is unknown"):
                await lock.heartbeat()
            hangs.go_on.set()

    asyncio.run(work())


def fork(run: Callable[[], Any], order: list[str]) -> Any:
    """Run a function in a forked child. Notes when the fork is over. (`waits_for_logging` knows it by its name.)"""
    child = in_child(run)
    order.append("forked")
    return child()


def test_a_fork_waits_for_what_another_thread_loads_for_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, leave, order = threading.Event(), threading.Event(), []

    def load() -> None:
        with FirstUse():
            inside.set()
            leave.wait(30)
            order.append("loaded")

    def enter() -> bool:
        with FirstUse():
            return True

    monkeypatch.setattr(first_use, "_PATIENCE", 60.0)
    loading = in_thread(load)
    assert inside.wait(10)
    forking = in_thread(functools.partial(fork, enter, order))
    assert order == []
    leave.set()
    loading()
    assert forking() is True
    assert order == ["loaded", "forked"]


def waits_for_logging(frame: FrameType | None) -> bool:
    """Whether a thread that forks stands in logging."""
    stands = frame is not None and frame.f_globals.get("__name__") == "logging"
    while frame is not None and frame.f_code.co_name != "fork":
        frame = frame.f_back
    return stands and frame is not None


@pytest.mark.parametrize("begins", ["before the fork", "while the fork waits for logging"])
def test_a_fork_waits_for_a_module_that_another_thread_is_loading(monkeypatch: pytest.MonkeyPatch, begins: str) -> None:
    loading, load, looked = threading.Event(), threading.Event(), threading.Event()
    order: list[str] = []

    class Slow:
        """A finder that lets the import of one module stand still."""

        def find_spec(self, name: str, *_: Any) -> None:
            if name == "lambda_lock.client.closing" and not load.is_set():
                loading.set()
                load.wait(30)
                order.append("loaded")

    def look(seconds: float) -> None:
        looked.set()
        time.sleep(seconds)

    def close() -> bool:
        with in_memory():
            LockClient("locks").close()
        return True

    monkeypatch.setattr(first_use, "_PATIENCE", 60.0)
    monkeypatch.setattr(first_use, "time", SimpleNamespace(monotonic=time.monotonic, sleep=look))
    monkeypatch.delitem(sys.modules, "lambda_lock.client.closing", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Slow(), *sys.meta_path])
    if begins == "before the fork":
        closing = in_thread(close)
        assert loading.wait(10)
        forking = in_thread(functools.partial(fork, close, order))
    else:
        with logging._lock:  # type: ignore[attr-defined]  # another thread adds a handler, for example
            forking = in_thread(functools.partial(fork, close, order))
            wait_until(lambda: any(map(waits_for_logging, sys._current_frames().values())))
            closing = in_thread(close)
            assert loading.wait(10)
    assert looked.wait(10)
    assert order == []
    load.set()
    assert closing() is True
    assert forking() is True
    assert order == ["loaded", "forked"]
