"""Records from Kafka: a partition stops at its first failure, others continue, and keys are made of what is decoded."""

from __future__ import annotations

import base64
import copy
import functools
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes import KafkaEvent, SQSEvent
from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from lambda_lock import LockArgumentError, LockClient, LockConfigurationError, current_lock, payload_hash
from lambda_lock.batch import kafka_batch, process_kafka, process_sqs, process_stream, sqs_batch
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.decorated import Boom

from .conftest import NOTHING, Done, Side
from .test_model import EXAMPLES, Message, World, messages

both = pytest.mark.parametrize("workers", [1, 3])


def batch(places: str, keys: str | None = None, **more: object) -> Event:
    """One record for each letter: A is partition 0 of "orders", B is partition 1. keys: a letter each; "-" is none."""
    named = [None if key == "-" else key for key in keys or "-" * len(places)]
    return events.kafka(
        [
            (f"orders-{'AB'.index(place)}", key, {"n": n} | more)
            for n, (place, key) in enumerate(zip(places, named, strict=True))
        ]
    )


def records(event: Event) -> list[Event]:
    return [record for partition in event["records"].values() for record in partition]


def value_of(record: Event) -> Any:
    return json.loads(base64.b64decode(record["value"]))


def returned(answer: Any, event: Event) -> list[int]:
    """``n`` of the records that an answer names."""
    assert list(answer) == ["batchItemFailures"]
    named = {(f"{record['topic']}-{record['partition']}", record["offset"]): record for record in records(event)}
    found = []
    for failure in answer["batchItemFailures"]:
        assert list(failure) == ["itemIdentifier"]
        assert list(failure["itemIdentifier"]) == ["partition", "offset"]
        found.append(value_of(named[tuple(failure["itemIdentifier"].values())])["n"])
    return found


class KafkaDone(Done):
    def handler(self, record: Event) -> None:
        super().handler({"body": json.dumps(value_of(record))})


# What is done, and what comes back


def test_an_answer_is_an_object_for_each_partition(table):
    done, event = KafkaDone(1, 2, 3), batch("ABBA")
    assert process_kafka(event, done.handler, context=Context()) == {
        "batchItemFailures": [
            {"itemIdentifier": {"partition": "orders-0", "offset": event["records"]["orders-0"][1]["offset"]}},
            {"itemIdentifier": {"partition": "orders-1", "offset": event["records"]["orders-1"][0]["offset"]}},
        ]
    }


@both
def test_a_partition_stops_at_its_first_failure_and_the_others_continue(table, workers):
    done, event = KafkaDone(2), batch("AABABABA")
    answer = process_kafka(event, done.handler, context=Context(), max_workers=workers)
    assert returned(answer, event) == [2]
    assert sorted(done.started) == [0, 1, 2, 3, 5, 7]


@both
def test_the_lowest_offset_of_each_partition_is_reported(table, workers):
    done, event = KafkaDone(1, 2, 5), batch("AABABB")
    answer = process_kafka(event, done.handler, context=Context(), max_workers=workers)
    assert returned(answer, event) == [1, 2]
    assert sorted(done.started) == [0, 1, 2]


def test_records_run_in_the_order_of_their_offsets_however_an_event_lists_them(table):
    done, event = KafkaDone(1), batch("AAA")
    event["records"]["orders-0"].reverse()
    assert returned(process_kafka(event, done.handler, context=Context()), event) == [1]
    assert done.started == [0, 1]


@both
def test_each_partition_goes_on_where_it_stopped(table, workers):
    done, event = KafkaDone(2, 3), batch("AABBAB")
    answer = process_kafka(event, done.handler, context=Context(), max_workers=workers)
    done.failing.clear()
    again = events.kafka_from(event, answer)
    assert process_kafka(again, done.handler, context=Context(), max_workers=workers) == NOTHING
    for partition in ([0, 1, 4], [2, 2, 3, 5]):
        assert [n for n in done.started if n in partition] == partition


def test_records_for_which_too_little_time_is_left_come_back_from_the_first_of_each_partition(table, hands):
    started = []

    def handler(record: Event) -> None:
        started.append(value_of(record)["n"])
        hands.leapt += 20

    event = batch("AAABB")
    assert returned(process_kafka(event, handler, context=Context(60)), event) == [2, 3]
    assert started == [0, 1]


def test_a_misconfiguration_is_raised_although_only_one_record_of_each_partition_was_started(wire):
    wire.answer(400, "AccessDeniedException", times=float("inf"))
    with pytest.raises(LockConfigurationError, match="permission"):
        process_kafka(batch("AABB"), lambda record: pytest.fail("must not run"), context=Context())
    assert wire.count("UpdateItem") == 2


