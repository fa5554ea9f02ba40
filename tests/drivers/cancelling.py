"""Cancellation at every point where a task can hear of it: each time it waits, and each request that it waits for.

A task that waits hears of its cancellation at once, or after what it waits for is done already ("woken"). It is
cancelled once, or again at each later wait, or by a time-out. While a request is under way it is cancelled before the
engine has it, and after it was carried out.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from lambda_lock import AsyncLock, AsyncLockClient, AsyncMultiLock, LockClient, LockError
from lambda_lock.transport import Transport
from tests.support.waiting import DEADLINE

from .scenes import TABLE, DoubleHolderError, Rows, item_of, keys_of, trace
from .sweep import ordered

HOW = ("at once", "woken", "time-out")
STAGES = ("before", "after")
_OF_THE_LOOP = 2  # sockets, by which other threads wake it
_IN_THE_QUEUE = 5  # the number of a request by which a waiter has a place
_GRACE = 5  # rounds of the loop between a cancellation and the request that goes on


class Watched(Coroutine[Any, Any, Any]):
    """A coroutine that tells of each wait, with the future that is waited for."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits: Callable[[int, Any], None]) -> None:
        self._coroutine, self._waits, self._count = coroutine, waits, 0

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError("only a task runs it")

    def send(self, value: Any) -> Any:
        return self._told(self._coroutine.send(value))

    def throw(self, *error: Any) -> Any:
        return self._told(self._coroutine.throw(*error))

    def close(self) -> None:
        self._coroutine.close()

    def _told(self, future: Any) -> Any:
        self._count += 1
        self._waits(self._count, future)
        return future


