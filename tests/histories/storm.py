"""The network between callers and engine as a process of its own: ``python -m tests.histories.storm upstream seed``.

It prints its URL. Then it reads commands, one a line: ``storm``, ``calm``, or ``blackout seconds``. At the end of its
input it ends, and prints what it did as JSON.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate

from rig.loopback import Handler
from rig.wire import Answer, Request, Upstream, Wire

from .record import SLOW

_COPIES = 64  # late copies on their way at once; beyond that none is added

# What happens to how many of a thousand requests. All others go through.
FAULTS = {
    "cut before": 15,
    "cut after": 15,
    "reply delayed beyond the time-out": 4,
    "request delayed beyond the time-out": 4,
    "cut, and delivered late": 5,
    "doubled at once": 12,
    "doubled late": 8,
    "delayed a little": 60,
    "throttled": 8,
    "500": 6,
    "500 after it was carried out": 4,
    "503": 8,
    "wrong checksum": 6,
    "damaged body": 6,
    "half a reply": 8,
    "slow bytes": 6,
}


class Storm(Wire):
    """A wire on which faults happen by chance, while ``stormy``. Unlike Wire it keeps no requests.

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
        super().__init__(upstream)
        self._slow = slow
        self._late = late
        self.counts: Counter[str] = Counter()
        self.stormy = False
        self._random = random.Random(seed)
        self._dark_until = 0.0
        self._over = threading.Event()
        self._copies = threading.Semaphore(_COPIES)
        names, weights = zip(*faults.items(), strict=True)
        self._names = [*names, ""]
        self._weights = [*weights, 1000 - sum(weights)]
        self._acts: dict[str, Callable[[Handler, Request, Upstream], None]] = {
            "cut before": lambda client, request, upstream: client.cut(),
            "cut after": self._cut_after,
            "reply delayed beyond the time-out": self._reply_late,
            "request delayed beyond the time-out": self._deliver_slowly,
            "cut, and delivered late": self._cut_and_deliver_late,
            "doubled at once": self._double_at_once,
            "doubled late": self._double_late,
            "delayed a little": self._delay,
            "throttled": lambda client, request, upstream: self._refuse(
                client, 400, "ProvisionedThroughputExceededException"
            ),
            "500": lambda client, request, upstream: self._refuse(client, 500, "InternalServerError"),
            "500 after it was carried out": self._hide_success,
            "503": lambda client, request, upstream: self._refuse(client, 503, "ServiceUnavailable"),
            "wrong checksum": self._wrong_checksum,
            "damaged body": self._damage,
            "half a reply": self._half,
            "slow bytes": self._drip,
        }

    def __exit__(self, *arguments: object) -> None:
        self._over.set()
        super().__exit__(*arguments)

    def black_out(self, seconds: float) -> None:
        """Cut every connection, and every request of so many seconds."""
        self._dark_until = time.monotonic() + seconds
        self.counts["blackouts"] += 1
        self.cut_connections()

    def _handle(self, client: Handler, upstream: Upstream) -> None:
        request = Request.read(client)
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
                self._acts[name](client, request, upstream)
            else:
                self._pass_on(client, _ask(upstream, request))
        except (OSError, http.client.HTTPException):
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

    def _pause(self, least: float, most: float) -> None:
        self._over.wait(self._between(least, most))

    def _pass_on(self, client: Handler, answer: Answer) -> None:
        client.reply(answer.status, answer.body, answer.headers)

    # What can happen to a request

    def _cut_after(self, client: Handler, request: Request, upstream: Upstream) -> None:
        _ask(upstream, request)
        client.cut()

    def _reply_late(self, client: Handler, request: Request, upstream: Upstream) -> None:
        answer = _ask(upstream, request)
        self._pause(*self._slow)
        self._pass_on(client, answer)

    def _deliver_slowly(self, client: Handler, request: Request, upstream: Upstream) -> None:
        self._pause(*self._slow)
        self._pass_on(client, _ask(upstream, request))

    def _cut_and_deliver_late(self, client: Handler, request: Request, upstream: Upstream) -> None:
        client.cut()
        self._deliver_copy(request, self._between(*self._late))

    def _double_at_once(self, client: Handler, request: Request, upstream: Upstream) -> None:
        answer = _ask(upstream, request)
        _ask(upstream, request)
        self._pass_on(client, answer)

    def _double_late(self, client: Handler, request: Request, upstream: Upstream) -> None:
        self._deliver_copy(request, self._between(*self._late))
        self._pass_on(client, _ask(upstream, request))

    def _delay(self, client: Handler, request: Request, upstream: Upstream) -> None:
        self._pause(0.0, 0.05)
        answer = _ask(upstream, request)
        self._pause(0.0, 0.05)
        self._pass_on(client, answer)

    def _hide_success(self, client: Handler, request: Request, upstream: Upstream) -> None:
        _ask(upstream, request)
        self._refuse(client, 500, "InternalServerError")

    def _refuse(self, client: Handler, status: int, code: str) -> None:
        body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": f"{code}, says the storm"})
        headers = [("Content-Type", "application/x-amz-json-1.0"), ("Date", formatdate(usegmt=True))]
        client.reply(status, body.encode(), headers)

    def _wrong_checksum(self, client: Handler, request: Request, upstream: Upstream) -> None:
        answer = _ask(upstream, request)
        self._pass_on(client, _with_checksum(answer, zlib.crc32(answer.body) ^ 1))

    def _damage(self, client: Handler, request: Request, upstream: Upstream) -> None:
        answer = _with_checksum(_ask(upstream, request))
        place = int(self._between(0, max(len(answer.body) - 1, 0)))
        damaged = bytes(byte ^ (16 if index == place else 0) for index, byte in enumerate(answer.body))
        answer.body = damaged or b"?"
        self._pass_on(client, answer)

    def _half(self, client: Handler, request: Request, upstream: Upstream) -> None:
        text = _text(_ask(upstream, request))
        with client.unless_gone():
            client.connection.sendall(text[: int(self._between(1, len(text) - 1))])
        client.cut()

    def _drip(self, client: Handler, request: Request, upstream: Upstream) -> None:
        text = _text(_ask(upstream, request))
        size = max(1, len(text) // 12)
        pause = self._between(0.01, 0.3)
        with client.unless_gone():
            for start in range(0, len(text), size):
                client.connection.sendall(text[start : start + size])
                self._over.wait(pause)

    def _deliver_copy(self, request: Request, seconds: float) -> None:
        """Deliver a request once more after so many seconds, whatever has become of its sender."""
        if not self._copies.acquire(blocking=False):
            return

        def deliver() -> None:
            upstream = Upstream(self._address)
            try:
                if not self._over.wait(seconds):
                    _ask(upstream, request)
            except (OSError, http.client.HTTPException):
                pass  # the engine is gone
            finally:
                upstream.close()
                self._copies.release()

        self._server.spawn(deliver)


def _ask(upstream: Upstream, request: Request) -> Answer:
    """Send a request to the engine. An engine that does not know its tables yet counts as gone.

    DynamoDB Local answers for a moment before it has read its file again.
    """
    answer = upstream.send(request)
    if b"#ResourceNotFoundException" in answer.body:
        raise ConnectionError("the engine does not know its tables yet")
    return answer


def _with_checksum(answer: Answer, checksum: int | None = None) -> Answer:
    headers = [(name, value) for name, value in answer.headers if name.lower() != "x-amz-crc32"]
    headers.append(("x-amz-crc32", str(zlib.crc32(answer.body) if checksum is None else checksum)))
    return Answer(answer.status, headers, answer.body)


def _text(answer: Answer) -> bytes:
    """A reply as it goes over the connection."""
    lines = [f"HTTP/1.1 {answer.status} Reply", *(f"{name}: {value}" for name, value in answer.headers)]
    return "\r\n".join([*lines, f"Content-Length: {len(answer.body)}", "", ""]).encode("latin-1") + answer.body


def main(upstream: str, seed: str) -> None:
    with Storm(upstream, int(seed)) as storm:
        print(storm.url, flush=True)
        for line in sys.stdin:
            match line.split():
                case ["blackout", seconds]:
                    storm.black_out(float(seconds))
                case [mode]:
                    storm.stormy = mode == "storm"
        counts = dict(storm.counts)
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