def test_a_failure_is_logged_with_its_partition_and_offset(table, caplog):
    event = batch("A")
    process_kafka(event, KafkaDone(0).handler, context=Context())
    (told,) = [record for record in caplog.records if record.__dict__.get("lock_event") == "record_failed"]
    named = {"partition": "orders-0", "offset": records(event)[0]["offset"]}
    assert told.__dict__["lock_record"] == named
    assert str(named) in told.getMessage()


# Order among workers


def test_side_by_side_records_without_a_key_keep_the_order_of_their_partition(table):
    done, side = KafkaDone(), Side(meet=2)

    def handler(record: Event) -> None:
        done.handler(record)
        side.work(record["partition"])

    assert process_kafka(batch("ABAB"), handler, context=Context(), max_workers=4) == NOTHING
    assert side.most == {0: 1, 1: 1}
    assert [n for n in done.started if n % 2 == 0] == [0, 2]
    assert [n for n in done.started if n % 2 == 1] == [1, 3]


def test_side_by_side_the_same_key_in_two_partitions_is_nothing_in_common(table):
    side = Side(meet=2)
    answer = process_kafka(batch("AB", "aa"), lambda record: side.work("all"), context=Context(), max_workers=2)
    assert answer == NOTHING


# Keys


def test_keys_are_made_of_the_decoded_value_and_key(rows):
    seen = []

    def handler(record: Event) -> None:
        seen.append(current_lock().key)

    options: Event = {"lock_key": "c#{key}#{value[customer][id]}", "dedup_key": "{value[id]}", "scope": "s"}
    event = events.kafka([("orders-0", "k-1", {"id": "o-1", "customer": {"id": 7}})])
    assert process_kafka(event, handler, context=Context(), **options) == NOTHING
    assert seen == ["c#k-1#7"]
    assert rows.get("s#o-1") is not None
    again = events.kafka([("orders-1", "k-1", {"id": "o-1", "customer": {"id": 7}})])  # sent twice
    assert process_kafka(again, handler, context=Context(), **options) == NOTHING
    assert len(seen) == 1


def test_the_default_key_is_the_place_of_the_record(rows):
    event = batch("A")
    assert process_kafka(event, lambda record: None, context=Context(), scope="s") == NOTHING
    assert rows.get(f"s#orders#0#{records(event)[0]['offset']}") is not None


def test_several_locks_and_hashes_are_made_of_what_is_decoded(rows):
    event = events.kafka([("orders-0", None, {"from": "1", "to": "2"})])
    seen: list[object] = []

    def handler(record: Event) -> None:
        held: Any = current_lock()
        seen.append(held.keys)

    options: Event = {"lock_key": ["account#{value[from]}", lambda record: f"p#{record['partition']}"], "scope": "s"}
    hashed = payload_hash("value[from]", "value[to]")
    assert process_kafka(event, handler, context=Context(), dedup_key=hashed, **options) == NOTHING
    assert seen == [("account#1", "p#0")]
    assert rows.get("s#" + hashed({"value": {"from": "1", "to": "2"}})) is not None


def test_validate_sees_what_is_decoded(table):
    done: list[Event] = []
    options: Event = {"dedup_key": "{value[id]}", "validate": ["value[amount]"]}
    one, other = (events.kafka([("orders-0", None, {"id": "o", "n": n, "amount": n})]) for n in (1, 2))
    assert process_kafka(one, done.append, context=Context(), **options) == NOTHING
    assert returned(process_kafka(other, done.append, context=Context(), **options), other) == [2]
    assert len(done) == 1


class Seen:
    """A record handler that is an object."""

    def __init__(self) -> None:
        self.records: list[Event] = []

    def __call__(self, record: Event) -> None:
        self.records.append(record)


def test_the_handler_and_key_functions_get_the_record_as_lambda_passed_it(table):
    event, seen, keyed = batch("AB", "k-"), Seen(), []

    def key(record: Event) -> str:
        keyed.append(record)
        return f"{value_of(record)['n']}"

    assert process_kafka(event, seen, context=Context(), lock_key=key, dedup_key=key) == NOTHING
    assert process_kafka(event, functools.partial(Seen.__call__, seen), context=Context()) == NOTHING
    assert seen.records == records(event) * 2
    assert all(type(record) is dict for record in seen.records + keyed)


@dataclass
class Receipt:
    total: int


class Cashier:
    def __call__(self, record: Event) -> Receipt:
        return Receipt(7)

    def method(self, record: Event) -> Receipt:
        return Receipt(7)


