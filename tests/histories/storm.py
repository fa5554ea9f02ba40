"""The network between callers and engine: a proxy, on which faults happen by chance."""

from __future__ import annotations

import contextlib
import json
import random
import select
import socket
import threading
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from email.utils import formatdate
from io import BufferedIOBase
from typing import Self
from urllib.parse import urlsplit

from rig.loopback import Handler, LoopbackServer

from .record import SLOW

_COPIES = 64  # late copies on their way at once; beyond that none is added
_IDLE_SECONDS = 1.0  # after which a connection to the engine is not used again: it might just be closing
_ENGINE_SECONDS = 30.0  # that the engine may take for a request

# How many of a thousand requests meet each fault, and what happens then, step by step (`Storm._act`). All others go
# through.
_STEPS = {
    "cut before": (15, "cut"),
    "cut after": (15, "ask, cut"),
    "reply delayed beyond the time-out": (4, "ask, wait, answer"),
    "request delayed beyond the time-out": (4, "wait, ask, answer"),
    "cut, and delivered late": (5, "cut, copy"),
    "doubled at once": (12, "ask, ask again, answer"),
    "doubled late": (8, "copy, ask, answer"),
    "delayed a little": (60, "wait a little, ask, wait a little, answer"),
    "throttled": (8, "refuse 400 ProvisionedThroughputExceededException"),
    "500": (6, "refuse 500 InternalServerError"),
    "500 after it was carried out": (4, "ask, refuse 500 InternalServerError"),
    "503": (8, "refuse 503 ServiceUnavailable"),
    "wrong checksum": (6, "ask, falsify, answer"),
    "damaged body": (6, "ask, damage, answer"),
    "half a reply": (8, "ask, answer half, cut"),
    "slow bytes": (6, "ask, answer slowly"),
}
FAULTS = {name: share for name, (share, _) in _STEPS.items()}


@dataclass(frozen=True)
class Message:
    """A request or a reply as it came. What is not altered is passed on as the same bytes.

    Parsing each head and writing it again took two and a half times as long.
    """

    head: bytes  # with the empty line at its end
    body: bytes

    @classmethod
    def read(cls, stream: BufferedIOBase) -> Message | None:
        """The next one of a connection; None at its end. Raises ConnectionError if it ends in the middle of one."""
        head, size = [stream.readline()], 0
        if not head[0]:
            return None
        while (line := stream.readline()) not in (b"\r\n", b""):
            head.append(line)
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
            elif name.lower() == b"transfer-encoding":
                raise NotImplementedError("the storm reads no chunks: neither the library nor the engines send any")
        body = stream.read(size)
        if not line or len(body) < size:
            raise ConnectionError("the sender is gone in the middle of a message")
        return cls(b"".join([*head, line]), body)

    @property
    def whole(self) -> bytes:
        return self.head + self.body

    def altered(self, body: bytes, checksum: int) -> Message:
        """The reply with another body of the same length, and a checksum of it, right or wrong."""
        lines = [line for line in self.head.split(b"\r\n") if not line.lower().startswith(b"x-amz-crc32:")]
        lines.insert(1, b"x-amz-crc32: %d" % checksum)
        return Message(b"\r\n".join(lines), body)


