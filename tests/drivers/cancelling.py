"""Cancellation at every point where a task can notice it: at each wait, and at each request that it waits for.

A task that waits is cancelled at once, or when what it waits for is done already ("woken"). It is cancelled once, or
again at each later wait, or by a time-out. While a request is under way, it is cancelled before the engine has the
request, or after it was carried out. The network may lose the first two requests meanwhile, or the replies to them.
"""

import asyncio
import contextlib
import inspect
import itertools
import os
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from lambda_lock import AsyncLockClient, CommitRefusedError, LockClient, LockError, TransportError
from lambda_lock.transport import Transport
from tests.prove import operations
from tests.prove.operations import HOLDER, Operation
from tests.support.clocks import LeapingClock
from tests.support.waiting import DEADLINE

from .scenes import TABLE, Rows, Scene, free_or_to_be_adopted, trace
from .sweep import ordered, told

HOW = ("at once", "woken", "time-out")
STAGES = ("before", "after")
LOST = ("", "request", "reply")  # what the network loses of the first requests
_LOST_REQUESTS = 2
_OF_THE_LOOP = 2  # sockets, by which other threads wake it
_DEAD = "dead#1"  # who holds the row that is taken over
_IN_THE_QUEUE = 5  # the number of a request by which a waiter has a place
_numbers = itertools.count(1)  # of scenes
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
        self.lost = ""
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
            loses = self.lost if self.sent <= _LOST_REQUESTS else ""
            answer = None if loses == "request" else self.inner.send(operation, request, timeout=timeout)
            if loses:
                raise TransportError(True, "lost")
            return answer
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


# -- what is cancelled, besides the operations that all proofs share ---------------------------------------------------


async def _commit_refused(scene: Scene) -> None:
    """The item is not there, and its own condition asks for it."""
    condition = {"ConditionExpression": "attribute_exists(#k)", "ExpressionAttributeNames": {"#k": "key"}}
    with contextlib.suppress(CommitRefusedError):
        await scene.kept.commit([{"Put": scene.item["Put"] | condition}])


def _holder_string(scene: Scene) -> str:
    return scene.other.acquire(scene.key, wait=0, holder=HOLDER).hand_over()


async def _resumed(scene: Scene) -> Any:
    scene.options["string"] = operations.string(scene)
    return await scene.client.resume(scene.options["string"])


OPERATIONS = operations.OPERATIONS | {
    "take over": Operation(operations.hold, lambda scene: scene.rows.put_held(scene.key, expires_at=0, owner=_DEAD)),
    "leave a block": Operation(lambda scene: scene.kept.__aexit__(None, None, None), operations.hold),
    "leave the block of all": Operation(lambda scene: scene.kept.__aexit__(None, None, None), operations.hold_all),
    "commit what is refused": Operation(_commit_refused, operations.hold),
    "acquire as holder": Operation(operations.OPERATIONS["acquire as holder"].act, _holder_string),
    "release by string": Operation(lambda scene: scene.client.release(scene.kept), operations.string),
    "hand over what was resumed": Operation(operations.hand_over, _resumed),
    "try all": Operation(
        lambda scene: scene.client.try_acquire_all(scene.keys),
        lambda scene: scene.other.acquire(scene.keys[1], wait=0),
        theirs=True,
    ),
}


async def play(rows: Rows, name: str, cancellation: Cancellation | None, lost: str = "") -> tuple[Scene, int, int]:
    """Carry an operation out, cancelled or not. Returns the scene, and how many waits and requests it had."""
    connected = LockClient(TABLE)
    gate = Gate(connected.transport)
    clock = LeapingClock() if lost else None  # pauses between requests that are sent again take no time
    client = AsyncLockClient(TABLE, transport=gate, heartbeat_period=0, clock=clock)
    scene = Scene(rows, f"async {name} {os.getpid()} {next(_numbers)}", client, LockClient(TABLE), patience=DEADLINE)
    operation = OPERATIONS[name]
    kept = operation.before(scene)
    scene.begin(await kept if inspect.isawaitable(kept) else kept, operation.theirs)
    if name == "wait":
        gate.besides[_IN_THE_QUEUE] = lambda: scene.theirs.pop().release()
    gate.sent, gate.lost, gate.loop = 0, lost, asyncio.get_running_loop()
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
    requests, gate.at, gate.lost = gate.sent, 0, ""
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


def cancellations(waits: int, requests: int) -> list[Cancellation]:
    """All of them, for an operation that waits so often and sends so many requests."""
    each_wait = list(itertools.product(HOW, range(1, waits + 1)))
    once = [Cancellation(how, wait) for how, wait in each_wait]
    # A cancelled task waits for its clean-up: a second cancellation comes at each of these waits.
    twice = [Cancellation(how, wait, again) for how, wait in each_wait for again in range(wait + 1, waits + 5)]
    each_request = itertools.product(STAGES, range(1, requests + 1), (1, 2, 3))
    return once + twice + [Cancellation(stage, request=request, times=times) for stage, request, times in each_request]


def course(
    rows: Rows, name: str, first: int = 0, seed: int | None = None, lost: str = "", one_in: int = 1
) -> Iterator[dict[str, Any]]:
    """Cancel an operation at each of its points. seed: of a random order. lost: one of LOST. one_in: points, of all."""
    asyncio.run(play(rows, name, None, lost))
    _, waits, requests = asyncio.run(play(rows, name, None, lost))
    found = ordered(cancellations(waits, requests), seed)[::one_in]
    yield from told(found, first, lambda number: asyncio.run(play(rows, name, found[number], lost))[0].counts)


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


def _to_be_resumed(scene: Scene) -> None:
    scene.theirs.append(scene.other.resume(scene.options.get("string", scene.kept)))


def _to_be_taken_over_or_free(scene: Scene) -> None:
    assert scene.rows.owner(scene.key) in (None, _DEAD)
    scene.theirs.append(scene.other.acquire(scene.key, wait=0))


def _to_be_released_again(scene: Scene) -> None:
    assert scene.other.release(scene.kept)


def _refused(scene: Scene) -> None:
    assert [scene.rows.owner(key) for key in scene.keys] == [None, scene.theirs[0].owner]


_TAKING = ("acquire", "acquire a permit", "acquire all")
_ENDING = ("release", "release a permit", "release all", "leave a block", "leave the block of all")
_COMMITS = ("commit", "commit under all", "commit what is refused")
CANCELLED: dict[str, Callable[[Scene], None]] = {
    **dict.fromkeys((*_TAKING, *_ENDING, *_COMMITS, "hand_over", "hand over what was adopted", "close"), _free),
    **dict.fromkeys(("renew", "renew a permit", "renew all"), _still_held),
    "wait": _theirs_or_free,
    "adopt": free_or_to_be_adopted,
    **dict.fromkeys(("resume", "acquire as holder", "hand over what was resumed"), _to_be_resumed),
    "take over": _to_be_taken_over_or_free,
    "release by string": _to_be_released_again,
    "try all": _refused,
}
