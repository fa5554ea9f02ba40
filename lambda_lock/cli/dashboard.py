"""`lambda-lock dashboard`: a page that draws a table's locks over time, served on 127.0.0.1.

One thread reads the table again and again. The page asks for what it shows, and so do several pages of one table.
Nothing is written, and only GET is answered.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..client.lock_client import LockClient
from .dev import HOST, usable_port
from .history import Watcher

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30.0  # seconds that a connection may be idle, and a read or write may take
    server: Server

    def do_GET(self) -> None:
        status, kind = HTTPStatus.OK, "text/plain"
        try:
            url = urlsplit(self.path)
            if self.headers.get("Host") not in self.server.names:
                # A page from elsewhere whose name leads to 127.0.0.1 must not read the table.
                status, body = HTTPStatus.FORBIDDEN, b"open the address that lambda-lock printed"
            elif url.path == "/":
                kind, body = "text/html", self.server.page
            elif url.path == "/locks":
                question = {name: values[-1] for name, values in parse_qs(url.query).items()}
                kind, body = "application/json", json.dumps(self.server.watcher.answer(question)).encode()
            else:
                status, body = HTTPStatus.NOT_FOUND, b"there is nothing here"
        except ValueError as error:  # the question makes no sense
            status, body = HTTPStatus.BAD_REQUEST, str(error).encode()
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)), **_HEADERS}
        with contextlib.suppress(OSError):  # the page was closed
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: requests of the page are of no interest."""


class Server(ThreadingHTTPServer):
    """Serves the page on a port of 127.0.0.1. Raises Failure if the port is taken."""

    daemon_threads = True

    def __init__(self, watcher: Watcher, table: str, port: int | None) -> None:
        if port is not None:
            usable_port(port)
        self.watcher = watcher
        text = files(__package__).joinpath("dashboard.html").read_text(encoding="utf-8")
        self.page = text.replace("{{table}}", json.dumps(table).replace("<", "\\u003c")).encode()
        super().__init__((HOST, port or 0), _Handler)
        self.names = {f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"}

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def server_bind(self) -> None:
        # HTTPServer's own looks up the host's name, which may ask a name server.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that a browser broke off. Other errors are printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving(client: LockClient, table: str, *, port: int | None, interval: float, prefix: str = "") -> Iterator[Server]:
    """Serve the page while the block runs. Raises Failure if the port is taken."""
    watcher = Watcher(client, interval, prefix)
    with Server(watcher, table, port) as server:
        reading = threading.Thread(target=watcher.run, name="lambda-lock-dashboard", daemon=True)
        answering = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        reading.start()
        answering.start()
        try:
            yield server
        finally:
            watcher.stop()
            server.shutdown()
            answering.join()
            reading.join(5.0)  # a request that is under way ends with the process
