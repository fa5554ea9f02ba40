"""Which certificates are loaded: first Amazon's, all of the system's only if those fail, or only AWS_CA_BUNDLE's."""

from __future__ import annotations

import ssl
from binascii import b2a_base64
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
from lambda_lock.transport.http1 import WHOLE, Trust

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
    assert trust.wider is not None
    assert len(subjects(Trust({}, WHOLE))) == 2


def test_of_amazons_certificates_that_of_dynamodb_is_loaded_first_and_then_all_of_them(system, tmp_path):
    names = ["Amazon Root CA 1", "Amazon Root CA 3", "Starfield Services Root Certificate Authority - G2"]
    for name in (*names, "Somebody else"):
        certificate(name, tmp_path)
    system(
        "Amazon Root CA 3", "Somebody else", "Starfield Services Root Certificate Authority - G2", "Amazon Root CA 1"
    )
    loaded: list[list[str]] = []
    stage: int | None = 0
    while stage is not None:
        trust = Trust({}, stage)
        loaded.append(sorted(subjects(trust)))
        stage = trust.wider
    assert loaded == [names[:1], names, sorted([*names, "Somebody else"])]


def test_where_that_of_dynamodb_is_missing_the_others_of_amazons_are_loaded_at_once(system, tmp_path):
    certificate("Amazon Root CA 4", tmp_path)
    system("Amazon Root CA 4")
    assert subjects(Trust({})) == ["Amazon Root CA 4"]


@pytest.mark.parametrize("width", [64, 76, 10_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_certificate_is_known_by_its_name_however_its_lines_are_cut(end, width, system, tmp_path):
    for name in ("Somebody else", "Amazon Root CA 1"):
        certificate(name, tmp_path)
        text = "".join((tmp_path / f"{name}.pem").read_text().split("-----")[2].split())
        cut = [text[at : at + width] for at in range(0, len(text), width)]
        lines = ["Amazon Root CA 1", "-----BEGIN CERTIFICATE-----", *cut, "-----END CERTIFICATE-----", "a comment", ""]
        (tmp_path / f"{name}.pem").write_bytes(end.join(lines).encode())
    system("Somebody else", "Amazon Root CA 1")
    assert subjects(Trust({})) == ["Amazon Root CA 1"]


@pytest.mark.parametrize("before", range(6))
def test_a_certificate_is_known_by_its_name_at_whatever_byte_that_begins(before):
    one, other = (bytes(before) + b"\x0c\x10Amazon Root CA %d\x30" % number + bytes(50) for number in (1, 2))
    pem = b"".join(b"-----BEGIN CERTIFICATE-----%s-----END CERTIFICATE-----" % b2a_base64(der) for der in (one, other))
    assert http1._named(pem.replace(b"\n", b"") * 2, (b"Amazon Root CA 1",)) == one * 2


def test_the_system_is_loaded_whole_where_it_has_nothing_of_amazons(system, tmp_path):
    certificate("Somebody else", tmp_path)
    system("Somebody else")
    trust = Trust({})
    assert trust.wider is None
    assert subjects(trust) == ["Somebody else"]


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_the_bundle_named_in_the_environment_is_all_that_is_trusted(system, tmp_path, variable):
    certificate("Amazon Root CA 1", tmp_path)
    bundle = certificate("Somebody else", tmp_path)
    system("Amazon Root CA 1")
    trust = Trust({variable: str(bundle)})
    assert trust.wider is None
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


def test_an_endpoint_of_another_of_amazons_takes_a_second_handshake_and_no_second_request(serve, system, tmp_path):
    for name in ("Amazon Root CA 1", "Somebody else"):
        certificate(name, tmp_path)
    stub = serve("Amazon Root CA 3")
    system("Amazon Root CA 1", "Amazon Root CA 3", "Somebody else")
    send_twice(stub)
    assert stub.connections == 2
    assert len(stub.requests) == 2


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
