"""Transactions: the reasons of a refusal, and the token that tells one that is sent again."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lambda_lock.transport import Reply, ServiceError, TransactionCanceled

from ..account import Account
from ..budget import Counted
from ..report import BROKEN, HOLDS, NOT_CHECKED, Report

_REMEMBERED = 590.0  # seconds; core/transaction.py counts on as many
_LENGTH = 36
_ITEMS = 100
_AT_ONCE, _EACH = 8, 5
_KNOWN = frozenset({"TransactionConflict", "None"})


def check(account: Account, report: Report, long: bool) -> None:
    transport = account.https()
    token, began = str(uuid.uuid4()), time.monotonic()
    first = _send(transport, [_counted(account, "counter")], token)
    again = _send(transport, [_counted(account, "counter")], token)
    count = _count(account, transport)
    done = isinstance(first, Reply) and isinstance(again, Reply)
    report.expect("transactions.token_repeated", done and count == 1, f"sent twice, carried out {count} times")
    _tokens(account, report, transport, token)
    _reasons(account, report, transport)
    _hundred(account, report, transport)
    _conflicts(account, report, transport)
    _remembered(account, report, transport, token, began, long)


def _send(transport: Counted, items: list[dict[str, Any]], token: str) -> Reply | Exception:
    request = {"TransactItems": items, "ClientRequestToken": token}
    try:
        return transport.send("TransactWriteItems", request, timeout=10.0)
    except (TransactionCanceled, ServiceError) as error:
        return error


def _tokens(account: Account, report: Report, transport: Counted, token: str) -> None:
    for claim, text, key, expected in (
        ("transactions.token_other_items", token, "another", "IdempotentParameterMismatchException"),
        ("transactions.token_length", "x" * (_LENGTH + 1), "counter", "ValidationException"),
    ):
        outcome = _send(transport, [_counted(account, key)], text)
        report.expect(claim, isinstance(outcome, ServiceError) and outcome.code == expected, repr(outcome))


def _reasons(account: Account, report: Report, transport: Counted) -> None:
    rows = [{"key": {"S": f"row {number}"}, "place": {"N": str(number)}} for number in range(3)]
    for row in rows:
        transport.send("PutItem", {"TableName": account.run, "Item": row}, timeout=3.0)
    items = [
        _update(account, f"row {number}", "SET a = :one", condition)
        for number, condition in enumerate(("place = :one", "place = :one", "attribute_not_exists(place)"))
    ]
    outcome = _send(transport, items, str(uuid.uuid4()))
    holds = (
        isinstance(outcome, TransactionCanceled)
        and outcome.reasons == ["ConditionalCheckFailed", "None", "ConditionalCheckFailed"]
        and outcome.items == [rows[0], None, rows[2]]
    )
    report.expect("transactions.reasons", holds, f"{outcome!r}, items {getattr(outcome, 'items', None)}")


def _hundred(account: Account, report: Report, transport: Counted) -> None:
    outcome = _send(transport, [_counted(account, f"item {number}") for number in range(_ITEMS)], str(uuid.uuid4()))
    report.expect("transactions.hundred", isinstance(outcome, Reply), repr(outcome))


def _conflicts(account: Account, report: Report, transport: Counted) -> None:
    def several(_: int) -> list[Reply | Exception]:
        return [_send(transport, [_counted(account, "contended")], str(uuid.uuid4())) for _ in range(_EACH)]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = [outcome for done in pool.map(several, range(_AT_ONCE)) for outcome in done]
    cancelled = [outcome for outcome in outcomes if isinstance(outcome, TransactionCanceled)]
    reasons = {reason for outcome in cancelled for reason in outcome.reasons}
    found = dict(Counter(type(outcome).__name__ for outcome in outcomes)) | {"reasons": sorted(reasons)}
    if not cancelled:
        report.note("transactions.conflict", NOT_CHECKED, f"none met another: {found}")
        return
    report.note("transactions.conflict", HOLDS if reasons <= _KNOWN else BROKEN, found)


def _remembered(account: Account, report: Report, transport: Counted, token: str, began: float, long: bool) -> None:
    if not long:
        report.note("transactions.token_remembered", NOT_CHECKED, "it takes ten minutes: add --long")
        return
    time.sleep(max(0.0, min(began + _REMEMBERED - time.monotonic(), account.budget.left())))
    outcome, count = _send(transport, [_counted(account, "counter")], token), _count(account, transport)
    report.expect(
        "transactions.token_remembered",
        isinstance(outcome, Reply) and count == 1,
        f"sent again after {time.monotonic() - began:.0f} s, carried out {count} times",
    )


def _counted(account: Account, key: str) -> dict[str, Any]:
    return _update(account, key, "ADD uses :one")


def _update(account: Account, key: str, expression: str, condition: str | None = None) -> dict[str, Any]:
    update = {
        "TableName": account.run,
        "Key": {"key": {"S": key}},
        "UpdateExpression": expression,
        "ExpressionAttributeValues": {":one": {"N": "1"}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return {"Update": update | ({"ConditionExpression": condition} if condition else {})}


def _count(account: Account, transport: Counted) -> int:
    request = {"TableName": account.run, "Key": {"key": {"S": "counter"}}, "ConsistentRead": True}
    item = transport.send("GetItem", request, timeout=3.0).item or {}
    return int(item.get("uses", {"N": "0"})["N"])
