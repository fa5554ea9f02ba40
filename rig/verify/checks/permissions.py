"""The policies of docs/deploy, each as the only policy of a role."""

from __future__ import annotations

from typing import Any

from lambda_lock import LockConfigurationError
from lambda_lock.transport import ServiceError

from ..account import Account
from ..budget import Counted
from ..report import NOT_CHECKED, Report
from .errors import refused

_ALLOWED, _OTHER = "invoice#1", "order#1"  # docs/deploy/policy-for-prefixes.json allows the first


def check(account: Account, report: Report, long: bool) -> None:
    identity = account.identity()
    if identity["Arn"].endswith(":root") and not account.is_engine:
        for claim in ("four_actions", "denied", "prefixes", "prefixes_in_transactions"):
            report.note(f"permissions.{claim}", NOT_CHECKED, "the root user cannot assume roles: use another identity")
        return
    partition = identity["Arn"].split(":")[1]
    principal = {"AWS": f"arn:{partition}:iam::{identity['Account']}:root"}
    everything, prefixes, _ = account.roles
    _four_actions(account, report, _as_role(account, everything, principal, "policy.json", "any key"))
    _prefixes(account, report, _as_role(account, prefixes, principal, "policy-for-prefixes.json", _ALLOWED))


def _as_role(account: Account, name: str, principal: dict[str, str], policy: str, key: str) -> Counted:
    """A transport with the rights of a new role, as soon as they count."""
    transport = account.https(account.assume(account.create_role(name, principal, policy)))
    read = {"TableName": account.run, "Key": {"key": {"S": key}}}
    account.until(lambda: refused(transport, "GetItem", read) is None)
    return transport


def _four_actions(account: Account, report: Report, transport: Counted) -> None:
    with account.locks(transport) as client:
        with client.acquire("four", wait=0) as lock:
            lock.heartbeat()
        client.acquire("four", wait=0, delete_on_release=True).release()
        client.acquire("four", wait=0, replace=True).release()
        client.acquire("four", wait=0).commit([{"Put": {"TableName": account.run, "Item": {"key": {"S": "five"}}}}])
        report.expect("permissions.four_actions", True, "acquire, renew, release, delete, replace and commit")
        try:
            found: object = list(client.list())
        except LockConfigurationError as error:
            found = error.__cause__
    holds = (
        isinstance(found, ServiceError)
        and found.code == "AccessDeniedException"
        and "perform: dynamodb:Scan" in found.message  # client/explain.py reads it there
    )
    report.expect("permissions.denied", holds, _without_account(account, repr(found)))


def _prefixes(account: Account, report: Report, transport: Counted) -> None:
    def update(key: str) -> dict[str, Any]:
        return {"TableName": account.run, "Key": {"key": {"S": key}}, "UpdateExpression": "REMOVE nothing"}

    def transaction(*keys: str) -> dict[str, Any]:
        return {"TransactItems": [{"Update": update(key)} for key in keys]}

    alone = {key: refused(transport, "UpdateItem", update(key)) for key in (_ALLOWED, _OTHER, "lambda_lock#prewarm")}
    holds = [key for key, error in alone.items() if _is_denied(error)] == [_OTHER] and alone[_ALLOWED] is None
    report.expect("permissions.prefixes", holds, _without_account(account, str(alone)))
    both = {
        keys: refused(transport, "TransactWriteItems", transaction(*keys)) for keys in ((_ALLOWED,), (_ALLOWED, _OTHER))
    }
    holds = [_is_denied(error) for error in both.values()] == [False, True]
    report.expect("permissions.prefixes_in_transactions", holds, _without_account(account, str(both)))


def _is_denied(error: Exception | None) -> bool:
    return isinstance(error, ServiceError) and error.code == "AccessDeniedException"


def _without_account(account: Account, text: str) -> str:
    """So that a report can be shown to others."""
    return text.replace(account.identity()["Account"], "ACCOUNT")
