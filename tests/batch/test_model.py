"""Random batches against a naive model: each record is done exactly once or comes back, and FIFO order holds."""

from __future__ import annotations

import json
import uuid
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lambda_lock import LockClient
from lambda_lock.batch import process_sqs, process_stream
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.decorated import Boom

from .conftest import returned

EXAMPLES = [5, pytest.param(60, marks=pytest.mark.slow)]


@dataclass(frozen=True)
class Message:
    group: str
    event: str
    order: str | None  # None: no key can be built from it
    fails: bool


messages = st.lists(
    st.builds(
        Message,
        group=st.sampled_from("ABC"),
        event=st.sampled_from("abcdefgh"),
        order=st.sampled_from(["p", "q", "r", "held", None]),
        fails=st.booleans() | st.just(False),
    ),
    max_size=10,
)
BATCHES = (messages, st.frozensets(st.sampled_from("gh")))  # and the events that run elsewhere


@dataclass
class World:
    """The naive model: the state that a batch finds, and the state after it."""

    done: set[str] = field(default_factory=set)  # events
    in_progress: frozenset[str] = frozenset()  # events that run elsewhere
    effects: list[tuple[str, int]] = field(default_factory=list)  # event, place in the batch
    failed: set[int] = field(default_factory=set)

    def deliver(self, batch: list[Message], order_kept: str) -> list[int]:
        """Process record after record, as one would by hand. Returns the places of the records that come back.

        order_kept: order is kept within the "group" or the "batch"; "": not at all.
        """
        self.failed = set()
        for place, message in enumerate(batch):
            if self.cut_off(message, batch, order_kept) or not self.do(place, message):
                self.failed.add(place)
        return sorted(self.failed)

    def cut_off(self, message: Message, batch: list[Message], order_kept: str) -> bool:
        if order_kept == "batch":
            return bool(self.failed)
        return order_kept == "group" and any(batch[failed].group == message.group for failed in self.failed)

    def do(self, place: int, message: Message) -> bool:
        if message.event in self.in_progress:
            return False
        if message.event in self.done:
            return True
        if message.order in ("held", None) or message.fails:
            return False
        self.done.add(message.event)
        self.effects.append((message.event, place))
        return True


class Real:
    """The same with lambda_lock: two deliveries of a batch. The second has the records that came back."""

    def __init__(self, batch: list[Message], workers: int, other: LockClient, in_progress: frozenset[str]) -> None:
        self.run = uuid.uuid4().hex
        self.batch = batch
        self.workers = workers
        self.other = other
        self.in_progress = in_progress
        self.effects: list[tuple[str, int]] = []

    def handler(self, record: Event) -> None:
        body = body_of(record)
        if body["fails"]:
            raise Boom
        self.effects.append((body["event"], body["n"]))

    def process(self, process: Any, event: Event, **keys: Any) -> Any:
        options: Event = {
            "dedup_key": lambda record: body_of(record)["event"],
            "lock_key": lambda record: f"{self.run}#{body_of(record)['order']}" if body_of(record)["order"] else "",
            "scope": self.run,
            "max_workers": self.workers,
            **keys,
        }
        with ExitStack() as stack:
            stack.enter_context(self.other.acquire(f"{self.run}#held"))
            for name in self.in_progress:
                stack.enter_context(self.other.acquire(f"{self.run}#{name}"))
            return process(event, self.handler, context=Context(600), **options)

    def bodies(self) -> Iterator[Event]:
        for place, message in enumerate(self.batch):
            yield {"n": place, "event": message.event, "order": message.order, "fails": message.fails}


def body_of(record: Event) -> Event:
    text = record["dynamodb"]["NewImage"]["body"]["S"] if "dynamodb" in record else record.get("body")
    body: Event = json.loads(b64decode(record["value"]) if text is None else text)
    return body


def check_queue(kind: str, workers: int, batch: list[Message], in_progress: frozenset[str], other: LockClient) -> None:
    real, model = Real(batch, workers, other, in_progress), World(in_progress=in_progress)
    if kind == "fifo":
        event = events.sqs_fifo([(message.group, body) for message, body in zip(batch, real.bodies(), strict=True)])
    else:
        event = events.sqs(list(real.bodies()))
    places = list(range(len(batch)))
    for _ in range(2):
        expected = model.deliver([batch[place] for place in places], "group" if kind == "fifo" else "")
        back = returned(real.process(process_sqs, event), event)
        assert back == expected
        places = [places[place] for place in back]
        event = events.redelivered({"Records": [event["Records"][place] for place in back]})
    assert {event for event, _ in real.effects} == model.done
    assert len(real.effects) == len(model.done)
    if kind == "fifo":
        for group in "ABC":
            order = [place for _, place in real.effects if batch[place].group == group]
            assert order == sorted(order)


def check_stream(workers: int, batch: list[Message], in_progress: frozenset[str], other: LockClient) -> None:
    real, model = Real(batch, workers, other, in_progress), World(in_progress=in_progress)
    items = [
        {"order_id": {"S": message.group}, "body": {"S": json.dumps(body)}}
        for message, body in zip(batch, real.bodies(), strict=True)
    ]
    event = events.dynamodb_stream(items)
    expected = model.deliver(batch, "batch")[:1]
    numbers = [record["dynamodb"]["SequenceNumber"] for record in event["Records"]]
    answer = real.process(process_stream, event)
    assert [numbers.index(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]] == expected
    assert len({event for event, _ in real.effects}) == len(real.effects)
    before = [effect for effect in real.effects if not expected or effect[1] < expected[0]]
    assert sorted(before) == sorted(model.effects)  # everything that the service will not deliver again is done
    if workers == 1:
        assert before == real.effects
    for group in "ABC":
        order = [place for _, place in real.effects if batch[place].group == group]
        assert order == sorted(order)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_queue(kind, workers, examples, other):
    checked = given(*BATCHES)(lambda batch, elsewhere: check_queue(kind, workers, batch, elsewhere, other))
    settings(max_examples=examples)(checked)()


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("workers", [1, 4])
def test_a_stream(workers, examples, other):
    checked = given(*BATCHES)(lambda batch, elsewhere: check_stream(workers, batch, elsewhere, other))
    settings(max_examples=examples)(checked)()
