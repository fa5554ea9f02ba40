import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from cryptography.x509 import IPAddress

from lambda_lock import LockClient
from lambda_lock.errors import LockConfigurationError
from lambda_lock.transport import HttpsTransport

from .certificates import certificate, showing
from .conftest import EPOCH, Connect, Stub, answer, fails, get, say, silence


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key, in one file."""
    return certificate("authority", tmp_path_factory.mktemp("tls"), IPAddress(ipaddress.ip_address("127.0.0.1")))


@pytest.fixture
def secure(authority: Path) -> Iterator[Stub]:
    with Stub(showing(authority)) as server:
        yield server


@pytest.fixture
def trusting(secure: Stub, authority: Path, connect: Connect, bare_environment: pytest.MonkeyPatch) -> HttpsTransport:
    """A transport that trusts the server."""
    bare_environment.setenv("AWS_CA_BUNDLE", str(authority))
    return connect(secure.url)


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_a_server_is_believed_whose_authority_is_configured(secure, authority, bare_environment, connect, variable):
    bare_environment.setenv(variable, str(authority))
    transport = connect(secure.url)
    assert [get(transport).date for _ in range(3)] == [EPOCH] * 3
    assert secure.connections == 1


def test_a_server_is_refused_whose_authority_is_unknown(secure, bare_environment, connect):
    with pytest.raises(LockConfigurationError, match=r"CERTIFICATE_VERIFY_FAILED.*AWS_CA_BUNDLE") as caught:
        get(connect(secure.url))
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


def test_a_server_is_refused_that_has_another_name(secure, authority, bare_environment, connect):
    bare_environment.setenv("AWS_CA_BUNDLE", str(authority))
    with pytest.raises(LockConfigurationError, match="not valid for 'localhost'"):
        get(connect(secure.url.replace("127.0.0.1", "localhost")))
    assert secure.requests == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bundle_that_cannot_be_read_is_named(secure, tmp_path, bare_environment, connect, content):
    bundle = tmp_path / "bundle.pem"
    if content:
        bundle.write_text(content)
    bare_environment.setenv("AWS_CA_BUNDLE", str(bundle))
    with pytest.raises(LockConfigurationError, match=r"AWS_CA_BUNDLE.*bundle\.pem"):
        get(connect(secure.url))


def test_a_server_that_does_not_speak_tls_got_no_request(stub, bare_environment, connect):
    stub.script = [say(b"what?\r\n")]
    fails(connect(stub.url.replace("http:", "https:")), ambiguous=False, timeout=1)


def test_a_connection_over_tls_that_was_cut_while_idle_is_replaced_without_an_error(secure, trusting):
    secure.script = [say(answer(), close=True), say(answer()), silence]
    get(trusting)
    assert secure.closed.acquire(timeout=20)
    get(trusting)
    assert (secure.connections, len(secure.requests)) == (2, 2)
    assert "timed out" in str(fails(trusting, ambiguous=True, timeout=0.2))
