"""A host that does not exist is a mistake, and is told as one. A name that cannot be looked up now is an outage."""

import socket
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from lambda_lock import LockClient, LockConfigurationError, TransportError, with_lock
from lambda_lock.transport import BotoTransport, Credentials, HttpsTransport
from rig.engine import REGION

REQUEST: dict[str, Any] = {"TableName": "locks", "Key": {"key": {"S": "a"}}}


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets getaddrinfo find out nothing but this number of an error from now on."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-wset-1"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)

    def answer(number: int) -> None:
        def look_up(*_: Any, **__: Any) -> Any:
            raise socket.gaierror(number, "as the test says")

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    return answer


def client_of(way: str, decision_time: float = 5.0, **place: Any) -> LockClient:
    """A client that sends with the standard library, through boto3, or through a client of boto3 that was passed."""
    if way == "boto3_client":
        place.setdefault("region_name", "eu-wset-1")
        return LockClient("locks", decision_time=decision_time, boto3_client=boto3.client("dynamodb", **place))
    session = boto3.Session() if way == "boto3" else None
    return LockClient("locks", decision_time=decision_time, boto3_session=session, **place)


WAYS = pytest.mark.parametrize("way", ["https", "boto3", "boto3_client"])


@WAYS
def test_a_region_that_is_written_wrongly_is_named_and_never_an_outage(way, answer, told):
    answer(socket.EAI_NONAME)
    ran: list[int] = []
    decorated = with_lock("a", client=client_of(way), wait=0, on_unavailable="run")(lambda: ran.append(1))
    words = ("no host 'dynamodb.eu-wset-1.amazonaws.com'", "correct the Region", "in AWS_REGION=eu-wset-1.")
    told(LockConfigurationError, decorated, *words)
    assert ran == []


@WAYS
def test_an_endpoint_whose_host_does_not_exist_is_named_with_the_variable_it_comes_from(way, answer, told, monkeypatch):
    answer(socket.EAI_NONAME)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://Dynamo.example:8000")
    words = ("no host 'dynamo.example'", "AWS_ENDPOINT_URL_DYNAMODB")
    told(LockConfigurationError, lambda: client_of(way).acquire("a", wait=0), *words)


def test_a_region_of_an_argument_is_not_blamed_on_the_environment(answer, told, monkeypatch):
    answer(socket.EAI_NONAME)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    act = client_of("https", region_name="eu-wset-1").acquire
    assert "AWS_REGION" not in told(LockConfigurationError, lambda: act("a", wait=0), "region_name")


@pytest.mark.parametrize(("scheme", "words"), [("http://", "'proxy.example'"), ("", "")])
def test_a_proxy_whose_host_does_not_exist_is_named_without_its_password(scheme, words, answer, told, monkeypatch):
    answer(socket.EAI_NONAME)
    monkeypatch.setenv("HTTPS_PROXY", f"{scheme}user:hunter2@proxy.example:3128")
    act = client_of("https").acquire
    assert "hunter2" not in told(LockConfigurationError, lambda: act("a", wait=0), words, "HTTPS_PROXY")


@WAYS
def test_a_host_that_the_application_looked_up_before_is_not_taken_for_ours(way, answer, told, monkeypatch):
    """A handler of its failed call takes a lock, and meets an outage: a connection that is refused."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")
    client = client_of(way, decision_time=0.25)
    try:
        raise socket.gaierror(socket.EAI_NONAME, "there is no such partner")
    except OSError:
        told(TransportError, lambda: client.acquire("a", wait=0))


@WAYS
@pytest.mark.parametrize("error", ["EAI_AGAIN", "EAI_FAIL", "EAI_NODATA"])
def test_a_name_that_cannot_be_looked_up_now_is_an_outage(way, error, answer, told):
    answer(getattr(socket, error))
    client = client_of(way, decision_time=0.25)
    assert with_lock("a", client=client, wait=0, on_unavailable="run")(lambda: "ran")() == "ran"
    told(TransportError, lambda: client.acquire("a", wait=0))


@pytest.mark.parametrize("way", ["https", "boto3"])
def test_a_host_that_has_answered_exists_whatever_name_servers_say_later(way, engine, table, answer, told):
    url = engine.url.replace("127.0.0.1", "localhost")
    transport: Any
    if way == "https":
        transport = HttpsTransport(REGION, url, Credentials("a", "b"))
    else:
        transport = BotoTransport(boto3.client("dynamodb", region_name=REGION, endpoint_url=url))
    transport.send("GetItem", REQUEST | {"TableName": table}, timeout=20.0)
    transport.close()
    answer(socket.EAI_NONAME)
    told(TransportError, lambda: transport.send("GetItem", REQUEST | {"TableName": table}, timeout=20.0))
