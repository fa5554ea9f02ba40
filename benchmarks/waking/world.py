"""Executions, callers that are awake, a table with its stream, and the waker, in virtual time.

All decisions are the shipped code's: the acquires, the queue, the sleepers' row, and the looks of the waker with their
filters. What AWS adds in between is drawn from the ranges below.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lambda_lock.core import acquire, keep, resume, sleepers
from lambda_lock.core.lease import ClockReading
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError
from lambda_lock.core.permit_queue import queue_for_permit
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Entropy, Resumption, Send, Wait
from lambda_lock.core.queue import Queue
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.resume import name_of
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import LockNotGrantedError
from lambda_lock.testing.table import Table
from lambda_lock.waker.function import FILTERS
from lambda_lock.waker.look import Call, ClosedError, Look, Message

if TYPE_CHECKING:
    from collections.abc import Generator

    from lambda_lock.core.outcome import Item
    from lambda_lock.core.protocol import Hold

    Life = Generator[Any, Any, None]

EPOCH = 1_800_000_000.0  # the start, in epoch seconds
TRIP = (0.002, 0.006)  # seconds of a request to DynamoDB, there and back
STREAM = (0.1, 1.0)  # from a write to the waker's invocation by the stream
QUEUE = (0.05, 0.5)  # by which a message of the queue is late
ANSWER = (0.02, 0.06)  # of the waker's call
START = (0.15, 2.5)  # from the call, or the end of a pause, until the execution's invocation asks for the lock
UNEVEN = (0.8, 1.2)  # by which holds of executions differ
LEASE = 3600.0  # seconds, of executions
OWN_LEASE = 20.0  # of callers that are awake
# As in lambda_lock/durable/acquiring.py, which cannot be loaded without the SDK. tests/durable compares them.
POLL, GROWTH, LONGEST_PAUSE, SHORTEST_SLEEP = 60.0, 0.01, 86_400.0, 3_600.0
#: Characters of an execution's name as a holder, and of its callback's id. The id's length on AWS is not documented.
HOLDER = "arn:aws:lambda:eu-west-1:123456789012:function:orders:1/durable-execution/{}/{}/{}"
CALLBACK = 256


@dataclass(frozen=True)
class Load:
    """Who wants the lock, and for how long. Seconds.

    executions: how many, which come one after the other within the first ``within`` seconds.
    callers: how many that are awake: each holds for ``call``, pauses for ``between`` and comes again.
    """

    title: str
    hold: float
    executions: int = 50
    permits: int | None = None
    callers: int = 0
    call: float = 0.5
    between: float = 0.0
    within: float = 10.0
    longest: float = 10 * 86_400.0


@dataclass
class Counts:
    """What the executions and the waker cost."""

    invocations: int = 0
    looks: int = 0  # invocations of the waker
    requests: int = 0
    reads: float = 0.0  # units
    writes: float = 0.0
    operations: int = 0  # of durable functions
    messages: int = 0
    seconds: float = 0.0  # of invocations


@dataclass
class Run:
    """The result of a load."""

    grants: list[float] = field(default_factory=list)  # to executions
    idle: list[float] = field(default_factory=list)  # before each of these: how long the lock, or a permit, was free
    passed: int = 0  # grants to an execution while one waited that had come earlier
    calls: int = 0  # grants to callers that are awake
    spans: list[tuple[float, float, str]] = field(default_factory=list)  # who held it, from when to when
    counts: Counts = field(default_factory=Counts)
    done: float | None = None  # when the last execution was through; None: not all were


class Sleep:
    """Yielded by an execution: suspend until the callback is called, or has timed out."""

    def __init__(self, callback: str, seconds: float) -> None:
        self.callback = callback
        self.seconds = seconds


class World:
    """One run. asleep: whether the table has a waker, and executions sleep."""

    def __init__(self, load: Load, *, asleep: bool, seed: int = 1) -> None:
        self.load = load
        self.asleep = asleep
        self.result = Run()
        self._rng = random.Random(seed)
        self._chance = Entropy(lambda: f"{self._rng.getrandbits(128):032x}", self._rng.random)
        self._table = Table("key", None)
        self._place = Place("locks", JAVA, "key", "a", None, None)
        self._waker = ClientMemory(10)
        self._now = 0.0
        self._agenda: list[tuple[float, int, Any, Any, Any]] = []
        self._numbers = itertools.count()
        self._counted: set[Life] = set()  # the requests of executions and looks count, no others
        self._suspended: dict[str, Life] = {}  # by callback
        self._records = 0  # of the stream, that wait for the waker
        self._looking = False
        self._waiting: dict[str, float] = {}  # executions, and since when
        self._free: deque[float] = deque([0.0] * (load.permits or 1))  # since when each permit is free
        self._left = load.executions  # that are not through
        for number in range(load.executions):
            name = f"execution-{number:02d}"
            life = self._execution(name)
            self._counted.add(life)
            self._then(load.within * number / load.executions, life)
        for number in range(load.callers):
            self._then(self._draw((0.0, 1.0)), self._caller(f"caller-{number}"))

    def run(self) -> Run:
        while self._agenda and self.result.done is None and self._agenda[0][0] <= self.load.longest:
            self._now, _, life, sent, event = heapq.heappop(self._agenda)
            if sent is not None:
                self._then(self._draw(TRIP) / 2, life, event=Resumption(self._look(), self._apply(life, sent)))
            elif callable(life):
                life()
            else:
                self._go_on(life, event)
        return self.result

    # -- who wants the lock

    def _execution(self, name: str) -> Life:
        counts = self.result.counts
        holder = HOLDER.format(name, self._chance.nonce(), self._chance.nonce())
        counts.operations += 1  # its name
        counts.invocations += 1
        yield Wait(self._draw(START))
        self._waiting[name] = began = self._now
        while True:  # as in lambda_lock/durable/acquiring.py
            memory, invoked = ClientMemory(10), self._now
            counts.operations += 1
            wanted = self._wanted(holder, LEASE, self._now)
            try:
                hold = yield from resume.acquire(wanted, Conversation(memory, self._chance, self._look()))
                break
            except LockNotGrantedError:
                waited = self._now - began
            if self.asleep:
                callback = self._chance.nonce() * (CALLBACK // 32)
                sleeper = sleepers.Sleeper(holder, "durable", callback, self.load.permits, 86_400)
                counts.operations += 2
                there_is_room = yield from sleepers.lie_down(
                    self._place, sleeper, Conversation(memory, self._chance, self._look())
                )
                assert there_is_room
                counts.seconds += self._now - invoked
                yield Sleep(callback, min(max(SHORTEST_SLEEP, waited), LONGEST_PAUSE))
            else:
                counts.seconds += self._now - invoked
                yield Wait(min(max(POLL, waited * GROWTH), LONGEST_PAUSE))
            counts.invocations += 1
            yield Wait(self._draw(START))
        yield from self._hold(name, hold, self.load.hold * self._draw(UNEVEN), memory)
        counts.operations += 1
        self._left -= 1
        if not self._left:
            self.result.done = self._now

    def _caller(self, name: str) -> Life:
        kind = queue_for_permit if self.load.permits else Queue
        memory = ClientMemory(10)
        while True:
            wanted = self._wanted(name, OWN_LEASE, self._now + 1e9, queue=kind)
            hold = yield from acquire.acquire(wanted, Conversation(memory, self._chance, self._look()))
            yield from self._hold(name, hold, self.load.call, memory)
            yield Wait(self.load.between)

    def _wanted(self, holder: str, lease: float, until: float, queue: Any = None) -> AcquireRequest:
        place, nonce = self._place, self._chance.nonce()
        owner = f"{holder}#{nonce}"
        if self.load.permits:
            if queue is None:
                owner = f"{holder}#{name_of(holder)}/{nonce}"
            place = PermitPlace(place, self.load.permits, owner)
        return AcquireRequest(
            place, owner, int(lease * 1000), Content(ttl=86_400), wait_until=until, waits=until > self._now, queue=queue
        )

    def _hold(self, name: str, hold: Hold, seconds: float, memory: ClientMemory) -> Life:
        result, began = self.result, self._now
        assert self._free, "more hold it than may"
        idle = began - self._free.popleft()
        if name in self._waiting:
            since = self._waiting.pop(name)
            result.passed += any(other < since for other in self._waiting.values())
            result.grants.append(began)
            result.idle.append(idle)
        else:
            result.calls += 1
        yield Wait(seconds)
        result.spans.append((began, self._now, name))
        self._free.append(self._now)
        yield from keep.release(hold, Conversation(memory, self._chance, self._look()))

    # -- the waker

    def _record(self) -> None:
        """A record of the stream has passed the filters, and comes to the waker. One batch is looked at at a time."""
        self._records += 1
        if not self._looking:
            self._begin_look()

    def _begin_look(self) -> None:
        self._looking, self._records = True, 0
        self._begin(self._look_at_it(by_stream=True))

    def _message(self) -> None:
        self.result.counts.messages += 1
        self._begin(self._look_at_it(by_stream=False))

    def _begin(self, life: Life) -> None:
        self._counted.add(life)
        self._then(0.0, life)

    def _look_at_it(self, *, by_stream: bool) -> Life:
        counts, began = self.result.counts, self._now
        counts.looks += 1
        yield from Look(self._place, Conversation(self._waker, self._chance, self._look())).run()
        counts.seconds += self._now - began
        if by_stream:
            self._looking = False
            if self._records:
                self._begin_look()

    def _called(self, life: Life, callback: str) -> None:
        self._go_on(life, Resumption(self._look(), self._call(callback)))

    def _call(self, callback: str) -> Exception | None:
        life = self._suspended.pop(callback, None)
        if life is None:
            return ClosedError("timed out")
        self._then(0.0, life)
        return None

    # -- time, and the table

    def _go_on(self, life: Life, event: Resumption | None) -> None:
        try:
            step = next(life) if event is None else life.send(Resumption(self._look(), event.outcome))
        except StopIteration:
            return
        if isinstance(step, Call):
            self._then(self._draw(ANSWER), lambda: self._called(life, step.sleeper.callback))
        elif isinstance(step, Message):
            self._then(step.delay + self._draw(QUEUE), self._message)
            self._then(self._draw(ANSWER), life, event=Resumption(self._look(), None))
        elif isinstance(step, Wait):
            self._then(step.seconds, life, event=Resumption(self._look(), None))
        elif isinstance(step, Sleep):
            self._suspended[step.callback] = life
            self._then(step.seconds, lambda: self._call(step.callback))
        else:
            self._then(self._draw(TRIP) / 2, life, sent=step)

    def _apply(self, life: Life, sent: Send) -> Reply | Exception:
        date = int(EPOCH + self._now)
        key = sent.request["Key"]
        reply: Reply | Exception
        try:
            reply = Reply(self._table.apply(sent.operation, sent.request), date)
        except (ConditionFailed, ServiceError) as refused:
            refused.date = date
            reply = refused
        item = self._table.apply("GetItem", {"TableName": "locks", "Key": key, "ConsistentRead": True}) or {}
        if life in self._counted:
            counts = self.result.counts
            counts.requests += 1
            if sent.operation == "GetItem":
                counts.reads += max(1, -(-size(item) // 4096))
            else:
                counts.writes += max(1, -(-size(item) // 1024))
        is_written = self.asleep and sent.operation != "GetItem" and isinstance(reply, Reply)
        if is_written and any(matches(pattern, {"dynamodb": {"NewImage": item}}) for pattern in FILTERS):
            self._then(self._draw(STREAM), self._record)
        return reply

    def _look(self) -> ClockReading:
        return ClockReading(self._now, self._now, EPOCH + self._now)

    def _draw(self, between: tuple[float, float]) -> float:
        return self._rng.uniform(*between)

    def _then(self, seconds: float, life: Any, *, sent: Send | None = None, event: Resumption | None = None) -> None:
        heapq.heappush(self._agenda, (self._now + max(seconds, 0.0), next(self._numbers), life, sent, event))


def matches(pattern: Any, value: Any) -> bool:
    """Whether a record matches one of the waker's filter patterns."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            name in value and matches(inner, value[name]) for name, inner in pattern.items()
        )
    return any(one == {"exists": True} or one == value for one in pattern)


def size(item: Item) -> int:
    """Bytes of an item, as DynamoDB counts them, nearly."""

    def of(value: dict[str, Any]) -> int:
        ((kind, content),) = value.items()
        if kind == "L":
            return 3 + sum(1 + of(one) for one in content)
        if kind == "M":
            return 3 + sum(1 + len(name) + of(one) for name, one in content.items())
        return len(str(content)) if kind == "S" else len(str(content)) // 2 + 2

    return sum(len(name) + of(value) for name, value in item.items())


LOADS = (
    Load("50 executions of 5 s", 5.0),
    Load("50 executions of a minute", 60.0),
    Load("50 executions of 10 minutes", 600.0),
    Load("5 executions of a minute", 60.0, executions=5),
    Load("50 executions of 1 s, and 5 callers without a pause", 1.0, callers=5, longest=1000.0),
    Load("50 executions of a minute, and 5 callers every 10 s", 60.0, callers=5, between=10.0),
    Load("50 executions of 5 s, for 3 permits", 5.0, permits=3),
)
