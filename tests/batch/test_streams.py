"""Records of Kinesis, DynamoDB streams and a partition of Kafka: in order, and none after the first that comes back."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import LockConfigurationError
from lambda_lock.batch import process_kafka, process_stream
from lambda_lock.batch.source import StreamSource, chains_of, deliveries_of
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.decorated import Boom
from tests.support.waiting import wait_until

from .conftest import NOTHING, Done, Side

pytestmark = pytest.mark.usefixtures("table")

Batch = Callable[[str], Event]


def of_kinesis(keys: str) -> Event:
    """One record for each letter, with this partition key."""
    return events.kinesis([(key, {"n": n}) for n, key in enumerate(keys)])


def of_dynamodb(keys: str) -> Event:
    """One record for each letter, for the item with this key."""
    return events.dynamodb_stream([{"order_id": {"S": key}, "n": {"N": str(n)}} for n, key in enumerate(keys)])


def of_kafka(keys: str) -> Event:
    """One record for each letter, with this key, all of one partition."""
    return events.kafka([("orders-0", key, {"n": n}) for n, key in enumerate(keys)])


@pytest.fixture(params=[of_kinesis, of_dynamodb, of_kafka])
def batch(request: pytest.FixtureRequest) -> Batch:
    made: Batch = request.param
    return made


def number_of(record: Event) -> int:
    if "dynamodb" in record:
        return int(record["dynamodb"]["NewImage"]["n"]["N"])
    number: int = json.loads(base64.b64decode(record["value"] if "value" in record else record["kinesis"]["data"]))["n"]
    return number


def process(event: Event, handler: Callable[[Event], object], **options: Any) -> Any:
    return (process_kafka if "records" in event else process_stream)(event, handler, **options)


class StreamDone(Done):
    def handler(self, record: Event) -> None:
        super().handler({"body": json.dumps({"n": number_of(record)})})


def first_returned(answer: Any, event: Event) -> int | None:
    """The place of the record from which the service continues. At most one is reported to it."""
    if "records" in event:
        named = [{"partition": "orders-0", "offset": record["offset"]} for record in event["records"]["orders-0"]]
    else:
        named = [
            record["kinesis"]["sequenceNumber"] if "kinesis" in record else record["dynamodb"]["SequenceNumber"]
            for record in event["Records"]
        ]
    assert len(answer["batchItemFailures"]) <= 1
    return next((named.index(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]), None)


def test_each_record_is_done_once_and_a_batch_that_comes_again_is_duplicates(batch, wire):
    done, event = StreamDone(), batch("ABA")
    assert process(event, done.handler, context=Context()) == NOTHING
    assert wire.operations == ["UpdateItem"] * 6
    assert process(event, done.handler, context=Context()) == NOTHING
    assert wire.operations == ["UpdateItem"] * 9
    assert done.started == [0, 1, 2]


def test_nothing_after_the_first_failure_is_started_and_only_its_number_is_returned(batch):
    done, event = StreamDone(2, 3), batch("ABCDE")
    assert first_returned(process(event, done.handler, context=Context()), event) == 2
    assert done.started == [0, 1, 2]


def test_what_is_delivered_again_goes_on_where_it_stopped(batch):
    done, event = StreamDone(1), batch("ABC")
    process(event, done.handler, context=Context())
    done.failing.clear()
    rest = {"Records": event["Records"][1:]} if "Records" in event else copy.deepcopy(event)
    if "records" in rest:
        del rest["records"]["orders-0"][0]
    assert process(rest, done.handler, context=Context()) == NOTHING
    assert done.started == [0, 1, 1, 2]


def test_a_misconfiguration_is_raised_although_only_the_first_record_was_started(batch, wire):
    wire.answer(400, "AccessDeniedException", times=float("inf"))
    with pytest.raises(LockConfigurationError, match="permission"):
        process(batch("aab"), lambda record: pytest.fail("must not run"), context=Context())
    assert wire.count("UpdateItem") == 1


def test_a_misconfiguration_after_a_record_that_was_done_is_returned(batch, wire):
    event, done = batch("aab"), StreamDone()
    wire.answer(400, "AccessDeniedException", times=float("inf"), when=lambda _: done.started == [0])
    assert first_returned(process(event, done.handler, context=Context()), event) == 1


def test_a_contended_record_stops_the_stream(batch, other):
    done, event = StreamDone(), batch("ABC")

    def lock_key(record: Event) -> str:
        return f"order#{number_of(record)}"

    with other.acquire("order#1"):
        answer = process(event, done.handler, context=Context(), lock_key=lock_key)
    assert first_returned(answer, event) == 1
    assert done.started == [0]


def test_a_record_for_which_too_little_time_is_left_stops_the_stream(batch, hands):
    started = []

    def handler(record: Event) -> None:
        started.append(number_of(record))
        hands.leapt += 20

    event = batch("ABCD")
    assert first_returned(process(event, handler, context=Context(60)), event) == 2
    assert started == [0, 1]


def is_told(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether a failure has been logged. It is recorded before that."""
    return any(record.__dict__.get("lock_event") == "record_failed" for record in caplog.records)


def test_side_by_side_nothing_after_the_lowest_failure_is_started_and_its_number_is_returned(batch, caplog):
    started = []

    def handler(record: Event) -> None:
        started.append(number_of(record))
        if number_of(record) == 0:
            wait_until(lambda: is_told(caplog))
        raise Boom

    event = batch("AAB")  # 2 fails, then 0: record 1 is before the failure that came first, and after the lowest one
    assert first_returned(process(event, handler, context=Context(), max_workers=2), event) == 0
    assert sorted(started) == [0, 2]


def test_side_by_side_a_record_before_the_failure_is_still_done(batch, caplog):
    done = []

    def handler(record: Event) -> None:
        if number_of(record) == 2:
            raise Boom
        wait_until(lambda: is_told(caplog))
        done.append(number_of(record))

    event = batch("AAB")  # 0 and 1 run one after another, and 2 fails before 1 is started
    assert first_returned(process(event, handler, context=Context(), max_workers=2), event) == 2
    assert done == [0, 1]


def test_side_by_side_the_records_of_one_key_keep_their_order_and_those_of_two_overlap(batch):
    done, side, keys = StreamDone(), Side(meet=2), "ABAB"

    def handler(record: Event) -> None:
        done.handler(record)
        side.work(keys[number_of(record)])

    assert process(batch(keys), handler, context=Context(), max_workers=2) == NOTHING
    assert side.most == {"A": 1, "B": 1}
    assert [n for n in done.started if n % 2 == 0] == [0, 2]
    assert [n for n in done.started if n % 2 == 1] == [1, 3]


def test_the_names_of_an_item_may_come_in_any_order():
    records = of_dynamodb("AA")["Records"]
    records[0]["dynamodb"]["Keys"] = {"order_id": {"S": "A"}, "line": {"N": "1"}}
    records[1]["dynamodb"]["Keys"] = {"line": {"N": "1"}, "order_id": {"S": "A"}}
    assert chains_of(deliveries_of({"Records": records}, StreamSource())[0], []) == [[0, 1]]


def test_the_sample_events_of_streams_are_batches():
    for name in ("kinesis", "dynamodb_stream"):
        assert process(events.load(name), lambda record: None, context=Context()) == NOTHING
