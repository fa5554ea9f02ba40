"""`lambda-lock dashboard`: a page that draws a table's locks over time, served on 127.0.0.1.

One thread reads the table again and again. Each open page asks for what it shows, and causes no reading of its own.
Nothing is written, and only GET is answered.

Every look at a row is compared with the one before. A hold is one grant: an owner and a fencing token. What begins and
ends between two looks is not seen. Times are those of DynamoDB's Date, in epoch seconds.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from ..client.lock_client import LockClient
from ..client.record import LockRecord
from ..core.rate import in_words
from ..core.row import base_of
from ..errors import Holder, LockError, printable
from . import show
from .dev import HOST, usable_port

Ended = Literal["released", "taken over", "expired"]

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
_PAGE_SIZE = 50  # locks on one page
_SHOWN = 60  # events below them
_KEEP = 900.0  # seconds for which the past is kept
_HOLDS = 200  # kept for each lock
_RENEWALS = 500  # kept for each hold
_WAITS = 500  # changes of the number of waiters, kept for each lock
_EVENTS = 1000  # kept for all locks
_OWNER = 600  # characters kept of an owner; ours have at most 545 bytes
_NAMES = 100  # holders, and names of attributes, shown for each lock: a foreign row has up to 400 KB of them


@dataclass(slots=True)
class Tenure:
    """One grant of a lock or a permit: a hold, from its beginning to its end.

    owner: its base, without the attempt that has it now. So a hold that is resumed goes on.
    since: when it began; where that was not seen, when its lease began for the last time.
    is_seen_whole: whether it began after we first looked.
    expires_at: the stored expiry; None if another client library wrote the row. take: permits that it has.
    until: when it ended; None while it lasts. A lock whose lease has expired is held until another takes it over.
    ended: how it ended.
    """

    owner: str
    token: int | None
    since: float
    is_seen_whole: bool
    expires_at: float | None
    version: str | None
    take: int
    renewals: deque[float] = field(default_factory=lambda: deque(maxlen=_RENEWALS))
    until: float | None = None
    ended: Ended | None = None


@dataclass(slots=True)
class Track:
    """A lock and its past. Most locks of a large table have no past, and an empty list is smaller than a deque."""

    record: LockRecord
    state: str
    scan: int
    holds: list[Tenure] = field(default_factory=list)
    waits: list[tuple[float, int]] = field(default_factory=list)


class LoggedEvent(NamedTuple):
    """Something that happened to a lock."""

    at: float
    key: str
    kind: str
    owner: str


class Watcher:
    """Reads a table again and again, keeps its locks and their recent past, and answers what a page asks.

    client: reads the table. Its requests are Scans.
    interval: the pause between two readings, in seconds, above 0.
    prefix: only keys that begin with this text are kept.
    """

    most = 250_000  # locks that are kept; those beyond are counted only

    def __init__(self, client: LockClient, interval: float, prefix: str = "") -> None:
        self._client = client
        self._interval = interval
        self._kept = show.Filter(prefix)
        self._tracks: dict[tuple[str, str | None], Track] = {}
        self._events: deque[LoggedEvent] = deque(maxlen=_EVENTS)
        self._now: float | None = None
        self._left_out = 0
        self._scan = 0
        self._readings = 0  # scans to the end
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self._error: str | None = None
        self._is_reading = False

    def run(self) -> None:
        """Read the table until `stop` is called."""
        while not self._stopped.is_set():
            self._is_reading = True
            try:
                self.read()
                self._error = None
            except LockError as error:  # shown on the page, and tried again
                self._error = str(error)
            self._is_reading = False
            self._stopped.wait(self._interval)

    def stop(self) -> None:
        """Let `run` return."""
        self._stopped.set()

    def read(self) -> None:
        """Read the table once, page by page. Raises what `LockClient.list` raises."""
        with self._guard:
            self._scan += 1
            self._left_out = 0
        for page in show.read_pages(self._client):
            with self._guard:
                for record in filter(self._kept.admits, page):
                    self._look(record)
            if self._stopped.is_set():
                return
        with self._guard:
            gone = [name for name, track in self._tracks.items() if track.scan != self._scan]
            for name in gone:  # the whole table was read, and these were not seen
                track = self._tracks.pop(name)
                for hold in _open(track):
                    self._tell("deleted", track.record, hold.owner, self._now or 0.0)
            self._readings += 1

    def answer(self, question: Mapping[str, str]) -> dict[str, Any]:
        """What the page shows: the counts, one page of locks with their past, and the latest events.

        question: ``prefix``, ``states`` (separated by commas), ``page`` (from 0), ``seconds`` (how much of the past).
        Raises ValueError for a page or a time that is not a number.
        """
        prefix = question.get("prefix", "")
        states = frozenset(filter(None, question.get("states", "").split(",")))
        page, seconds = max(0, int(question.get("page", "0"))), float(question.get("seconds", "120"))
        if not 1 <= seconds <= _KEEP:
            raise ValueError(f"seconds={seconds} is not between 1 and {_KEEP:g}")
        wanted, found, counts = show.Filter(prefix, states & set(show.STATES)), list[Track](), Counter[str]()
        with self._guard:
            for track in self._tracks.values():
                if track.record.key.startswith(prefix):
                    counts[track.state] += 1
                    counts["waiting"] += bool(show.waiting(track.record))
                if wanted.admits(track.record) and ("waiting" not in states or show.waiting(track.record)):
                    found.append(track)
            found.sort(key=_by_interest)
            page = min(page, max(0, len(found) - 1) // _PAGE_SIZE)
            since = (self._now or 0.0) - seconds
            events = [event for event in self._events if event.key.startswith(prefix)]
            events = sorted(events, key=lambda event: event.at)[-_SHOWN:]  # a reading finds them in the rows' order
            return {
                "now": self._now,
                "since": since,
                "counts": dict(counts),
                "found": len(found),
                "page": page,
                "page_size": _PAGE_SIZE,
                "locks": [_as_dict(track, since) for track in found[page * _PAGE_SIZE : (page + 1) * _PAGE_SIZE]],
                "events": [{**event._asdict(), "key": printable(event.key)} for event in reversed(events)],
                "left_out": self._left_out,
                "readings": self._readings,
                "is_reading": self._is_reading,
                "error": self._error,
            }

    def _look(self, record: LockRecord) -> None:
        """Compare a row with what was known of it."""
        if record.read_at is not None:
            self._now = max(self._now or 0.0, float(record.read_at))
        name = (record.key, record.sort_key)
        track = self._tracks.get(name)
        if track is None and len(self._tracks) >= self.most:
            self._left_out += 1
            return
        if track is None:
            track = self._tracks[name] = Track(record, "", self._scan)
        now = self._now or 0.0
        new = {(_bounded(base_of(holder.owner)), holder.fencing_token): holder for holder in _holders(record)}
        lasting = [(hold, new.pop((hold.owner, hold.token), None)) for hold in _open(track)]
        begun = [
            Tenure(
                *named, _began(holder, record, now), self._readings > 0, holder.expires_at, record.version, holder.take
            )
            for named, holder in new.items()
        ]
        ended = set()
        for hold, holder in lasting:
            if holder is None:
                hold.until, hold.ended = _end_of(hold, record, begun, now)
                ended.add(hold.ended)
                self._tell(hold.ended, record, hold.owner, hold.until)
            elif (holder.expires_at, record.version) != (hold.expires_at, hold.version):
                hold.renewals.append(_began(holder, record, now))
                hold.expires_at, hold.version = holder.expires_at, record.version
        for hold in begun:
            track.holds.append(hold)
            self._tell("took over" if "taken over" in ended else "granted", record, hold.owner, hold.since)
        state = show.state(record)
        if state == "expired" != track.state:
            self._tell("expired", record, _bounded(record.owner), record.expires_at or now)
        if (waiting := show.waiting(record)) != (track.waits[-1][1] if track.waits else 0):
            track.waits.append((now, waiting))
        track.record, track.state, track.scan = record, state, self._scan
        if track.holds:
            track.holds = [hold for hold in track.holds[-_HOLDS:] if (hold.until or now) >= now - _KEEP]
        del track.waits[:-_WAITS]

    def _tell(self, kind: str, record: LockRecord, owner: str, at: float) -> None:
        if self._readings:  # what the first reading finds happened before
            self._events.append(LoggedEvent(at, record.key, kind, owner))


def _as_dict(track: Track, since: float) -> dict[str, Any]:
    """A lock and what happened to it after ``since``, for JSON."""
    record = track.record
    names = ("owner", "token", "since", "is_seen_whole", "expires_at", "take", "until", "ended")
    holds = [
        {name: getattr(hold, name) for name in names} | {"renewals": [at for at in hold.renewals if at >= since]}
        for hold in track.holds
        if (hold.until or since) >= since
    ]
    return {
        "key": printable(record.key),
        "sort_key": record.sort_key and printable(record.sort_key),
        "state": track.state,
        "owner": record.owner and _bounded(record.owner),
        "holders": [_bounded(holder.owner) for holder in record.holders[:_NAMES]],
        "is_semaphore": show.is_semaphore(record),
        "held_by": show.held_by(record),
        "seconds_left": show.seconds_left(record),
        "token": record.fencing_token,
        "waiters": show.waiting(record),
        "rate": record.rate and printable(in_words(record.rate[:_OWNER])),
        "next_start": show.next_start(record),
        "read_at": record.read_at,
        "sleepers": record.sleepers,
        "unreadable": [_bounded(name) for name in record.unreadable[:_NAMES]],
        "holds": holds,
        "waits": track.waits,
    }


def _bounded(owner: str | None) -> str:
    """An owner as it is kept and shown. That of a foreign row may have 400 KB."""
    owner = owner or ""
    return printable(owner if len(owner) <= _OWNER else f"{owner[:_OWNER]}… ({len(owner)} characters)")


def _holders(record: LockRecord) -> Iterable[Holder]:
    """Who has the lock, also with a lease that has expired."""
    if record.is_expired:
        return (Holder(record.owner, record.expires_at, record.fencing_token),)
    return record.holders


def _open(track: Track) -> list[Tenure]:
    return [hold for hold in track.holds if hold.until is None]


def _began(holder: Holder, record: LockRecord, now: float) -> float:
    """When the present lease began. Now if the row does not tell: that of a semaphore, or a lease of many years."""
    began = (holder.expires_at or 0.0) - (record.lease_duration or 0.0)
    return min(began, now) if record.lease_duration is not None and began > 0 else now


def _end_of(hold: Tenure, record: LockRecord, begun: list[Tenure], now: float) -> tuple[float, Ended]:
    """When and how a hold ended that is not in the row any more."""
    next_began = min((other.since for other in begun), default=now)
    if hold.expires_at is None or hold.expires_at > next_began:
        return next_began, "released"
    if show.is_semaphore(record) or not begun:
        return hold.expires_at, "expired"
    return next_began, "taken over"


def _by_interest(track: Track) -> tuple[bool, str, str]:
    is_quiet = not track.holds and not show.waiting(track.record) and track.state in ("free", "completed")
    return is_quiet, track.record.key, track.record.sort_key or ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30.0  # seconds that a connection may be idle, and a read or write may take
    server: Server

    def do_GET(self) -> None:
        status, kind = HTTPStatus.OK, "text/plain"
        try:
            url = urlsplit(self.path)
            if self.headers.get("Host") not in self.server.names:
                # DNS rebinding: a page from elsewhere, whose name leads to 127.0.0.1, must not read the table.
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
