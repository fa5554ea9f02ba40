"""A server that answers anything: a real HTTP server on a loopback port, whose next answer is chosen beforehand.

Behind it is an honest table. An answer that is *faithful* may lose, cut, delay or refuse what the table says, but tells
nothing false of it. All others lie: about rows, times, conditions and successes.
"""

from __future__ import annotations

import json
import random
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lambda_lock.core.outcome import FOR_NOW, ConditionFailed, ServiceError, TransactionCanceled
from lambda_lock.core.tickets import make_ticket
from lambda_lock.testing.memory import Memory
from rig.loopback import Handler, LoopbackServer
from tests.histories.storm import Message

JSON = "application/x-amz-json-1.0"
_PREFIX = "com.amazonaws.dynamodb.v20120810#"
_ERRORS = (
    *sorted(FOR_NOW), "AccessDeniedException", "ConditionalCheckFailedException", "ExpiredTokenException",
    "IdempotentParameterMismatchException", "InternalServerError", "InvalidSignatureException",
    "ItemCollectionSizeLimitExceededException", "ResourceNotFoundException", "TransactionCanceledException",
    "UnrecognizedClientException", "ValidationException", "\u0000\ud7ff#:",
)  # fmt: skip
_REASONS = (
    "None", "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded",
    "ValidationError", "ItemCollectionSizeLimitExceeded", "", "\n",
)  # fmt: skip
_PIECE = 16 * 1024
_OPERATION = re.compile(rb"X-Amz-Target: \w+\.(\w+)")


@dataclass(frozen=True)
class Answer:
    """What the server does with one request. ``seed`` makes all that it invents."""

    kind: str
    seed: int

    @property
    def is_faithful(self) -> bool:
        return self.kind in FAITHFUL

    @property
    def stalls(self) -> bool:
        """Whether the client has to give up waiting."""
        return self.kind in ("slow bytes", "silence", "endless chunks", "endless head")


class Asked:
    """One request, and what the honest table makes of it."""

    def __init__(self, server: Liar, operation: str, request: dict[str, Any], rng: random.Random) -> None:
        self.server, self.operation, self.request, self.rng = server, operation, request, rng

    def carry_out(self) -> tuple[int, dict[str, Any]]:
        """Carry the request out. Returns the status and the body of the answer."""
        try:
            item = self.server.memory.send(self.operation, self.request, timeout=10).item
        except ConditionFailed as refused:
            return 400, failed(refused.item)
        except TransactionCanceled as refused:
            return 400, cancelled(refused.reasons, refused.items)
        except ServiceError as error:
            return 400, {"__type": _PREFIX + error.code, "message": error.message}
        if self.operation in ("GetItem", "UpdateItem", "PutItem", "DeleteItem"):
            name = "Item" if self.operation == "GetItem" else "Attributes"
            return 200, {} if item is None else {name: item}
        return 200, dict(item or {})

    def rows(self) -> list[dict[str, Any]]:
        return list(self.server.memory.items(self.request["TableName"])) if "TableName" in self.request else []

    def row(self) -> dict[str, Any] | None:
        """An invented row: the one that the request wants to write, an old one, or none; then changed."""
        rng, base = self.rng, None
        choice = rng.random()
        if choice < 0.5:
            base = self.echo()
        elif choice < 0.9:
            base = next((row for row in self.rows() if self.is_asked_for(row)), None)
        if base is None:
            return None if rng.random() < 0.5 else {**self.request.get("Key", {}), **self._columns()}
        changed = {**base, **(self._columns() if rng.random() < 0.7 else {})}
        if changed and rng.random() < 0.2:
            changed.pop(rng.choice(sorted(changed)))
        return changed

    def is_asked_for(self, row: dict[str, Any]) -> bool:
        return all(row.get(name) == value for name, value in self.request.get("Key", {}).items())

    def echo(self) -> dict[str, Any]:
        """The row as the write would leave it, roughly."""
        request = self.request
        if "Item" in request:
            return dict(request["Item"])
        names, values = request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {})
        found: dict[str, Any] = dict(request.get("Key", {}))
        expression = request.get("UpdateExpression", "")
        for outer, inner, value in re.findall(r"(#\w+)\.(#\w+) = (:\w+)", expression):
            found.setdefault(names[outer], {"M": {}})["M"][names[inner]] = values[value]
        for name, value in re.findall(r"(?<!\.)(#\w+) = (:\w+)", expression):
            found[names[name]] = values[value]
        for name in re.findall(r"(#\w+) = if_not_exists", expression):
            found.setdefault(names[name], {"N": str(self.rng.choice((1, 7, 10**15)))})
        return found

    def _columns(self) -> dict[str, Any]:
        rng = self.rng
        names = rng.sample(sorted(_COLUMNS), rng.randint(1, 4))
        return {name: _COLUMNS[name](rng, self) for name in names}

    @property
    def now_ms(self) -> int:
        return int(self.server.memory.clock.wall() * 1000)


