"""An HTTP/1.1 server on 127.0.0.1 that can be closed for good: sockets shut, threads ended."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

CLOSING_SECONDS = 5.0


class Handler(BaseHTTPRequestHandler):
    """Reads requests, and writes each reply's head and body in one send (some clients stall on two)."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what matters is recorded."""

    def body(self) -> bytes:
        """The whole body of the request. Raises ConnectionError where its sender is gone before its end."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        return self._exactly(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int, body: bytes = b"", headers: list[tuple[str, str]] | None = None) -> None:
        """Send a reply. A client that has gone away is not an error: it gave up."""
        given = headers or []
        phrase = HTTPStatus(status).phrase
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in given)]
        lines.append(f"Content-Length: {len(body)}")
        with self.unless_gone():
            self.connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def cut(self) -> None:
        """Close the connection, even if the client is waiting for an answer."""
        self.close_connection = True
        with self.unless_gone():
            self.connection.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def unless_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.close_connection = True

    def handle(self) -> None:
        with self.unless_gone():
            super().handle()

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._line().split(b";")[0], 16):
            yield self._exactly(size)
            self._line()
        while self._line().strip():
            pass  # trailers

    def _line(self) -> bytes:
        line = self.rfile.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the sender is gone in the middle of a request")
        return line

    def _exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionError("the sender is gone in the middle of a request")
        return data


class LoopbackServer(ThreadingHTTPServer):
    """Serves on a free port of 127.0.0.1 from ``with`` until its end; then no socket and no thread of it is left.

    A handler that waits for something other than its client must be woken by the code that closes the server.
    """

    request_queue_size = 128
    block_on_close = False  # the threads are counted here

    def __init__(self, handler: type[Handler]) -> None:
        self._guard = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._running: set[threading.Thread] = set()
        self.connections = 0  # accepted so far
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def port(self) -> int:
        return self.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def server_bind(self) -> None:
        # HTTPServer's own looks up the host's name, which may ask a name server.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def __enter__(self) -> Self:
        self.spawn(self.serve_forever, 0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.cut_connections()
        deadline = time.monotonic() + CLOSING_SECONDS
        with self._guard:
            running = list(self._running)
        for thread in running:
            thread.join(max(0.0, deadline - time.monotonic()))

    def cut_connections(self) -> None:
        """Shut every open connection, as a front end does with idle ones."""
        with self._guard:
            for connection in self._sockets:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def spawn(self, target: Callable[..., object], *arguments: object) -> None:
        """Run a function on a thread that ``close`` waits for."""

        def run() -> None:
            try:
                target(*arguments)
            finally:
                with self._guard:
                    self._running.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=f"{type(self).__name__}-{self.port}", daemon=True)
        with self._guard:  # so that `close` joins no thread that has not begun
            self._running.add(thread)
            thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self.connections += 1
            self._sockets.add(request)
        self.spawn(self.process_request_thread, request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._sockets.discard(request)
        super().shutdown_request(request)
