from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from cryptography.x509 import IPAddress

from lambda_lock import LockClient
from lambda_lock.errors import LockConfigurationError
from lambda_lock.transport import HttpsTransport, TransportError
from lambda_lock.transport.credentials import Credentials

from .certificates import certificate, showing
from .conftest import EPOCH, Stub, answer, say, silence


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key, in one file."""
    return certificate("authority", tmp_path_factory.mktemp("tls"), IPAddress(ipaddress.ip_address("127.0.0.1")))


@pytest.fixture
def secure(authority: Path) -> Iterator[Stub]:
    server = Stub(showing(authority))
    yield server
    server.close()


@pytest.fixture
def trusting(secure: Stub, authority: Path, bare_environment: pytest.MonkeyPatch) -> Iterator[HttpsTransport]:
    """A transport that trusts the server."""
    bare_environment.setenv("AWS_CA_BUNDLE", str(authority))
    transport = HttpsTransport("eu-west-1", secure.url, Credentials("a", "b"))
    yield transport
    transport.close()


def send(url: str, *, times: int = 1, timeout: float = 20) -> Any:
    transport = HttpsTransport("eu-west-1", url, Credentials("a", "b"))
    try:
        return [transport.send("GetItem", {}, timeout=timeout) for _ in range(times)][-1]
    finally:
        transport.close()


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_a_server_is_believed_whose_authority_is_configured(secure, authority, bare_environment, variable):
    bare_environment.setenv(variable, str(authority))
    assert send(secure.url, times=3).date == EPOCH
    assert secure.connections == 1


def test_a_server_is_refused_whose_authority_is_unknown(secure, bare_environment):
    with pytest.raises(LockConfigurationError, match=r"CERTIFICATE_VERIFY_FAILED.*AWS_CA_BUNDLE") as caught:
        send(secure.url)
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert secure.requests == []


@pytest.mark.parametrize("kind", ["https", "boto3"])
def test_a_certificate_that_is_not_trusted_ends_a_wait_at_once(secure, keys, kind):
    session = boto3.Session() if kind == "boto3" else None
    with LockClient("locks", endpoint_url=secure.url, boto3_session=session) as client:
        with pytest.raises(LockConfigurationError, match="AWS_CA_BUNDLE"):
            client.acquire("a", wait=600)
        assert client.transport.name == kind  # type: ignore[attr-defined]
    assert secure.connections <= 4
    assert secure.requests == []


def test_a_server_is_refused_that_has_another_name(secure, authority, bare_environment):
    bare_environment.setenv("AWS_CA_BUNDLE", str(authority))
    with pytest.raises(LockConfigurationError, match="not valid for 'localhost'"):
        send(secure.url.replace("127.0.0.1", "localhost"))
    assert secure.requests == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bundle_that_cannot_be_read_is_named(secure, tmp_path, bare_environment, content):
    bundle = tmp_path / "bundle.pem"
    if content:
        bundle.write_text(content)
    bare_environment.setenv("AWS_CA_BUNDLE", str(bundle))
    with pytest.raises(LockConfigurationError, match=r"AWS_CA_BUNDLE.*bundle\.pem"):
        send(secure.url)


def test_a_server_that_does_not_speak_tls_got_no_request(stub, bare_environment):
    stub.script = [say(b"what?\r\n")]
    with pytest.raises(TransportError) as caught:
        send(stub.url.replace("http:", "https:"), timeout=1)
    assert caught.value.ambiguous is False


def test_a_connection_over_tls_that_was_cut_while_idle_is_replaced_without_an_error(secure, trusting):
    secure.script = [say(answer(), close=True)]
    trusting.send("GetItem", {}, timeout=20)
    assert secure.closed.acquire(timeout=20)
    trusting.send("GetItem", {}, timeout=20)
    assert (secure.connections, len(secure.requests)) == (2, 2)


def test_an_answer_over_tls_that_does_not_come_in_time_is_ambiguous(secure, trusting):
    secure.script = [say(answer()), silence]
    trusting.send("GetItem", {}, timeout=20)
    with pytest.raises(TransportError, match="timed out") as caught:
        trusting.send("GetItem", {}, timeout=0.2)
    assert caught.value.ambiguous is True
