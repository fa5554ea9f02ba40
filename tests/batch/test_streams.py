"""Records of Kinesis, DynamoDB streams and a partition of Kafka: in order, and none after the first that comes back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import LockConfigurationError
from lambda_lock.batch import process_kafka, process_stream
from lambda_lock.batch.source import StreamSource, chains_of, deliveries_of
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.waiting import wait_until

from .conftest import NOTHING, Done, Side, Taking, must_not_run, number_of

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


def process(event: Event, handler: Callable[[Event], object], **options: Any) -> Any:
    return (process_kafka if "records" in event else process_stream)(event, handler, **options)


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
    done, event = Done(), batch("ABA")
    assert process(event, done.handler, context=Context()) == NOTHING
    assert wire.operations == ["UpdateItem"] * 6
    assert process(event, done.handler, context=Context()) == NOTHING
    assert wire.operations == ["UpdateItem"] * 9
    assert done.started == [0, 1, 2]


def test_nothing_after_the_first_failure_is_started_and_what_comes_again_goes_on_there(batch):
    done, event = Done(2, 3), batch("ABCDE")
    assert first_returned(process(event, done.handler, context=Context()), event) == 2
    assert done.started == [0, 1, 2]
    done.failing.clear()
    rest = copy.deepcopy(event)
    del (rest["Records"] if "Records" in rest else rest["records"]["orders-0"])[:2]
    assert process(rest, done.handler, context=Context()) == NOTHING
    assert done.started == [0, 1, 2, 2, 3, 4]


def test_a_misconfiguration_is_raised_although_only_the_first_record_was_started(batch, wire):
    wire.answer(400, "AccessDeniedException", times=float("inf"))
    with pytest.raises(LockConfigurationError, match="permission"):
        process(batch("aab"), must_not_run, context=Context())
    assert wire.count("UpdateItem") == 1


def test_a_record_for_which_too_little_time_is_left_stops_the_stream(batch, hands):
    done, event = Taking(hands, *[20] * 4), batch("ABCD")
    assert first_returned(process(event, done.handler, context=Context(60)), event) == 2
    assert done.started == [0, 1]


def is_told(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether a failure has been logged. It is recorded before that."""
    return any(record.__dict__.get("lock_event") == "record_failed" for record in caplog.records)


@pytest.mark.parametrize(
    ("failing", "waiting", "back", "started"),
    [
        ((0, 1, 2), (0,), 0, [2, 0]),  # 2 fails, then 0: record 1 is before the first failure, and after the lowest one
        ((2,), (0, 1), 2, [2, 0, 1]),  # 0 and 1 run one after another, and 2 fails before 1 is started
    ],
)
def test_side_by_side_what_is_before_the_lowest_failure_is_done_and_nothing_after_it_is_started(
    failing, waiting, back, started, batch, caplog
):
    done, event = Done(*failing), batch("AAB")

    def handler(record: Event) -> None:
        if number_of(record) in waiting:
            wait_until(lambda: is_told(caplog))
        done.handler(record)

    assert first_returned(process(event, handler, context=Context(), max_workers=2), event) == back
    assert done.started == started


def test_side_by_side_the_records_of_one_key_keep_their_order_and_those_of_two_overlap(batch):
    done, side, keys = Done(), Side(meet=2), "ABAB"

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
