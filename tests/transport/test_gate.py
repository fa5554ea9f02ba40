"""Which answers are accepted: items in DynamoDB's form, for the requested operation, and pages that end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from lambda_lock import LockClient
from lambda_lock.errors import TransportError
from lambda_lock.transport import Credentials, HttpsTransport
from tests.support.clocks import LeapingClock

from .conftest import Stub, say
from .test_answers import now, refused, row

MALFORMED = [
    *({}, {"S": "a", "N": "1"}, {"S": 5}, {"N": 5}, {"B": 5}, {"X": "a"}),
    *({"SS": [[1]]}, {"L": 5}, {"L": [{"S": 5}]}, {"M": {"a": {}}}),
]


def no_answer(call: Callable[[], object]) -> None:
    with pytest.raises(TransportError):
        call()


@pytest.fixture
def client(stub: Stub) -> Iterator[LockClient]:
    """A client that uses the stub. Its pauses take no time. boto3 reads answers by its own model."""
    transport = HttpsTransport("eu-west-1", stub.url, Credentials("a", "b"), time.time)
    with LockClient("locks", transport=transport, clock=LeapingClock(), heartbeat_period=0) as client:
        yield client
    transport.close()


def test_the_reasons_of_a_transaction_are_no_answer_to_anything_else(stub, client):
    stub.otherwise = say(now({"__type": "ns#TransactionCanceledException", "CancellationReasons": []}, 400))
    for call in (lambda: client.get("a"), lambda: client.acquire("a", wait=0), lambda: list(client.list())):
        no_answer(call)


@pytest.mark.parametrize("value", MALFORMED, ids=str)
def test_a_value_that_is_not_in_dynamodbs_form_is_no_answer(stub, client, value):
    found = row("a", odd=value)
    for said, call in (
        (now({"Item": found}), lambda: client.get("a")),
        (now({"Items": [found]}), lambda: list(client.list())),
        (refused(Item=found), lambda: client.acquire("a", wait=0)),
    ):
        stub.otherwise = say(said)
        no_answer(call)


@pytest.mark.parametrize(
    "value", [{"N": "abc"}, {"NS": ["1", "x"]}, {"N": "9" * 5000}, {"B": "abc"}], ids=lambda v: str(v)[:20]
)
def test_a_number_or_binary_value_that_is_none_is_shown_as_unreadable(stub, client, value):
    stub.otherwise = say(now({"Items": [row("a", odd=value, data={"B": "abc"}), row("b")]}))
    first, second = list(client.list())
    assert set(first.unreadable) >= {"odd", "data"}
    assert "odd" not in first.attributes
    assert first.data is None
    assert second.key == "b"


@pytest.mark.parametrize("last", [{"key": {"S": "same"}}, {"other": {"S": "a"}}, 5, "x", [1], True], ids=str)
def test_pages_that_lead_nowhere_end_a_listing(stub, client, last):
    stub.otherwise = say(now({"Items": [], "LastEvaluatedKey": last}))
    no_answer(lambda: list(client.list()))
    assert len(stub.requests) <= 2
