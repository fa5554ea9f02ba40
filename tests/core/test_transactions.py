"""Transactions, adoption and replacement on the in-memory table, which tests/expressions compares with engines."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_lock.core import requests
from lambda_lock.core.outcome import ServiceError, TransactionCanceled
from lambda_lock.core.requests import Content, Grant
from lambda_lock.core.row import Row
from lambda_lock.core.schema import JAVA
from lambda_lock.core.transaction import all_or_none
from lambda_lock.decorators.disabled import unguarded_item
from lambda_lock.testing.table import Table

from .driver import refused
from .test_requests import PLACE, E, locks, release, version

__all__ = ["locks"]


def grant(owner: str = "me#1", at: str = version(), lease_ms: int = 10_000) -> Grant:
    return Grant(owner, at, lease_ms, int(at.split(":")[1]), 5000)


def held(locks: Table, owner: str = "me#1", at: str = version()) -> Any:
    """A row that was just claimed. Its token is 5001."""
    return locks.apply(*requests.claim(PLACE, grant(owner, at), Content(ttl=60)))


def adopt(owner: str = "me#1", at: str = version(E + 1), token: int = 5001) -> requests.Request:
    content = Content(ttl=60)
    return requests.renew(
        PLACE, grant(owner, at), seen=owner, token=token, next_token=True, completed_until=None, content=content
    )


def put(key: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": "locks", "Item": {"key": {"S": key}}, **more}}


def only_new(key: str) -> dict[str, Any]:
    return put(key, ConditionExpression="attribute_not_exists(a)", ReturnValuesOnConditionCheckFailure="ALL_OLD")


# Adoption


def test_an_adoption_changes_version_lease_and_token_alone(locks):
    before = held(locks)
    item = locks.apply(*adopt())
    assert item == {
        **before,
        "recordVersionNumber": {"S": version(E + 1)},
        "fencingToken": {"N": "5002"},
        "ttl": {"N": str(E // 1000 + 1 + 60)},
    }


@pytest.mark.parametrize(
    "changes", [{"owner": "you#1"}, {"token": 5000}, {"token": 5002}, {"at": version()}, {"at": version(E - 1)}]
)
def test_an_adoption_under_anything_else_is_refused(changes, locks):
    before = held(locks)
    assert refused(locks, adopt(**changes)).item == before
    assert locks.get("k") == before


def test_a_second_adoption_and_one_of_a_released_row_are_refused(locks):
    held(locks)
    locks.apply(*adopt())
    refused(locks, adopt(at=version(E + 2)))
    locks.apply(*release(token=5002))
    refused(locks, adopt(at=version(E + 3), token=5002))


# Replacement


def test_a_replacement_leaves_no_column_of_others_and_counts_the_token_on(locks):
    held(locks)
    old = dict(locks.get("k") or {}, foreign={"S": "x"}, data={"B": "eA=="}, result={"S": "kept"})
    locks.apply("PutItem", {"TableName": "locks", "Item": old})
    locks.apply(*requests.replace(PLACE, grant("you#1", version(E + 9)), Content(), observed=Row(old, JAVA)))
    assert locks.get("k") == {
        "key": {"S": "k"},
        "ownerName": {"S": "you#1"},
        "recordVersionNumber": {"S": version(E + 9)},
        "leaseDuration": {"S": "10000"},
        "fencingToken": {"N": "5002"},
        "data": {"B": "eA=="},
        "result": {"S": "kept"},
    }


@pytest.mark.parametrize("column", ["recordVersionNumber", "fencingToken"])
def test_a_replacement_of_what_has_changed_is_refused(column, locks):
    observed = Row(dict(held(locks)), JAVA)
    changed = {"S": version(E + 1)} if column == "recordVersionNumber" else {"N": "5002"}
    locks.apply("PutItem", {"TableName": "locks", "Item": {**observed.item, column: changed}})
    refused(locks, requests.replace(PLACE, grant("you#1", version(E + 9)), Content(), observed=observed))


def test_a_replacement_of_nothing_makes_a_row_only_where_there_is_none(locks):
    nothing = requests.replace(PLACE, grant(), Content(), observed=None)
    refused(locks, requests.replace(PLACE, grant(), Content(), observed=None, only_if_exists=True))
    locks.apply(*nothing)
    assert locks.get("k")["fencingToken"] == {"N": "5001"}
    refused(locks, nothing)


# The lock's part of a transaction


def test_an_unguarded_item_is_never_refused_and_leaves_a_held_row_as_it_is(locks):
    before = dict(held(locks))
    locks.apply("TransactWriteItems", {"TransactItems": [put("row"), unguarded_item(PLACE)]})
    assert locks.get("k") == before


# The table's transactions


def test_a_refused_transaction_is_evaluated_anew_under_the_same_token(locks):
    transaction = ("TransactWriteItems", {"TransactItems": [only_new("row")], "ClientRequestToken": "one"})
    locks.apply("PutItem", {"TableName": "locks", "Item": {"key": {"S": "row"}, "a": {"S": "x"}}})
    with pytest.raises(TransactionCanceled):
        locks.apply(*transaction)
    locks.apply("DeleteItem", {"TableName": "locks", "Key": {"key": {"S": "row"}}})
    locks.apply(*transaction)
    assert locks.get("row") is not None


def test_a_request_during_a_transaction_meets_a_conflict(locks):
    before = dict(held(locks))
    locks.busy = {("k",)}
    with pytest.raises(ServiceError, match="TransactionConflict") as refused:
        locks.apply(*release())
    assert refused.value.retryable
    with pytest.raises(TransactionCanceled) as cancelled:
        locks.apply(*all_or_none([put("row")], release(), "token"))
    assert cancelled.value.reasons == ["None", "TransactionConflict"]
    assert locks.apply(*requests.read(PLACE)) == before
    locks.busy = set()
    locks.apply(*all_or_none([put("row")], release(), "token"))


@pytest.mark.parametrize(
    "request_",
    [
        {"TransactItems": []},
        {"TransactItems": [put(str(number)) for number in range(101)]},
        {"TransactItems": [put("a"), put("a")]},
        {"TransactItems": [{"Get": {}}]},
        {"TransactItems": [{**put("a"), "Delete": {"TableName": "locks", "Key": {"key": {"S": "b"}}}}]},
        {"TransactItems": [{"ConditionCheck": {"TableName": "locks", "Key": {"key": {"S": "b"}}}}]},
        {"TransactItems": [put("a", ReturnValues="ALL_OLD")]},
        {"TransactItems": [put("a")], "ClientRequestToken": "x" * 37},
    ],
)
def test_what_dynamodb_would_not_take_is_refused_and_changes_nothing(request_, locks):
    with pytest.raises(ServiceError, match="ValidationException"):
        locks.apply("TransactWriteItems", request_)
    assert locks.items() == []