def pay(currency: str, record: Event) -> Receipt:
    return Receipt(7)


@pytest.mark.parametrize("lock_key", [None, "{key}"])
@pytest.mark.parametrize("handler", [Cashier(), Cashier().method, functools.partial(pay, "EUR")])
def test_objects_methods_and_partial_functions_store_what_they_say_that_they_return(rows, handler, lock_key):
    event = events.kafka([("orders-0", "k-1", {"n": 0})])
    options: Event = {"dedup_key": "{value[n]}", "scope": "s", "result": "json", "lock_key": lock_key}
    assert process_kafka(event, handler, context=Context(), **options) == NOTHING
    assert rows["s#0"]["result"] == {"S": '{"total":7}'}


@pytest.mark.parametrize(("handler", "name"), [(Cashier(), "Cashier"), (functools.partial(pay, "EUR"), "partial")])
def test_an_object_and_a_partial_function_are_named_in_errors(table, caplog, handler, name):
    process_kafka(batch("A"), handler, context=Context(), dedup_key="{missing}")
    assert any(
        rf"the key '{{missing}}' of {name}() cannot be built" in record.getMessage() for record in caplog.records
    )


def test_two_handlers_do_not_suppress_each_other(table):
    event, one, other = batch("A"), KafkaDone(), []

    def second(record: Event) -> None:
        other.append(record)

    assert process_kafka(event, one.handler, context=Context()) == NOTHING
    assert process_kafka(event, second, context=Context()) == NOTHING
    assert (len(one.started), len(other)) == (1, 1)


def test_a_tombstone_is_handed_over_as_it_is(table):
    """AWS passes a null value as null, or leaves it out."""
    event = events.kafka([("orders-0", "k-1", None), ("orders-0", "k-1", None)])
    records(event)[1]["value"] = None
    seen: list[Event] = []
    assert process_kafka(event, seen.append, context=Context(), lock_key="{key}") == NOTHING
    assert seen == records(event)


@pytest.mark.parametrize("validate", [None, ["key", "value"]])
def test_a_key_and_a_value_that_are_left_out_are_null(table, validate):
    event = events.kafka([("orders-0", None, None)])
    nulls = copy.deepcopy(event)
    records(nulls)[0].update(key=None, value=None)
    seen: list[Event] = []
    options: Event = {"dedup_key": payload_hash("topic", "key", "value"), "validate": validate}
    assert process_kafka(event, seen.append, context=Context(), scope="s", **options) == NOTHING
    assert process_kafka(nulls, seen.append, context=Context(), scope="s", **options) == NOTHING
    assert seen == records(event)


@both
def test_a_record_that_gives_no_key_comes_back_and_stops_its_partition(table, workers):
    done = KafkaDone()
    event = events.kafka(
        [("orders-0", None, {"n": 0}), ("orders-0", "k", {"n": 1, "id": "x"}), ("orders-1", "k", {"n": 2, "id": "y"})]
    )
    answer = process_kafka(event, done.handler, context=Context(), lock_key="{value[id]}", max_workers=workers)
    assert returned(answer, event) == [0]
    assert set(done.started) - {1} == {2}
    assert workers > 1 or done.started == [2]


@pytest.mark.parametrize(
    ("change", "template", "text"),
    [
        ({"value": None}, "{value[id]}", r"value is None, which has no fields: \[id\] cannot be looked up"),
        ({"value": None}, "{value}", "the value is None"),
        ({"key": None}, "{key}", "the value is None"),
        ({"key": ""}, "{key}", "the value is an empty str"),
        ({"value": "e30="}, "{value[id]}", r"value has no \[id\]; it is empty"),
        ({"value": "eHl6"}, "{value[id]}", "value is of type str but not JSON"),
        ({"value": "//79"}, "{value[id]}", "value is of type bytes but not JSON"),
        ({"value": "//79"}, "{value}", "the value is of type bytes"),
        ({"value": '{"id": 1}'}, "{value[id]}", r"has a \[value\] that is not base64, as Lambda passes it"),
        ({"key": "YWJj!"}, "{key}", r"has a \[key\] that is not base64"),
        ({"key": 7}, "{key}", r"has a \[key\] that is not base64"),
        ({}, "{values[id]}", r"has no \[values\]; it has topic, partition, offset"),
    ],
)
def test_the_log_says_why_a_record_gives_no_key(table, caplog, change, template, text):
    event = batch("A")
    records(event)[0].update(change)
    answer = process_kafka(event, lambda record: pytest.fail("must not run"), context=Context(), lock_key=template)
    assert len(answer["batchItemFailures"]) == 1
    assert any(re.search(text, record.getMessage()) for record in caplog.records)


