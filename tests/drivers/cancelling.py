"""Cancellation at every point where a task can notice it: at each wait, and at each request that it waits for.

A task that waits is cancelled at once, or when what it waits for is done already ("woken"). It is cancelled once, or
again at each later wait, or by a time-out. While a request is under way, it is cancelled before the engine has the
request, or after it was carried out.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from lambda_lock import AsyncLockClient, LockClient, LockError
from lambda_lock.transport import Transport
from tests.prove.operations import OPERATIONS
from tests.support.waiting import DEADLINE

from .scenes import TABLE, Rows, Scene, trace
from .sweep import ordered, told

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
        self.besides: dict[int, Callable[[], object]] = {}  # what is done before a request, by its number
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


async def play(rows: Rows, name: str, cancellation: Cancellation | None) -> tuple[Scene, int, int]:
    """Carry an operation out, cancelled or not. Returns the scene, and how many waits and requests it had."""
    _Numbers.next += 1
    connected = LockClient(TABLE)
    gate = Gate(connected.transport)
    client = AsyncLockClient(TABLE, transport=gate, heartbeat_period=0)
    scene = Scene(rows, f"async {name} {os.getpid()} {_Numbers.next}", client, LockClient(TABLE), patience=DEADLINE)
    operation = OPERATIONS[name]
    kept = operation.before(scene)
    scene.begin(await kept if inspect.isawaitable(kept) else kept, operation.theirs)
    if operation.theirs:
        gate.besides[_IN_THE_QUEUE] = lambda: scene.theirs.pop().release()
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
    scene.keep_given()
    requests, gate.at = gate.sent, 0
    await judge(scene, name, cancellation)
    connected.close()
    trace(besides=_OF_THE_LOOP)
    return scene, waits, requests


async def judge(scene: Scene, name: str, cancellation: Cancellation | None) -> None:
    scene.reading()
    if cancellation is None:
        assert scene.error is None, repr(scene.error)
    elif scene.error is None:
        scene.counts["ended before"] += 1
    else:
        timed_out = cancellation.how == "time-out" and isinstance(scene.error, TimeoutError)
        assert timed_out or isinstance(scene.error, asyncio.CancelledError), repr(scene.error)
        CANCELLED[name](scene)
    try:
        async with scene.client.acquire("spare " + scene.key, wait=0) as spare:
            assert spare.is_held
    except LockError:
        assert name == "close"
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


def course(rows: Rows, name: str, first: int = 0, seed: int | None = None) -> Iterator[dict[str, Any]]:
    """Cancel an operation at each of its points. seed: of a random order."""
    asyncio.run(play(rows, name, None))
    _, waits, requests = asyncio.run(play(rows, name, None))
    found = ordered(cancellations(waits, requests), seed)
    yield from told(found, first, lambda number: asyncio.run(play(rows, name, found[number]))[0].counts)


# -- what docs/asyncio.md promises of the keys after a cancellation ---------------------------------------------------


def _owners(scene: Scene) -> set[str | None]:
    return {scene.rows.owner(key) for key in scene.keys}


def _free(scene: Scene) -> None:
    owners = _owners(scene)
    assert owners == {None}, f"the rows name {owners} after the cancellation"


def _theirs_or_free(scene: Scene) -> None:
    assert scene.rows.owner(scene.key) == (scene.theirs[0].owner if scene.theirs else None)
    assert scene.rows.waiters(scene.key) == [], "a place in the queue is kept for nobody"


def _still_held(scene: Scene) -> None:
    (lock,) = scene.handles
    assert lock.is_held, "a cancelled heartbeat has ended the lock"


def _free_or_to_be_adopted(scene: Scene) -> None:
    if scene.rows.owner(scene.key) is not None:
        scene.counts["still to be adopted"] += 1
        scene.theirs.append(scene.other.adopt(scene.kept))


def _to_be_resumed(scene: Scene) -> None:
    scene.theirs.append(scene.other.resume(scene.kept))


_TAKING, _ENDING = ("acquire", "acquire a permit", "acquire all"), ("release", "release a permit", "release all")
CANCELLED: dict[str, Callable[[Scene], None]] = {
    **dict.fromkeys((*_TAKING, *_ENDING, "commit", "hand_over", "close"), _free),
    **dict.fromkeys(("renew", "renew a permit", "renew all"), _still_held),
    "wait": _theirs_or_free,
    "adopt": _free_or_to_be_adopted,
    "resume": _to_be_resumed,
}