class Gate:
    """A transport that cancels a task at its n-th request, before the engine has it or after."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.sent = 0
        self.at = 0
        self.stage = ""
        self.times = 1
        self.besides: dict[int, Callable[[], object]] = {}  # by the request before which it is done
        self.cancel: Callable[[], object] = lambda: None
        self.loop: asyncio.AbstractEventLoop | None = None

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Any:
        self.sent += 1
        self.besides.pop(self.sent, lambda: None)()
        now = self.sent == self.at
        if now and self.stage == "before":
            self._cancel()
        try:
            return self.inner.send(operation, request, timeout=timeout)
        finally:
            if now and self.stage == "after":
                self._cancel()

    def _cancel(self) -> None:
        assert self.loop is not None

        async def cancel() -> None:
            for _ in range(self.times):
                self.cancel()
                for _ in range(_GRACE):
                    await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(cancel(), self.loop).result()


@dataclass
class AsyncScene:
    """One play of an operation of an async client."""

    rows: Rows
    key: str
    client: AsyncLockClient
    gate: Gate
    other: LockClient
    handles: list[AsyncLock | AsyncMultiLock] = field(default_factory=list)
    theirs: list[Any] = field(default_factory=list)
    string: str = ""
    given: Any = None
    error: BaseException | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def reading(self) -> None:
        for lock in self.handles:
            for key in keys_of(lock):
                if lock.is_held and (owner := self.rows.owner(key)) != lock.owner:
                    raise DoubleHolderError(f"a handle of {key!r} says that it is held, and its row names {owner}")


Act = Callable[[AsyncScene], Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class AsyncOperation:
    """begin: what is there before. cancelled: asserts what docs/asyncio.md promises of its key after a cancellation."""

    name: str
    begin: Act
    act: Act
    cancelled: Callable[[AsyncScene], None]


@dataclass(frozen=True)
class Cancellation:
    """Where a task is cancelled. wait, again: the numbers of its waits. request: the number of a request."""

    how: str
    wait: int = 0
    again: int = 0
    request: int = 0
    times: int = 1

    def __str__(self) -> str:
        if self.request:
            return f"{self.times} times {self.how} request {self.request}"
        return f"{self.how} at wait {self.wait}" + (f" and again at {self.again}" if self.again else "")


async def play(rows: Rows, operation: AsyncOperation, cancellation: Cancellation | None) -> tuple[AsyncScene, int, int]:
    """Carry an operation out, cancelled or not. Returns the scene, and how many waits and requests it had."""
    _Numbers.next += 1
    connected = LockClient(TABLE)
    gate = Gate(connected.transport)
    client = AsyncLockClient(TABLE, transport=gate, heartbeat_period=0)
    scene = AsyncScene(rows, f"async {operation.name} {os.getpid()} {_Numbers.next}", client, gate, LockClient(TABLE))
    await operation.begin(scene)
    gate.sent, gate.loop = 0, asyncio.get_running_loop()
    waits = 0
    limit = asyncio.timeout(None)

    def waited(number: int, future: Any) -> None:
        nonlocal waits
        waits = number
        if cancellation is None or number not in (cancellation.wait, cancellation.again):
            return
        if cancellation.how == "time-out" and number == cancellation.wait:
            limit.reschedule(0)
        elif cancellation.how == "woken" and future is not None:
            future.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)

    async def limited() -> Any:
        async with limit:
            return await operation.act(scene)

    task = asyncio.get_running_loop().create_task(Watched(limited(), waited))
    gate.cancel = task.cancel
    if cancellation is not None and cancellation.request:
        gate.at, gate.stage, gate.times = cancellation.request, cancellation.how, cancellation.times
    done, _ = await asyncio.wait([task], timeout=DEADLINE)
    assert done, "the task hangs"
    try:
        scene.given = task.result()
    except (asyncio.CancelledError, TimeoutError, LockError) as error:
        scene.error = error.with_traceback(None)
    if isinstance(scene.given, (AsyncLock, AsyncMultiLock)):
        scene.handles.append(scene.given)
    requests, gate.at = gate.sent, 0
    await judge(scene, operation, cancellation)
    connected.close()
    trace(besides=_OF_THE_LOOP)
    return scene, waits, requests


async def judge(scene: AsyncScene, operation: AsyncOperation, cancellation: Cancellation | None) -> None:
    scene.reading()
    if cancellation is None:
        assert scene.error is None, repr(scene.error)
    elif scene.error is None:
        scene.counts["ended before"] += 1
    else:
        timed_out = cancellation.how == "time-out" and isinstance(scene.error, TimeoutError)
        assert timed_out or isinstance(scene.error, asyncio.CancelledError), repr(scene.error)
        operation.cancelled(scene)
    try:
        async with scene.client.acquire("spare " + scene.key, wait=0) as spare:
            assert spare.is_held
    except LockError:
        assert operation.name == "close"
    await scene.client.close()
    for lock in scene.handles:
        assert not lock.is_held
    for lock in scene.theirs:
        lock.release()
    if scene.error is None and isinstance(scene.given, str):
        scene.other.adopt(scene.given).release()
    assert _owners(scene) == {None}, "the lock is held for nobody"
    scene.other.close()


class _Numbers:
    next = 0


def cancellations(waits: int, requests: int) -> list[Cancellation]:
    """All of them, for an operation that waits so often and sends so many requests."""
    once = [Cancellation(how, wait) for how in HOW for wait in range(1, waits + 1)]
    # A cancelled task waits for its clean-up: a second cancellation comes at each of these waits.
    twice = [
        Cancellation(how, wait, again)
        for how in HOW
        for wait in range(1, waits + 1)
        for again in range(wait + 1, waits + 5)
    ]
    under_way = [
        Cancellation(stage, request=request, times=times)
        for stage in STAGES
        for request in range(1, requests + 1)
        for times in (1, 2, 3)
    ]
    return once + twice + under_way


def course(rows: Rows, operation: AsyncOperation, first: int = 0, seed: int | None = None) -> Iterator[dict[str, Any]]:
    """Cancel an operation at each of its points. seed: of a random order."""
    asyncio.run(play(rows, operation, None))
    _, waits, requests = asyncio.run(play(rows, operation, None))
    found = ordered(cancellations(waits, requests), seed)
    yield {"points": len(found)}
    for number, cancellation in enumerate(found[first:], start=first):
        yield {"at": number, "name": str(cancellation)}
        try:
            scene, _, _ = asyncio.run(play(rows, operation, cancellation))
            yield {"counts": scene.counts}
        except DoubleHolderError as error:
            yield {"wrong": str(error), "double": True}
        except Exception as error:  # noqa: BLE001 - told, and the next point is played
            yield {"wrong": repr(error)}


# -- the operations ---------------------------------------------------------------------------------------------------


async def _nothing(scene: AsyncScene) -> None:
    """There is nothing before."""


async def _hold(scene: AsyncScene) -> None:
    scene.handles.append(await scene.client.acquire(scene.key, wait=0))


async def _hold_permit(scene: AsyncScene) -> None:
    scene.handles.append(await _acquire_permit(scene))


async def _hold_all(scene: AsyncScene) -> None:
    scene.handles.append(await _acquire_all(scene))


async def _acquire_permit(scene: AsyncScene) -> AsyncLock:
    return await scene.client.acquire(scene.key, wait=0, permits=1)


async def _acquire_all(scene: AsyncScene) -> AsyncMultiLock:
    return await scene.client.acquire_all(_both(scene), wait=0)


def _both(scene: AsyncScene) -> tuple[str, str]:
    return scene.key, scene.key + " second"


def _owners(scene: AsyncScene) -> set[str | None]:
    return {scene.rows.owner(key) for key in _both(scene)}


def _held(scene: AsyncScene) -> AsyncLock:
    (lock,) = scene.handles
    assert isinstance(lock, AsyncLock)
    return lock


async def _they_hold(scene: AsyncScene) -> None:
    scene.theirs.append(scene.other.acquire(scene.key, wait=0))


async def _wait(scene: AsyncScene) -> AsyncLock:
    scene.gate.besides[_IN_THE_QUEUE] = lambda: scene.theirs.pop().release()
    return await scene.client.acquire(scene.key, wait=DEADLINE)


async def _handed_over(scene: AsyncScene) -> None:
    scene.string = scene.other.acquire(scene.key, wait=0).hand_over()


def _free(scene: AsyncScene) -> None:
    owners = _owners(scene)
    assert owners == {None}, f"the rows name {owners} after the cancellation"


def _theirs_or_free(scene: AsyncScene) -> None:
    assert scene.rows.owner(scene.key) == (scene.theirs[0].owner if scene.theirs else None)
    assert scene.rows.waiters(scene.key) == [], "a place in the queue is kept for nobody"


def _still_held(scene: AsyncScene) -> None:
    (lock,) = scene.handles
    assert lock.is_held, "a cancelled heartbeat has ended the lock"


def _free_or_to_be_adopted(scene: AsyncScene) -> None:
    if scene.rows.owner(scene.key) is not None:
        scene.counts["still to be adopted"] += 1
        scene.theirs.append(scene.other.adopt(scene.string))


def _to_be_resumed(scene: AsyncScene) -> None:
    scene.theirs.append(scene.other.resume(scene.string))


OPERATIONS = {
    each.name: each
    for each in (
        AsyncOperation("acquire", _nothing, lambda s: s.client.acquire(s.key, wait=0), _free),
        AsyncOperation("wait", _they_hold, _wait, _theirs_or_free),
        AsyncOperation("renew", _hold, lambda s: _held(s).heartbeat(data=b"new"), _still_held),
        AsyncOperation("release", _hold, lambda s: s.handles[0].release(), _free),
        AsyncOperation("commit", _hold, lambda s: _held(s).commit([item_of(s.key)]), _free),
        AsyncOperation("hand_over", _hold, lambda s: _held(s).hand_over(), _free),
        AsyncOperation("adopt", _handed_over, lambda s: s.client.adopt(s.string), _free_or_to_be_adopted),
        AsyncOperation("resume", _handed_over, lambda s: s.client.resume(s.string), _to_be_resumed),
        AsyncOperation("close", _hold, lambda s: s.client.close(), _free),
        AsyncOperation("acquire a permit", _nothing, _acquire_permit, _free),
        AsyncOperation("renew a permit", _hold_permit, lambda s: s.handles[0].heartbeat(), _still_held),
        AsyncOperation("release a permit", _hold_permit, lambda s: s.handles[0].release(), _free),
        AsyncOperation("acquire all", _nothing, _acquire_all, _free),
        AsyncOperation("renew all", _hold_all, lambda s: s.handles[0].heartbeat(), _still_held),
        AsyncOperation("release all", _hold_all, lambda s: s.handles[0].release(), _free),
    )
}
