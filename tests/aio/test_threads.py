"""Requests are sent on threads of the client's own: few, none without work, and no exit waits for them."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, TransportError
from lambda_lock.runtime.threads import LIMIT, Busy, Threads
from tests.support.elsewhere import in_child, ran
from tests.support.waiting import DEADLINE

from .conftest import ended, start, ticking, until

MANY = 200
FOR_EVER = float("inf")


@asynccontextmanager
async def crowd(client: AsyncLockClient, count: int) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """So many tasks read with this client, whose requests the network keeps until the end of the block."""
    tasks = [start(client.get(f"lock {number}")) for number in range(count)]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            await ended(task)


def sending() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lambda_lock-asyncio"]


# As few as serve


async def test_one_request_after_the_other_needs_one_thread_at_a_time(client):
    for number in range(20):
        async with await client.acquire(f"lock {number}"):
            assert len(sending()) <= 1  # it may be about to end
        await until(lambda: not sending())  # the one that released it may be, too


async def test_a_client_that_waits_for_a_lock_has_no_thread(wire, client, rows):
    rows.put_foreign("a", lease_seconds=3600)
    waiting = start(client.acquire("a", wait=3600, refresh_period=3600))
    await until(lambda: wire.count("GetItem"))
    await until(lambda: not sending())
    assert not waiting.done()
    waiting.cancel()
    await ended(waiting)


@pytest.mark.long
async def test_requests_under_way_are_bounded_and_those_that_wait_get_their_turn(wire, wired):
    slow = wire.delay_reply("UpdateItem", times=MANY)
    taking = [start(wired.acquire(f"lock {number}", wait=300)) for number in range(MANY)]
    await until(lambda: len(sending()) == LIMIT)
    async with ticking() as ticker:
        await ticker.more()
    assert len(sending()) == LIMIT
    wire.clear()
    slow.release()
    for task in taking:
        assert await ended(task) is None


# What ends a lock does not wait behind a crowd of acquires


async def test_a_release_and_a_renewal_go_before_a_hundred_polls(wire, wired):
    lock, other = await wired.acquire("a"), await wired.acquire("b")
    slow = wire.hold("GetItem", times=FOR_EVER)
    waiting = [start(wired.acquire("a", wait=600, refresh_period=0.05)) for _ in range(100)]
    await until(lambda: wire.count("GetItem") >= LIMIT)  # each refused claim is followed by polls
    assert await ended(start(other.heartbeat())) is None
    assert await ended(start(lock.release())) is None
    assert wire.count("GetItem") < 100, "they waited for those who came before them"
    slow.release()
    wire.clear()
    for task in waiting:
        task.cancel()
    for task in waiting:
        await ended(task)


async def test_a_request_that_gets_no_thread_in_time_is_tried_again_and_holds_up_no_other_client(
    wire, wired, engine, make
):
    stalled = wire.hold(times=FOR_EVER)
    async with crowd(wired, 8 * LIMIT) as tasks:
        await until(lambda: wire.count() >= LIMIT)
        assert await ended(start(make(endpoint_url=engine.url).acquire("c"))) is None
        assert not all(task.done() for task in tasks)
        error = await ended(start(wired.acquire("a", wait=0)))  # one decision, even if others wait before it
        assert isinstance(error, TransportError)
        stalled.release()
        wire.clear()
    assert (await wired.acquire("b", wait=0)).is_held  # a copy of the claim for the other may be on its way


# Cancelling


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_acquire_waits_for_one_time_out_and_not_for_the_crowd(times, wire, wired, rows):
    stalled = wire.hold("GetItem", times=FOR_EVER)
    async with crowd(wired, 8 * LIMIT), ticking() as ticker:
        await until(lambda: wire.count() == LIMIT)
        before = wire.count("UpdateItem")
        waiting = start(wired.acquire("a", wait=600))
        await ticker.more()
        for _ in range(times):
            waiting.cancel()
            await ticker.more(1)
        assert isinstance(await ended(waiting), asyncio.CancelledError)
        assert wire.count("GetItem") < 3 * LIMIT
        assert wire.count("UpdateItem") <= before + 1  # the claim was not begun; a release makes sure
        assert not rows.is_held("a")
        stalled.release()


async def test_an_acquire_that_is_cancelled_while_the_transport_is_chosen_returns_at_once(make, monkeypatch, rows):
    from lambda_lock import transport

    choose, choosing, go_on = transport.choose, threading.Event(), threading.Event()

    def slowly(**options: Any) -> Any:
        choosing.set()
        go_on.wait(4 * DEADLINE)
        return choose(**options)

    monkeypatch.setattr(transport, "choose", slowly)
    client = make()
    taking = start(client.acquire("a"))
    await until(choosing.is_set)
    taking.cancel()
    assert isinstance(await ended(taking), asyncio.CancelledError)
    assert not go_on.is_set()
    go_on.set()
    assert (await client.acquire("a")).is_held


# What a thread runs


async def test_where_no_thread_can_be_started_requests_are_sent_all_the_same(client, rows, monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        if thread.name == "lambda_lock-asyncio":
            raise RuntimeError("can't start new thread")
        begin(thread)

    begin = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", refuse)
    locks = await asyncio.wait_for(asyncio.gather(*(client.acquire(f"lock {n}") for n in range(3))), DEADLINE)
    for lock in locks:
        assert await lock.release() is True
    assert not rows.is_held("lock 0")


class Before:
    """The transport of a client, before each request of which something is done."""

    name, reason = "before", "for a test"

    def __init__(self, client: AsyncLockClient, act: Callable[[str], object]) -> None:
        self.inner, self.act = client.transport, act

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        self.act(operation)
        return self.inner.send(operation, request, timeout=timeout)


async def test_a_request_is_sent_in_the_context_of_its_task(client, make):
    request_id = contextvars.ContextVar("request_id", default="")
    seen: list[str] = []
    tracing = make(transport=Before(client, lambda _: seen.append(request_id.get())))

    async def work(name: str) -> None:
        request_id.set(name)
        async with await tracing.acquire(name):
            pass

    await asyncio.gather(work("one"), work("two"))
    assert sorted(seen) == ["one", "one", "two", "two"]


@pytest.mark.parametrize("error", [StopIteration, SystemError, asyncio.CancelledError])
async def test_whatever_a_transport_raises_comes_up_in_the_task_and_threads_go_on(error, client, make, rows):
    inner, failing = client.transport, [True]

    class Faulty:
        name, reason = "faulty", "for a test"

        def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
            reply = inner.send(operation, request, timeout=timeout)
            if failing and failing.pop():
                raise error
            return reply

    faulty = make(transport=Faulty())
    raised = await ended(start(faulty.acquire("a")))
    assert isinstance(raised, RuntimeError if error is StopIteration else error)
    assert not rows.is_held("a")
    async with await faulty.acquire("a"):
        assert rows.is_held("a")


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    """What blocked calls wait for."""
    over = threading.Event()
    yield over
    over.set()


async def fill(threads: Threads, over: threading.Event) -> list[asyncio.Task[bool]]:
    """Let all threads wait for ``over``."""
    begun = threading.Semaphore(0)

    def block() -> bool:
        begun.release()
        return over.wait(DEADLINE)

    blocking = [start(threads.settle(block)) for _ in range(LIMIT)]
    for _ in blocking:
        await until(lambda: begun.acquire(blocking=False))
    return blocking


async def test_a_release_by_string_does_not_wait_for_reads(client, make, rows, blocked):
    reading = threading.Semaphore(0)

    def stall(operation: str) -> None:
        if operation == "GetItem":
            reading.release()
            blocked.wait(DEADLINE)

    stalled = make(transport=Before(client, stall))
    string = await (await stalled.acquire("a")).hand_over()
    async with crowd(stalled, LIMIT) as tasks:
        for _ in tasks:
            await until(lambda: reading.acquire(blocking=False))
        assert await stalled.release(string)
        assert not rows.is_held("a")
        blocked.set()


async def test_a_call_that_no_thread_begins_in_time_is_never_run(blocked):
    threads = Threads()
    calls: list[str] = []
    blocking = await fill(threads, blocked)
    with pytest.raises(Busy):
        await threads.settle(calls.append, "late", patience=0.02)
    last = start(threads.settle(calls.append, "in time", patience=DEADLINE))
    blocked.set()
    await asyncio.gather(last, *blocking)
    assert calls == ["in time"]


@pytest.mark.parametrize(("needed", "calls_made"), [(True, ["call"]), (False, [])])
async def test_a_call_that_was_not_begun_is_run_after_a_cancellation_only_where_it_is_needed(
    needed, calls_made, blocked
):
    threads = Threads()
    calls: list[str] = []
    blocking = await fill(threads, blocked)
    waiting = start(threads.settle(calls.append, "call", needed=needed))
    async with ticking() as ticker:
        await ticker.more()
        waiting.cancel()
        await ticker.more()
    assert waiting.done() is not needed
    blocked.set()
    assert isinstance(await ended(waiting), asyncio.CancelledError)
    await asyncio.gather(*blocking)
    assert calls == calls_made


class Call:
    """What a thread of the client runs: it goes on when it is told to."""

    def __init__(self) -> None:
        self.began, self.goes_on, self.is_done = threading.Event(), threading.Event(), False

    def __call__(self) -> None:
        self.began.set()
        assert self.goes_on.wait(DEADLINE)
        self.is_done = True

    def interrupt(self) -> None:
        assert self.began.wait(DEADLINE)
        raise KeyboardInterrupt

    def interrupted_thread(self) -> type[threading.Thread]:
        """Whoever starts it is interrupted when the call has begun."""
        call = self

        class Interrupted(threading.Thread):
            def start(self) -> None:
                super().start()
                call.interrupt()

        return Interrupted


@pytest.mark.parametrize("where", ["as its thread is started", "as its end is waited for"])
async def test_a_call_that_was_begun_ends_before_an_interrupt_goes_on(where, monkeypatch):
    """A claim that is on its way must not arrive after the release that gives it up."""
    call, wait = Call(), asyncio.wait

    async def interrupted(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(asyncio, "wait", wait)
        call.interrupt()

    if where == "as its thread is started":
        monkeypatch.setattr(threading, "Thread", call.interrupted_thread())
    else:
        monkeypatch.setattr(asyncio, "wait", interrupted)
    asyncio.get_running_loop().call_soon(call.goes_on.set)
    with pytest.raises(KeyboardInterrupt):
        await Threads().settle(call)
    assert call.is_done


async def test_an_interrupt_of_a_call_that_may_be_left_to_itself_is_raised_at_once(monkeypatch):
    call = Call()
    monkeypatch.setattr(threading, "Thread", call.interrupted_thread())
    with pytest.raises(KeyboardInterrupt):
        await Threads().run(call)
    assert not call.is_done
    call.goes_on.set()


async def test_a_call_that_no_thread_has_begun_is_not_run_after_an_interrupt(monkeypatch):
    class Interrupted(threading.Thread):
        def start(self) -> None:
            raise KeyboardInterrupt

    threads = Threads()
    calls: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            await threads.settle(calls.append, "first")
    await threads.settle(calls.append, "second")
    assert calls == ["second"]


# Loops, forks and exits


def test_a_loop_that_is_closed_while_a_request_is_under_way_leaves_the_client_as_it_was(wire, make):
    client, slow = make(), wire.delay_reply("UpdateItem")
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # it says that a task was left
    task = loop.create_task(client.acquire("a"))
    loop.run_until_complete(until(slow.reached.is_set))
    loop.close()
    slow.release()

    async def go_on() -> None:
        await until(lambda: not sending())
        async with await client.acquire("b"):
            assert await client.try_acquire("a") is None
        del loop_and_task[:]

    loop_and_task = [loop, task]
    del loop, task
    asyncio.run(go_on())


def test_a_forked_child_has_threads_of_its_own(wire, make, engine):
    client = make()

    async def child() -> bool:
        return (await client.acquire("mine")).is_held

    async def parent() -> bool:
        def work() -> bool:
            asyncio._set_running_loop(None)  # a running loop does not survive a fork
            return asyncio.run(child())

        stalled = wire.hold("GetItem", times=FOR_EVER)
        async with crowd(client, 4 * LIMIT) as tasks:
            await until(lambda: wire.count() >= LIMIT)
            held: bool = in_child(work)()
            stalled.release()
            wire.clear()
            await asyncio.gather(*tasks)
        return held

    assert asyncio.run(parent()) is True


LEAVE = """
import asyncio, sys
from lambda_lock import AsyncLockClient

async def main():
    client = AsyncLockClient()
    tasks = [asyncio.create_task(client.acquire(str(number), wait=600)) for number in range(300)]
    await asyncio.wait(tasks, timeout=0.5)
    print("sent", flush=True)
    return tasks
"""
HOW = {
    "the loop is left": "loop = asyncio.new_event_loop(); tasks = loop.run_until_complete(main())",
    "the loop is ended": "asyncio.run(main())",
}


@pytest.mark.long
@pytest.mark.parametrize("how", HOW)
def test_a_process_exits_whatever_its_requests_still_wait_for(how, wire):
    wire.hold(times=FOR_EVER)  # one after the other, their time-outs would take minutes
    assert ran(LEAVE + HOW[how]) == "sent\n"