# Events


def test_the_sample_event_is_a_batch(table):
    assert process_kafka(events.load("kafka"), lambda record: None, context=Context()) == NOTHING


def test_a_self_managed_cluster_and_an_empty_batch_are_batches(table):
    event = events.kafka([("orders-0", None, {"n": 0})], eventSource="SelfManagedKafka")
    del event["eventSourceArn"]
    seen: list[Event] = []
    assert process_kafka(event, seen.append, context=Context()) == NOTHING
    assert len(seen) == 1
    assert process_kafka({"records": {}}, seen.append, context=Context()) == NOTHING
    del event["eventSource"]  # made by hand
    assert process_kafka(event, seen.append, context=Context()) == NOTHING


@pytest.mark.parametrize("kind", [KafkaEvent, ConsumerRecords])
def test_events_of_powertools_are_batches(table, kind):
    event, seen = batch("AB"), Seen()
    assert process_kafka(kind(event), seen, context=Context()) == NOTHING
    assert seen.records == records(event)


@pytest.mark.parametrize(
    "event", [{}, {"records": []}, {"records": None}, {"records": {"t-0": {}}}, {"Records": []}, (), None, "records"]
)
def test_what_has_no_dict_of_records_is_refused(event):
    with pytest.raises(
        LockArgumentError, match=r"event= has no dict of records, .*pass on the handler's first argument"
    ):
        process_kafka(event, lambda record: None, context=Context())


@pytest.mark.parametrize("missing", ["topic", "partition", "offset"])
def test_a_record_without_its_place_is_refused_and_none_is_run(missing):
    event = batch("AB")
    del records(event)[-1][missing]
    with pytest.raises(LockArgumentError, match=f"event= has a record from Kafka without '{missing}'"):
        process_kafka(event, lambda record: pytest.fail("must not run"), context=Context())


@pytest.mark.parametrize("offset", [None, "17", 1.0, True])
def test_an_offset_that_is_no_whole_number_is_refused(offset):
    event = batch("A")
    records(event)[0]["offset"] = offset
    with pytest.raises(LockArgumentError, match="without an offset that is an int"):
        process_kafka(event, lambda record: pytest.fail("must not run"), context=Context())


@pytest.mark.parametrize("record", [None, "text", 7, ["list"]])
def test_a_record_that_is_no_mapping_is_refused(record):
    with pytest.raises(LockArgumentError, match=f"event= has a record of '{type(record).__name__}'"):
        process_kafka({"records": {"orders-0": [record]}}, lambda record: None, context=Context())


def a_self_managed_event() -> Event:
    return events.kafka([("orders-0", None, {})], eventSource="SelfManagedKafka")


@pytest.mark.parametrize(
    ("process", "event", "found", "right"),
    [
        (process_sqs, events.load("kinesis"), "aws:kinesis", "process_stream"),
        (process_sqs, events.load("dynamodb_stream"), "aws:dynamodb", "process_stream"),
        (process_sqs, events.load("kafka"), "aws:kafka", "process_kafka"),
        (process_sqs, SQSEvent(events.load("kafka")), "aws:kafka", "process_kafka"),
        (process_sqs, a_self_managed_event(), "SelfManagedKafka", "process_kafka"),
        (process_stream, events.load("sqs"), "aws:sqs", "process_sqs"),
        (process_stream, events.load("kafka"), "aws:kafka", "process_kafka"),
        (process_kafka, events.load("sqs"), "aws:sqs", "process_sqs"),
        (process_kafka, events.load("kinesis"), "aws:kinesis", "process_stream"),
        (process_kafka, events.load("dynamodb_stream"), "aws:dynamodb", "process_stream"),
    ],
)
def test_an_event_of_another_source_is_refused_with_the_function_for_it(process, event, found, right):
    with pytest.raises(LockArgumentError, match=f"'{found}': use {right}, not {process.__name__}$"):
        process(event, lambda record: pytest.fail("must not run"), context=Context())


@pytest.mark.parametrize("decorator", [sqs_batch, kafka_batch])
def test_a_decorated_handler_refuses_an_event_of_another_source_like_the_function(decorator):
    right = "process_kafka" if decorator is sqs_batch else "process_sqs"
    event = events.load("kafka" if decorator is sqs_batch else "sqs")
    with pytest.raises(LockArgumentError, match=f": use {right}, not "):
        decorator()(lambda record: pytest.fail("must not run"))(event, Context())


