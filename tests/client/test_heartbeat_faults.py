"""What may go wrong around the heartbeat: threads that do not start or die, and endpoints that stall."""

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, Lock, LockClient
from lambda_lock.errors import LockError, LockLostError, TransportError
from lambda_lock.runtime import heartbeat
from lambda_lock.runtime.heartbeat import Renewals
from lambda_lock.transport import Reply, Transport
from tests.support.waiting import wait_until

from .test_heartbeat import Told, outlast

pytestmark = pytest.mark.plain  # both faces have the threads of the session for renewals

WATCHER, SENDER = "lambda_lock-heartbeat", "lambda_lock-renewal"


class NoThreads:
    """While it acts, threads with one of these names do not start, as where the system has no more of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        self.refused = 0
        start = threading.Thread.start

        def start_unless_refused(thread: threading.Thread) -> None:
            if thread.name in self.names:
                self.refused += 1
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_unless_refused)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> NoThreads:
    return NoThreads(monkeypatch)


@pytest.fixture
def fresh_heartbeat(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A heartbeat whose thread has not been started yet."""
    fresh = heartbeat.Heartbeat()
    monkeypatch.setattr(heartbeat, "HEARTBEAT", fresh)
    yield
    fresh._thread = None
    fresh._commands.put(None)  # its thread finds that it is not wanted any more


@pytest.mark.usefixtures("fresh_heartbeat")
def test_a_heartbeat_that_cannot_start_is_an_error_with_nothing_left_held_and_the_next_lock_is_kept(
    make, rows, no_threads
):
    client = make(lease_duration=2.5, heartbeat_period=0.2)
    no_threads.names = {WATCHER}
    with pytest.raises(LockError, match="heartbeat thread does not start: can't start new thread") as caught:
        client.acquire("a")
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert not rows.is_held("a")
    assert client.held() == ()
    no_threads.names = set()
    with client.acquire("a") as lock:
        outlast(2.5, rows)
        assert lock.is_held


def test_a_lock_is_renewed_also_where_no_thread_for_its_renewals_can_be_started(make, rows, no_threads):
    no_threads.names = {SENDER}
    with make(lease_duration=2.5, heartbeat_period=0.2).acquire("a") as lock:
        outlast(2.5, rows)
        assert lock.is_held
    assert no_threads.refused


def test_a_logging_handler_that_exits_ends_neither_renewals_nor_lost_signals(wire, make, rows, logger):
    """It ends the thread which logs."""
    logger.addHandler(Handler(raising(SystemExit)))
    logger.setLevel(logging.INFO)
    client = make(lease_duration=2.5, heartbeat_period=0.2, logger=logger)
    failing = wire.unavailable("UpdateItem", times=2)
    with client.acquire("kept") as kept:
        assert failing.reached.wait(30)
        outlast(2.5, rows, "kept")
        lost = Told()
        client.acquire("stolen", on_lost=lost)
        rows.put("stolen", ownerName={"S": "another#1"})
        assert kept.is_held


def test_a_stalled_endpoint_delays_neither_the_renewals_nor_the_signals_of_another_client(wire, make, rows):
    stalled = make(lease_duration=3)
    healthy = make(lease_duration=2.5, heartbeat_period=0.2, endpoint_url=rows.engine.url)
    told = [Told() for _ in range(8)]
    locks = [stalled.acquire(f"stalled-{number}", on_lost=callback) for number, callback in enumerate(told)]
    stall = wire.hold("UpdateItem", times=float("inf"))
    with healthy.acquire("healthy") as lock:
        assert stall.reached.wait(30)
        for callback in told:
            assert callback.called.wait(20)
        assert all(each.lost for each in locks)
        outlast(0, rows, "healthy")  # its lease was shorter than theirs
        lock.raise_if_lost()
    stall.release()


class Hangs:
    """A transport whose renewals wait until they may go on, as one with long time-outs does."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.reached, self.go_on = threading.Event(), threading.Event()

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        if threading.current_thread().name == SENDER:
            self.reached.set()
            self.go_on.wait(60)
        return self.inner.send(operation, request, timeout=timeout)


def test_loss_is_told_while_the_renewal_of_the_lock_is_still_under_way(make, client):
    hangs, lost = Hangs(client.transport), Told()
    lock = make(lease_duration=1, transport=hangs).acquire("a", on_lost=lost)
    assert hangs.reached.wait(30)
    assert lost.called.wait(10)
    assert not hangs.go_on.is_set()
    with pytest.raises(LockLostError):
        lock.raise_if_lost()
    hangs.go_on.set()


@pytest.mark.long
def test_a_renewal_by_hand_waits_for_the_one_under_way_but_not_for_ever(make, client):
    hangs = Hangs(client.transport)
    lock = make(lease_duration=60, heartbeat_period=0.1, transport=hangs).acquire("a")
    assert hangs.reached.wait(30)
    with pytest.raises(TransportError, match="is unknown") as caught:
        lock.heartbeat()
    assert caught.value.ambiguous
    assert lock.is_held
    hangs.go_on.set()
    wait_until(lambda: lock.remaining > 59)
    lock.heartbeat()


@pytest.mark.parametrize("end", ["closed", "forgotten"])
def test_a_client_that_is_closed_or_forgotten_ends_its_senders(end, table):
    client = LockClient(heartbeat_period=0.1)
    lock = client.acquire("a")
    version = lock.version
    while lock.version == version:
        threading.Event().wait(0.01)
    renewals = client.__session__.renewals
    assert renewals.senders
    if end == "closed":
        client.close()
    else:
        lock.release()
        client.transport.close()  # type: ignore[attr-defined]
        del client, lock
    wait_until(lambda: gc.collect() >= 0 and not renewals.senders)  # a tick may have had the lock in hand


class Handler(logging.Handler):
    """A handler of the application's."""

    def __init__(self, act: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self.emit = act  # type: ignore[assignment, method-assign]


def raising(error: type[BaseException]) -> Callable[[logging.LogRecord], object]:
    def fail(record: logging.LogRecord) -> None:
        raise error("the handler's own")

    return fail


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("an-application-with-odd-handlers")
    logger.propagate = False
    yield logger
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_logging_handler_that_fails_keeps_no_loss_from_being_told(make, logger, error, capsys):
    logger.addHandler(Handler(raising(error)))
    lost, heard = Told(), list[Lock]()
    hook = SimpleNamespace(on_lost=heard.append)
    lock = make(logger=logger, lease_duration=1, heartbeat_period=0, hooks=[hook]).acquire("a", on_lost=lost)
    assert lost.called.wait(10)
    wait_until(lambda: heard == [lock])


def test_a_logging_handler_that_blocks_delays_no_other_lock(wire, make, rows, logger):
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


def test_senders_are_as_many_in_a_second_burst_as_in_the_first():
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


@pytest.mark.long
def test_an_async_renewal_waits_for_the_one_under_way_but_not_for_ever(make, client):
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
