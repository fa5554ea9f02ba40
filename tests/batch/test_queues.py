"""Messages from a standard queue: each is done once, and exactly those that could not be done are returned."""

from __future__ import annotations

import copy
import json
import logging
from contextlib import nullcontext

import pytest

from lambda_lock import (
    DuplicateEventError,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    current_dedup,
    current_lock,
    payload_hash,
    register_lambda_context,
    with_lock,
)
from lambda_lock.batch import process_sqs, sqs_batch
from rig import events
from rig.events import Event
from rig.wire import Answer
from tests.support.context import Context
from tests.support.decorated import Boom

from .conftest import NOTHING, Done, must_not_run, number_of, returned

pytestmark = pytest.mark.usefixtures("table")


def numbered(count: int, **more: object) -> Event:
    return events.sqs([{"n": number, **more} for number in range(count)])


# Once


def test_a_batch_that_is_delivered_again_is_done_once():
    done, event = Done(), numbered(10)
    before = copy.deepcopy(event)
    assert process_sqs(event, done.handler, context=Context()) == NOTHING
    assert event == before  # it is left as it was
    assert process_sqs(events.redelivered(event), done.handler, context=Context()) == NOTHING
    assert done.started == list(range(10))


def test_a_message_twice_in_one_batch_is_a_duplicate_and_not_contention(wire):
    done, event = Done(), numbered(1)
    event["Records"] += events.redelivered(event)["Records"]
    assert process_sqs(event, done.handler, context=Context()) == NOTHING
    assert done.started == [0]
    assert wire.operations == ["UpdateItem"] * 3


def test_what_makes_two_messages_the_same_event_can_be_chosen():
    event = events.sqs([{"n": 0, "order": "a"}, {"n": 1, "order": "b"}, {"n": 2, "order": "a"}])
    for key in ("{body[order]}", lambda record: record["body"].partition("order")[2], payload_hash("body[order]")):
        done = Done()
        assert process_sqs(event, done.handler, context=Context(), dedup_key=key, scope=repr(key)) == NOTHING
        assert done.started == [0, 1]


@pytest.mark.parametrize(
    ("keys", "new", "duplicate"),
    [
        ({}, 2, 1),
        ({"lock_key": "order#{body[n]}"}, 4, 1),
        ({"lock_key": "order#{body[n]}", "dedup_key": None}, 2, 2),
        ({"dedup_key": None}, 0, 0),
    ],
)
def test_a_new_record_and_its_duplicate_take_so_many_requests(keys, new, duplicate, wire):
    done, event = Done(), numbered(3)
    for expected in (new, duplicate):
        wire.clear()
        assert process_sqs(event, done.handler, context=Context(), **keys) == NOTHING
        assert wire.operations == ["UpdateItem"] * expected * 3
    assert done.started == [0, 1, 2] * (2 if keys.get("dedup_key", "") is None else 1)


def test_the_events_done_are_remembered_for_the_window_in_their_scope(rows):
    event = numbered(1)
    process_sqs(event, lambda record: {"answer": 42}, context=Context(), scope="mine", window=500, result="json")
    row = rows[f"mine#{event['Records'][0]['messageId']}"]
    assert row["result"] == {"S": '{"answer":42}'}
    assert int(row["ttl"]["N"]) - int(row["completedUntil"]["N"]) == 86_400
    assert "isReleased" in row


def test_two_handlers_on_one_queue_do_not_silence_each_other_unless_they_share_a_scope():
    done, event = list[str](), numbered(2)

    def bill(record: Event) -> None:
        done.append("bill")

    def ship(record: Event) -> None:
        done.append("ship")

    for handler in (sqs_batch()(bill), sqs_batch()(ship)) * 2:
        assert handler(event, Context()) == NOTHING
    assert done == ["bill", "bill", "ship", "ship"]
    for handler in (sqs_batch(scope="orders")(bill), sqs_batch(scope="orders")(ship)):
        assert handler(event, Context()) == NOTHING
    assert done[4:] == ["bill", "bill"]


# Returned


def test_a_record_that_fails_comes_back_and_the_others_are_done(caplog):
    done, event = Done(1, 3), numbered(5)
    with caplog.at_level(logging.INFO, "lambda_lock"):
        assert returned(process_sqs(event, done.handler, context=Context()), event) == [1, 3]
    assert done.started == [0, 1, 2, 3, 4]
    told = [record for record in caplog.records if record.__dict__.get("lock_event") == "record_failed"]
    assert [record.__dict__["lock_record"] for record in told] == [event["Records"][n]["messageId"] for n in (1, 3)]
    assert all(record.exc_info is not None and record.exc_info[0] is Boom for record in told)
    assert "2 of 5 records come back: 0 contended, 2 failed, 0 not started" in caplog.messages


def test_a_record_whose_lock_is_held_comes_back_and_runs_once_it_is_free(other, caplog):
    done, event = Done(), numbered(3)
    keys: Event = {"lock_key": "order#{body[n]}"}
    with other.acquire("order#1"), caplog.at_level(logging.INFO, "lambda_lock"):
        assert returned(process_sqs(event, done.handler, context=Context(), **keys), event) == [1]
    assert done.started == [0, 2]
    assert "1 of 3 records come back: 1 contended, 0 failed, 0 not started" in caplog.messages
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert process_sqs(events.redelivered(event), done.handler, context=Context(), **keys) == NOTHING
    assert done.started == [0, 2, 1]


