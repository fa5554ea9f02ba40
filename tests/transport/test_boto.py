import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lambda_lock import LockClient
from lambda_lock.errors import LockConfigurationError
from lambda_lock.transport import BotoTransport, ConditionFailed, TransportError
from lambda_lock.transport.boto import own_transport
from rig.engine import free_port

from .conftest import ITEM, Stub, answer, cut, error, fails, get, over_boto3, say, silence

REQUEST = {"TableName": "locks", "Key": ITEM}

pytestmark = pytest.mark.usefixtures("keys")


@pytest.fixture
def own(stub: Stub) -> Iterator[BotoTransport]:
    with closing(over_boto3(stub.url)) as transport:
        yield transport


def users(url: str) -> BotoTransport:
    """A transport whose client itself sends up to three times."""
    config = Config(retries={"total_max_attempts": 3, "mode": "standard"}, read_timeout=1)
    return BotoTransport(boto3.client("dynamodb", region_name="eu-west-1", endpoint_url=url, config=config))


def test_an_own_client_says_who_it_is_and_sends_once(stub, own):
    stub.script = [say(error("InternalServerError", status=500))]
    fails(own, ambiguous=True)
    assert len(stub.requests) == 1
    assert b"lambda-lock/" in stub.requests[0]


@pytest.mark.parametrize(
    "failure",
    [
        cut,
        silence,
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", close=True),
        say(b"what?\r\n\r\n", close=True),
        say(error("InternalServerError", status=500)),
        *(say(answer(b"<html>", status, headers={"Content-Type": "text/html"})) for status in (502, 403, 200)),
        say(answer({"Item": {}}, headers={"x-amz-crc32": "1"})),
    ],
)
def test_an_answer_that_is_not_dynamodbs_word_is_ambiguous(stub, own, failure):
    stub.script = [failure]
    fails(own, ambiguous=True, timeout=3)
    assert len(stub.requests) == 1


def test_a_time_out_of_range_and_a_refusal_that_is_nested_too_deep_are_no_usable_answers(stub, own):
    deep = 100_000  # since Python 3.12 the parser's limit is not that of calls
    message = b'{"a":' * deep + b"1" + b"}" * deep
    stub.script = [
        say(answer({"Table": {"TableName": "locks", "CreationDateTime": 1e300}})),
        say(answer(b'{"__type": "x#ValidationException", "message": ' + message + b"}", 400)),
    ]
    with pytest.raises(TransportError, match="botocore cannot read it") as caught:
        own.send("DescribeTable", {"TableName": "locks"}, timeout=3.0)
    assert caught.value.ambiguous
    fails(own, ambiguous=True)


def test_a_refused_connection_is_not_ambiguous_unless_the_client_may_have_sent_before():
    url = f"http://127.0.0.1:{free_port()}"
    assert fails(over_boto3(url), ambiguous=False).__cause__
    fails(users(url), ambiguous=True)


def test_a_failed_condition_after_a_retry_inside_the_client_is_ambiguous_and_one_without_is_none(stub):
    stub.script = [cut, *[say(error("ConditionalCheckFailedException"))] * 2]
    with closing(users(stub.url)) as transport:
        assert "after 1 retries" in str(fails(transport, ambiguous=True))
        assert len(stub.requests) == 2
        with pytest.raises(ConditionFailed):
            get(transport)


def test_binary_values_go_both_ways_at_any_depth(stub, own):
    item: dict[str, Any] = {
        "key": {"S": "a"},
        "B": {"B": "AAEC"},
        "sets": {"BS": ["AA==", "AAE="]},
        "empty": {"B": ""},
        "list": {"L": [{"B": "AA=="}, {"M": {"B": {"S": "x"}, "BS": {"N": "1"}, "deep": {"B": "/w=="}}}]},
    }
    stub.script = [say(answer()), say(answer({"Item": item}))]
    own.send("PutItem", {"TableName": "locks", "Item": item}, timeout=3)
    assert stub.bodies()[0]["Item"] == item
    assert get(own).item == item


def test_a_request_that_boto3_does_not_take_is_a_configuration_error(stub, own):
    with pytest.raises(LockConfigurationError, match="NoSuchParameter"):
        own.send("GetItem", REQUEST | {"NoSuchParameter": 1}, timeout=3)
    assert stub.requests == []


def test_a_forked_child_does_not_use_its_parents_connection(stub, own):
    get(own)
    own._pid = os.getpid() + 1  # as it is in a child
    get(own)
    get(own)
    assert stub.connections == 2


def test_a_session_of_aioboto3_is_refused_like_a_client_of_its():
    made_by_aioboto3 = type("Session", (boto3.session.Session,), {"__module__": "aioboto3.session"})
    with pytest.raises(TypeError, match="boto3_session is an asynchronous session of aioboto3: pass"):
        own_transport(made_by_aioboto3(), "eu-west-1", None, reason="a test")


@pytest.mark.parametrize(
    "refused",
    [
        error("InvalidSignatureException", "Signature expired: 20261128T080000Z is now earlier than 20261128T082500Z"),
        error("RequestTimeTooSkewed", "too far"),
    ],
)
def test_a_wrong_clock_is_told_at_the_first_answer_because_boto3_cannot_correct_it(stub, own, refused):
    stub.otherwise = say(refused)
    with pytest.raises(LockConfigurationError, match="the clock of this machine is wrong"):
        LockClient("locks", transport=own).acquire("a", wait=5)
    assert len(stub.requests) == 1
