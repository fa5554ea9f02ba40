"""What happened to the locks of a table, as far as reading it again and again tells.

Every look at a row is compared with the one before. A hold is one grant: an owner and a fencing token. What begins and
ends between two looks is not seen. Times are those of DynamoDB's Date, in epoch seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ..client.record import LockRecord
from ..core.lease import Holder
from ..errors import printable
from . import show
from .listing import Filter

Ended = Literal["released", "taken over", "expired"]

_HOLDS = 200  # kept for each lock
_RENEWALS = 500  # kept for each hold
_WAITS = 500  # changes of the number of waiters, kept for each lock
_EVENTS = 1000  # kept for all locks
_OWNER = 600  # characters kept of an owner; ours have at most 545 bytes
_NAMES = 100  # holders, and names of attributes, shown for each lock: a foreign row has up to 400 KB of them


@dataclass(slots=True)
class Tenure:
    """One grant of a lock or a permit: a hold, from its beginning to its end.

    since: when it began; where that was not seen, when its lease began for the last time.
    is_seen_whole: whether it began after we first looked.
    expires_at: the stored expiry; None if another client library wrote the row.
    until: when it ended; None while it lasts. A lock whose lease has expired is held until another takes it over.
    ended: how it ended.
    """

    owner: str
    token: int | None
    since: float
    is_seen_whole: bool
    expires_at: float | None
    version: str | None
    renewals: deque[float] = field(default_factory=lambda: deque(maxlen=_RENEWALS))
    until: float | None = None
    ended: Ended | None = None


@dataclass(slots=True)
class Track:
    """A lock and its past. Most locks of a large table have none, and an empty list is smaller than a deque."""

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


class History:
    """The locks of a table and their recent past.

    keep: how long the past is kept, in seconds.
    most: how many locks are kept. Those beyond are counted only.

    Call `begin`, `look` for each page, and `end` when all pages were read. It is not thread-safe.
    """

    def __init__(self, keep: float = 900.0, most: int = 250_000) -> None:
        self.keep = keep
        self.most = most
        self.now: float | None = None
        self.left_out = 0
        self.scans = 0
        self.events: deque[LoggedEvent] = deque(maxlen=_EVENTS)
        self._tracks: dict[tuple[str, str | None], Track] = {}
        self._scan = 0

    def begin(self) -> None:
        """A new reading of the table begins."""
        self._scan += 1
        self.left_out = 0

    def reading(self, records: Iterable[LockRecord]) -> None:
        """Take in a page of the table."""
        for record in records:
            if record.read_at is not None:
                self.now = max(self.now or 0.0, float(record.read_at))
            name = (record.key, record.sort_key)
            track = self._tracks.get(name)
            if track is None and len(self._tracks) >= self.most:
                self.left_out += 1
                continue
            if track is None:
                track = self._tracks[name] = Track(record, "", self._scan)
            self._compare(track, record)

    def end(self) -> None:
        """The whole table was read: rows that were not seen are gone."""
        gone = [name for name, track in self._tracks.items() if track.scan != self._scan]
        for name in gone:
            track = self._tracks.pop(name)
            for hold in _open(track):
                self._tell("deleted", track.record, hold.owner, self.now or 0.0)
        self.scans += 1

    def counts(self, prefix: str = "") -> Counter[str]:
        """How many locks are in which state, and how many of them are waited for."""
        found: Counter[str] = Counter()
        for track in self._tracks.values():
            if track.record.key.startswith(prefix):
                found[track.state] += 1
                found["waiting"] += bool(track.record.waiters)
        return found

    def tracks(self, wanted: Filter) -> list[Track]:
        """The locks that are asked for: first those with a past or a present, then the rest."""
        return sorted((track for track in self._tracks.values() if wanted.admits(track.record)), key=_by_interest)

    def _compare(self, track: Track, record: LockRecord) -> None:
        now = self.now or 0.0
        new = {(_short(holder.owner), holder.fencing_token): holder for holder in _holders(record)}
        lasting = [(hold, new.pop((hold.owner, hold.token), None)) for hold in _open(track)]
        begun = [
            Tenure(*named, _began(holder, record, now), self.scans > 0, holder.expires_at, record.version)
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
            self._tell("expired", record, _short(record.owner), record.expires_at or now)
        if record.waiters != (track.waits[-1][1] if track.waits else 0):
            track.waits.append((now, record.waiters))
        track.record, track.state, track.scan = record, state, self._scan
        if track.holds:
            track.holds = [hold for hold in track.holds[-_HOLDS:] if (hold.until or now) >= now - self.keep]
        del track.waits[:-_WAITS]

    def _tell(self, kind: str, record: LockRecord, owner: str, at: float) -> None:
        if self.scans:  # what the first reading finds happened before
            self.events.append(LoggedEvent(at, record.key, kind, owner))


def as_dict(track: Track, since: float) -> dict[str, Any]:
    """A lock and what happened to it after ``since``, for JSON."""
    record = track.record
    names = ("owner", "token", "since", "is_seen_whole", "expires_at", "until", "ended")
    holds = [
        {name: getattr(hold, name) for name in names} | {"renewals": [at for at in hold.renewals if at >= since]}
        for hold in track.holds
        if (hold.until or since) >= since
    ]
    return {
        "key": printable(record.key),
        "sort_key": record.sort_key and printable(record.sort_key),
        "state": track.state,
        "owner": record.owner and _short(record.owner),
        "holders": [_short(holder.owner) for holder in record.holders[:_NAMES]],
        "is_semaphore": show.is_semaphore(record),
        "seconds_left": show.seconds_left(record),
        "token": record.fencing_token,
        "waiters": record.waiters,
        "unreadable": [_short(name) for name in record.unreadable[:_NAMES]],
        "holds": holds,
        "waits": track.waits,
    }


def _short(owner: str | None) -> str:
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
        return next_began if begun else now, "released"
    if show.is_semaphore(record) or not begun:
        return hold.expires_at, "expired"
    return next_began, "taken over"


def _by_interest(track: Track) -> tuple[bool, str, str]:
    is_quiet = not track.holds and not track.record.waiters and track.state in ("free", "completed")
    return is_quiet, track.record.key, track.record.sort_key or ""
