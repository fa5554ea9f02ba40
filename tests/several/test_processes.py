"""Processes that take several locks: many at once, killed, and one inside another."""

import time
from pathlib import Path

import pytest

from lambda_lock import LockConfigurationError, LockNotGrantedError
from tests.support.short import SHORT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.plain  # the workers, which are other processes, use a LockClient

WORKER = Path(__file__).with_name("worker.py")


@pytest.mark.long
@pytest.mark.parametrize(
    ("processes", "rounds", "among"), [(4, 12, 4), pytest.param(8, 50 if SHORT else 150, 6, marks=pytest.mark.slow)]
)
def test_transfers_between_random_pairs_of_accounts_lose_no_cent_and_never_stand_still(
    processes, rounds, among, engine, new_table, rows, start
):
    accounts = new_table()
    keys = [f"account#{number}" for number in range(among)]
    for key in keys:
        engine.dynamodb("PutItem", {"TableName": accounts, "Item": {"key": {"S": key}, "balance": {"N": "10000"}}})
    began = time.monotonic()
    workers = [start(WORKER, "transfer", engine.port, accounts, seed, rounds, among) for seed in range(processes)]
    assert [worker.wait(600) for worker in workers] == [0] * processes
    balances = [int(item["balance"]["N"]) for item in engine.scan(accounts)]
    assert sum(balances) == 10000 * among
    assert not any(rows.is_held(key) for key in keys)
    assert not any(rows[key].get("waiters", {"L": []})["L"] for key in keys)
    print(f"{processes * rounds} transfers in {time.monotonic() - began:.1f} s")


def test_a_killed_holder_of_two_keys_is_replaced(client, rows, start):
    process = start(WORKER, "hold", "a,b", 1.5)
    tokens = [int(token) for token in process.stdout.readline().split()]
    first = [rows.version(key) for key in "ab"]
    wait_until(lambda: all(rows.version(key) != version for key, version in zip("ab", first, strict=True)))
    with pytest.raises(LockNotGrantedError) as refused:
        client.acquire_all(["b", "a"], wait=0)
    assert refused.value.key == "a"
    process.kill()
    process.wait()
    with client.acquire_all(["b", "a"], wait=30) as locks:
        assert locks.fencing_tokens == {"a": tokens[0] + 1, "b": tokens[1] + 1}


def test_before_a_snapshot_nothing_is_taken(make, monkeypatch):
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    monkeypatch.setattr("lambda_lock.runtime.invocation.snapstart_initializing", lambda: True)
    with pytest.raises(LockConfigurationError, match="SnapStart"):
        make().acquire_all(["a", "b"])