def failed(item: Any) -> dict[str, Any]:
    body = {"__type": _PREFIX + "ConditionalCheckFailedException", "message": "The conditional request failed"}
    return body if item is None else {**body, "Item": item}


def cancelled(reasons: list[str], items: list[Any]) -> dict[str, Any]:
    shown: list[dict[str, Any]] = [{} if item is None else {"Item": item} for item in items]
    listed = [{"Code": reason, **item} for reason, item in zip(reasons, shown, strict=True)]
    return {"__type": _PREFIX + "TransactionCanceledException", "CancellationReasons": listed}


def _version(rng: random.Random, asked: Asked) -> dict[str, Any]:
    shifts = (-3_600_000, -60_000, -1, 0, 1, 60_000, 3_600_000)
    expiry = rng.choice([asked.now_ms + shift for shift in shifts] + [9_999_999_999_999, 0])
    return {"S": f"L1:{expiry:013d}:{rng.getrandbits(128):032x}"}


def anything(rng: random.Random, depth: int = 0) -> Any:
    """A value in DynamoDB's JSON, mostly."""
    kind = rng.choice(("S", "N", "B", "BOOL", "NULL", "SS", "L", "M", "odd"))
    if kind == "odd":
        return rng.choice((None, 7, [], {}, {"S": 7}, {"X": "y"}, {"S": "a", "N": "1"}, "text"))
    if kind == "S":
        return {"S": rng.choice(("", "1", "20000", "x" * 5000, "\u2028", "someone#1", "9" * 400, "semaphore"))}
    if kind == "N":
        return {"N": rng.choice(("0", "-1", "7.5", "1E+125", "9" * 38, "9" * 5000, "NaN", "Infinity", ""))}
    if kind in ("L", "M") and depth < 40:
        inner = [anything(rng, depth + (20 if rng.random() < 0.9 else 1)) for _ in range(rng.randint(0, 3))]
        return {kind: inner if kind == "L" else {str(at): value for at, value in enumerate(inner)}}
    return {"B": {"B": "AA=="}, "BOOL": {"BOOL": True}, "SS": {"SS": ["a"]}}.get(kind, {"NULL": True})


def _any(rng: random.Random, asked: Asked) -> Any:
    return anything(rng)


def _or_any(make: Callable[[random.Random, Asked], Any]) -> Callable[[random.Random, Asked], Any]:
    return lambda rng, asked: anything(rng) if rng.random() < 0.1 else make(rng, asked)


def _permits(rng: random.Random, asked: Asked) -> dict[str, Any]:
    entries = {
        f"{rng.getrandbits(128):032x}": {"S": f"{_version(rng, asked)['S']}:{rng.choice((1, 20_000, 10**9))}:other"}
        for _ in range(rng.choice((0, 1, 2, 99, 101)))
    }
    return {"M": entries}


