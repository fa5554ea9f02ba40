"""sqs_batch(rate=) on a real queue: what could not start comes back when its turn is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from lambda_lock import RateLimitedError
from lambda_lock.batch import process_sqs
from lambda_lock.client import rate_limit
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.queues import RealQueue, changes
from tests.support.waiting import wait_until

from .conftest import NOTHING, Done, number_of, returned

on_a_queue = pytest.mark.ministack_only("queues")


@pytest.fixture
def fifo(sqs: Any, table: str) -> Iterator[RealQueue]:
    made = RealQueue(sqs, f"queue-{table}.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    yield made
    sqs.delete_queue(QueueUrl=made.url)


@on_a_queue
@pytest.mark.parametrize("workers", [1, 3])
def test_a_message_is_seen_again_when_its_turn_is(queue, wire, workers):
    queue.send(0, 1)
    done, event = Done(), queue.receive()
    answer = process_sqs(event, done.handler, context=Context(4), rate=("api", 1, 5), max_workers=workers)
    (late,) = returned(answer, event)
    assert queue.numbers() == []
    again: Event = {"Records": []}

    def is_back() -> bool:
        again.update(queue.receive())
        return bool(again["Records"])

    wait_until(is_back)  # the queue alone would take an hour
    assert process_sqs(again, done.handler, context=Context(30), rate=("api", 1, 5)) == NOTHING
    assert done.started == [1 - late, late]


@on_a_queue
def test_messages_of_a_stopped_group_come_back_one_after_another(fifo, wire):
    for number, group in enumerate("AABABA"):
        body = json.dumps({"n": number})
        fifo.sqs.send_message(QueueUrl=fifo.url, MessageBody=body, MessageGroupId=group)
    received: list[Event] = []
    while sum(len(event["Records"]) for event in received) < 6:
        received.append(fifo.receive())
    records = [record for event in received for record in event["Records"]]
    done, event = Done(), {"Records": sorted(records, key=number_of)}
    rate = ("api#{attributes[MessageGroupId]}", 1, 3600)
    answer = process_sqs(event, done.handler, context=Context(30), rate=rate)
    assert done.started == [0, 2]
    assert returned(answer, event) == [1, 3, 4, 5]
    ((first, third, other, fourth),) = changes(wire)
    assert all(3500 < seconds <= 3600 for seconds in (first, other))
    assert (third - first, fourth - first) == (3600, 7200)


@pytest.mark.usefixtures("table")
def test_what_a_record_waited_for_its_slot_does_not_count_as_its_duration(hands, monkeypatch):
    told = rate_limit.rate_limit

    def limited(*arguments: Any, **times: Any) -> Any:
        hands.leapt += 20  # the wait for the slot
        return told(*arguments, **times)

    monkeypatch.setattr(rate_limit, "rate_limit", limited)
    done, event = Done(), events.sqs([{"n": 0}, {"n": 1}])
    answer = process_sqs(event, done.handler, context=Context(45), rate=("api", 1000, 1), dedup_key=None)
    assert (done.started, answer) == ([0, 1], NOTHING)


@pytest.mark.usefixtures("table")
def test_a_message_whose_slot_passed_is_not_seen_again_at_once(monkeypatch):
    sqs = mock.Mock(**{"meta.endpoint_url": "http://queue", "change_message_visibility_batch.return_value": {}})
    monkeypatch.setattr("lambda_lock.batch.visibility.sqs_client", lambda region: sqs)
    passed = mock.Mock(side_effect=RateLimitedError("its slot passed", key="api", retry_after=0.0))
    process_sqs(events.sqs([{"n": 0}]), lambda record: passed(), context=Context(), rate=("api", 1000, 1))
    [entry] = sqs.change_message_visibility_batch.call_args.kwargs["Entries"]
    assert entry["VisibilityTimeout"] == 1
