"""transact_item: the lock's part of a transaction that the user sends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lambda_lock.errors import LockAlreadyReleasedError
from rig.engine import REGION
from tests.support.rows import Rows

Transact = Callable[..., Any]


@pytest.fixture
def transact(rows: Rows) -> Transact:
    """A transaction by boto3, as a user has it: one write of the application, and the lock's item."""
    dynamodb = boto3.client(
        "dynamodb",
        region_name=REGION,
        endpoint_url=rows.engine.url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )

    def run(item: dict[str, Any]) -> None:
        write = {"Put": {"TableName": rows.table, "Item": {"key": {"S": "row"}}}}
        dynamodb.transact_write_items(TransactItems=[write, item])

    return run


def is_refused(transact: Transact, item: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as caught:
        transact(item)
    reasons = [reason["Code"] for reason in caught.value.response["CancellationReasons"]]
    assert reasons == ["None", "ConditionalCheckFailed"]


def test_the_transaction_is_carried_out_while_the_lock_is_held_and_leaves_it_as_it_is(client, rows, transact):
    lock = client.acquire("a", data=b"state")
    before = rows["a"]
    transact(lock.transact_item())
    assert rows.get("row") is not None
    assert rows["a"] == before
    assert lock.is_held
    transact(lock.transact_item())  # as often as one likes
    assert lock.release() is True


def test_a_transact_item_is_good_after_renewals(client, rows, transact):
    lock = client.acquire("a")
    item = lock.transact_item()
    lock.heartbeat()
    transact(item)
    assert rows.get("row") is not None


def test_a_transact_item_is_refused_once_another_has_the_lock(client, rows, transact):
    item = client.acquire("a").transact_item()
    rows.put_held("a", expires_at=time.time() + 60, owner="another#1")
    is_refused(transact, item)
    assert rows.get("row") is None


def test_a_transact_item_is_refused_once_the_lock_is_released_and_when_it_is_acquired_again(client, rows, transact):
    lock = client.acquire("a")
    item = lock.transact_item()
    lock.release()
    is_refused(transact, item)
    client.acquire("a")
    is_refused(transact, item)
    assert rows.get("row") is None


def test_a_transact_item_is_refused_once_the_lock_was_adopted(client, make, rows, transact):
    lock = client.acquire("a")
    item = lock.transact_item()
    adopted = make().adopt(lock.hand_over())
    is_refused(transact, item)
    transact(adopted.transact_item())


def test_a_transact_item_is_an_update_since_that_needs_no_further_permission(client):
    assert list(client.acquire("a").transact_item()) == ["Update"]


def test_a_transact_item_is_not_given_once_the_lock_is_released(client):
    lock = client.acquire("a")
    lock.release()
    with pytest.raises(LockAlreadyReleasedError):
        lock.transact_item()
