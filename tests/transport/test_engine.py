"""Both transports against a real engine: the same requests give the same replies and the same errors."""

import time
from collections.abc import Iterator
from contextlib import closing
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
    with closing(choose(now=time.time, **arguments[request.param]())) as chosen:
        assert chosen.name == request.param.partition(" ")[0]
        yield chosen


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


KEY = {"key": {"S": "a"}}
VALUES = {"ExpressionAttributeNames": {"#d": "data"}, "ExpressionAttributeValues": {":d": ITEM["data"]}}


def test_what_is_put_is_got_with_every_type(transport, table):
    updated = KEY | {"data": ITEM["data"]}
    update = {"Key": KEY, "UpdateExpression": "SET #d = :d", "ReturnValues": "ALL_NEW", **VALUES}
    for operation, request, expected in (
        ("GetItem", {"Key": KEY, "ConsistentRead": True}, None),
        ("PutItem", {"Item": ITEM}, None),
        ("GetItem", {"Key": KEY, "ConsistentRead": True}, ITEM),
        ("DeleteItem", {"Key": KEY, "ReturnValues": "ALL_OLD"}, ITEM),
        ("UpdateItem", update, updated),
    ):
        assert outcome(transport, operation, TableName=table, **request) == ("done", expected)
    query = {"ExpressionAttributeNames": {"#k": "key"}, "ExpressionAttributeValues": {":k": KEY["key"]}}
    found = outcome(transport, "Query", TableName=table, KeyConditionExpression="#k = :k", **query)
    assert found[1]["Items"] == [updated]


def test_a_refused_condition_shows_what_stood_there(transport, table):
    condition = {"ConditionExpression": "#d = :d", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    values = {"ExpressionAttributeNames": {"#d": "data"}, "ExpressionAttributeValues": {":d": {"B": "/w=="}}}
    for there in (None, ITEM):
        if there:
            outcome(transport, "PutItem", TableName=table, Item=there)
        refused = outcome(transport, "PutItem", TableName=table, Item=KEY, **condition, **values)
        assert refused == ("refused", there)


def test_a_transaction_is_done_or_says_which_part_was_refused(transport, table):
    def put(key: str) -> dict[str, Any]:
        item = {"TableName": table, "Item": ITEM | {"key": {"S": key}}, "ExpressionAttributeNames": {"#k": "key"}}
        absent = "attribute_not_exists(#k)"
        return {"Put": item | {"ConditionExpression": absent, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}

    assert outcome(transport, "TransactWriteItems", TransactItems=[put("a"), put("b")]) == ("done", {})
    refused = outcome(transport, "TransactWriteItems", TransactItems=[put("c"), put("a")])
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


def test_tables_are_made_described_and_scanned(transport, engine, table):
    keys: dict[str, Any] = {"AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}]}
    keys["KeySchema"] = [{"AttributeName": "key", "KeyType": "HASH"}]
    name = f"{table}-made"
    assert outcome(transport, "CreateTable", TableName=name, BillingMode="PAY_PER_REQUEST", **keys)[0] == "done"
    done, body = outcome(transport, "DescribeTable", TableName=name)
    assert (done, body["Table"]["TableName"], body["Table"]["TableStatus"]) == ("done", name, "ACTIVE")
    assert isinstance(body["Table"]["CreationDateTime"], int | float)
    assert outcome(transport, "Scan", TableName=name)[1]["Items"] == []
    engine.delete_table(name)
