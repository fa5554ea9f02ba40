"""Which certificates are loaded: first Amazon's, all of the system's only if those fail, or only AWS_CA_BUNDLE's."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lambda_lock.errors import LockConfigurationError
from lambda_lock.transport import HttpsTransport, http1
from lambda_lock.transport.credentials import Credentials
from lambda_lock.transport.http1 import Trust

from .conftest import Stub

REQUEST = {"TableName": "locks", "Key": {"key": {"S": "k"}}}
Serve = Callable[[str], Stub]


def certificate(common: str, folder: Path) -> Path:
    """A self-signed certificate for localhost and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{common}.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server whose certificate has this name."""
    started: list[Stub] = []

    def start(common: str) -> Stub:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(common, tmp_path))
        started.append(Stub(context))
        return started[-1]

    yield start
    for stub in started:
        stub.close()


@pytest.fixture
def system(tmp_path: Path, bare_environment: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts these certificates, which were made before, into the system's file."""

    def trust(*names: str) -> None:
        path = tmp_path / "system.pem"
        path.write_bytes(b"".join((tmp_path / f"{name}.pem").read_bytes() for name in names))
        bare_environment.setenv("SSL_CERT_FILE", str(path))
        bare_environment.setenv("SSL_CERT_DIR", str(tmp_path / "none"))

    return trust


def subjects(trust: Trust) -> list[str]:
    return [certificate["subject"][0][0][1] for certificate in trust.context.get_ca_certs()]


def send_twice(stub: Stub) -> None:
    transport = HttpsTransport("eu-west-1", f"https://localhost:{stub.port}", Credentials("AKIDEXAMPLE", "secret"))
    try:
        transport.send("GetItem", REQUEST, timeout=5)
        transport.send("GetItem", REQUEST, timeout=5)
    finally:
        transport.close()


def test_of_the_system_only_what_bears_amazons_names_is_loaded(system, tmp_path):
    certificate("Amazon Root CA 1", tmp_path)
    certificate("Somebody else", tmp_path)
    system("Somebody else", "Amazon Root CA 1")
    trust = Trust({})
    assert subjects(trust) == ["Amazon Root CA 1"]
    assert not trust.is_whole
    assert len(subjects(Trust({}, whole=True))) == 2


@pytest.mark.parametrize("width", [64, 76, 10_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["Amazon Root CA 4", "Somebody else"])
def test_a_certificate_is_known_by_its_head_however_its_lines_are_cut(name, end, width, tmp_path):
    certificate(name, tmp_path)
    lines = (tmp_path / f"{name}.pem").read_text().split("-----")[2].split()
    text = "".join(lines)
    cut = [text[at : at + width] for at in range(0, len(text), width)]
    block = end.join(["", *cut, "-----END CERTIFICATE-----", "Somebody else's comment", ""])
    assert http1._is_amazons(block.encode()) is (name == "Amazon Root CA 4")


def test_the_system_is_loaded_whole_where_it_has_nothing_of_amazons(system, tmp_path):
    certificate("Somebody else", tmp_path)
    system("Somebody else")
    trust = Trust({})
    assert trust.is_whole
    assert subjects(trust) == ["Somebody else"]


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_the_bundle_named_in_the_environment_is_all_that_is_trusted(system, tmp_path, variable):
    certificate("Amazon Root CA 1", tmp_path)
    bundle = certificate("Somebody else", tmp_path)
    system("Amazon Root CA 1")
    trust = Trust({variable: str(bundle)})
    assert trust.is_whole
    assert subjects(trust) == ["Somebody else"]


def test_of_two_bundles_that_of_aws_counts(system, tmp_path):
    bundle = certificate("Somebody else", tmp_path)
    trust = Trust({"AWS_CA_BUNDLE": str(bundle), "REQUESTS_CA_BUNDLE": "/nowhere"})
    assert subjects(trust) == ["Somebody else"]


def test_an_endpoint_of_amazons_is_connected_to_at_once(serve, system):
    stub = serve("Amazon Root CA 1")
    system("Amazon Root CA 1")
    send_twice(stub)
    assert stub.connections == 1


def test_another_endpoint_that_the_system_trusts_takes_a_second_handshake_and_no_second_request(
    serve, system, tmp_path
):
    certificate("Amazon Root CA 1", tmp_path)
    stub = serve("Somebody else")
    system("Amazon Root CA 1", "Somebody else")
    send_twice(stub)
    assert stub.connections == 2
    assert len(stub.requests) == 2


def test_an_endpoint_that_the_system_does_not_trust_is_sent_nothing(serve, system, tmp_path):
    certificate("Amazon Root CA 1", tmp_path)
    stub = serve("Amazon Root CA forged")
    system("Amazon Root CA 1")
    with pytest.raises(LockConfigurationError, match=r"CERTIFICATE_VERIFY_FAILED.*AWS_CA_BUNDLE"):
        send_twice(stub)
    assert stub.requests == []