def test_a_batch_that_is_contended_as_a_whole_comes_back_as_partial_failures(other, wire):
    event = numbered(4)
    with other.acquire("stock"):
        wire.clear()
        answer = process_sqs(event, must_not_run, context=Context(), lock_key="stock")
        # The claim of the event, one try for its lock, and the release of the event.
        assert wire.operations == ["UpdateItem"] * 3 * 4
    assert returned(answer, event) == [0, 1, 2, 3]


def test_with_wait_a_record_waits_for_its_lock(other, wire):
    done, held = Done(), other.acquire("stock")

    def release(answer: Answer) -> Answer:
        held.release()
        return answer

    wire.alter_reply(release, "GetItem")  # the waiter's first poll
    assert process_sqs(numbered(1), done.handler, context=Context(), lock_key="stock", wait=30) == NOTHING
    assert done.started == [0]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        ("no-such-table", LockConfigurationError, "'no-such-table' was not found"),
        ("no table", LockArgumentError, "'no table' is not a valid table name"),
    ],
)
def test_a_function_without_its_table_fails_as_a_whole(name, error, match, workers, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_TABLE", name)
    with pytest.raises(error, match=match):
        process_sqs(numbered(3), must_not_run, context=Context(), max_workers=workers)


@pytest.mark.parametrize(("beside", "back"), [("done", [0]), ("contended", [0, 1]), ("failing", [0, 1])])
def test_a_record_that_the_table_refuses_comes_back_whatever_becomes_of_another(wire, other, beside, back):
    done, event = Done(*[1] * (beside == "failing")), numbered(2)
    with other.acquire("order#1") if beside == "contended" else nullcontext():
        wire.answer(400, "AccessDeniedException")
        keys: Event = {"lock_key": "order#{body[n]}", "dedup_key": None}
        answer = process_sqs(event, done.handler, context=Context(), **keys)
    assert returned(answer, event) == back


@pytest.mark.parametrize("key", ["", "k" * 2049], ids=["empty", "too long"])
def test_a_record_for_which_its_handler_asks_for_an_impossible_key_comes_back(make, key):
    event, client = numbered(1, key=key), make()
    answer = process_sqs(event, lambda record: client.acquire(json.loads(record["body"])["key"]), context=Context())
    assert returned(answer, event) == [0]


def test_an_outage_is_no_misconfiguration(wire):
    wire.answer(400, "ProvisionedThroughputExceededException", times=float("inf"))
    event = numbered(1)
    with LockClient(decision_time=0.25) as client:
        answer = process_sqs(event, must_not_run, context=Context(), client=client)
    assert returned(answer, event) == [0]


def test_an_exit_of_the_handler_ends_the_batch():
    def handler(record: Event) -> None:
        if number_of(record) == 1:
            raise SystemExit(3)

    for workers in (1, 2):
        with pytest.raises(SystemExit):
            process_sqs(numbered(3), handler, context=Context(), max_workers=workers)


def test_an_error_of_another_decorator_is_the_records():
    def handler(record: Event) -> None:
        raise DuplicateEventError("from within")

    event = numbered(1)
    assert returned(process_sqs(event, handler, context=Context()), event) == [0]


# What a record finds


def test_a_record_has_its_lock_and_its_event_at_hand(rows):
    seen = []

    def handler(record: Event) -> None:
        seen.append((current_lock().key, current_dedup().key))
        assert rows.is_held(current_lock().key)
        assert rows.is_held(current_dedup().key)

    event = numbered(2)
    process_sqs(event, handler, context=Context(), lock_key="order#{body[n]}", scope="s")
    ids = [record["messageId"] for record in event["Records"]]
    assert seen == [("order#0", f"s#{ids[0]}"), ("order#1", f"s#{ids[1]}")]
    for outside in (current_lock, current_dedup):
        with pytest.raises(LookupError):
            outside()


@pytest.mark.parametrize("workers", [1, 2])
def test_the_leases_of_a_record_and_of_a_lock_of_its_own_end_with_the_invocation(workers, rows):
    longest: list[float] = []

    @with_lock("inner#{body}", lease_duration=600)
    def inner(record: Event) -> None:
        longest.append(current_lock().remaining)

    def handler(record: Event) -> None:
        longest.extend([current_lock().remaining, current_dedup().remaining])
        inner(record)

    keys: Event = {"lock_key": "order#{body[n]}", "lease_duration": 600.0, "max_workers": workers}
    assert process_sqs(numbered(2), handler, context=Context(30), **keys) == NOTHING
    assert len(longest) == 6
    assert 20 < min(longest) <= max(longest) <= 30  # the client's default lease is 20 s


def test_the_context_may_be_the_registered_one():
    register_lambda_context(Context(0.5))
    event = numbered(1)
    assert returned(process_sqs(event, lambda record: None, context=None), event) == [0]


def test_the_sample_event_of_a_fifo_queue_and_no_record_at_all_are_batches():
    for event in (events.load("sqs_fifo"), numbered(0)):
        assert process_sqs(event, lambda record: None, context=Context(), max_workers=3) == NOTHING
