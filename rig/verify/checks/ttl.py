"""Time to live: switched on by the library's own function, and no obstacle to a lock."""

from __future__ import annotations

import time

from botocore.exceptions import ClientError

from lambda_lock.table import check_table

from ..account import Account, code
from ..report import HOLDS, NOT_CHECKED, Report

EXPIRED = "expired"  # the key of a row that DynamoDB may delete; `look_again` sees whether it did
_LONG_AGO = 3600


def check(account: Account, report: Report, long: bool) -> None:
    transport = account.https()
    specification = {"Enabled": True, "AttributeName": "ttl"}
    transport.send(
        "UpdateTimeToLive", {"TableName": account.run, "TimeToLiveSpecification": specification}, timeout=10.0
    )
    check_table(account.run, transport=transport)
    report.note("ttl.enabled", HOLDS, "check_table accepts the table")
    passed = {"key": {"S": EXPIRED}, "ttl": {"N": str(int(time.time()) - _LONG_AGO)}}
    for key in (EXPIRED, "claimed"):
        transport.send("PutItem", {"TableName": account.run, "Item": passed | {"key": {"S": key}}}, timeout=3.0)
    with account.locks(transport) as client, client.acquire("claimed", wait=0) as lock:
        row = client.get("claimed")
        report.expect("ttl.claimed", lock.is_held and row is not None and row.is_held, f"token {lock.fencing_token}")


def look_again(account: Account, report: Report) -> None:
    """At the end of a run: whether the expired row has gone. DynamoDB may take days."""
    key = {"key": {"S": EXPIRED}}
    try:
        found = account.client("dynamodb").get_item(TableName=account.run, Key=key, ConsistentRead=True)
    except ClientError as error:
        report.note("ttl.deleted", NOT_CHECKED, code(error))
        return
    if "Item" not in found:
        report.note("ttl.deleted", HOLDS, "within this run")
        return
    report.note("ttl.deleted", NOT_CHECKED, "not within this run; it may take days")
