"""Runs the core's generators by hand, with virtual clocks and a function that answers each request."""

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from lambda_lock.core import acquire, keep, requests
from lambda_lock.core.lease import ClockReading
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled, TransportError
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Entropy, Hold, Resumption, Send, Wait
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.schema import JAVA, Schema
from lambda_lock.errors import LockFormatError
from lambda_lock.testing.table import Table

T = TypeVar("T")
NOW = 1_800_000_000.0  # epoch seconds at the start
#: The row of a holder whose lease has been over for a minute.
DEAD = {
    "key": {"S": "k"},
    "ownerName": {"S": "other#1"},
    "leaseDuration": {"S": "20000"},
    "recordVersionNumber": {"S": f"L1:{int(NOW * 1000) - 60_000:013d}:{'0' * 32}"},
    "fencingToken": {"N": "7"},
}
MANY = 500  # requests; more would mean an endless loop
UNKNOWN = TransportError(True)
THROTTLED = ServiceError("ThrottlingException", "", retryable=True)
DENIED = ServiceError("AccessDeniedException", "no")
Act = Callable[[], object]
Answer = Callable[[str, dict[str, Any]], Any]


class Interrupt(BaseException):
    """As KeyboardInterrupt and CancelledError."""


def place(schema: Schema = JAVA) -> Place:
    return Place("locks", schema, schema.partition_key, "k", schema.sort_key, schema.sort_key_value)


def refused(table: Any, request: tuple[str, dict[str, Any]]) -> ConditionFailed:
    """Send a request that must be refused."""
    with pytest.raises(ConditionFailed) as caught:
        table.apply(*request)
    return caught.value


@contextmanager
def left_alone(driver: Any, words: str) -> Iterator[None]:
    """What is done to a row that it is not for is a clear error, and changes nothing."""
    before = driver.table.items()
    with pytest.raises(LockFormatError, match=words):
        yield
    assert driver.table.items() == before


class Driver:
    """One process. ``answer`` returns or raises the outcome of a request. Each request takes ``trip`` seconds.

    clock_ahead: how many seconds its wall clock is fast.
    thrown: exceptions to throw into the steps, by the number of the step, from 1.
    """

    def __init__(self, answer: Answer, trip: float = 0.002) -> None:
        self.answer = answer
        self.trip = trip
        self.now = 0.0
        self.clock_ahead = 0.0
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.steps = 0
        self.thrown: dict[int, BaseException] = {}
        self.memory = ClientMemory(10)
        rng = random.Random(1)
        self.entropy = Entropy(lambda: f"{rng.getrandbits(128):032x}", rng.random)

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.sent]

    def reading(self) -> ClockReading:
        return ClockReading(self.now, self.now, NOW + self.now + self.clock_ahead)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def talk(self) -> Conversation:
        return Conversation(self.memory, self.entropy, self.reading())

    def run(self, steps: Generator[Send | Wait, Resumption, T]) -> T:
        try:
            step = next(steps)
            while True:
                self.steps += 1
                error = self.thrown.get(self.steps)
                if error is not None:
                    step = steps.throw(error)
                    continue
                outcome = None
                if isinstance(step, Wait):
                    self.now += step.seconds
                else:
                    outcome = self.send(step)
                step = steps.send(Resumption(self.reading(), outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    def send(self, step: Send) -> Any:
        self.sent.append((step.operation, step.request))
        assert len(self.sent) < MANY, "endless loop"
        self.now += self.trip
        try:
            return self.answer(step.operation, step.request)
        except (ConditionFailed, ServiceError, TransactionCanceled) as refused:
            refused.date = int(NOW + self.now)
            return refused

    def wanted(self, **changes: Any) -> AcquireRequest:
        schema: Schema = changes.pop("schema", JAVA)
        owner: str = changes.pop("owner", None) or f"me#{self.entropy.nonce()}"
        return AcquireRequest(place(schema), owner, changes.pop("lease_ms", 20_000), Content(ttl=60), **changes)

    def acquire(self, **changes: Any) -> Hold:
        return self.run(acquire.acquire(self.wanted(**changes), self.talk()))

    def renew(self, hold: Hold) -> keep.Renewal:
        return self.run(keep.renew(hold, self.talk()))

    def release(self, hold: Hold) -> bool:
        return self.run(keep.release(hold, self.talk()))


class OnTable(Driver):
    """A process on a table in memory. ``damage`` changes attributes of the row without its knowledge.

    kinds, times: of the requests that were sent. What a kind is, `kind_of` says.
    at: what happens before the first request that is sent at or after a time.
    before, after: what happens at the next requests of a kind, one act at each.
    troubles: what answers the next requests of a kind instead of the table: an outcome, or a function of the request.
    """

    def __init__(self, schema: Schema = JAVA, trip: float = 0.002) -> None:
        super().__init__(self.answered, trip)
        self.schema = schema
        self.table = Table(schema.partition_key, schema.sort_key)
        self.kinds: list[str] = []
        self.times: list[float] = []
        self.at: list[tuple[float, Act]] = []
        self.before: dict[str, list[Act]] = {}
        self.after: dict[str, list[Act]] = {}
        self.troubles: dict[str, list[Any]] = {}

    def kind_of(self, operation: str, request: dict[str, Any]) -> str:
        return operation

    def answered(self, operation: str, request: dict[str, Any]) -> Any:
        self.times.append(self.now)
        while self.at and self.at[0][0] <= self.now:
            self.at.pop(0)[1]()
        kind = self.kind_of(operation, request)
        self._happen(self.before, kind)
        self.kinds.append(kind)
        trouble = self.troubles[kind].pop(0) if self.troubles.get(kind) else self.apply
        try:
            return trouble(operation, request) if callable(trouble) else trouble
        finally:
            self._happen(self.after, kind)

    def _happen(self, acts: dict[str, list[Act]], kind: str) -> None:
        if acts.get(kind):
            acts[kind].pop(0)()

    def lost_reply(self, operation: str, request: dict[str, Any]) -> TransportError:
        """Carry the request out, and lose the reply."""
        self.apply(operation, request)
        return TransportError(True)

    def late_by(self, seconds: float) -> Answer:
        """Carries a request out whose answer takes so long."""

        def slow(operation: str, request: dict[str, Any]) -> Reply:
            reply = self.apply(operation, request)
            self.now += seconds
            return Reply(reply.item, int(NOW + self.now))

        return slow

    def beside(self, act: Act) -> Any:
        """Let another process act, on the same table at this moment."""
        answer, self.answer, before = self.answer, self.apply, self.now
        try:
            return act()
        finally:
            self.answer, self.now = answer, before

    def apply(self, operation: str, request: dict[str, Any]) -> Reply:
        return Reply(self.table.apply(operation, request), int(NOW + self.now))

    @property
    def row(self) -> Any:
        (item,) = self.table.items()
        return item

    def damage(self, **attributes: dict[str, Any] | None) -> None:
        changed = {**place(self.schema).item_key, **(self.row if self.table.items() else {}), **attributes}
        item = {name: value for name, value in changed.items() if value is not None}
        self.table.store(self.table.key(item, False), item)

    def wanted(self, *, permits: int | None = None, take: int | None = None, **changes: Any) -> AcquireRequest:
        """permits: of a semaphore. None: it is a lock."""
        wanted = super().wanted(**{"schema": self.schema, **changes})
        if permits is not None:
            wanted.place = PermitPlace(wanted.place, permits, wanted.owner, take)
        return wanted

    def read(self) -> Any:
        return self.table.apply(*requests.read(place(self.schema)))
