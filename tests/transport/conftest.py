"""A DynamoDB stub that answers byte for byte as a test tells it to, and an environment without AWS settings."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from lambda_lock import LockClient
from lambda_lock.transport import BotoTransport, HttpsTransport, Reply, TransportError
from lambda_lock.transport.boto import own_transport
from lambda_lock.transport.credentials import Credentials
from rig.loopback import Handler, LoopbackServer
from tests.histories.storm import Message
from tests.support.clocks import LeapingClock

Say = Callable[["Stub", socket.socket], bool]
Connect = Callable[..., HttpsTransport]
DATE = "Sat, 21 Nov 2026 04:49:13 GMT"
EPOCH = 1795236553
ITEM = {"key": {"S": "a"}}
KEYS = Credentials("AKIDEXAMPLE", "secret")


def answer(body: object = None, status: int = 200, *, headers: dict[str, str] | None = None) -> bytes:
    """An answer as DynamoDB sends it, with Date and checksum."""
    raw = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    fields = {
        "Date": DATE,
        "Content-Type": "application/x-amz-json-1.0",
        "x-amz-crc32": str(zlib.crc32(raw)),
        "Content-Length": str(len(raw)),
    } | (headers or {})
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + raw


def error(code: str, message: str = "", status: int = 400, **fields: object) -> bytes:
    return answer({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message, **fields}, status)


def say(data: bytes, *, close: bool = False) -> Say:
    def speak(_: Stub, connection: socket.socket) -> bool:
        connection.sendall(data)
        return not close

    return speak


def cut(_: Stub, connection: socket.socket) -> bool:
    """Close the connection instead of answering."""
    return False


def silence(stub: Stub, connection: socket.socket) -> bool:
    """Never answer. End when the client closes its side, or when the test ends."""
    while connection.recv(65536):
        pass
    stub.hung_up.set()
    return False


def drip(stub: Stub, connection: socket.socket) -> bool:
    """Answer one byte at a time, so that no single read waits long but the whole never ends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not stub.stopped.wait(0.01):
        connection.sendall(b" ")
    return False


def get(transport: HttpsTransport | BotoTransport, timeout: float = 20.0) -> Reply:
    return transport.send("GetItem", {"TableName": "locks", "Key": ITEM}, timeout=timeout)


def fails(transport: HttpsTransport | BotoTransport, *, ambiguous: bool, timeout: float = 20.0) -> TransportError:
    with pytest.raises(TransportError) as caught:
        get(transport, timeout)
    assert caught.value.ambiguous is ambiguous
    return caught.value


class Stub(LoopbackServer):
    """Answers each request with the next entry of ``script``. After the last one, ``otherwise`` answers ({})."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.script: list[Say] = []
        self.otherwise: Say = say(answer())
        self.requests: list[bytes] = []
        self.carriers: list[int] = []  # the client's port of the connection that each request came on
        self.closed = threading.Semaphore(0)  # released once for each connection that the server has closed
        self.hung_up = threading.Event()
        self.stopped = threading.Event()
        stub, self._scheme = self, "https" if tls else "http"

        class Speaker(Handler):
            def handle(self) -> None:
                with (
                    self.unless_gone(),
                    tls.wrap_socket(self.request, server_side=True) if tls else self.request as connection,
                    connection.makefile("rb") as sent,
                ):
                    while (request := Message.read(sent)) and stub._answered(
                        request, self.client_address[1], connection
                    ):
                        pass

        super().__init__(Speaker)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def bodies(self) -> list[Any]:
        return [json.loads(request.partition(b"\r\n\r\n")[2] or b"null") for request in self.requests]

    def close(self) -> None:
        self.stopped.set()
        super().close()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()

    def _answered(self, request: Message, carrier: int, connection: socket.socket) -> bool:
        """Answer a request. Returns whether its connection goes on."""
        self.requests.append(request.whole)
        self.carriers.append(carrier)
        return (self.script.pop(0) if self.script else self.otherwise)(self, connection)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes transports over HTTPS to an URL, and closes them at the end of the test."""
    with contextlib.ExitStack() as made:

        def new(url: str, keys: Any = KEYS, **more: Any) -> HttpsTransport:
            return made.enter_context(contextlib.closing(HttpsTransport("eu-west-1", url, keys, **more)))

        yield new


@pytest.fixture
def https(stub: Stub, connect: Connect) -> HttpsTransport:
    """The HTTPS transport, connected to the stub over plain HTTP."""
    return connect(stub.url)


def over_boto3(url: str) -> BotoTransport:
    return own_transport(boto3.Session(), "eu-west-1", url, reason="a test")


def patient(transport: HttpsTransport | BotoTransport) -> LockClient:
    """A client whose pauses take no time."""
    return LockClient("locks", transport=transport, clock=LeapingClock(), heartbeat_period=0)


@pytest.fixture(params=["https", "boto3"])
def client(request: pytest.FixtureRequest, stub: Stub, keys: pytest.MonkeyPatch) -> Iterator[LockClient]:
    """A client over each transport, connected to the stub. Its pauses take no time."""
    with contextlib.closing(over_boto3(stub.url)) as boto:
        made = patient(boto if request.param == "boto3" else request.getfixturevalue("https"))
        yield made
        made.close(release=False)


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    """An environment without AWS variables, proxies, files in the home directory or instance metadata."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name == "REQUESTS_CA_BUNDLE" or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.fixture
def keys(bare_environment: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The same with keys and a Region."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        bare_environment.setenv(name, "x")
    bare_environment.setenv("AWS_REGION", "eu-west-1")
    return bare_environment
