"""Records from Kafka: a partition stops at its first failure, others continue, and keys are made of what is decoded."""

from __future__ import annotations

import copy
import functools
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings

from lambda_lock import LockArgumentError, LockClient, current_lock, payload_hash
from lambda_lock.batch import process_kafka, process_sqs
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.elsewhere import ran

from .conftest import NOTHING, Done, Side, must_not_run, number_of, records_of
from .test_model import BATCHES, EXAMPLES, Message, Real, World

both = pytest.mark.parametrize("workers", [1, 3])


def batch(places: str, keys: str | None = None, **more: object) -> Event:
    """One record for each letter: A is partition 0 of "orders", B is partition 1. keys: a letter each; "-" is none."""
    named = [None if key == "-" else key for key in keys or "-" * len(places)]
    partitions = [f"orders-{'AB'.index(place)}" for place in places]
    bodies = [{"n": n} | more for n in range(len(places))]
    return events.kafka(list(zip(partitions, named, bodies, strict=True)))


def returned(answer: Any, event: Event) -> list[int]:
    """``n`` of the records that an answer names."""
    assert list(answer) == ["batchItemFailures"]
    assert all(list(failure) == ["itemIdentifier"] for failure in answer["batchItemFailures"])
    found = [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
    assert all(list(identifier) == ["partition", "offset"] for identifier in found)
    named = {(f"{one['topic']}-{one['partition']}", one["offset"]): number_of(one) for one in records_of(event)}
    return [named[identifier["partition"], identifier["offset"]] for identifier in found]


# What is done, and what comes back


def test_an_answer_is_an_object_for_each_partition(table):
    done, event = Done(1, 2, 3), batch("ABBA")
    assert process_kafka(event, done.handler, context=Context()) == {
        "batchItemFailures": [
            {"itemIdentifier": {"partition": "orders-0", "offset": event["records"]["orders-0"][1]["offset"]}},
            {"itemIdentifier": {"partition": "orders-1", "offset": event["records"]["orders-1"][0]["offset"]}},
        ]
    }


@both
@pytest.mark.parametrize(
    ("places", "failing", "back", "started"),
    [("AABABABA", [2], [2], [0, 1, 2, 3, 5, 7]), ("AABABB", [1, 2, 5], [1, 2], [0, 1, 2])],
)
def test_a_partition_stops_at_its_first_failure_and_the_others_continue(table, workers, places, failing, back, started):
    done, event = Done(*failing), batch(places)
    answer = process_kafka(event, done.handler, context=Context(), max_workers=workers)
    assert returned(answer, event) == back
    assert sorted(done.started) == started


def test_records_run_in_the_order_of_their_offsets_however_an_event_lists_them(table):
    done, event = Done(1), batch("AAA")
    event["records"]["orders-0"].reverse()
    assert returned(process_kafka(event, done.handler, context=Context()), event) == [1]
    assert done.started == [0, 1]


def test_a_failure_is_logged_with_its_partition_and_offset(table, caplog):
    event = batch("A")
    process_kafka(event, Done(0).handler, context=Context())
    (told,) = [record for record in caplog.records if record.__dict__.get("lock_event") == "record_failed"]
    named = {"partition": "orders-0", "offset": records_of(event)[0]["offset"]}
    assert told.__dict__["lock_record"] == named
    assert str(named) in told.getMessage()


# Order among workers


@pytest.mark.parametrize("keys", [None, "aaaa"])
def test_side_by_side_records_without_a_key_or_of_one_keep_the_order_of_their_partition_alone(table, keys):
    done, side = Done(), Side(meet=2)

    def handler(record: Event) -> None:
        done.handler(record)
        side.work(record["partition"])

    assert process_kafka(batch("ABAB", keys), handler, context=Context(), max_workers=4) == NOTHING
    assert side.most == {0: 1, 1: 1}
    assert [n for n in done.started if n % 2 == 0] == [0, 2]
    assert [n for n in done.started if n % 2 == 1] == [1, 3]


# Keys


def test_keys_are_made_of_the_decoded_value_and_key(rows):
    seen: list[str] = []

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
    event = batch("A")
    assert process_kafka(event, lambda record: None, context=Context(), scope="s") == NOTHING
    assert rows.get(f"s#orders#0#{records_of(event)[0]['offset']}") is not None  # by default, the place of the record


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


def test_the_handler_and_key_functions_get_the_record_as_lambda_passed_it(table):
    event, seen, keyed = batch("AB", "k-"), list[Event](), list[Event]()

    def key(record: Event) -> str:
        keyed.append(record)
        return f"{number_of(record)}"

    assert process_kafka(event, seen.append, context=Context(), lock_key=key, dedup_key=key) == NOTHING
    assert seen == records_of(event)
    assert all(type(record) is dict for record in seen + keyed)


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
    assert rf"the key '{{missing}}' of {name}() cannot be built" in caplog.text


def test_a_tombstone_is_handed_over_as_it_is(table):
    """AWS passes a null value as null, or leaves it out."""
    event = events.kafka([("orders-0", "k-1", None), ("orders-0", "k-1", None)])
    records_of(event)[1]["value"] = None
    seen: list[Event] = []
    assert process_kafka(event, seen.append, context=Context(), lock_key="{key}") == NOTHING
    assert seen == records_of(event)


@pytest.mark.parametrize("validate", [None, ["key", "value"]])
def test_a_key_and_a_value_that_are_left_out_are_null(table, validate):
    event = events.kafka([("orders-0", None, None)])
    nulls = copy.deepcopy(event)
    records_of(nulls)[0].update(key=None, value=None)
    seen: list[Event] = []
    options: Event = {"dedup_key": payload_hash("topic", "key", "value"), "validate": validate}
    assert process_kafka(event, seen.append, context=Context(), scope="s", **options) == NOTHING
    assert process_kafka(nulls, seen.append, context=Context(), scope="s", **options) == NOTHING
    assert seen == records_of(event)


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
    records_of(event)[0].update(change)
    answer = process_kafka(event, must_not_run, context=Context(), lock_key=template)
    assert len(answer["batchItemFailures"]) == 1
    assert re.search(text, caplog.text)


# Events


@pytest.mark.parametrize("source", ["aws:SelfManagedKafka", "SelfManagedKafka"])
def test_a_self_managed_cluster_by_both_of_its_names_and_an_empty_batch_are_batches(source, table):
    event = events.kafka([("orders-0", None, {"n": 0})], eventSource=source)
    del event["eventSourceArn"]
    seen: list[Event] = []
    assert process_kafka(event, seen.append, context=Context()) == NOTHING
    assert len(seen) == 1
    assert process_kafka({"records": {}}, seen.append, context=Context()) == NOTHING
    with pytest.raises(LockArgumentError, match=f"'{source}': use process_kafka, not process_sqs"):
        process_sqs(event, must_not_run, context=Context())
    del event["eventSource"]  # made by hand
    assert process_kafka(event, seen.append, context=Context()) == NOTHING


@pytest.mark.parametrize("offset", ["missing", None, "17", 1.0, True])
def test_an_offset_that_is_no_whole_number_is_refused(offset):
    event = batch("A")
    records_of(event)[0]["offset"] = offset
    if offset == "missing":
        del records_of(event)[0]["offset"]
    with pytest.raises(LockArgumentError, match=r"without ('offset', which is missing|an offset that is an int)"):
        process_kafka(event, must_not_run, context=Context())


# Random batches against the naive model of test_model.py


def check(workers: int, batch: list[Message], in_progress: frozenset[str], other: LockClient) -> None:
    # A partition's records are together in the event, so the model is given them like that, too. No two partitions have
    # an event in common: whether a record after a failure is done, and the other one a duplicate, is up to the threads.
    batch = [replace(message, event=message.group + message.event) for message in batch]
    batch.sort(key=lambda message: message.group)
    in_progress = frozenset(group + name for group in "ABC" for name in in_progress)
    real, model = Real(batch, workers, other, in_progress), World(in_progress=in_progress)
    event = events.kafka([(f"{one.group}-0", one.event, body) for one, body in zip(batch, real.bodies(), strict=True)])
    keys = {"dedup_key": "{value[event]}", "lock_key": real.run + "#{value[order]}"}
    left = list(range(len(batch)))
    for _ in range(2):
        failed = [left[index] for index in model.deliver([batch[n] for n in left], "group")]
        lowest = sorted({batch[n].group: n for n in reversed(failed)}.values())
        answer = real.process(process_kafka, event, **keys)
        assert returned(answer, event) == lowest
        event = events.kafka_from(event, answer)
        left = [number_of(record) for record in records_of(event)]
    names = [name for name, _ in real.effects]
    assert len(set(names)) == len(names)  # each event once
    if workers == 1:
        assert set(names) == model.done
    assert model.done <= set(names)  # with workers, some after a failure may be done, too


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("workers", [1, 4])
def test_random_batches(workers, examples, other):
    checked = given(*BATCHES)(lambda batch, elsewhere: check(workers, batch, elsewhere, other))
    settings(max_examples=examples)(checked)()


# Cold start


def test_only_those_who_process_kafka_load_its_module():
    code = """
import sys
from lambda_lock.batch import kafka_batch, sqs_batch
for decorator in (sqs_batch, kafka_batch):
    decorator()(lambda record: None)
    print("lambda_lock.batch.kafka" in sys.modules)
"""
    assert ran(code) == "False\nTrue\n"
