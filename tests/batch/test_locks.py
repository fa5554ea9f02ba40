"""How records hold their lock keys: several locks, and permits: several at once or for each, readers and a writer."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from lambda_lock import LockArgumentError
from lambda_lock.batch import kafka_batch, process_sqs, process_stream, sqs_batch
from lambda_lock.testing import in_memory
from rig.events import Event
from tests.support.waiting import DEADLINE

from .conftest import NOTHING, Side, batch_of, returned


def batch(*sizes: int) -> Event:
    return batch_of(*({"gpus": size} for size in sizes))


def size_of(record: Any) -> int:
    size: int = json.loads(record["body"])["gpus"]
    return size


@pytest.mark.usefixtures("rows")
def test_a_record_takes_what_a_function_of_it_says(other):
    taken: list[int] = []

    def handle(record: Event) -> None:
        taken.append(other.get("gpus").taken)

    handler = sqs_batch(lock_key=lambda _: "gpus", permits=8, take=size_of)(handle)
    with other.acquire("gpus", permits=8, take=2):
        assert returned(handler(batch(3, 7, 6), None), batch(3, 7, 6)) == [1]
    assert taken == [5, 8]
    assert other.get("gpus").taken == 0


@pytest.mark.usefixtures("rows")
def test_records_that_fit_run_at_once_and_others_one_after_another(other):
    side = Side(meet=2)
    options: dict[str, Any] = {"lock_key": lambda _: "gpus", "context": None, "max_workers": 2, "permits": 4}
    assert process_sqs(batch(1, 1), lambda _: side.work("a"), take=2, **options) == NOTHING
    assert side.most == {"a": 2}
    side = Side()
    assert process_sqs(batch(2, 2, 2), lambda _: side.work("b"), dedup_key=None, take=3, **options) == NOTHING
    assert side.most == {"b": 1}
    assert other.get("gpus").taken == 0


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("shared", [True, False])
def test_records_are_readers_or_a_writer(other, shared):
    inside: list[int] = []
    met = threading.Barrier(2 if shared else 1)

    @sqs_batch(lock_key=lambda _: "config", shared=shared, max_workers=2, dedup_key=None)
    def handler(record: Event) -> None:
        met.wait(DEADLINE)
        inside.append(other.get("config").taken)

    assert handler(batch(1, 1), None) == NOTHING
    assert all(taken in ((1, 2) if shared else (100,)) for taken in inside)
    assert len(inside) == 2
    with other.acquire("config", shared=not shared):
        assert returned(handler(batch(1), None), batch(1)) == [0]


def test_a_record_whose_weight_cannot_be_comes_back_and_the_others_run(caplog):
    ran: list[str] = []
    options: dict[str, Any] = {"context": None, "lock_key": lambda _: "gpus", "permits": 8, "take": size_of}
    with in_memory():
        for event in (batch(9, 2), batch(9)):
            assert returned(process_sqs(event, lambda each: ran.append(each["messageId"]), **options), event) == [0]
    assert ran == ["m1"]
    assert "take=9 is more than permits=8" in caplog.text


def test_an_event_has_no_weight(other):
    with in_memory() as memory:
        process_sqs(batch(1), lambda _: None, context=None, lock_key=lambda _: "gpus", permits=8, take=2, scope="s")
        (event,) = (row for row in memory.rows() if row.key != "gpus")
        assert event.completed_until is not None


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"take": 2}, LockArgumentError, "take=2 says how lock_key= is held: pass lock_key, or leave take out"),
    ({"shared": False}, LockArgumentError, "shared=False says how lock_key= is held"),
    ({"permits": 5}, LockArgumentError, "permits=5 says how lock_key= is held"),
    ({"lock_key": "a", "take": 2}, LockArgumentError, "take=2 needs permits="),
    ({"lock_key": "a", "permits": 2, "take": lambda: 2}, TypeError, "take= is called with the arguments of"),
    ({"lock_key": ["a", "b"], "permits": 5}, TypeError, "permits=5 is for a single key"),
]


@pytest.mark.parametrize(("options", "kind", "said"), WRONG)
@pytest.mark.parametrize("process", [process_sqs, process_stream])
def test_what_does_not_fit_is_refused_before_any_record_runs(process, options, kind, said):
    with pytest.raises(kind, match=said):
        process(batch(1), print, context=None, **options)
    with pytest.raises(kind, match=said):
        kafka_batch(**options)(lambda record: None)


# Several locks

ACCOUNTS = ["account#{body[from]}", "account#{body[to]}"]


def of_transfers(*transfers: tuple[str, str]) -> Event:
    return batch_of(*({"from": source, "to": target} for source, target in transfers))


def test_a_record_runs_while_it_holds_all_its_locks(rows):
    seen: list[tuple[bool, bool]] = []

    def handle(record: Event) -> None:
        seen.append((rows.is_held("account#1"), rows.is_held("account#2")))

    process_sqs(of_transfers(("1", "2"), ("2", "1")), handle, context=None, lock_key=ACCOUNTS)
    assert seen == [(True, True)] * 2
    assert not rows.is_held("account#1")


def test_records_with_any_key_in_common_run_one_after_another(rows):
    order, side = list[str](), Side()

    def handle(record: Event) -> None:
        order.append(record["messageId"])
        side.work(*set(json.loads(record["body"]).values()))

    transfers = [("1", "2"), ("2", "1"), ("3", "4"), ("2", "3"), ("4", "4")]
    assert process_sqs(of_transfers(*transfers), handle, context=None, lock_key=ACCOUNTS, max_workers=4) == NOTHING
    assert side.most == dict.fromkeys("1234", 1)
    assert order.index("m0") < order.index("m1") < order.index("m3")
