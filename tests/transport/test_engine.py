"""Both transports against a real engine: the same requests give the same replies and the same errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from lambda_lock.transport import (
    BotoTransport,
    ConditionFailed,
    HttpsTransport,
    ServiceError,
    TransactionCanceled,
    choose,
)

Anyway = HttpsTransport | BotoTransport
ITEM: dict[str, Any] = {
    "key": {"S": "a"},
    "data": {"B": "AAEC/w=="},
    "number": {"N": "-1.5"},
    "list": {"L": [{"B": "AA=="}, {"NULL": True}, {"L": []}]},
    "map": {"M": {"B": {"S": "a name like a type"}, "deep": {"M": {"BS": {"BS": ["AA==", "AQ=="]}}}}},
    "flag": {"BOOL": False},
    "text": {"S": "ünïcødé \u2028 \U0001f512"},
}


@pytest.fixture(params=["https", "boto3", "boto3 client"])
def transport(request: pytest.FixtureRequest, table: str) -> Iterator[Anyway]:
    arguments = {
        "https": dict,
        "boto3": lambda: {"boto3_session": boto3.Session()},
        "boto3 client": lambda: {"boto3_client": boto3.client("dynamodb")},
    }
    chosen = choose(now=time.time, **arguments[request.param]())
    assert chosen.name == request.param.partition(" ")[0]
    yield chosen
    chosen.close()


def outcome(transport: Anyway, operation: str, **request: Any) -> tuple[Any, ...]:
    """The outcome of a request in a form that can be compared. The date is checked here and left out."""
    try:
        result: Any = transport.send(operation, request, timeout=10)
        what: tuple[Any, ...] = ("done", result.item)
    except ConditionFailed as refused:
        result, what = refused, ("refused", refused.item)
    except TransactionCanceled as refused:
        result, what = refused, ("cancelled", refused.reasons, refused.items)
    except ServiceError as refused:
        result, what = refused, (refused.code, bool(refused.message), refused.retryable)
    assert abs(result.date - time.time()) < 60
    return what


def test_what_is_put_is_got_with_every_type(transport, table):
    key = {"key": ITEM["key"]}
    assert outcome(transport, "GetItem", TableName=table, Key=key, ConsistentRead=True) == ("done", None)
    assert outcome(transport, "PutItem", TableName=table, Item=ITEM) == ("done", None)
    assert outcome(transport, "GetItem", TableName=table, Key=key, ConsistentRead=True) == ("done", ITEM)
    everything = outcome(
        transport,
        "Query",
        TableName=table,
        KeyConditionExpression="#k = :k",
        ExpressionAttributeNames={"#k": "key"},
        ExpressionAttributeValues={":k": ITEM["key"]},
    )
    assert everything[1]["Items"] == [ITEM]
    assert outcome(transport, "DeleteItem", TableName=table, Key=key, ReturnValues="ALL_OLD") == ("done", ITEM)


def test_an_update_returns_the_new_item(transport, table):
    made = outcome(
        transport,
        "UpdateItem",
        TableName=table,
        Key={"key": {"S": "a"}},
        UpdateExpression="SET #d = :d",
        ExpressionAttributeNames={"#d": "data"},
        ExpressionAttributeValues={":d": ITEM["data"]},
        ReturnValues="ALL_NEW",
    )
    assert made == ("done", {"key": {"S": "a"}, "data": ITEM["data"]})


@pytest.mark.parametrize("there", [True, False])
def test_a_refused_condition_shows_what_stood_there(transport, table, there):
    if there:
        outcome(transport, "PutItem", TableName=table, Item=ITEM)
    refused = outcome(
        transport,
        "PutItem",
        TableName=table,
        Item={"key": {"S": "a"}, "data": {"B": "/w=="}},
        ConditionExpression="#d = :d",
        ExpressionAttributeNames={"#d": "data"},
        ExpressionAttributeValues={":d": {"B": "/w=="}},
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )
    assert refused == ("refused", ITEM if there else None)


def test_a_transaction_is_done_or_says_which_part_was_refused(transport, table):
    def put(key: str, condition: str) -> dict[str, Any]:
        return {
            "Put": {
                "TableName": table,
                "Item": ITEM | {"key": {"S": key}},
                "ConditionExpression": condition,
                "ExpressionAttributeNames": {"#k": "key"},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    first = [put("a", "attribute_not_exists(#k)"), put("b", "attribute_not_exists(#k)")]
    assert outcome(transport, "TransactWriteItems", TransactItems=first) == ("done", {})
    second = [put("c", "attribute_not_exists(#k)"), put("a", "attribute_not_exists(#k)")]
    refused = outcome(transport, "TransactWriteItems", TransactItems=second)
    assert refused == ("cancelled", ["None", "ConditionalCheckFailed"], [None, ITEM])


@pytest.mark.parametrize(
    ("operation", "request_", "code"),
    [
        ("GetItem", {"TableName": "no-such-table", "Key": {"key": {"S": "a"}}}, "ResourceNotFoundException"),
        ("GetItem", {"Key": {"another": {"S": "a"}}}, "ValidationException"),
        ("PutItem", {"Item": {"key": {"N": "1"}}}, "ValidationException"),
        ("DescribeTable", {"TableName": "no-such-table"}, "ResourceNotFoundException"),
    ],
)
def test_an_error_has_its_code_and_a_message_and_is_final(transport, table, operation, request_, code):
    assert outcome(transport, operation, **{"TableName": table, **request_}) == (code, True, False)


def test_a_table_is_described_alike(transport, table):
    done, body = outcome(transport, "DescribeTable", TableName=table)
    assert (done, body["Table"]["TableName"], body["Table"]["TableStatus"]) == ("done", table, "ACTIVE")
    assert isinstance(body["Table"]["CreationDateTime"], int | float)


def test_tables_are_made_and_scanned(transport, engine, table):
    made = outcome(
        transport,
        "CreateTable",
        TableName=f"{table}-made",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
    )
    assert made[0] == "done"
    assert outcome(transport, "Scan", TableName=f"{table}-made")[1]["Items"] == []
    engine.delete_table(f"{table}-made")
