"""Batches whose records take several locks."""

from __future__ import annotations

import json

from lambda_lock.batch import process_sqs, sqs_batch
from rig.events import Event

from .conftest import NOTHING, Side, batch_of, returned

ACCOUNTS = ["account#{body[from]}", "account#{body[to]}"]


def batch(*transfers: tuple[str, str]) -> Event:
    return batch_of(*({"from": source, "to": target} for source, target in transfers))


def test_a_record_runs_while_it_holds_all_its_locks(rows):
    seen: list[tuple[bool, bool]] = []

    def handle(record: Event) -> None:
        seen.append((rows.is_held("account#1"), rows.is_held("account#2")))

    process_sqs(batch(("1", "2"), ("2", "1")), handle, context=None, lock_key=ACCOUNTS)
    assert seen == [(True, True)] * 2
    assert not rows.is_held("account#1")


def test_a_record_whose_lock_is_held_comes_back_and_the_others_run(other, rows):
    ran, event = list[str](), batch(("1", "2"), ("3", "1"))
    handler = sqs_batch(lock_key=ACCOUNTS)(lambda record: ran.append(record["messageId"]))
    with other.acquire("account#2"):
        assert returned(handler(event, None), event) == [0]
    assert ran == ["m1"]


def test_records_with_any_key_in_common_run_one_after_another(rows):
    order, side = list[str](), Side()

    def handle(record: Event) -> None:
        order.append(record["messageId"])
        side.work(*set(json.loads(record["body"]).values()))

    transfers = [("1", "2"), ("2", "1"), ("3", "4"), ("2", "3"), ("4", "4")]
    assert process_sqs(batch(*transfers), handle, context=None, lock_key=ACCOUNTS, max_workers=4) == NOTHING
    assert side.most == dict.fromkeys("1234", 1)
    assert order.index("m0") < order.index("m1") < order.index("m3")
