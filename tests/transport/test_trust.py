"""Which certificates are loaded: first Amazon's, all of the system's only if those fail, or only AWS_CA_BUNDLE's."""

import contextlib
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lambda_lock.transport import http1
from lambda_lock.transport.http1 import WHOLE, Trust

from .certificates import certificate, showing
from .conftest import Stub, get

Serve = Callable[[str], Stub]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server whose certificate has this name."""
    with contextlib.ExitStack() as started:
        yield lambda common: started.enter_context(Stub(showing(certificate(common, tmp_path))))


@pytest.fixture
def system(tmp_path: Path, bare_environment: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts these certificates, which are made where they are missing, into the system's file."""

    def trust(*names: str) -> None:
        path = tmp_path / "system.pem"
        for name in names:
            if not (tmp_path / f"{name}.pem").exists():
                certificate(name, tmp_path)
        path.write_bytes(b"".join((tmp_path / f"{name}.pem").read_bytes() for name in names))
        bare_environment.setenv("SSL_CERT_FILE", str(path))
        bare_environment.setenv("SSL_CERT_DIR", str(tmp_path / "none"))

    return trust


def subjects(trust: Trust) -> list[str]:
    return [certificate["subject"][0][0][1] for certificate in trust.context.get_ca_certs()]


def test_of_amazons_certificates_that_of_dynamodb_is_loaded_first_and_then_all_of_them(system):
    names = ["Amazon Root CA 1", "Amazon Root CA 3", "Starfield Services Root Certificate Authority - G2"]
    system(names[1], "Somebody else", names[2], names[0])
    loaded: list[list[str]] = []
    stage: int | None = 0
    while stage is not None:
        trust = Trust({}, stage)
        loaded.append(sorted(subjects(trust)))
        stage = trust.wider
    assert loaded == [names[:1], names, sorted([*names, "Somebody else"])]


def test_where_that_of_dynamodb_is_missing_the_others_of_amazons_are_loaded_at_once(system):
    system("Amazon Root CA 4", "Somebody else")
    assert subjects(Trust({})) == ["Amazon Root CA 4"]
    assert len(subjects(Trust({}, WHOLE))) == 2


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


def test_the_system_is_loaded_whole_where_it_has_nothing_of_amazons(system):
    system("Somebody else")
    trust = Trust({})
    assert trust.wider is None
    assert subjects(trust) == ["Somebody else"]


@pytest.mark.parametrize(
    "variables", [("AWS_CA_BUNDLE",), ("REQUESTS_CA_BUNDLE",), ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")]
)
def test_the_bundle_named_in_the_environment_is_all_that_is_trusted_and_of_two_that_of_aws_counts(
    system, tmp_path, variables
):
    bundle = certificate("Somebody else", tmp_path)
    system("Amazon Root CA 1")
    trust = Trust(dict(zip(variables, (str(bundle), "/nowhere"), strict=False)))
    assert trust.wider is None
    assert subjects(trust) == ["Somebody else"]


@pytest.mark.parametrize(
    ("server", "trusted", "connections"),
    [
        ("Amazon Root CA 1", ["Amazon Root CA 1"], 1),
        ("Amazon Root CA 3", ["Amazon Root CA 1", "Amazon Root CA 3", "Somebody else"], 2),
        ("Somebody else", ["Amazon Root CA 1", "Somebody else"], 2),
    ],
)
def test_an_endpoint_that_shows_another_than_that_of_dynamodb_takes_a_second_handshake_and_no_second_request(
    serve, system, connect, server, trusted, connections
):
    stub = serve(server)
    system(*trusted)
    transport = connect(f"https://localhost:{stub.port}")
    get(transport)
    get(transport)
    assert (stub.connections, len(stub.requests)) == (connections, 2)
