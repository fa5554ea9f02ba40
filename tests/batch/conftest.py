"""Batches on the real engine: what their handlers did, what came back, and what is in the rows of the table."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from lambda_lock.batch import process
from lambda_lock.runtime import invocation
from lambda_lock.runtime.timeline import elapsed
from rig.events import Event
from tests.support.clients import make
from tests.support.decorated import Boom, fresh_process, other
from tests.support.queues import new_sqs_client, number_of, queue, sqs
from tests.support.rows import rows
from tests.support.waiting import DEADLINE

__all__ = ["fresh_process", "make", "new_sqs_client", "number_of", "other", "queue", "rows", "sqs"]

NOTHING: Event = {"batchItemFailures": []}


class Hands:
    """The clock by which a batch measures its time. Tests move it on by the time that records are to take."""

    def __init__(self) -> None:
        self.leapt = 0.0

    def elapsed(self) -> float:
        return elapsed() + self.leapt


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    moved = Hands()
    monkeypatch.setattr(process, "elapsed", moved.elapsed)
    monkeypatch.setattr(invocation, "elapsed", moved.elapsed)
    return moved


class Done:
    """A record handler that notes for which records it was started (``n`` in their bodies), and fails for some."""

    def __init__(self, *failing: int) -> None:
        self.started: list[int] = []
        self.failing = set(failing)

    def handler(self, record: Event) -> None:
        number = number_of(record)
        self.started.append(number)
        if number in self.failing:
            raise Boom(f"record {number}")


class Taking(Done):
    """A record handler in which each record takes the given number of seconds."""

    def __init__(self, hands: Hands, *seconds: float, failing: tuple[int, ...] = ()) -> None:
        super().__init__(*failing)
        self.hands = hands
        self.seconds = seconds

    def handler(self, record: Event) -> None:
        self.hands.leapt += self.seconds[number_of(record)]
        super().handler(record)


class Side:
    """Counts how many records with one name are being worked on at the same time.

    most: the highest count for each name. meet: if above 1, `work` waits until this many calls run at the same time.
    """

    def __init__(self, meet: int = 1) -> None:
        self.most: dict[object, int] = {}
        self._now: dict[object, int] = {}
        self._guard = threading.Lock()
        self._meeting = threading.Barrier(meet) if meet > 1 else None

    def work(self, *names: object) -> None:
        with self._guard:
            for name in names:
                self._now[name] = self._now.get(name, 0) + 1
                self.most[name] = max(self.most.get(name, 0), self._now[name])
        if self._meeting is not None:
            self._meeting.wait(DEADLINE)  # if too few calls run at the same time, this raises, and the record fails
        with self._guard:
            for name in names:
                self._now[name] -= 1


def batch_of(*bodies: object) -> Event:
    """An event of SQS with a message m0, m1, … for each body."""
    message = {"eventSource": "aws:sqs", "receiptHandle": "r", "attributes": {}}
    return {"Records": [message | {"messageId": f"m{n}", "body": json.dumps(body)} for n, body in enumerate(bodies)]}


def must_not_run(record: Event) -> None:
    pytest.fail("must not run")


def records_of(event: Any) -> list[Event]:
    """The records of any batch, in their order."""
    if isinstance(event, list):
        return event
    return list(event["Records"]) if "Records" in event else [one for part in event["records"].values() for one in part]


def returned(answer: Any, event: Event) -> list[int]:
    """The positions in ``event`` of the records that an answer returns to the queue."""
    assert list(answer) == ["batchItemFailures"]
    places = {record["messageId"]: place for place, record in enumerate(event["Records"])}
    assert all(list(failure) == ["itemIdentifier"] for failure in answer["batchItemFailures"])
    return [places[failure["itemIdentifier"]] for failure in answer["batchItemFailures"]]