class Upstream:
    """One connection to the engine, kept alive; for one thread."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._replies: BufferedIOBase | None = None
        self._used_at = 0.0

    def ask(self, request: Message) -> Message:
        """Send a request, once. Raises OSError where the engine is gone.

        An engine that does not know its tables yet counts as gone: DynamoDB Local answers for a moment before it has
        read its file again.
        """
        try:
            connection, replies = self._connection()
            connection.sendall(request.whole)
            answer = Message.read(replies)
            if answer is None:
                raise ConnectionError("the engine has closed the connection")
        except BaseException:
            self.close()
            raise
        self._used_at = time.monotonic()
        if b"#ResourceNotFoundException" in answer.body:
            raise ConnectionError("the engine does not know its tables yet")
        return answer

    def close(self) -> None:
        if self._replies is not None:
            self._replies.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._replies = None

    def _connection(self) -> tuple[socket.socket, BufferedIOBase]:
        if self._socket is not None and self._is_stale(self._socket):
            self.close()
        if self._socket is None or self._replies is None:
            self._socket = socket.create_connection(self._address, timeout=_ENGINE_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._replies = self._socket.makefile("rb")
        return self._socket, self._replies

    def _is_stale(self, connection: socket.socket) -> bool:
        idle = time.monotonic() - self._used_at
        return idle > _IDLE_SECONDS or bool(select.select([connection], [], [], 0)[0])


class HeldBackError(ConnectionError):
    """An answer may have come in silence."""


class Storm:
    """A proxy on which faults happen by chance, while ``stormy``; a context manager.

    Between ``silence()`` and ``speak()`` it passes requests on, and cuts them when the engine has answered.

    faults: how many of a thousand requests each fault meets.
    slow: how long a slow request or reply takes, in seconds, from and to: longer than clients wait.
    late: after how many seconds a late copy is delivered, from and to.
    """

    def __init__(
        self,
        upstream: str,
        seed: int,
        *,
        faults: dict[str, int] = FAULTS,
        slow: tuple[float, float] = (1.1, 4.0),
        late: tuple[float, float] = (0.0, 6.0),
    ) -> None:
        url = urlsplit(upstream)
        self._address = (url.hostname or "", url.port or 0)
        self._guard = threading.Lock()
        self._slow = slow
        self._late = late
        self.counts: Counter[str] = Counter()
        self.stormy = False
        self._turns = 0  # how often silence began or ended: odd in silence
        self._random = random.Random(seed)
        self._dark_until = 0.0
        self._over = threading.Event()
        self._copies = threading.Semaphore(_COPIES)
        names, weights = zip(*faults.items(), strict=True)
        self._names = [*names, ""]
        self._weights = [*weights, 1000 - sum(weights)]
        storm = self

        class Proxy(Handler):
            def handle(self) -> None:
                upstream = Upstream(storm._address)
                self.close_connection = False
                with contextlib.closing(upstream), self.unless_gone():
                    while not self.close_connection and (request := Message.read(self.rfile)):
                        storm._handle(self, request, upstream)

        self._server = LoopbackServer(Proxy)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.close()

    @property
    def url(self) -> str:
        return self._server.url

    def black_out(self, seconds: float) -> None:
        """Cut every connection, and every request of so many seconds."""
        self._dark_until = time.monotonic() + seconds
        self.counts["blackouts"] += 1
        self._server.cut_connections()

    def silence(self) -> None:
        """Pass no answer on that the engine gives between now and ``speak``, however late it would arrive."""
        if not self._turns % 2:
            self._turns += 1

    def speak(self) -> None:
        self._turns += self._turns % 2

    def _handle(self, client: Handler, request: Message, upstream: Upstream) -> None:
        started = time.monotonic()
        with self._guard:
            self.counts["requests"] += 1
            (name,) = self._random.choices(self._names, self._weights) if self.stormy else ("",)
            if started < self._dark_until:
                name = "cut before"
            if name:
                self.counts[name] += 1
        try:
            if name:
                self._act(name, client, request, upstream)
            else:
                self._pass_on(client, self._ask(request, upstream).whole)
        except HeldBackError:
            client.cut()
            self._count("held back")
        except OSError:
            client.cut()  # the engine is gone
            self._count("cut by the engine")
        if not name and time.monotonic() - started > SLOW:
            self._count("slow by itself")

    def _count(self, what: str) -> None:
        with self._guard:
            self.counts[what] += 1

    def _between(self, least: float, most: float) -> float:
        with self._guard:
            return self._random.uniform(least, most)

    def _ask(self, request: Message, upstream: Upstream) -> Message:
        """Have a request carried out. Raises OSError if no answer comes, or if it may have come in silence."""
        turn = self._turns
        answer = upstream.ask(request)
        if turn % 2 or turn != self._turns:
            raise HeldBackError
        return answer

    def _pass_on(self, client: Handler, answer: bytes) -> None:
        with client.unless_gone():
            client.connection.sendall(answer)

    def _act(self, name: str, client: Handler, request: Message, upstream: Upstream) -> None:
        """Let the fault ``name`` happen to a request, step by step."""
        answer = Message(b"", b"")
        for step in _STEPS[name][1].split(", "):
            match step.split():
                case ["cut"]:
                    client.cut()
                case ["ask"]:
                    answer = self._ask(request, upstream)
                case ["ask", "again"]:
                    self._ask(request, upstream)
                case ["wait", *little]:
                    self._over.wait(self._between(*((0.0, 0.05) if little else self._slow)))
                case ["copy"]:
                    self._deliver_copy(request, self._between(*self._late))
                case ["refuse", status, code]:
                    self._refuse(client, int(status), code)
                case ["falsify"]:
                    answer = answer.altered(answer.body, zlib.crc32(answer.body) ^ 1)
                case ["damage"]:
                    answer = self._damaged(answer)
                case ["answer"]:
                    self._pass_on(client, answer.whole)
                case ["answer", "half"]:
                    self._pass_on(client, answer.whole[: int(self._between(1, len(answer.whole) - 1))])
                case ["answer", "slowly"]:
                    self._drip(client, answer.whole)

    def _damaged(self, answer: Message) -> Message:
        body = bytearray(answer.body)
        if body:
            body[int(self._between(0, len(body) - 1))] ^= 16
        return answer.altered(bytes(body), zlib.crc32(answer.body))

    def _refuse(self, client: Handler, status: int, code: str) -> None:
        body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": f"{code}, says the storm"})
        headers = [("Content-Type", "application/x-amz-json-1.0"), ("Date", formatdate(usegmt=True))]
        client.reply(status, body.encode(), headers)

    def _drip(self, client: Handler, text: bytes) -> None:
        size, pause = max(1, len(text) // 12), self._between(0.01, 0.3)
        with client.unless_gone():
            for start in range(0, len(text), size):
                client.connection.sendall(text[start : start + size])
                self._over.wait(pause)

    def _deliver_copy(self, request: Message, seconds: float) -> None:
        """Deliver a request once more after so many seconds, whatever has become of its sender."""
        if not self._copies.acquire(blocking=False):
            return

        def deliver() -> None:
            with contextlib.closing(Upstream(self._address)) as upstream, contextlib.suppress(OSError):
                if not self._over.wait(seconds):
                    upstream.ask(request)  # unless the engine is gone
            self._copies.release()

        self._server.spawn(deliver)
