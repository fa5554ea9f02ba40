"""One run of a case: deliveries to two environments of one library, with their costs and outcomes."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import boto3

from rig import events
from rig.engine import Ministack
from rig.wire import Fault, Wire

from .contestants import Event, Handler, Item, LambdaLock, Powertools

EFFECTS = "effects"  # the table in which handlers record their effects
PATIENCE = 30.0  # seconds after which a run gives up waiting for something that should have happened long before
_PAUSE = 0.1  # seconds between two deliveries of an event that is refused
_numbers = itertools.count(1)

Contestant = LambdaLock | Powertools


class Context:
    """A Lambda context with the given number of seconds left."""

    function_name = "orders"
    aws_request_id = "request"

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline - time.monotonic()) * 1000))


class Effects:
    """The effects of handlers: a count per event in a real table. Its requests do not go over the wire."""

    def __init__(self, url: str) -> None:
        self._client = boto3.client("dynamodb", endpoint_url=url)

    @staticmethod
    def item(event: Event) -> Item:
        """The effect as an item of a transaction."""
        return {"Update": _addition(event)}

    def add(self, event: Event) -> None:
        self._client.update_item(**_addition(event))

    def count(self, event: Event) -> int:
        found = self._client.get_item(TableName=EFFECTS, Key=_key(event), ConsistentRead=True).get("Item", {})
        return int(found.get("n", {"N": "0"})["N"])

    def close(self) -> None:
        self._client.close()


class Uncounted(Effects):
    """Effects in memory, which cost almost nothing, for measurements of CPU time."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, event: Event) -> None:
        self._counts[event["id"]] = self.count(event) + 1

    def count(self, event: Event) -> int:
        return self._counts.get(event["id"], 0)

    def close(self) -> None:
        """Nothing is open."""


class Gate:
    """A gate at which a handler waits until it may continue."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def wait(self) -> None:
        self._reached.set()
        self._open.wait(PATIENCE)

    def reached(self) -> None:
        assert self._reached.wait(PATIENCE), "no handler reached the gate"

    def open(self) -> None:
        self._open.set()


class Delivery:
    """A delivery in a thread of its own. ``got`` is its outcome, once it has ended."""

    def __init__(self, deliver: Callable[[], str]) -> None:
        self.got = ""
        self._thread = threading.Thread(target=self._run, args=(deliver,), daemon=True)
        self._thread.start()

    def _run(self, deliver: Callable[[], str]) -> None:
        self.got = deliver()

    def end(self) -> str:
        self._thread.join(PATIENCE)
        return self.got


class Run:
    """The tools for a case. ``first`` and ``second`` are two environments of one library.

    wire: counts requests and injects faults; None: only the CPU time is measured. engine: for cases that start
    processes of their own.
    """

    def __init__(
        self,
        name: str,
        first: Contestant,
        second: Contestant,
        effects: Effects,
        wire: Wire | None = None,
        engine: Ministack | None = None,
    ) -> None:
        self.name = name
        self.first = first
        self.second = second
        self.effects = effects
        self.engine = engine
        self.requests: list[str] = []
        self.cpu = 0.0
        self.timeline: list[tuple[float, str, str]] = []
        self.most_at_once = 0
        self._inside = 0
        self._skipped: set[int] = set()
        self._guard = threading.Lock()
        self._wire = wire
        self._events: list[Event] = []
        self._started = time.monotonic()

    # Deliveries

    def event(self, customer: str = "c-42") -> Event:
        made = events.eventbridge({"customer_id": customer, "order_id": f"o-{next(_numbers)}"})
        self._events.append(made)
        return made

    def deliver(self, who: str, handler: Handler, event: Event, remaining: float = 60.0) -> str:
        """Deliver an event. Returns the outcome: "returned …", or the name of an error."""
        self.say(who, "is delivered")
        try:
            got = f"returned {handler(event, Context(remaining))!r}"
        except Exception as error:  # noqa: BLE001 - any error is an outcome
            got = _error_name(error)
        self.say(who, got)
        return got

    def start(self, who: str, handler: Handler, event: Event, remaining: float = 60.0) -> Delivery:
        return Delivery(lambda: self.deliver(who, handler, event, remaining))

    def redeliver(self, who: str, handler: Handler, event: Event, remaining: float = 60.0) -> str:
        """Deliver an event until it is not refused any more. Returns the outcome.

        The requests of refused deliveries do not count.
        """
        patience = time.monotonic() + PATIENCE
        self.say(who, "is delivered until it is not refused")
        while time.monotonic() < patience:
            before = self._sent()
            try:
                got = f"returned {handler(event, Context(remaining))!r}"
            except self.first.refused:
                self._skipped.update(range(before, self._sent()))
                time.sleep(_PAUSE)
                continue
            self.say(who, got)
            return got
        return "refused for ever"

    def was_refused(self, got: str) -> bool:
        return got.split()[0] in [error.__name__ for error in self.first.refused]

    def lose_reply_of_claim(self) -> Fault:
        assert self._wire is not None
        return self._wire.drop_reply(self.first.claim)

    # For handlers

    def work(self, event: Event) -> str:
        """The work of a handler. It records its effect, and how many handlers were working at the same time."""
        with self.inside():
            self.effects.add(event)
        return "done"

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        with self._guard:
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
        try:
            yield
        finally:
            with self._guard:
                self._inside -= 1

    # Results

    def say(self, who: str, what: str) -> None:
        self.timeline.append((time.monotonic() - self._started, who, what))

    def effects_seen(self) -> int:
        return sum(self.effects.count(event) for event in self._events)

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the cost of the case: the requests and the CPU time of the ``with`` block."""
        before, started = self._sent(), time.process_time()
        yield
        self.cpu += time.process_time() - started
        if self._wire is not None:
            sent = self._wire.operations
            self.requests += [sent[index] for index in range(before, len(sent)) if index not in self._skipped]

    def _sent(self) -> int:
        return 0 if self._wire is None else self._wire.count()


def _addition(event: Event) -> Item:
    return {
        "TableName": EFFECTS,
        "Key": _key(event),
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


def _key(event: Event) -> Item:
    return {"id": {"S": event["id"]}}


def _error_name(error: Exception) -> str:
    cause = error.__cause__
    return type(error).__name__ + (f" from {type(cause).__name__}" if cause is not None else "")
