"""The forms of DynamoDB's refusals, as the library's transport reads them."""

from __future__ import annotations

import time
import uuid
from typing import Any

from lambda_lock.transport import ConditionFailed, Credentials, ServiceError

from ..account import Account
from ..budget import Counted
from ..report import BROKEN, HOLDS, NOT_CHECKED, Report

_ROW = {"key": {"S": "condition"}, "here": {"S": "it is"}}
_SKEW = 20 * 60  # seconds; signatures are valid for five minutes
_WRITES, _WRITE_BYTES = 60, 20_000  # a table of one unit has up to 300 units in store
_TOO_LARGE = 410 * 1024  # bytes


def check(account: Account, report: Report, long: bool) -> None:
    transport = account.https()
    _conditions(account, report, transport)
    _codes(account, report, transport)
    _signatures(account, report)
    _throttling(account, report, transport)


def refused(transport: Counted, operation: str, request: dict[str, Any]) -> Exception | None:
    """How DynamoDB refuses a request; None if it does not."""
    try:
        transport.send(operation, request, timeout=3.0)
    except (ConditionFailed, ServiceError) as error:
        return error
    return None


def _conditions(account: Account, report: Report, transport: Counted) -> None:
    transport.send("PutItem", {"TableName": account.run, "Item": _ROW}, timeout=3.0)
    for claim, key, wanted in (
        ("errors.condition", "condition", _ROW),
        ("errors.condition_without_row", "nothing", None),
    ):
        request = {
            "TableName": account.run,
            "Key": {"key": {"S": key}},
            "UpdateExpression": "SET there = :a",
            "ConditionExpression": "here = :a",
            "ExpressionAttributeValues": {":a": {"S": "another"}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        error = refused(transport, "UpdateItem", request)
        holds = isinstance(error, ConditionFailed) and error.item == wanted
        report.expect(claim, holds, getattr(error, "item", repr(error)))


def _codes(account: Account, report: Report, transport: Counted) -> None:
    invalid = {"TableName": account.run, "Key": {"key": {"S": "a"}}, "UpdateExpression": "SET uses = :undefined"}
    large = {"TableName": account.run, "Item": {"key": {"S": "large"}, "data": {"S": "x" * _TOO_LARGE}}}
    absent = {"TableName": f"{account.run}-absent", "Key": {"key": {"S": "a"}}}
    for claim, operation, request, expected, words in (
        ("errors.validation", "UpdateItem", invalid, "ValidationException", ""),
        ("errors.too_large", "PutItem", large, "ValidationException", "size"),
        ("errors.no_table", "GetItem", absent, "ResourceNotFoundException", ""),
    ):
        error = refused(transport, operation, request)
        holds = isinstance(error, ServiceError) and error.code == expected and words in error.message.lower()
        report.expect(claim, holds and not getattr(error, "retryable", True), repr(error))


def _signatures(account: Account, report: Report) -> None:
    read = {"TableName": account.run, "Key": {"key": {"S": "a"}}}
    unknown = account.https(Credentials("AKIAIOSFODNN7EXAMPLE", uuid.uuid4().hex))
    error = refused(unknown, "GetItem", read)
    holds = isinstance(error, ServiceError) and error.code == "UnrecognizedClientException"
    report.expect("errors.credentials", holds, repr(error))

    error = refused(account.https(now=lambda: time.time() - _SKEW), "GetItem", read)
    holds = isinstance(error, ServiceError) and error.retryable and error.date is not None
    report.expect("errors.skew", holds, f"{error!r}, Date {getattr(error, 'date', None)}")


def _throttling(account: Account, report: Report, transport: Counted) -> None:
    one = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    most = {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 1}
    _, provisioned, on_demand = account.tables
    for claim, table, options in (
        ("errors.throttled_provisioned", provisioned, {"ProvisionedThroughput": one}),
        ("errors.throttled_on_demand", on_demand, {"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": most}),
    ):
        account.create_table(table, **options)
        _throttle(report, claim, transport, table)


def _throttle(report: Report, claim: str, transport: Counted, table: str) -> None:
    row = {"key": {"S": "a"}, "data": {"S": "x" * _WRITE_BYTES}}
    for number in range(_WRITES):
        error = refused(transport, "PutItem", {"TableName": table, "Item": row})
        if error is not None:
            holds = isinstance(error, ServiceError) and error.retryable
            report.note(claim, HOLDS if holds else BROKEN, f"after {number} writes: {error!r}")
            return
    report.note(claim, NOT_CHECKED, f"{_WRITES} writes of {_WRITE_BYTES} bytes were not throttled")
