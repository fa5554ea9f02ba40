"""A DynamoDB stub that answers byte for byte as a test tells it to, and an environment without AWS settings."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock.transport import HttpsTransport
from lambda_lock.transport.credentials import Credentials

Say = Callable[["Stub", socket.socket], bool]
DATE = "Sat, 21 Nov 2026 04:49:13 GMT"
EPOCH = 1795236553


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


class Stub:
    """Answers each request with the next entry of ``script``. After the last one, ``otherwise`` answers ({})."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.script: list[Say] = []
        self.otherwise: Say = say(answer())
        self.requests: list[bytes] = []
        self.carriers: list[int] = []  # the number of the connection that each request came on, from 1
        self.connections = 0
        self.closed = threading.Semaphore(0)  # released once for each connection that the server has closed
        self.hung_up = threading.Event()
        self.stopped = threading.Event()
        self._tls = tls
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._spawn(self._accept)

    def bodies(self) -> list[Any]:
        return [json.loads(request.partition(b"\r\n\r\n")[2] or b"null") for request in self.requests]

    def close(self) -> None:
        self.stopped.set()
        for sock in (self._listener, *list(self._open)):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._spawn(self._serve, connection, self.connections)

    def _serve(self, connection: socket.socket, number: int) -> None:
        self._open.add(connection)
        with contextlib.suppress(OSError):
            if self._tls:
                plain, connection = connection, self._tls.wrap_socket(connection, server_side=True)
                self._open = self._open - {plain} | {connection}
            while request := self._read(connection):
                self.requests.append(request)
                self.carriers.append(number)
                act = self.script.pop(0) if self.script else self.otherwise
                if not act(self, connection):
                    break
        self._open.discard(connection)
        connection.close()
        self.closed.release()

    def _read(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return b""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()


@pytest.fixture
def https(stub: Stub) -> Iterator[HttpsTransport]:
    """The HTTPS transport, connected to the stub over plain HTTP."""
    transport = HttpsTransport("eu-west-1", stub.url, Credentials("AKIDEXAMPLE", "secret"), time.time)
    yield transport
    transport.close()


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
