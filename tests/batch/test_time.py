"""A record is started only if it can finish: by the time left, and by how long earlier records took."""

from __future__ import annotations

import logging
import threading

import pytest

from lambda_lock.batch import process_sqs
from rig import events
from rig.events import Event
from tests.support.context import Context
from tests.support.waiting import DEADLINE

from .conftest import NOTHING, Taking, must_not_run, number_of, returned

EVENT_OF = [{"n": n} for n in range(10)]


# The time left is about half a second more or less than needed. No machine is that slow between two records.
@pytest.mark.parametrize(
    ("left", "seconds", "started"),
    [
        (0.5, [0], 0),  # at least a second
        (1.5, [0, 0], 2),
        (10.0, [9.5, 0], 1),  # 0.5 s left
        (10.0, [4.3, 0], 1),  # 5.7 s left, 6.45 needed
        (10.0, [3.6, 0], 2),  # 6.4 s left, 5.4 needed
        (10.0, [3.6, 0.5, 1.0, 0], 3),  # 4.9 s left, 5.4 needed: the longest counts, not the last
    ],
)
def test_a_record_is_started_while_one_and_a_half_times_the_longest_is_left(left, seconds, started, hands):
    done, event = Taking(hands, *seconds), events.sqs(EVENT_OF[: len(seconds)])
    answer = process_sqs(event, done.handler, context=Context(left), dedup_key=None)
    assert done.started == list(range(started))
    assert returned(answer, event) == list(range(started, len(seconds)))


@pytest.mark.parametrize(
    ("left", "seconds", "failing", "back"),
    [(60, [70, 0, 0], (), [1, 2]), (10, [6, 0], (0,), [0, 1])],
    ids=["the deadline has passed", "a failed record counts"],
)
def test_what_earlier_records_took_counts_whatever_became_of_them(left, seconds, failing, back, hands):
    done, event = Taking(hands, *seconds, failing=failing), events.sqs(EVENT_OF[: len(seconds)])
    assert returned(process_sqs(event, done.handler, context=Context(left), dedup_key=None), event) == back
    assert done.started == [0]


def test_what_one_worker_took_holds_for_the_others(hands):
    """Record 0 takes 50 of 60 s on one thread. After it, neither thread starts another record."""
    over = threading.Event()
    started = []

    def handler(record: Event) -> None:
        started.append(number_of(record))
        if number_of(record) == 0:
            hands.leapt += 50
            over.set()
        assert over.wait(DEADLINE)

    event = events.sqs(EVENT_OF[:6])
    answer = process_sqs(event, handler, context=Context(60), dedup_key=None, max_workers=2)
    assert set(started) <= {0, 1, 2}
    assert returned(answer, event) == [n for n in range(6) if n not in started]


class Saying(Context):
    def get_remaining_time_in_millis(self) -> int:
        return self.remaining  # type: ignore[return-value]


def test_without_an_end_or_a_context_every_record_is_started(hands):
    for context in (Saying(float("inf")), None):
        done = Taking(hands, 1000, 0)
        assert process_sqs(events.sqs(EVENT_OF[:2]), done.handler, context=context, dedup_key=None) == NOTHING
        assert done.started == [0, 1]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("left", [0, -5, float("-inf")])
def test_a_batch_without_time_left_starts_nothing_and_gives_everything_back(left, workers, wire):
    event = events.sqs(EVENT_OF[:2])
    answer = process_sqs(event, must_not_run, context=Saying(left), max_workers=workers)
    assert returned(answer, event) == [0, 1]
    assert wire.operations == []


def test_nothing_is_sent_for_what_is_not_started(hands, wire, caplog):
    done, event = Taking(hands, 59.5, 0, 0), events.sqs(EVENT_OF[:3])
    with caplog.at_level(logging.INFO, "lambda_lock"):
        answer = process_sqs(event, done.handler, context=Context(60), lock_key="order#{body[n]}")
    assert returned(answer, event) == [1, 2]
    keys = {request.body["Key"]["key"]["S"].rpartition("#")[2] for request in wire.requests}
    assert keys == {"0", event["Records"][0]["messageId"]}
    assert "2 of 3 records come back: 0 contended, 0 failed, 2 not started" in caplog.messages


def test_waiting_for_locks_leaves_time_for_the_rest(wire, hands, other):
    """A wait is limited to the time left minus the reserve. So the batch returns its answer before the deadline."""
    event = events.sqs(EVENT_OF[:2])
    options: Event = {"lock_key": "stock", "wait": 600, "reserve": 2}
    with other.acquire("stock"):
        assert returned(process_sqs(event, must_not_run, context=Context(2.5), **options), event) == [0, 1]
        options |= {"wait": 600, "reserve": 60, "dedup_key": None}  # nothing is left beside the reserve
        asked = wire.count()
        assert returned(process_sqs(event, must_not_run, context=Context(60), **options), event) == [0, 1]
        assert wire.count() == asked + 2
    assert hands.leapt == 0
