"""Transactions, adoption and replacement on the in-memory table, and all of them compared with a real engine."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lambda_lock.core import requests
from lambda_lock.core.outcome import ConditionFailed, ServiceError, TransactionCanceled
from lambda_lock.core.requests import Content, Grant, Place
from lambda_lock.core.row import Row, make_version
from lambda_lock.core.schema import JAVA
from lambda_lock.core.transaction import all_or_none
from lambda_lock.decorators.disabled import unguarded_item
from lambda_lock.testing.table import Table
from rig.engine import EngineError, Ministack

PLACE = Place("locks", JAVA, "key", "k", None, None)
E = 1_800_000_000_000


def version(expiry_ms: int = E, digit: str = "0") -> str:
    return make_version(expiry_ms, digit * 32)


def grant(owner: str = "me#1", at: str = version(), lease_ms: int = 10_000) -> Grant:
    return Grant(owner, at, lease_ms, int(at.split(":")[1]), 5000)


def held(locks: Table, owner: str = "me#1", at: str = version()) -> Any:
    """A row that was just claimed. Its token is 5001."""
    return locks.apply(*requests.claim(PLACE, grant(owner, at), Content(ttl=60)))


def release(owner: str = "me#1", token: int = 5001) -> requests.Request:
    return requests.release(PLACE, owner=owner, token=token, delete=False, expiry_ms=E, content=Content(ttl=60))


def adopt(owner: str = "me#1", at: str = version(E + 1), token: int = 5001) -> requests.Request:
    return requests.renew(
        PLACE,
        grant(owner, at),
        seen=owner,
        token=token,
        next_token=True,
        completed_until=None,
        content=Content(ttl=60),
    )


def put(key: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": "locks", "Item": {"key": {"S": key}}, **more}}


def only_new(key: str) -> dict[str, Any]:
    return put(key, ConditionExpression="attribute_not_exists(a)", ReturnValuesOnConditionCheckFailure="ALL_OLD")


@pytest.fixture
def locks() -> Table:
    return Table()


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
    with pytest.raises(ConditionFailed) as refused:
        locks.apply(*adopt(**changes))
    assert refused.value.item == before
    assert locks.get("k") == before


def test_a_second_adoption_and_one_of_a_released_row_are_refused(locks):
    held(locks)
    locks.apply(*adopt())
    with pytest.raises(ConditionFailed):
        locks.apply(*adopt(at=version(E + 2)))
    locks.apply(*release(token=5002))
    with pytest.raises(ConditionFailed):
        locks.apply(*adopt(at=version(E + 3), token=5002))


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
    with pytest.raises(ConditionFailed):
        locks.apply(*requests.replace(PLACE, grant("you#1", version(E + 9)), Content(), observed=observed))


def test_a_replacement_of_nothing_makes_a_row_only_where_there_is_none(locks):
    nothing = requests.replace(PLACE, grant(), Content(), observed=None)
    with pytest.raises(ConditionFailed):
        locks.apply(*requests.replace(PLACE, grant(), Content(), observed=None, only_if_exists=True))
    locks.apply(*nothing)
    assert (locks.get("k") or {})["fencingToken"] == {"N": "5001"}
    with pytest.raises(ConditionFailed):
        locks.apply(*nothing)


# The lock's part of a transaction


def test_a_commit_writes_and_releases_or_does_neither(locks):
    held(locks)
    commit = all_or_none([put("row")], release(), "token-1")
    locks.apply(*commit)
    assert locks.get("row") == {"key": {"S": "row"}}
    assert (locks.get("k") or {})["isReleased"] == {"S": "1"}
    with pytest.raises(TransactionCanceled) as refused:
        locks.apply(*all_or_none([put("other")], release(), "token-2"))
    assert refused.value.reasons == ["None", "ConditionalCheckFailed"]
    assert refused.value.items == [None, locks.get("k")]
    assert locks.get("other") is None


def test_a_transact_item_changes_nothing_and_is_refused_once_the_lock_is_another_s(locks):
    before = dict(held(locks))
    mine = PLACE.transact_item("me#1", 5001)
    locks.apply("TransactWriteItems", {"TransactItems": [put("row"), mine]})
    assert locks.get("k") == before
    locks.apply(*adopt())
    with pytest.raises(TransactionCanceled):
        locks.apply("TransactWriteItems", {"TransactItems": [put("other"), mine]})


def test_an_unguarded_item_is_never_refused_and_leaves_a_held_row_as_it_is(locks):
    before = dict(held(locks))
    locks.apply("TransactWriteItems", {"TransactItems": [put("row"), unguarded_item(PLACE)]})
    assert locks.get("k") == before


# The table's transactions


def test_the_same_client_token_is_the_same_transaction_until_it_is_forgotten(locks):
    first = ("TransactWriteItems", {"TransactItems": [only_new("row")], "ClientRequestToken": "one"})
    locks.apply(*first)
    locks.apply("UpdateItem", {"TableName": "locks", "Key": {"key": {"S": "row"}}, "UpdateExpression": "SET a = key"})
    locks.apply(*first)  # its condition would no longer hold
    with pytest.raises(ServiceError, match="IdempotentParameterMismatch"):
        locks.apply("TransactWriteItems", {"TransactItems": [put("else")], "ClientRequestToken": "one"})
    del locks.done["one"]
    with pytest.raises(TransactionCanceled):
        locks.apply(*first)


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


# Against a real engine

owners = st.sampled_from(["me#1", "you#1"])
versions = st.sampled_from([version(), version(E + 1), version(E + 2, "f")])
tokens = st.integers(4999, 5003)
grants = st.builds(grant, owners, versions)
observed = st.none() | st.builds(
    lambda at, token: Row(
        {"key": {"S": "k"}, "recordVersionNumber": {"S": at}, "fencingToken": {"N": str(token)}}, JAVA
    ),
    versions,
    tokens,
)
_conditions = st.sampled_from([None, "attribute_exists(a)", "attribute_not_exists(a)"])
_numbers = itertools.count(1)


@st.composite
def writes(draw: st.DrawFn, key: str) -> dict[str, Any]:
    kind = draw(st.sampled_from(["Put", "Update", "Delete", "ConditionCheck"]))
    request: dict[str, Any] = {"TableName": "locks"}
    condition = draw(_conditions)
    if kind == "ConditionCheck":
        condition = condition or "attribute_exists(a)"
    if condition:
        request["ConditionExpression"] = condition
        if draw(st.booleans()):
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if kind == "Put":
        return {kind: {**request, "Item": {"key": {"S": key}, **draw(st.sampled_from([{}, {"a": {"N": "1"}}]))}}}
    request["Key"] = {"key": {"S": key}}
    if kind == "Update":
        request["UpdateExpression"] = draw(st.sampled_from(["SET a = :v", "SET b = :v REMOVE a"]))
        request["ExpressionAttributeValues"] = {":v": {"S": "x"}}
    return {kind: request}


@st.composite
def transactions(draw: st.DrawFn) -> requests.Request:
    keys = draw(st.lists(st.sampled_from("pq"), min_size=1, max_size=2, unique=True))
    last = draw(
        st.one_of(
            st.builds(release, owners, tokens).map(lambda request: {"Update": request[1]}),
            st.builds(PLACE.transact_item, owners, tokens),
            st.just(unguarded_item(PLACE)),
        )
    )
    more = draw(st.sampled_from([{}, {"ClientRequestToken": "one"}, {"ClientRequestToken": "two"}]))
    return "TransactWriteItems", {"TransactItems": [*[draw(writes(key)) for key in keys], last], **more}


many_requests = st.one_of(
    st.builds(lambda one: requests.claim(PLACE, one, Content()), grants),
    st.builds(adopt, owners, versions, tokens),
    st.builds(lambda one, row: requests.replace(PLACE, one, Content(), observed=row), grants, observed),
    st.builds(release, owners, tokens),
    transactions(),
    transactions(),
)


def on_engine(engine: Ministack, operation: str, request: dict[str, Any]) -> Any:
    try:
        reply = engine.dynamodb(operation, request)
    except EngineError as error:
        if error.code != "TransactionCanceledException":
            return error.code
        return str(error).rpartition("[")[2].rpartition("]")[0].split(", ")
    return reply.get("Attributes")


def on_table(locks: Table, operation: str, request: dict[str, Any]) -> Any:
    try:
        return locks.apply(operation, request)
    except ConditionFailed:
        return "ConditionalCheckFailedException"
    except TransactionCanceled as cancelled:
        return cancelled.reasons
    except ServiceError as error:
        return error.code


def placed(request: Any, table: str, suffix: str) -> Any:
    """The same request for that table. Its client token is made unique for one example."""
    if isinstance(request, list):
        return [placed(one, table, suffix) for one in request]
    if not isinstance(request, dict):
        return request
    changed = {name: placed(value, table, suffix) for name, value in request.items()}
    if "TableName" in changed:
        changed["TableName"] = table
    if "ClientRequestToken" in changed:
        changed["ClientRequestToken"] += suffix
    return changed


@pytest.mark.parametrize("examples", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_transactions_do_the_same_on_a_real_engine(engine, table, examples):
    @settings(max_examples=examples)
    @given(st.lists(many_requests, min_size=1, max_size=6))
    def same(steps: list[requests.Request]) -> None:
        locks, suffix = Table(), f"-{table}-{next(_numbers)}"[-30:]
        for key in "kpq":
            engine.dynamodb("DeleteItem", {"TableName": table, "Key": {"key": {"S": key}}})
        for operation, request in steps:
            request = placed(request, table, suffix)
            assert (on_table(locks, operation, request) or None) == (on_engine(engine, operation, request) or None)
            for key in "kpq":
                read = {"TableName": table, "Key": {"key": {"S": key}}, "ConsistentRead": True}
                assert locks.get(key) == engine.dynamodb("GetItem", read).get("Item"), (operation, request)

    same()
