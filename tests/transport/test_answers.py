"""How clients treat answers that did not come from DynamoDB, over both transports, down to the error of a call."""

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock.errors import TransportError
from lambda_lock.transport import ServiceError

from .conftest import Stub, answer, say

HANDFUL = 30  # requests of one call: a few sends for a decision of 5 s, and as many to release what may have landed


def row(key: str = "a", **attributes: Any) -> dict[str, Any]:
    expiry = int((time.time() + 30) * 1000)
    return {
        "key": {"S": key},
        "ownerName": {"S": "somebody"},
        "leaseDuration": {"S": "20000"},
        "recordVersionNumber": {"S": f"L1:{expiry:013d}:{os.urandom(16).hex()}"},
        "fencingToken": {"N": "7"},
    } | attributes


def now(body: object, status: int = 200) -> bytes:
    return answer(body, status, headers={"Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())})


def refused(**fields: Any) -> bytes:
    return now({"__type": "ns#ConditionalCheckFailedException", "message": "no", **fields}, 400)


def grant(stub: Stub, connection: socket.socket) -> bool:
    """Answer a claim as DynamoDB does: with the row that the claim writes."""
    values = stub.bodies()[-1]["ExpressionAttributeValues"]
    version = next(value for value in values.values() if value.get("S", "").startswith("L1:"))
    lease = {"leaseDuration": values[":lease"], "recordVersionNumber": version, "ownerName": values[":owner"]}
    connection.sendall(now({"Attributes": row(**lease)}))
    return True


def fails(call: Callable[[], object], match: str = "may have been carried out|is unknown") -> TransportError:
    with pytest.raises(TransportError, match=match) as caught:
        call()
    assert caught.value.ambiguous
    return caught.value


@pytest.mark.parametrize(
    "said", [now({}), now({"Attributes": {}}), now({"Attributes": row("b")}), refused(Item=row("b"))]
)
@pytest.mark.parametrize("wait", [0, 3])
def test_a_decision_sends_a_handful_of_requests_whatever_the_server_says(stub, client, said, wait):
    stub.otherwise = say(said)
    with pytest.raises(TransportError):
        client.acquire("a", wait=wait)
    assert len(stub.requests) <= HANDFUL * (2 + wait)  # releasing the claim is a decision of its own


def test_the_row_of_another_lock_is_no_answer_to_a_read(stub, client):
    stub.otherwise = say(now({"Item": row("b")}))
    fails(lambda: client.get("a"), "not DynamoDB")
    stub.otherwise = say(now({"Item": row("a")}))
    assert client.get("a").owner == "somebody"


@pytest.mark.parametrize("item", [[], "a", 5, {"key": "a"}, [row()]])
def test_what_is_not_an_item_is_no_answer(stub, client, item):
    stub.otherwise = say(now({"Item": item}))
    fails(lambda: client.get("a"))


def test_an_error_inside_a_200_and_a_page_without_items_are_no_answers(stub, client):
    stub.otherwise = say(now({"__type": "ns#ThrottlingException", "message": "slow down"}))
    for call in (lambda: client.get("a"), lambda: client.acquire("a", wait=0), lambda: list(client.list())):
        fails(call)
    stub.otherwise = say(now({"message": "welcome"}))
    fails(lambda: list(client.list()))


def test_a_lock_is_neither_lost_nor_released_by_the_row_of_another(stub, client):
    stub.otherwise = grant
    lock = client.acquire("a", wait=0)
    stub.otherwise = say(refused(Item=row("b")))
    fails(lock.heartbeat)
    assert lock.is_held
    fails(lock.release)


def test_a_replacement_is_not_judged_by_the_row_of_another(stub, client):
    free = row(isReleased={"S": "1"})
    stub.script = [say(now({"Item": free})), say(refused(Item=row("b", isReleased={"S": "1"})))]
    fails(lambda: client.acquire("a", wait=0, replace=True), "PutItem")


@pytest.mark.parametrize(
    "reasons",
    [
        [],
        [{"Code": "ConditionalCheckFailed"}],
        [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": row("b")}],
        [{"Code": "None"}, {"Code": "None"}, {"Code": "ConditionalCheckFailed"}],
    ],
)
def test_a_commit_is_not_judged_by_reasons_that_are_not_its_own(stub, client, reasons):
    stub.otherwise = grant
    lock = client.acquire("a", wait=0)
    cancelled = {"__type": "ns#TransactionCanceledException", "message": "", "CancellationReasons": reasons}
    stub.otherwise = say(now(cancelled, 400))
    fails(lambda: lock.commit([{"Put": {"TableName": "orders", "Item": {"id": {"S": "1"}}}}]))


def test_json_that_is_nested_too_deep_is_no_answer(stub, client):
    stub.otherwise = say(now(b'{"Item": {"key": {"S": "a"}, "x": ' + b'{"M": {"x": ' * 50_000))
    fails(lambda: client.get("a"))
    value: object = {"S": "x"}
    for _ in range(31):  # as deep as DynamoDB allows
        value = {"M": {"x": value}}
    stub.otherwise = say(now({"Item": row(x=value)}))
    assert client.get("a") is not None


@pytest.mark.parametrize(
    ("message", "said"), [("no\x1b[2J", "AccessDeniedException: no"), ("", "AccessDeniedException")]
)
def test_an_error_of_dynamodb_says_its_code_and_what_of_its_message_can_be_printed(message, said):
    shown = str(ServiceError("AccessDeniedException", message))
    assert shown.startswith(said)
    assert shown.isprintable()


# Which are accepted: items in DynamoDB's form, for the requested operation, and pages that end

MALFORMED = [
    *({}, {"S": "a", "N": "1"}, {"S": 5}, {"N": 5}, {"B": 5}, {"X": "a"}),
    *({"SS": [[1]]}, {"L": 5}, {"L": [{"S": 5}]}, {"M": {"a": {}}}),
]
over_https = pytest.mark.parametrize("client", ["https"], indirect=True)  # boto3 reads answers by its own model


@over_https
def test_the_reasons_of_a_transaction_are_no_answer_to_anything_else(stub, client):
    stub.otherwise = say(now({"__type": "ns#TransactionCanceledException", "CancellationReasons": []}, 400))
    for call in (lambda: client.get("a"), lambda: client.acquire("a", wait=0), lambda: list(client.list())):
        fails(call)


@pytest.mark.parametrize("value", MALFORMED, ids=str)
@over_https
def test_a_value_that_is_not_in_dynamodbs_form_is_fails(stub, client, value):
    found = row("a", odd=value)
    for said, call in (
        (now({"Item": found}), lambda: client.get("a")),
        (now({"Items": [found]}), lambda: list(client.list())),
        (refused(Item=found), lambda: client.acquire("a", wait=0)),
    ):
        stub.otherwise = say(said)
        fails(call)


@pytest.mark.parametrize(
    "value", [{"N": "abc"}, {"NS": ["1", "x"]}, {"N": "9" * 5000}, {"B": "abc"}], ids=lambda v: str(v)[:20]
)
@over_https
def test_a_number_or_binary_value_that_is_none_is_shown_as_unreadable(stub, client, value):
    stub.otherwise = say(now({"Items": [row("a", odd=value, data={"B": "abc"}), row("b")]}))
    first, second = list(client.list())
    assert set(first.unreadable) >= {"odd", "data"}
    assert "odd" not in first.attributes
    assert first.data is None
    assert second.key == "b"


@pytest.mark.parametrize("last", [{"key": {"S": "same"}}, {"other": {"S": "a"}}, 5, "x", [1], True], ids=str)
@over_https
def test_pages_that_lead_nowhere_end_a_listing(stub, client, last):
    stub.otherwise = say(now({"Items": [], "LastEvaluatedKey": last}))
    fails(lambda: list(client.list()))
    assert len(stub.requests) <= 2
