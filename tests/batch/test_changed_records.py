"""A record handler may change its record, other records and the event: what identifies a record was read before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock.batch import process_kafka, process_sqs, process_stream
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.decorated import Boom
from tests.support.queues import changes
from tests.support.sampled import sampled

from .conftest import NOTHING, number_of, records_of, returned

Change = Callable[[Event], object]


def replace_parts(record: Event) -> None:
    for name in record:
        record[name] = {"messageId": "another", "sequenceNumber": "1", "SequenceNumber": "2", "Keys": {}}


def change_deeply(part: Any) -> None:
    for value in list(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()):
        change_deeply(value)
    if isinstance(part, (dict, list)):
        part.clear()


CHANGES: list[Change] = [
    lambda record: record.clear(),
    replace_parts,
    change_deeply,
    lambda record: record.pop("messageId", None),
    lambda record: record.update(messageId="another", eventID="another", topic="another", offset=-1, partition="7"),
]
FIFO = events.sqs_fifo([(group, {"n": n}) for n, group in enumerate("AABB")])
KINESIS = events.kinesis([("A", {"n": 0}), ("A", {"n": 1})])
ITEMS = events.dynamodb_stream([{"order_id": {"S": "o"}, "n": {"N": str(n)}} for n in range(2)])
KAFKA = events.kafka([("orders-0", "k", {"n": 0}), ("orders-0", "k", {"n": 1}), ("orders-1", "k", {"n": 2})])
SOURCES: list[tuple[Any, Any]] = [
    (process_sqs, events.sqs([{"n": 0}, {"n": 1}])),
    (process_sqs, FIFO),
    (process_stream, KINESIS),
    (process_stream, ITEMS),
    (process_kafka, KAFKA),
    (process_sqs, events.piped(FIFO)),
    (process_stream, events.piped(KINESIS)),
    (process_stream, events.piped(ITEMS)),
]


def copied(event: Any) -> Any:
    return json.loads(json.dumps(event))


def fails(record: Event) -> None:
    raise Boom


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("process", "event"), SOURCES)
def test_a_record_that_its_handler_changed_comes_back_under_its_own_name(process, event, workers):
    options: Event = {"context": Context(600), "max_workers": workers}
    unchanged = process(copied(event), fails, **options)
    assert unchanged["batchItemFailures"]
    for change in CHANGES:

        def changing(record: Event, change: Change = change) -> None:
            change(record)
            raise Boom

        assert process(copied(event), changing, **options) == unchanged


@pytest.mark.parametrize(("process", "event"), SOURCES)
def test_a_record_that_its_handler_changed_and_did_is_done(process, event, wire):
    for change in CHANGES:
        for expected in (2, 1):  # requests for each record, and for each duplicate
            wire.clear()
            answer = process(copied(event), change, context=Context(600), scope=f"{CHANGES.index(change)}")
            assert answer == NOTHING
            assert wire.operations == ["UpdateItem"] * expected * len(records_of(event))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("process", "event"), sampled(3, SOURCES))
def test_a_handler_that_changes_the_other_records_changes_neither_their_keys_nor_the_answer(
    process, event, workers, wire
):
    """Each record that runs changes all of the event. The last one fails."""
    for change in CHANGES:
        given = copied(event)
        seen: list[Event] = []
        options: Event = {"context": Context(600), "lock_key": "one", "scope": f"{CHANGES.index(change)}"}

        def changing(record: Event, given: Any = given, seen: list[Event] = seen, change: Change = change) -> None:
            seen.append(record)
            for one in records_of(given):
                change(one)
            if len(seen) == len(records_of(event)):
                raise Boom

        wire.clear()
        once = process(given, changing, max_workers=workers, **options)  # one after another, by their lock
        assert len(once["batchItemFailures"]) == 1
        asked = {request.body["Key"]["key"]["S"] for request in wire.requests}
        assert len(asked) == len(records_of(event)) + 1  # the key of each event, and that of the lock
        wire.clear()
        done: list[Event] = []
        assert process(copied(event), done.append, **options) == NOTHING
        assert {request.body["Key"]["key"]["S"] for request in wire.requests} == asked
        assert len(done) == 1


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    "change", [list.clear, list.reverse, lambda records: records.pop(), lambda records: records.append({})]
)
def test_a_handler_may_change_the_list_of_records(change, workers):
    batch = events.sqs([{"n": n} for n in range(4)])
    for event, records in ((given := copied(batch), given["Records"]), (given := events.piped(batch), given)):
        done: list[int] = []

        def changing(record: Event, records: Any = records, done: list[int] = done) -> None:
            change(records)
            done.append(number_of(record))
            if number_of(record) == 2:
                raise Boom

        answer = process_sqs(event, changing, context=Context(600), max_workers=workers, scope=str(type(event)))
        assert sorted(done) == [0, 1, 2, 3]
        assert returned(answer, batch) == [2]


@pytest.mark.usefixtures("table")
def test_the_keys_of_a_record_are_of_what_was_delivered(other):
    """An earlier record gives this one another customer. It is locked for its own."""
    event = events.sqs([{"n": 0, "customer": "a"}, {"n": 1, "customer": "b"}])
    started: list[int] = []

    def changing(record: Event) -> None:
        started.append(number_of(record))
        event["Records"][1]["body"] = json.dumps({"n": 1, "customer": "free"})

    for key in ("customer#{body[customer]}", lambda record: "customer#" + json.loads(record["body"])["customer"]):
        with other.acquire("customer#b"):
            answer = process_sqs(event, changing, context=Context(600), lock_key=key, scope=repr(key))
        assert returned(answer, event) == [1]
        event["Records"][1]["body"] = json.dumps({"n": 1, "customer": "b"})
    assert started == [0, 0]


@pytest.mark.usefixtures("table")
def test_a_record_handler_is_given_the_record_itself():
    """What it writes into the record is there for the application afterwards."""
    for process, event in ((process_sqs, events.sqs([{"n": 0}])), (process_kafka, copied(KAFKA))):
        process(event, lambda record: record.update(seen=True), context=Context())
        assert records_of(event)[0]["seen"]


@pytest.mark.ministack_only("queues")
def test_the_visibility_of_messages_that_their_handler_changed_is_changed(queue, wire):
    queue.send(0, 1)

    def changing(record: Event) -> None:
        change_deeply(record)
        raise Boom

    def seconds(record: Event, error: Exception | None) -> int:
        receives = int(record["attributes"]["ApproximateReceiveCount"])
        record.clear()
        return 3000 * receives

    for wanted, expected in ((0, 0), (seconds, 6000)):
        event = queue.receive()
        answer = process_sqs(copied(event), changing, context=Context(), retry_visibility=wanted)
        assert returned(answer, event) == [0, 1]
        assert changes(wire)[-1] == [expected, expected]
    assert queue.numbers() == []
