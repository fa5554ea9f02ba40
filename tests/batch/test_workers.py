"""Records in parallel: different ones overlap, but those with a lock key, an event or a group in common do not."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock import current_dedup, current_lock
from lambda_lock.batch import process_sqs
from lambda_lock.batch.process import _Batch
from lambda_lock.batch.source import QueueSource, chains_of, deliveries_of
from rig import events
from rig.events import Event
from tests.support.context import Context

from .conftest import NOTHING, Done, Side, returned

pytestmark = pytest.mark.usefixtures("table")


def numbered(count: int) -> Event:
    return events.sqs([{"n": n} for n in range(count)])


def test_no_more_than_max_workers_run_at_once():
    side, threads = Side(meet=2), set()

    def handler(record: Event) -> None:
        threads.add(threading.current_thread().name)
        side.work("all")

    assert process_sqs(numbered(8), handler, context=Context(), max_workers=2) == NOTHING
    assert side.most == {"all": 2}
    assert len(threads) == 2


def test_with_one_worker_no_thread_is_started():
    threads = set()
    process_sqs(numbered(3), lambda record: threads.add(threading.current_thread()), context=Context())
    assert threads == {threading.current_thread()}


def test_records_of_one_lock_key_run_one_after_another_and_those_of_two_side_by_side():
    done, side = Done(), Side(meet=2)

    def handler(record: Event) -> None:
        done.handler(record)
        side.work(current_lock().key)

    event = events.sqs([{"n": n, "customer": "ab"[n % 2]} for n in range(6)])
    answer = process_sqs(event, handler, context=Context(), lock_key="{body[customer]}", max_workers=3)
    assert answer == NOTHING
    assert side.most == {"a": 1, "b": 1}
    assert [n for n in done.started if n % 2 == 0] == [0, 2, 4]
    assert [n for n in done.started if n % 2 == 1] == [1, 3, 5]


KEYS: Event = {"dedup_key": "{body[event]}", "lock_key": "{body[order]}"}


def fifo(*messages: tuple[str, str | None, str | None]) -> Event:
    """Messages of these groups, orders and events."""
    return events.sqs_fifo(
        [(group, {"n": n, "order": order, "event": event}) for n, (group, order, event) in enumerate(messages)]
    )


def test_the_same_text_as_group_lock_and_event_is_nothing_in_common():
    side, event = Side(meet=3), fifo(("same", "1", "1"), ("g2", "2", "same"), ("g3", "same", "3"))
    assert process_sqs(event, lambda record: side.work("all"), context=Context(), max_workers=3, **KEYS) == NOTHING


def test_the_context_variables_of_the_handler_reach_its_workers_and_theirs_stay_with_them():
    tenant: ContextVar[str] = ContextVar("tenant")
    tenant.set("t-1")
    seen = []

    def handler(record: Event) -> None:
        seen.append((tenant.get(), current_lock().key, current_dedup().key.rpartition("#")[2]))
        tenant.set("changed")

    event = numbered(3)
    assert process_sqs(event, handler, context=Context(), lock_key="order#{body[n]}", max_workers=3) == NOTHING
    ids = [record["messageId"] for record in event["Records"]]
    assert sorted(seen) == [("t-1", f"order#{n}", ids[n]) for n in range(3)]
    assert tenant.get() == "t-1"


def test_each_worker_has_records_of_its_own_whose_failures_come_back_in_order_and_is_over_then():
    done, event, before = Done(1, 4, 5), numbered(20), threading.active_count()
    assert returned(process_sqs(event, done.handler, context=Context(), max_workers=5), event) == [1, 4, 5]
    assert sorted(done.started) == list(range(20))
    assert threading.active_count() <= before + 1  # the heartbeat's thread, which is parked


# The records that must run one after another, compared with a slow and obvious way to find them


letters = st.sampled_from([None, "a", "b", "c", "d"])


@given(st.lists(st.tuples(st.sampled_from("ABCD"), letters, letters), max_size=10))
def test_chains_are_the_records_that_have_something_in_common_directly_or_not(records):
    """The group of a record counts even if no key can be built from the record."""
    batch = _Batch("sqs_batch", QueueSource(), lambda record: None, KEYS["dedup_key"], lock_key=KEYS["lock_key"])
    chains = chains_of(deliveries_of(fifo(*records), batch.source)[0], batch.in_common)
    assert all(chain == sorted(chain) for chain in chains)
    assert sorted(chains) == sorted(components(records))


def components(records: list[Any]) -> list[list[int]]:
    found: list[list[int]] = [[index] for index in range(len(records))]
    while True:
        joined = next(
            ((one, other) for one in found for other in found if one < other and touch(records, one, other)), None
        )
        if joined is None:
            return found
        found = [chain for chain in found if chain not in joined] + [sorted(joined[0] + joined[1])]


def touch(records: list[Any], one: list[int], other: list[int]) -> bool:
    def same(left: Hashable, right: Hashable) -> bool:
        return left is not None and left == right

    return any(any(map(same, records[i], records[j])) for i in one for j in other)
