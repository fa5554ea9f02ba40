"""Batches whose records take several locks."""

from __future__ import annotations

import json
import threading
from typing import Any

from lambda_lock.batch import process_sqs, sqs_batch
from rig.events import Event

from .conftest import batch_of

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
    ran: list[str] = []
    with other.acquire("account#2"):
        answer = sqs_batch(lock_key=ACCOUNTS)(lambda record: ran.append(record["messageId"]))(
            batch(("1", "2"), ("3", "1")), None
        )
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    assert ran == ["m1"]


def test_records_with_any_key_in_common_run_one_after_another(rows):
    inside: dict[str, int] = {}
    guard, order = threading.Lock(), list[str]()

    def handle(record: Event) -> None:
        body: dict[str, Any] = json.loads(record["body"])
        with guard:
            order.append(record["messageId"])
            for account in set(body.values()):
                inside[account] = inside.get(account, 0) + 1
                assert inside[account] == 1
        with guard:
            for account in set(body.values()):
                inside[account] -= 1

    transfers = [("1", "2"), ("2", "1"), ("3", "4"), ("2", "3"), ("4", "4")]
    answer = process_sqs(batch(*transfers), handle, context=None, lock_key=ACCOUNTS, max_workers=4)
    assert answer == {"batchItemFailures": []}
    assert order.index("m0") < order.index("m1") < order.index("m3")
