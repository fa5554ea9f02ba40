"""EventBridge Pipes hands over a list of records, and reads another answer than Lambda does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lambda_lock import LockArgumentError, LockError
from lambda_lock.batch import process_kafka, process_sqs, process_stream, sqs_batch
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.decorated import Boom

from .conftest import NOTHING, Done, must_not_run

pytestmark = pytest.mark.usefixtures("table")


def test_the_answer_for_a_queue_names_the_messages_that_come_back():
    done, event = Done(1), events.piped(events.sqs([{"n": n} for n in range(3)]))
    for answer in (process_sqs(event, done.handler, context=Context()), sqs_batch()(done.handler)(event, Context())):
        assert answer == {"batchItemFailures": [{"itemIdentifier": event[1]["messageId"]}]}
    assert done.started == [0, 1, 2, 1]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_answer_for_a_stream_names_each_record_that_comes_back_by_its_event(workers):
    """Pipes retries those records only, and not all that follow the first one."""
    for event in (
        events.kinesis([("A", {"n": n}) for n in range(4)]),
        events.dynamodb_stream([{"order_id": {"S": "o"}, "n": {"N": str(n)}} for n in range(4)]),
    ):
        piped = events.piped(event)
        started: list[str] = []

        def handler(record: Event, started: list[str] = started, piped: Any = piped) -> None:
            started.append(record["eventID"])
            if record["eventID"] == piped[1]["eventID"]:
                raise Boom

        answer = process_stream(piped, handler, context=Context(), max_workers=workers)
        assert answer == {"batchItemFailures": [{"itemIdentifier": record["eventID"]} for record in piped[1:]]}
        assert started == [record["eventID"] for record in piped[:2]]
        again = process_stream(piped[1:], lambda record: None, context=Context())
        assert again == NOTHING


def test_records_of_one_partition_key_run_one_after_another():
    event = events.piped(events.kinesis([("A", {"n": n}) for n in range(5)]))
    done: list[Event] = []
    assert process_stream(event, done.append, context=Context(), max_workers=5) == NOTHING
    assert done == event


def test_kafka_has_no_answer_so_the_whole_batch_comes_back():
    """And what was done is a duplicate then, also if Lambda had delivered it before."""
    event = events.kafka([("orders-0", "k", {"n": 0}), ("orders-0", "k", {"n": 1}), ("orders-1", "k", {"n": 2})])
    piped = events.piped(event)
    done: list[int] = []

    def fail_second(record: Event) -> None:
        if record["offset"] == piped[1]["offset"]:
            raise Boom("record 1")
        done.append(record["offset"])

    with pytest.raises(LockError, match="1 of 3 records come back, and the whole batch with them: Event") as told:
        process_kafka(piped, fail_second, context=Context(), scope="s")
    assert isinstance(told.value.__cause__, Boom)
    assert done == [piped[0]["offset"], piped[2]["offset"]]
    assert process_kafka(piped, lambda record: done.append(record["offset"]), context=Context(), scope="s") == NOTHING
    assert process_kafka(event, must_not_run, context=Context(), scope="s") == NOTHING
    assert sorted(done) == [record["offset"] for record in piped]


@pytest.mark.parametrize("process", [process_sqs, process_stream, process_kafka])
def test_no_records_are_a_batch(process):
    assert process([], must_not_run, context=Context()) == NOTHING


def test_a_record_that_a_pipe_has_cut_is_refused():
    """An input transformer passes on what it names."""
    event = events.piped(events.sqs([{"n": 0}]))
    del event[0]["messageId"]
    with pytest.raises(LockArgumentError, match="without 'messageId', which is missing or null: pass on the event"):
        process_sqs(event, must_not_run, context=Context())
    for name, missing in (("kinesis", "eventID"), ("kinesis", "partitionKey"), ("dynamodb_stream", "eventID")):
        event = events.piped(events.load(name))
        del event[-1][missing]
        with pytest.raises(LockArgumentError, match=f"without '{missing}'.*as EventBridge Pipes delivers it"):
            process_stream(event, must_not_run, context=Context())


def test_records_are_passed_on_as_pipes_passed_them():
    event = events.piped(events.sqs([{"n": 0}]))
    given, done = copy.deepcopy(event), Done()
    assert process_sqs(event, done.handler, context=Context()) == NOTHING
    assert (event, done.started) == (given, [0])
