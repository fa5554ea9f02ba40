"""The story: which events go when to which environment, and the part of the event sources that brings them again.

EventBridge and SQS are played here, small: an invocation that failed or timed out is sent once more after RETRY_SECONDS
(Lambda's asynchronous queue takes a minute), a message that was returned after VISIBILITY_SECONDS, as the queue's
visibility time-out has it; each time to another environment, and at most MOST_DELIVERIES times.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rig import events
from rig.engine import ROOT, Ministack
from rig.events import Event
from rig.lambda_runtime import FunctionError, LambdaEnvironment, TimedOut

from .evidence import Delivery, Freeze
from .handlers import DUPLICATE, HANGS
from .tables import LOCKS, Watch

RETRY_SECONDS = 1.5
VISIBILITY_SECONDS = 1.5
MOST_DELIVERIES = 8

ENVIRONMENTS = ("invoices 1", "invoices 2", "invoices 3", "orders 1", "orders 2", "report 1", "report 2")

_HANGING = "invoices 2"
_FROZEN, _FROZEN_KEY = "orders 1", "customer#c-7"
_LONG = 20.0  # seconds, an invocation's timeout that is not reached
_PATIENCE = 30.0  # seconds for anything that must happen
_IN_WORDS = {
    "killed": "killed at its timeout",
    "skipped": "skipped, another run goes on",
    "duplicate": "dropped a duplicate",
    "returned": "message returned to the queue",
    "failed": "failed:",
}


@dataclass(frozen=True)
class Step:
    """Send an event to an environment ``at`` seconds; what comes back goes to the environment ``then``."""

    at: float
    environment: str
    event: Event
    names: tuple[str, ...]
    then: str
    timeout: float = _LONG


def script() -> list[Step]:
    """Two customers and a report, that invoices, orders and schedules want at the same time."""
    first = _invoice("o-1001", 1.4)
    return [
        # A customer's invoices. The second handler hangs until it is killed at its timeout, the next one waits for it.
        Step(0.0, "invoices 1", *first, then="invoices 3"),
        Step(0.4, _HANGING, *_invoice("o-1002", 1.0), then="invoices 3", timeout=3.6),
        Step(2.4, "invoices 1", *_invoice("o-1003", 1.0), then="invoices 3"),
        Step(7.4, "invoices 1", *first, then="invoices 3"),  # EventBridge delivers at least once
        # A long report on a short lease, and a schedule that does not wait for it.
        Step(0.6, "report 1", *_report("run 1", 5.5), then="report 2"),
        Step(3.0, "report 2", *_report("run 2", 1.0), then="report 1"),
        Step(7.6, "report 2", *_report("run 3", 1.0), then="report 1"),
        # A queue: the first message finds its customer busy, the second is under way when its environment is frozen.
        Step(0.8, _FROZEN, *_orders(("o-2001", "c-42", 0.6), ("o-2002", "c-7", 2.2)), then="orders 2"),
        Step(3.4, "orders 2", *_orders(("o-2003", "c-7", 0.8)), then="orders 2"),
    ]


class Play:
    """Environments, warm, and the script played on them; a context manager."""

    def __init__(self, engine: Ministack, watch: Watch, say: Callable[[str], None]) -> None:
        self.steps = script()
        self.deliveries: list[Delivery] = []
        self.freezes: list[Freeze] = []
        self._watch = watch
        self._say = say
        self._lanes: dict[str, str] = {}
        self._stopped = threading.Event()
        self._free = {name: threading.Lock() for name in ENVIRONMENTS}  # one invocation at a time
        self._exit = contextlib.ExitStack()
        variables = engine.environment() | {"LAMBDA_LOCK_TABLE": LOCKS}
        self._environments = {
            name: LambdaEnvironment(
                "demo.handlers.handler",
                ROOT,
                environment=variables | ({HANGS: "yes"} if name == _HANGING else {}),
                function_name=name.partition(" ")[0],
                freeze_between=True,
            )
            for name in ENVIRONMENTS
        }

    def __enter__(self) -> Play:
        for environment in self._environments.values():
            self._exit.enter_context(environment)
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @property
    def events(self) -> dict[str, str]:
        """The name of each event that is sent, by its id."""
        return {event: name for step in self.steps for event, name in zip(_ids(step.event), step.names, strict=True)}

    def warm_up(self) -> None:
        """Start the environments, so that the story has no cold starts in it. Raises FunctionError."""
        for warming in [environment.invoke({}, _LONG) for environment in self._environments.values()]:
            warming.result()

    def run(self) -> None:
        """Play to the end. Raises TimeoutError where something that the story waits for does not happen."""
        self._watch.began = time.time()
        with ThreadPoolExecutor(len(self.steps) + 1) as pool:
            parts = [pool.submit(self._freeze), *(pool.submit(self._deliver, step) for step in self.steps)]
            try:
                for part in parts:
                    part.result()
            except BaseException:  # let no part go on for half a minute
                self._stopped.set()
                self._watch.end()
                self._exit.close()
                raise

    def lane(self, request: str) -> str:
        """The environment that was sent this request."""
        return self._lanes.get(request, "")

    def _now(self) -> float:
        return time.time() - self._watch.began

    def _deliver(self, step: Step) -> None:
        at, environment, event, timeout = step.at, step.environment, step.event, step.timeout
        for _ in range(MOST_DELIVERIES):
            if self._stopped.wait(max(0.0, at - self._now())):
                return
            delivery = self._invoke(environment, event, timeout)
            if self._stopped.is_set():
                return
            self.deliveries.append(delivery)
            if delivery.outcome != "done":
                self._say(f"{environment}: {_IN_WORDS[delivery.outcome]} {delivery.error}".rstrip())
            if not delivery.again:
                return
            if delivery.outcome == "returned":
                at = delivery.started + VISIBILITY_SECONDS
                event = _received_again(event, delivery.again)
            else:
                at = delivery.ended + RETRY_SECONDS
            environment, timeout = step.then, _LONG

    def _invoke(self, name: str, event: Event, timeout: float) -> Delivery:
        request = str(uuid.uuid4())
        self._lanes[request] = name
        with self._free[name]:
            invocation = self._environments[name].invoke(event, timeout, request)
            answer: Any = None
            error: FunctionError | None = None
            try:
                answer = invocation.result(timeout + _PATIENCE)
            except FunctionError as raised:
                error = raised
            ended = self._now()
        ids = _ids(event)
        started = ended if invocation.started_at is None else invocation.started_at - self._watch.began
        if isinstance(error, TimedOut):
            return Delivery(name, request, ids, started, ended, "killed", ids)
        if error is not None:
            return Delivery(name, request, ids, started, ended, "failed", ids, str(error))
        if isinstance(answer, dict) and answer["batchItemFailures"]:
            again = tuple(failure["itemIdentifier"] for failure in answer["batchItemFailures"])
            return Delivery(name, request, ids, started, ended, "returned", again)
        if answer == DUPLICATE:
            return Delivery(name, request, ids, started, ended, "duplicate")
        return Delivery(name, request, ids, started, ended, "done" if answer else "skipped")

    def _freeze(self) -> None:
        """Stop an environment in the middle of its work, and let it go on when another has its lock."""
        self._watch.wait_for(lambda change: change.key == _FROZEN_KEY, _PATIENCE)
        time.sleep(1.4)
        environment = self._environments[_FROZEN]
        environment.freeze()
        started = self._now()
        self._say(f"{_FROZEN}: frozen")
        try:
            self._watch.wait_for(lambda change: change.key == _FROZEN_KEY and change.took_over, _PATIENCE)
            time.sleep(1.0)
        finally:
            environment.thaw()
            self.freezes.append(Freeze(_FROZEN, started, self._now()))
            self._say(f"{_FROZEN}: thawed")


def _invoice(name: str, seconds: float) -> tuple[Event, tuple[str, ...]]:
    detail = events.load("eventbridge")["detail"] | {"order_id": name, "seconds": seconds}
    return events.eventbridge(detail), (name,)


def _report(name: str, seconds: float) -> tuple[Event, tuple[str, ...]]:
    return events.load("schedule") | {"id": name, "detail": {"seconds": seconds}}, (name,)


def _orders(*orders: tuple[str, str, float]) -> tuple[Event, tuple[str, ...]]:
    bodies = [{"order_id": name, "customer_id": customer, "seconds": seconds} for name, customer, seconds in orders]
    return events.sqs(bodies), tuple(name for name, _, _ in orders)


def _ids(event: Event) -> tuple[str, ...]:
    if "Records" in event:
        return tuple(record["messageId"] for record in event["Records"])
    return (event["id"],)


def _received_again(event: Event, ids: tuple[str, ...]) -> Event:
    """The batch of the messages that came back, each with its receive counted."""
    again = copy.deepcopy([record for record in event["Records"] if record["messageId"] in ids])
    for record in again:
        count = int(record["attributes"]["ApproximateReceiveCount"])
        record["attributes"]["ApproximateReceiveCount"] = str(count + 1)
    return {"Records": again}