def test_an_event_that_no_function_takes_is_refused_with_all_of_them():
    remedy = "process_sqs for SQS, and process_stream for Kinesis and DynamoDB streams, and process_kafka for Kafka"
    with pytest.raises(LockArgumentError, match=f"record of 'aws:s3', not of aws:sqs: use {remedy}"):
        process_sqs(events.load("s3"), lambda record: None, context=Context())


# The decorator


@kafka_batch(lock_key="customer#{value[customer_id]}", max_workers=2)
def order(record: Event) -> None:
    """Do one order."""


def test_a_decorated_handler_takes_what_lambda_gives_and_keeps_its_name(wire):
    assert (order.__name__, order.__doc__) == ("order", "Do one order.")
    assert order(events.load("kafka"), Context()) == NOTHING
    assert order(events.load("kafka"), Context()) == NOTHING
    assert wire.count("UpdateItem") == (4 + 1) * 3


def test_bare_kafka_batch_is_refused_with_what_to_write():
    with pytest.raises(TypeError, match=r"kafka_batch takes its settings .*write @kafka_batch\(\)"):

        @kafka_batch  # type: ignore[arg-type, call-arg, unused-ignore]
        def handler(record: Event) -> None: ...


def generator(record: Event) -> Iterator[int]:
    yield 1


def test_what_cannot_handle_records_is_refused_when_decorating_and_the_refusal_names_kafka_batch():
    def of_two(event: Event, context: object) -> None: ...

    with pytest.raises(TypeError, match="it calls process_kafka, or @kafka_batch makes it"):
        kafka_batch()(of_two)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="@kafka_batch cannot decorate generator"):
        kafka_batch()(generator)
    with pytest.raises(TypeError, match=r"it calls process_stream$"):
        process_stream(events.load("kinesis"), of_two, context=Context())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="retry_visibility"):
        kafka_batch(retry_visibility=5)(lambda record: None)  # type: ignore[call-arg]


# Random batches against the naive model of test_model.py


def check(workers: int, batch: list[Message], in_progress: frozenset[str], other: LockClient) -> None:
    run, effects = uuid.uuid4().hex, []
    in_progress = frozenset(group + name for group in "ABC" for name in in_progress)
    model = World(in_progress=in_progress)

    def handler(record: Event) -> None:
        value = value_of(record)
        if value["fails"]:
            raise Boom
        effects.append((value["event"], value["n"]))

    # A partition's records are together in the event, so the model is given them like that, too. No two partitions have
    # an event in common: whether a record after a failure is done, and the other one a duplicate, is up to the threads.
    batch = [replace(message, event=message.group + message.event) for message in batch]
    batch.sort(key=lambda message: message.group)
    event = events.kafka(
        [
            (
                f"{message.group}-0",
                message.event,
                {"n": n, "event": message.event, "fails": message.fails}
                | ({} if message.order is None else {"order": message.order}),
            )
            for n, message in enumerate(batch)
        ]
    )
    left = list(range(len(batch)))
    for _ in range(2):
        kept = [batch[n] for n in left]
        failed = [left[index] for index in model.deliver(kept, "group")]
        lowest = sorted({batch[n].group: n for n in reversed(failed)}.values())
        with ExitStack() as stack:
            stack.enter_context(other.acquire(f"{run}#held"))
            for name in in_progress:
                stack.enter_context(other.acquire(f"{run}#{name}"))
            answer = process_kafka(
                event,
                handler,
                context=Context(600),
                dedup_key="{value[event]}",
                lock_key=run + "#{value[order]}",
                scope=run,
                max_workers=workers,
            )
        assert returned(answer, event) == lowest
        event = events.kafka_from(event, answer)
        left = [value_of(record)["n"] for record in records(event)]
    assert len({name for name, _ in effects}) == len(effects)  # each event once
    if workers == 1:
        assert {name for name, _ in effects} == model.done
    assert model.done <= {name for name, _ in effects}  # with workers, some after a failure may be done, too


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("workers", [1, 4])
def test_random_batches(workers, examples, other):
    @settings(max_examples=examples)
    @given(messages, st.frozensets(st.sampled_from("gh")))
    def checked(batch: list[Message], in_progress: frozenset[str]) -> None:
        check(workers, batch, in_progress, other)

    checked()


# Cold start


@pytest.mark.parametrize(("decorator", "loads"), [("sqs_batch", False), ("kafka_batch", True)])
def test_only_those_who_process_kafka_load_its_module(decorator, loads):
    code = f"""
import sys
from lambda_lock.batch import {decorator}
{decorator}()(lambda record: None)
print("lambda_lock.batch.kafka" in sys.modules)
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed == f"{loads}\n"
