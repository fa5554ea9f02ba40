"""The network in front of DynamoDB, as bad as a test wants it: a proxy that counts, records, loses, delays and repeats.

with Wire(engine.url) as wire:
    lost = wire.drop_reply("UpdateItem")        # the next UpdateItem is carried out, its reply never comes
    ...                                         # a client sends to wire.url
    assert lost.reached.is_set()
    assert wire.operations == ["UpdateItem", "UpdateItem"]
"""

from __future__ import annotations

import http.client
import json
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from email.utils import formatdate
from typing import Any, Self
from urllib.parse import urlsplit

from .loopback import Handler, LoopbackServer

# Headers of one hop, or that the proxy writes itself.
_OWN_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_IDLE_SECONDS = 1.0  # after which a connection to the engine is not used again: it might just be closing


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class Request:
    """One request as it came in. ``status`` is what its client was answered: None while it waits, and if it was cut."""

    operation: str  # "UpdateItem"; "" for anything but a DynamoDB request
    body: dict[str, Any]
    method: str
    path: str
    headers: Message
    raw: bytes
    status: int | None = None
    delivered: int = 0  # how often the engine has answered it

    @classmethod
    def read(cls, client: Handler) -> Request:
        raw = client.body()
        operation = client.headers.get("X-Amz-Target", "").rpartition(".")[2]
        body = json.loads(raw) if operation else {}
        return cls(operation, body, client.command, client.path, client.headers, raw)


Send = Callable[[], Answer]
Act = Callable[["Fault", Send], Answer | None]


