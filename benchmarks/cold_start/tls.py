"""TLS on loopback in front of an engine that speaks plain HTTP, so that clients connect as they do to DynamoDB."""

from __future__ import annotations

import datetime
import importlib.resources
import select
import socket
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from rig.engine import client_environment
from rig.loopback import Handler, LoopbackServer

_HOST = "localhost"  # a name to look up and to verify, as with real endpoints


class TlsTerminator(LoopbackServer):
    """Accepts TLS connections on a free port and relays their bytes to ``port`` on 127.0.0.1. It is a context manager.

    ``url`` is the address for clients. ``authority`` is the file with the certificate that they must trust, and
    ``bundle`` one that has as many others as a system's: those of boto3. The files are written to ``folder``.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.authority = folder / "authority.pem"
        context = _server_context(self.authority, folder / "server.pem")
        self.bundle = folder / "bundle.pem"
        others = importlib.resources.files("botocore").joinpath("cacert.pem").read_bytes()
        self.bundle.write_bytes(others + self.authority.read_bytes())

        class Relay(Handler):
            def setup(self) -> None:
                """The base class would make files of the socket, which are not needed here."""
                self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def finish(self) -> None:
                """There are no such files to close."""

            def handle(self) -> None:
                with (
                    self.unless_gone(),
                    context.wrap_socket(self.request, server_side=True) as client,
                    socket.create_connection(("127.0.0.1", port)) as engine,
                ):
                    engine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    _relay(client, engine)

        super().__init__(Relay)

    @property
    def url(self) -> str:
        return f"https://{_HOST}:{self.port}"

    def environment(self) -> dict[str, str]:
        """For a client that trusts ``bundle``, and no other: a function inherits variables from this machine."""
        trusted = {"SSL_CERT_FILE": str(self.bundle), "AWS_CA_BUNDLE": "", "REQUESTS_CA_BUNDLE": ""}
        return client_environment(self.url) | trusted


def _relay(client: ssl.SSLSocket, engine: socket.socket) -> None:
    # Chunks are larger than a TLS record. So no data stays behind in the TLS layer, where select() does not see it.
    while True:
        ready, _, _ = select.select([client, engine], [], [])
        for source, target in ((client, engine), (engine, client)):
            if source not in ready:
                continue
            data = source.recv(65536)
            if not data:
                return
            target.sendall(data)


def _server_context(authority: Path, server: Path) -> ssl.SSLContext:
    key, server_key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    issuer = _name("Amazon Root CA 1 (on loopback)")  # a name like that of the authority that has signed for DynamoDB
    root = _certificate(issuer, key, issuer, key, is_authority=True)
    leaf = _certificate(_name(_HOST), server_key, issuer, key, is_authority=False)
    authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server.write_bytes(private + leaf.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    return context


def _certificate(
    subject: x509.Name, key: rsa.RSAPrivateKey, issuer: x509.Name, signer: rsa.RSAPrivateKey, *, is_authority: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_HOST)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_authority,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(signer, hashes.SHA256())
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
