"""When returned messages become visible again on a real queue: by the queue's setting, or by retry_visibility."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from lambda_lock import LockConfigurationError, LockNotGrantedError
from lambda_lock.batch import process_sqs, sqs_batch
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.decorated import Boom
from tests.support.queues import CHANGE, changes
from tests.support.waiting import wait_until

from .conftest import NOTHING, Done, number_of, returned

pytestmark = pytest.mark.ministack_only("queues")


@pytest.mark.parametrize(
    ("options", "failing"),
    [({}, [0]), ({"retry_visibility": lambda record, error: None}, [0]), ({"retry_visibility": 5}, [])],
    ids=["no option", "a function says so", "nothing comes back"],
)
def test_the_messages_of_a_batch_are_left_to_the_queue_unless_told_otherwise(queue, wire, options, failing):
    event = queue.deliver(0, 1)
    answer = process_sqs(event, Done(*failing).handler, context=Context(), **options)
    assert returned(answer, event) == failing
    assert changes(wire) == []
    assert queue.numbers() == []


def test_returned_messages_and_no_others_are_seen_again_after_retry_visibility(queue, wire):
    done, event = Done(0, 2), queue.deliver(0, 1, 2)
    answer = process_sqs(event, done.handler, context=Context(), retry_visibility=0)
    assert returned(answer, event) == [0, 2]
    assert changes(wire) == [[0, 0]]
    done.failing.clear()
    again = queue.receive()
    assert [number_of(record) for record in again["Records"]] == [0, 2]
    assert process_sqs(again, done.handler, context=Context(), retry_visibility=0) == NOTHING
    assert done.started == [0, 1, 2, 0, 2]


def test_one_client_serves_all_batches(queue, monkeypatch):
    import boto3

    made: list[str] = []
    make = boto3.client

    def counted(service: str, **options: Any) -> Any:
        made.append(service)
        return make(service, **options)

    monkeypatch.setattr(boto3, "client", counted)
    handler = sqs_batch(retry_visibility=0)(Done(0).handler)
    queue.send(0)
    for _ in range(2):
        event = queue.receive()
        assert returned(process_sqs(event, Done(0).handler, context=Context(), retry_visibility=0), event) == [0]
        event = queue.receive()
        assert returned(handler(event, Context()), event) == [0]
    assert made == ["sqs"]


def test_a_contended_message_comes_back_when_it_may_be_its_turn(queue, wire, other):
    event = queue.deliver(0, 1)
    options: Event = {"lock_key": "order#{body[n]}", "retry_visibility": "retry_after"}
    with other.acquire("order#1"):
        answer = process_sqs(event, Done(0).handler, context=Context(), **options)
    assert returned(answer, event) == [0, 1]
    ((seconds,),) = changes(wire)  # the one that failed keeps the queue's time
    assert 1 <= seconds <= 22


def test_a_message_is_never_visible_at_once_because_of_a_fast_holder(queue, wire, other):
    other.acquire("order#0").release()  # which was held for a moment
    event = queue.deliver(0)
    with other.acquire("order#0"):
        for wanted in ("retry_after", lambda _, error: 0.15):
            options: Event = {"lock_key": "order#{body[n]}", "retry_visibility": wanted}
            assert returned(process_sqs(event, Done().handler, context=Context(), **options), event) == [0]
    assert changes(wire) == [[1], [1]]


@pytest.mark.long
def test_a_message_that_a_rate_refused_is_seen_again_when_its_turn_is(queue, wire):
    done, event, again = Done(), queue.deliver(0, 1), Event()
    rate = ("api", 1, 3)
    assert returned(process_sqs(event, done.handler, context=Context(2), rate=rate), event) == [1]
    assert queue.numbers() == []

    def is_back() -> bool:
        again.update(queue.receive())
        return bool(again["Records"])

    wait_until(is_back)  # the queue alone would take an hour
    assert process_sqs(again, done.handler, context=Context(), rate=rate) == NOTHING
    assert done.started == [0, 1]


def test_retry_visibility_may_be_a_function_of_the_record_and_its_error(queue, wire, other, hands):
    event, asked = queue.deliver(0, 1, 2, 3, 4), []

    def seconds(record: Event, error: Exception | None) -> float | None:
        asked.append((number_of(record), type(error)))
        if isinstance(error, LockNotGrantedError):
            return 7.9
        return None if isinstance(error, Boom) else 0

    def handler(record: Event) -> None:
        if number_of(record) == 1:
            raise Boom
        if number_of(record) == 3:
            hands.leapt += 59.5

    with other.acquire("order#2"):
        answer = process_sqs(event, handler, context=Context(), lock_key="order#{body[n]}", retry_visibility=seconds)
    assert returned(answer, event) == [1, 2, 4]
    assert asked == [(1, Boom), (2, LockNotGrantedError), (4, type(None))]
    assert changes(wire) == [[7, 0]]
    assert queue.numbers() == [4]


def test_more_than_ten_messages_are_changed_ten_at_a_time(queue, wire):
    queue.send(*range(23))
    event: Event = {"Records": []}
    while len(event["Records"]) < 23:
        event["Records"] += queue.receive()["Records"]
    answer = process_sqs(event, Done(*range(23)).handler, context=Context(), dedup_key=None, retry_visibility=0)
    assert len(answer["batchItemFailures"]) == 23
    assert [len(change) for change in changes(wire)] == [10, 10, 3]
    assert len(queue.numbers()) == 10


# Errors are logged and harmless: the message comes back after the queue's own visibility timeout


def failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.__dict__.get("lock_event") == "visibility_failed"]


def test_a_refused_change_is_logged(queue, wire, caplog):
    event = queue.deliver(0)
    wire.answer(403, "AccessDenied", CHANGE)
    assert returned(process_sqs(event, Done(0).handler, context=Context(), retry_visibility=0), event) == [0]
    assert [record.levelname for record in failures(caplog)] == ["WARNING"]
    assert "sqs:ChangeMessageVisibility" in failures(caplog)[0].message
    assert queue.numbers() == []


def test_a_change_refused_for_one_message_is_logged_and_the_others_are_changed(queue, caplog):
    event = queue.deliver(0, 1)
    event["Records"][0]["receiptHandle"] = "of-nothing"
    answer = process_sqs(event, Done(0, 1).handler, context=Context(), retry_visibility=0)
    assert returned(answer, event) == [0, 1]
    assert len(failures(caplog)) == 1
    assert queue.numbers() == [1]


@pytest.mark.parametrize("bad", [-1, 43_201, "5", True, float("nan"), Boom("no")])
def test_a_function_that_fails_or_gives_nonsense_is_logged_and_the_others_are_changed(bad, queue, caplog):
    event = queue.deliver(0, 1)

    def seconds(record: Event, error: Exception | None) -> Any:
        if number_of(record) == 0 and isinstance(bad, Exception):
            raise bad
        return [bad, 0][number_of(record)]

    answer = process_sqs(event, Done(0, 1).handler, context=Context(), retry_visibility=seconds)
    assert returned(answer, event) == [0, 1]
    assert [event["Records"][0]["messageId"] in record.getMessage() for record in failures(caplog)] == [True]
    assert queue.numbers() == [1]


@pytest.mark.parametrize("name", ["receiptHandle", "eventSourceARN"])
def test_a_record_that_cannot_be_changed_for_what_it_lacks_is_logged(name, table, caplog):
    event = events.sqs([{"n": 0}])
    del event["Records"][0][name]
    assert returned(process_sqs(event, Done(0).handler, context=Context(), retry_visibility=0), event) == [0]
    assert len(failures(caplog)) == 1


# Refused before anything runs


@pytest.mark.parametrize(
    ("bad", "error", "match"),
    [(bad, ValueError, "=.*out of range: pass 0 to 43200 seconds") for bad in (-1, 43_200.5, float("nan"))]
    + [(bad, TypeError, " must be a number of seconds") for bad in ("5", True, [5])],
)
def test_what_is_no_time_is_refused(bad, error, match):
    with pytest.raises(error, match=f"retry_visibility{match}"):
        sqs_batch(retry_visibility=bad)(lambda record: None)
    with pytest.raises(error, match=f"retry_visibility{match}"):
        process_sqs(events.sqs([{}]), lambda record: None, context=None, retry_visibility=bad)


def test_where_boto3_is_not_installed_it_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(LockConfigurationError, match=r"retry_visibility= needs boto3: install lambda-lock\[boto3\]"):
        sqs_batch(retry_visibility=5)(lambda record: None)