@dataclass
class Fault:
    """What happens to the next requests that match. Tests wait for its events instead of sleeping."""

    act: Act
    operation: str | None
    when: Callable[[Request], bool] | None
    times: float
    cut_first: bool  # the sender is cut off before anything else happens
    reached: threading.Event = field(default_factory=threading.Event)  # a request has met it
    finished: threading.Event = field(default_factory=threading.Event)  # ... and is dealt with, late copies included
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let go what is held or delayed."""
        self.released.set()

    def matches(self, request: Request) -> bool:
        return (
            self.times > 0 and self.operation in (None, request.operation) and (self.when is None or self.when(request))
        )


class Wire:
    """The proxy as a context manager, in front of the engine at ``upstream``.

    A fault is for the next ``times`` (default 1) requests of ``operation`` (any, where it is None) for which
    ``when(request)`` is true; of several faults the one given first is met first.
    """

    def __init__(self, upstream: str) -> None:
        self._address = urlsplit(upstream).netloc
        self._guard = threading.Lock()
        self._requests: list[Request] = []
        self._faults: list[Fault] = []
        self._closed = False
        wire = self

        class Proxy(Handler):
            def setup(self) -> None:
                super().setup()
                self.upstream = Upstream(wire._address)

            def do_POST(self) -> None:
                wire._handle(self, self.upstream)

            do_GET = do_POST

            def finish(self) -> None:
                self.upstream.close()
                super().finish()

        self._server = LoopbackServer(Proxy)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        for fault in self._faults:
            fault.release()
        self._server.close()

    # What was seen

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def connections(self) -> int:
        """How many connections clients have opened so far."""
        return self._server.connections

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in the order of their arrival; one that meets a fault is among them."""
        with self._guard:
            return list(self._requests)

    @property
    def operations(self) -> list[str]:
        return [request.operation for request in self.requests]

    def count(self, operation: str | None = None) -> int:
        return sum(operation in (None, seen) for seen in self.operations)

    def clear(self) -> None:
        """Forget the requests so far, and disarm all faults."""
        with self._guard:
            self._requests.clear()
            for fault in self._faults:
                fault.times = 0

    def cut_connections(self) -> None:
        """Shut all connections of clients, as a front end does with idle ones."""
        self._server.cut_connections()

    # What goes wrong

    def drop_request(self, operation: str | None = None, **choice: Any) -> Fault:
        """Cut the connection; the engine never sees the request."""
        return self._inject(lambda fault, send: None, operation, **choice)

    def drop_reply(self, operation: str | None = None, **choice: Any) -> Fault:
        """Have the request carried out, then cut the connection before the reply."""
        return self.alter_reply(lambda answer: None, operation, **choice)

    def alter_reply(
        self, alter: Callable[[Answer], Answer | None], operation: str | None = None, **choice: Any
    ) -> Fault:
        """Have the request carried out, and pass on what ``alter`` makes of the reply; None cuts the connection."""
        return self._inject(lambda fault, send: alter(send()), operation, **choice)

    def delay_reply(self, operation: str | None = None, *, seconds: float | None = None, **choice: Any) -> Fault:
        """Have the request carried out, but hold its reply: for so many seconds, or until ``release()``."""

        def act(fault: Fault, send: Send) -> Answer:
            answer = send()
            fault.released.wait(seconds)
            return answer

        return self._inject(act, operation, **choice)

    def hold(self, operation: str | None = None, *, seconds: float | None = None, **choice: Any) -> Fault:
        """Deliver the request only after so many seconds or ``release()``, even if its sender has given up by then."""

        def act(fault: Fault, send: Send) -> Answer:
            fault.released.wait(seconds)
            return send()

        return self._inject(act, operation, **choice)

    def deliver_late(self, operation: str | None = None, *, copies: int = 1, **choice: Any) -> Fault:
        """Cut the sender off at once, and deliver its request, so many times, after ``release()``."""

        def act(fault: Fault, send: Send) -> None:
            fault.released.wait()
            for _ in range(copies):
                send()

        return self._inject(act, operation, cut_first=True, **choice)

    def deliver_twice(self, operation: str | None = None, **choice: Any) -> Fault:
        """Deliver the request twice; its sender gets the first reply."""
        return self._inject(lambda fault, send: (send(), send())[0], operation, **choice)

    def answer(self, status: int, code: str, operation: str | None = None, **choice: Any) -> Fault:
        """Answer in the engine's place, with the DynamoDB error of this name; nothing is carried out."""
        body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": f"{code}, says the wire"})

        def act(fault: Fault, send: Send) -> Answer:
            headers = [("Content-Type", "application/x-amz-json-1.0"), ("Date", formatdate(usegmt=True))]
            return Answer(status, headers, body.encode())

        return self._inject(act, operation, **choice)

    def unavailable(self, operation: str | None = None, **choice: Any) -> Fault:
        """Answer 503; nothing is carried out."""
        return self.answer(503, "ServiceUnavailable", operation, **choice)

    def throttle(self, operation: str | None = None, **choice: Any) -> Fault:
        """Answer that the table's throughput is exceeded; nothing is carried out."""
        return self.answer(400, "ProvisionedThroughputExceededException", operation, **choice)

    def _inject(
        self,
        act: Act,
        operation: str | None,
        *,
        times: float = 1,
        when: Callable[[Request], bool] | None = None,
        cut_first: bool = False,
    ) -> Fault:
        fault = Fault(act, operation, when, times, cut_first)
        with self._guard:
            self._faults.append(fault)
        return fault

    # How it goes through

    def _handle(self, client: Handler, upstream: Upstream) -> None:
        request = Request.read(client)
        with self._guard:
            self._requests.append(request)
            fault = next((fault for fault in self._faults if fault.matches(request)), None)
            if fault is not None:
                fault.times -= 1
        if fault is not None and fault.cut_first:
            client.cut()
        answer = self._answer(request, fault, upstream)
        if answer is None:
            client.cut()
            return
        request.status = answer.status
        client.reply(answer.status, answer.body, answer.headers)

    def _carry_out(self, request: Request, upstream: Upstream) -> Answer:
        """Send a request to the engine. A subclass may send more."""
        return upstream.send(request)

    def _answer(self, request: Request, fault: Fault | None, upstream: Upstream) -> Answer | None:
        def send() -> Answer:
            if self._closed:
                raise ConnectionError("the wire is closed: what it still held is dropped")
            answer = self._carry_out(request, upstream)
            request.delivered += 1
            return answer

        try:
            if fault is None:
                return send()
            fault.reached.set()
            return fault.act(fault, send)
        except (OSError, http.client.HTTPException):
            return None  # the engine is gone: the client sees a cut connection, as it would without us
        finally:
            if fault is not None:
                fault.finished.set()


class Upstream:
    """One connection to the engine, kept alive; for one thread."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=30)
        self._used_at = 0.0

    def send(self, request: Request) -> Answer:
        # Never sent again on failure: the wire must not deliver twice what it was not told to.
        self._drop_if_stale()
        try:
            self._connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() not in _OWN_HEADERS:
                    self._connection.putheader(name, value)
            self._connection.putheader("Content-Length", str(len(request.raw)))
            self._connection.endheaders(request.raw)
            response = self._connection.getresponse()
            body = response.read()
        except BaseException:
            self.close()
            raise
        self._used_at = time.monotonic()
        headers = [(name, value) for name, value in response.getheaders() if name.lower() not in _OWN_HEADERS]
        return Answer(response.status, headers, body)

    def close(self) -> None:
        self._connection.close()

    def _drop_if_stale(self) -> None:
        connection = self._connection.sock
        if connection is None:
            return
        idle = time.monotonic() - self._used_at
        if idle > _IDLE_SECONDS or select.select([connection], [], [], 0)[0]:
            self.close()
