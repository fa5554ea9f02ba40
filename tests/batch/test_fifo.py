"""Messages from FIFO queues: a group stops at its first failure and keeps its order, and other groups continue."""

from __future__ import annotations

import pytest

from lambda_lock.batch import process_sqs
from rig import events
from rig.events import Event
from tests.support.context import Context

from .conftest import NOTHING, Done, returned

pytestmark = pytest.mark.usefixtures("table")

both = pytest.mark.parametrize("workers", [1, 3])


def grouped(groups: str, **more: object) -> Event:
    """One message for each letter, in the group with this letter as its name."""
    return events.sqs_fifo([(group, {"n": number, **more}) for number, group in enumerate(groups)])


@both
def test_what_follows_a_failure_in_its_group_is_not_started_and_comes_back(workers):
    done, event = Done(1), grouped("ABABCAB")
    answer = process_sqs(event, done.handler, context=Context(), max_workers=workers)
    assert returned(answer, event) == [1, 3, 6]
    assert sorted(done.started) == [0, 1, 2, 4, 5]


def test_messages_of_a_group_run_in_order_whatever_else_they_have_in_common():
    done = Done()
    event = events.sqs_fifo([(group, {"n": n, "k": n % 3}) for n, group in enumerate("ABCABCDDAB")])
    assert process_sqs(event, done.handler, context=Context(), lock_key="{body[k]}", max_workers=4) == NOTHING
    for group in "ABCD":
        numbers = [n for n, name in enumerate("ABCABCDDAB") if name == group]
        assert [n for n in done.started if n in numbers] == numbers
    for key in range(3):
        assert [n for n in done.started if n % 3 == key] == list(range(key, 10, 3))


@both
def test_message_groups_of_a_standard_queue_are_no_order(workers):
    done, event = Done(0), events.sqs([{"n": n} for n in range(3)])
    for record in event["Records"]:
        record["attributes"]["MessageGroupId"] = "tenant-7"  # as in a fair queue
    answer = process_sqs(event, done.handler, context=Context(), max_workers=workers)
    assert returned(answer, event) == [0]
    assert sorted(done.started) == [0, 1, 2]
