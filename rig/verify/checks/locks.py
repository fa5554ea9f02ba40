"""The library's own operations, each in its usual course."""

from __future__ import annotations

from lambda_lock import LockLostError

from ..account import Account
from ..budget import Counted
from ..report import Report

_LEASE = 2.0  # seconds; the shortest that leaves room for a slow answer


def check(account: Account, report: Report, long: bool) -> None:
    https = account.https()
    _usual_course(account, report, "locks.https", https)
    _usual_course(account, report, "locks.boto3", account.boto3())
    _dead_holder(account, report, https)
    _commit(account, report, https)
    _semaphore(account, report, https)


def _usual_course(account: Account, report: Report, claim: str, transport: Counted) -> None:
    with account.locks(transport) as mine, account.locks(transport) as others:
        with mine.acquire(claim, wait=0, lease_duration=_LEASE) as lock:
            refused = others.try_acquire(claim) is None
            lock.heartbeat()
            steps = {"refused to others": refused, "renewed": lock.is_held}
        again = others.try_acquire(claim)
        steps["released"] = again is not None and again.fencing_token > lock.fencing_token
    report.expect(claim, all(steps.values()), steps)


def _dead_holder(account: Account, report: Report, transport: Counted) -> None:
    dead = account.locks(transport)
    lost = dead.acquire("dead", wait=0, lease_duration=_LEASE)
    dead.close(release=False)
    with account.locks(transport) as client:
        refused = client.try_acquire("dead") is None
        with client.acquire("dead", wait=_LEASE + 10.0, lease_duration=_LEASE) as lock:
            holds = refused and lock.fencing_token > lost.fencing_token
            report.expect("locks.dead_holder", holds, f"refused at first: {refused}; token {lock.fencing_token}")


def _commit(account: Account, report: Report, transport: Counted) -> None:
    def item(key: str) -> list[dict[str, object]]:
        return [{"Put": {"TableName": account.run, "Item": {"key": {"S": key}}}}]

    with account.locks(transport) as client:
        client.acquire("commit", wait=0).commit(item("written"))
        late = client.acquire("commit", wait=0)
        transport.send("DeleteItem", {"TableName": account.run, "Key": {"key": {"S": "commit"}}}, timeout=3.0)
        try:
            late.commit(item("not written"))
            refused = False
        except LockLostError:
            refused = True
    rows = {key: _exists(account, transport, key) for key in ("written", "not written")}
    report.expect(
        "locks.commit",
        refused and rows == {"written": True, "not written": False},
        f"rows: {rows}; LockLostError: {refused}",
    )


def _semaphore(account: Account, report: Report, transport: Counted) -> None:
    with account.locks(transport) as client:
        taken = [client.try_acquire("semaphore", permits=2) is not None for _ in range(3)]
    report.expect("locks.semaphore", taken == [True, True, False], f"taken: {taken}")


def _exists(account: Account, transport: Counted, key: str) -> bool:
    request = {"TableName": account.run, "Key": {"key": {"S": key}}, "ConsistentRead": True}
    return transport.send("GetItem", request, timeout=3.0).item is not None