def _place(rng: random.Random, asked: Asked) -> dict[str, Any]:
    if rng.random() < 0.1:
        return {"S": f"{rng.random()}"}
    return {"S": make_ticket(f"{rng.getrandbits(32):08x}", asked.now_ms // 1000 + rng.choice((-9, 2, 30, 600)))}


_COLUMNS: dict[str, Callable[[random.Random, Asked], Any]] = {
    "recordVersionNumber": _or_any(_version),
    "ownerName": _or_any(lambda rng, asked: {"S": rng.choice(("other#1", "other", f"a#{rng.random()}", ""))}),
    "leaseDuration": _or_any(lambda rng, asked: {"S": rng.choice(("0", "1", "20000", "999999999", str(2**63)))}),
    "isReleased": _or_any(lambda rng, asked: {"S": rng.choice(("1", "0", "true"))}),
    "fencingToken": _or_any(lambda rng, asked: {"N": str(rng.randint(-1, 10**6))}),
    "waiters": _or_any(lambda rng, asked: {"L": [_place(rng, asked) for _ in range(rng.choice((0, 1, 3, 64)))]}),
    "heldMs": _or_any(lambda rng, asked: {"N": str(rng.choice((0, 1, 50, 10**9)))}),
    "completedUntil": _or_any(lambda rng, asked: {"N": str(asked.now_ms // 1000 + rng.choice((-9, 0, 600)))}),
    "permits": _or_any(_permits),
    "permitTokens": _or_any(lambda rng, asked: {"M": {}}),
    "data": _any,
    "ttl": _any,
    "result": _any,
}


# An answer as pieces of bytes. If they end without a whole answer, the connection is cut.

Pieces = Iterator[bytes]


def _http(
    asked: Asked, status: int, body: bytes, *, date: str | None = "", changes: dict[str, str | None] | None = None
) -> bytes:
    headers: dict[str, str | None] = {
        "Content-Type": JSON,
        "x-amz-crc32": str(zlib.crc32(body)),
        "Content-Length": str(len(body)),
        "Date": http_date(asked.server.memory.clock.wall()) if date == "" else date,
        **(changes or {}),
    }
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join((f"HTTP/1.1 {status} OK", *lines, "", "")).encode("latin-1", "replace") + body


def http_date(moment: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(moment))


class Faithful(Asked):
    """The answers that tell nothing false of the table, by their kinds."""

    def _carried_out(self) -> tuple[int, bytes]:
        status, body = self.carry_out()
        return status, json.dumps(body).encode()

    def _whole(self, **how: Any) -> bytes:
        return _http(self, *self._carried_out(), **how)

    def _said(self, status: int, body: Any, **how: Any) -> Pieces:
        yield _http(self, status, json.dumps(body).encode(), **how)

    def honest(self) -> Pieces:
        yield self._whole()

    def lost_reply(self) -> Pieces:
        self.carry_out()
        yield b""

    def cut(self) -> Pieces:
        whole = self._whole()
        yield whole[: self.rng.randrange(len(whole))]

    def unheard(self) -> Pieces:
        yield b""

    def throttled(self) -> Pieces:
        return self._said(400, {"__type": _PREFIX + "ThrottlingException", "message": "slow down"})

    def a_500(self) -> Pieces:
        if self.rng.random() < 0.5:
            self.carry_out()
        return self._said(self.rng.choice((500, 503)), {"__type": _PREFIX + "InternalServerError"})

    def slow_bytes(self) -> Pieces:
        for at, byte in enumerate(self._whole()):
            if at:
                time.sleep(0.02)
            yield bytes([byte])

    def silence(self) -> Pieces:
        if self.rng.random() < 0.5:
            self.carry_out()
        yield b""
        time.sleep(0.3)

    def endless_chunks(self) -> Pieces:
        yield f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        while True:
            yield b"1000\r\n" + b" " * 0x1000 + b"\r\n"

    def endless_head(self) -> Pieces:
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            yield b"X-More: " + b"x" * 1000 + b"\r\n"

    def too_long(self) -> Pieces:
        length = self.rng.choice(("16777217", "9999999999", "9" * 5000))
        yield _http(self, 200, b"{}", changes={"Content-Length": length})
        yield b" " * _PIECE

    def wrong_length(self) -> Pieces:
        status, text = self._carried_out()
        lengths = (str(len(text) - 1), "-1", "+2", "0x10", "", "1, 1", " ", "2\r\nContent-Length: 3")
        yield _http(self, status, text, changes={"Content-Length": self.rng.choice(lengths)})

    def chunked_nonsense(self) -> Pieces:
        status, text = self._carried_out()
        size = f"{len(text):x}".encode()
        changes: dict[str, str | None] = {"Transfer-Encoding": "chunked", "Content-Length": None}
        head = _http(self, status, text, changes=changes)[: -len(text)]
        sizes = (b"zz", b"FFFFFFFF", b"ffffffffffffffff", b"-1", size + b";" + b"x" * 2000)
        ends = (b"xx0\r\n\r\n", b"\r\n0\r\nbad trailer\r\n\r\n", b"\r\n0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n")
        chunked = [said + b"\r\n" + text for said in sizes] + [size + b"\r\n" + text + end for end in ends]
        yield head + self.rng.choice(chunked)

    def redirect(self) -> Pieces:
        where = {"Location": "http://127.0.0.1:1/", "Content-Length": "0"}
        yield _http(self, self.rng.choice((301, 302, 307, 308)), b"", changes={**where})

    def a_page(self) -> Pieces:
        page = b"<html>sign in</html>"
        yield _http(self, self.rng.choice((200, 403, 502)), page, changes={"Content-Type": "text/html"})

    def wrong_checksum(self) -> Pieces:
        yield self._whole(changes={"x-amz-crc32": self.rng.choice(("0", "1", "", "-1", "zz"))})

    def first_line(self) -> Pieces:
        lines = (b"HTTP/2 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.1 999 x", b"ICY 200", b"", b"\x00")
        line = self.rng.choice(lines)
        yield line + b"\r\n" + self._whole().partition(b"\r\n")[2]


class Anything(Faithful):
    """All answers, by their kinds."""

    def flipped(self) -> Pieces:
        whole = bytearray(self._whole())
        for _ in range(self.rng.choice((1, 1, 1, 5))):
            whole[self.rng.randrange(len(whole))] = self.rng.randrange(256)
        yield bytes(whole)

    def wrong_date(self) -> Pieces:
        shift = self.rng.choice((-1e9, -86_400, -3600, -60, -2, 2, 60, 3600, 86_400, 1e9))
        dates = (None, "", "yesterday", "Sat, 99 Nov 2026 04:49:13 GMT")
        date = http_date(self.server.memory.clock.wall() + shift) if self.rng.random() < 0.7 else self.rng.choice(dates)
        yield self._whole(date=date or None)

    def false_success(self) -> Pieces:
        row = self.row()
        name = "Item" if self.operation == "GetItem" else "Attributes"
        return self._said(200, {} if row is None else {name: row})

    def false_refusal(self) -> Pieces:
        if self.rng.random() < 0.3:
            self.carry_out()
        return self._said(400, failed(self.row()))

    def contradiction(self) -> Pieces:
        """Refuse, and show a row that says that the same write would succeed now: none, a free one or a dead one."""
        if self.operation == "GetItem":
            return self._said(200, {})
        row = {**self.echo(), "ownerName": {"S": "other#1"}, "leaseDuration": {"S": "20000"}}
        free = {**row, "isReleased": {"S": "1"}}
        dead = {**row, "recordVersionNumber": {"S": f"L1:{self.now_ms - 60_000:013d}:{'0' * 32}"}}
        return self._said(400, failed(self.rng.choice((None, free, dead))))

    def overtaken(self) -> Pieces:
        """Refuse, and show the true row as if its holder had renewed it meanwhile."""
        return self._said_newer()

    def renamed(self) -> Pieces:
        """Refuse, and show the true row as if another attempt of its holder had resumed it, each time another one."""
        return self._said_newer(suffix=f"/{self.rng.random()}")

    def _said_newer(self, suffix: str = "") -> Pieces:
        row = next((row for row in self.rows() if self.is_asked_for(row)), None)
        if row is None or self.operation == "GetItem":
            return self._said(400, failed(None)) if row is None else self.honest()
        ahead = self.now_ms + self.rng.randrange(10**9)
        changes: dict[str, Any] = {"recordVersionNumber": {"S": f"L1:{ahead:013d}:{'a' * 32}"}}
        if suffix and "ownerName" in row:
            changes["ownerName"] = {"S": row["ownerName"]["S"].partition("/")[0] + suffix}
        return self._said(400, failed({**row, **changes}))

    def any_error(self) -> Pieces:
        rng = self.rng
        code = rng.choice(("", _PREFIX)) + rng.choice(_ERRORS)
        body = {"__type": code, "message": rng.choice(("", "x", "key " * 900))}
        return self._said(rng.choice((400, 400, 400, 401, 404, 413, 500, 200)), body)

    def any_reasons(self) -> Pieces:
        rng = self.rng
        count = len(self.request.get("TransactItems", [1])) + rng.choice((0, 0, 0, 0, 1, -1))
        reasons = [rng.choice(_REASONS) for _ in range(count)] if rng.random() < 0.5 else [rng.choice(_REASONS)] * count
        items = [self.echo() or None if rng.random() < 0.3 else None for _ in reasons]
        body = cancelled(reasons, items)
        if rng.random() < 0.1:
            body["CancellationReasons"] = anything(rng)
        return self._said(400, body)

    def any_body(self) -> Pieces:
        rng = self.rng
        body: Any = {
            name: anything(rng) for name in rng.sample(("Item", "Attributes", "Items", "__type", "message"), 2)
        }
        deep = ("[" * 20_000, '{"Item":' * 5000)
        texts = (json.dumps(body), json.dumps(anything(rng)), *deep, "1e999", '"\\ud800"', "{", "")
        return iter([_http(self, rng.choice((200, 400)), rng.choice(texts).encode())])

    def pages(self) -> Pieces:
        """A list that does not end: its pages lead in a circle, or each one to a new one."""
        rng = self.rng
        self.server.pages += 1
        last: Any = {"key": {"S": str(self.server.pages % rng.choice((1, 2, 3, 10**9)))}}
        if rng.random() < 0.01:
            last = anything(rng)
        row = self.row()
        rows = [{"key": {"S": "k"}, **row} for _ in range(rng.choice((0, 1, 3))) if row is not None]
        return self._said(200, {"Items": rows, "LastEvaluatedKey": last})


#: If the connection closed after these, the client would send again, and the play would differ.
_STAYING = frozenset(
    {"honest", "throttled", "false success", "false refusal", "any error", "contradiction", "overtaken", "pages"}
)


def _kinds(of: type[Asked]) -> frozenset[str]:
    return frozenset(name.replace("_", " ") for name in vars(of) if not name.startswith("_"))


FAITHFUL = _kinds(Faithful)
KINDS = tuple(sorted(FAITHFUL | _kinds(Anything)))


class Liar:
    """The server. Set `next` before each request."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.next = Answer("honest", 0)
        self.pages = 0
        self.most_sent = 0  # bytes of one answer that a client took
        liar = self

        class Lying(Handler):
            def handle(self) -> None:
                with self.unless_gone():
                    while (asked := Message.read(self.rfile)) and liar._answer(self.connection, asked):
                        pass

        self._server = LoopbackServer(Lying).__enter__()
        self.port = self._server.port
        self.close = self._server.close

    def _answer(self, connection: socket.socket, request: Message) -> bool:
        """Answer. Returns whether the connection stays open."""
        answer, sent = self.next, 0
        (operation,) = _OPERATION.findall(request.head)
        asked = Anything(self, operation.decode(), json.loads(request.body), random.Random(answer.seed))
        pieces: Pieces = getattr(asked, answer.kind.replace(" ", "_"))()
        for piece in pieces:
            sent += connection.send(piece) if piece else 0
            self.most_sent = max(self.most_sent, sent)
        return answer.kind in _STAYING
