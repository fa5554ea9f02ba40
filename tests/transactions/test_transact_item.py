"""transact_item: the lock's part of a transaction that the user sends."""

import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from rig.engine import REGION
from tests.support.rows import Rows

Transact = Callable[..., Any]


@pytest.fixture
def transact(rows: Rows) -> Transact:
    """A transaction by boto3, as a user has it: one write of the application, and the lock's item."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    dynamodb = boto3.client("dynamodb", region_name=REGION, endpoint_url=rows.engine.url, **keys)

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
    before, item = rows["a"], lock.transact_item()
    assert list(item) == ["Update"]  # since that needs no further permission
    transact(item)
    assert rows.get("row") is not None
    assert rows["a"] == before
    assert lock.is_held
    lock.heartbeat()
    transact(item)  # as often as one likes
    assert lock.release() is True


@pytest.mark.parametrize("then", ["taken over", "released", "acquired again", "adopted"])
def test_a_transact_item_is_refused_once_the_lock_is_another_s_or_nobody_s(then, client, make, rows, transact):
    lock = client.acquire("a")
    item = lock.transact_item()
    if then == "taken over":
        rows.put_held("a", expires_at=time.time() + 60, owner="another#1")
    elif then == "adopted":
        adopted = make().adopt(lock.hand_over())
    else:
        lock.release()
    if then == "acquired again":
        client.acquire("a")
    is_refused(transact, item)
    assert rows.get("row") is None
    if then == "adopted":
        transact(adopted.transact_item())
