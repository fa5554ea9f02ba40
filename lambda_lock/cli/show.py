"""Reads the locks of a table, and prints them: as a table on a terminal, as lines in a pipe, or as JSON."""

from __future__ import annotations

import heapq
import json
import math
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, repeat
from typing import Any, NamedTuple

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..client.listing import pages_of
from ..client.lock_client import LockClient
from ..client.reads import ask
from ..client.record import LockRecord
from ..core.rate import in_words
from ..core.requests import encode_data
from ..core.row import MOST_PERMITS
from ..errors import LockError, printable
from .exits import say

_STYLES = {"held": "green", "expired": "yellow", "free": "dim", "completed": "cyan", "unreadable": "red", "rate": "dim"}
STATES = tuple(_STYLES)  # the words of `state`
_HOLDER_FIELDS = ("owner", "expires_at", "fencing_token", "take")
_FIELDS = (
    *("key", "sort_key", "state", "owner", "holders", "taken", "fencing_token", "lease_duration", "seconds_left"),
    *("expires_at", "read_at", "version", "data", "attributes", "completed_until", "result", "waiters", "sleepers"),
    *("unreadable", "rate", "next_at"),
)
_NONCE_SHOWN = 6  # digits of an owner's nonce in the table: enough to tell two owners apart at a glance
_GAP = 2  # columns between two of the table's
_LEAST = 8  # columns for a key or an owner
_FAR = 1e10  # seconds: a start after that is of a damaged row
_AROUND = 4  # lines of a screen that are not locks


def state(record: LockRecord) -> str:
    """The state of a lock, in one word.

    - held
    - expired: held, but its stored expiry has passed
    - free
    - completed: a deduplicated event that is done
    - rate: a rate limit, which nobody holds
    - unreadable: an attribute of the lock is damaged or belongs to another schema
    - never a lock: the row is another program's, or was made for ``only_if_exists``. `list` leaves such rows out
    """
    if record.rate is not None:
        return "unreadable" if record.unreadable else "rate"
    if record.is_released and record.version is None and record.fencing_token is None:
        return "never a lock"
    if record.unreadable:
        return "unreadable"
    if record.is_expired:
        return "expired"
    if not record.is_released:
        return "held"
    is_done = record.completed_until is not None and record.completed_until > (record.read_at or 0)
    return "completed" if is_done else "free"


def seconds_left(record: LockRecord) -> float | None:
    """Seconds until the stored expiry, below zero once it has passed.

    None if the lock is not held, or if a foreign client holds it and stored no expiry.
    """
    if record.is_released or record.expires_at is None or record.read_at is None:
        return None
    return round(record.expires_at - record.read_at, 3)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def is_semaphore(record: LockRecord) -> bool:
    """Whether the permits of a semaphore are held, or cannot be read."""
    return record.version is None and not record.is_released


def _owners(record: LockRecord) -> list[str]:
    if is_semaphore(record):
        return [holder.owner or "" for holder in record.holders]
    return [record.owner or ""]


def _holding(record: LockRecord) -> list[str]:
    """Who holds a semaphore, one on each line."""
    holders = record.holders if is_semaphore(record) else ()
    owners = [printable(holder.owner or "unreadable") for holder in holders]
    width = max(map(len, owners), default=0)
    return [
        owner.ljust(width)
        + (f" until {moment(holder.expires_at)}, token {holder.fencing_token}" if holder.owner else "")
        + (f", takes {holder.take}" if holder.take > 1 else "")
        for owner, holder in zip(owners, holders, strict=True)
    ]


def as_dict(record: LockRecord) -> dict[str, Any]:
    """A record as a dict for JSON."""
    found = {name: getattr(record, name, None) for name in _FIELDS}
    holders = [{name: getattr(holder, name) for name in _HOLDER_FIELDS} for holder in record.holders]
    if (at := next_start(record)) is not None:
        found |= {"waiters": waiting(record), "next_start": at}
    return found | {"state": state(record), "holders": holders, "seconds_left": seconds_left(record)}


def print_json(value: object) -> None:
    """Print ``value`` as JSON on stdout. It is ASCII, so no text in a row can control a terminal."""
    click.echo(_json(value, indent=2))


def print_json_array(values: Iterable[object], one_line: bool) -> None:
    """Print a JSON array on stdout, each value as it comes. If a reading fails, the line that was begun ends."""
    between, opening = "" if one_line else "\n", "["
    try:
        for value in values:
            text = _json(value) if one_line else textwrap.indent(_json(value, indent=2), "  ")
            click.echo(f"{opening}{between}{text}", nl=False)
            opening = ","
    except LockError:
        if opening == ",":  # the next list is to begin on a line of its own
            click.echo()
        raise
    click.echo("[]" if opening == "[" else f"{between}]")


def print_lines(records: Iterable[LockRecord]) -> None:
    """Print one line for each lock, for other programs.

    The fields are key, sort key, state, seconds left, token and owner, separated by tabs. A semaphore has several
    owners, separated by commas.
    """
    for record in records:
        owners = ",".join(_owners(record))
        fields = (record.key, record.sort_key, state(record), seconds_left(record), record.fencing_token, owners)
        click.echo("\t".join(printable(_text(field)) for field in fields))


def summary(counts: Counter[str], more: str = "") -> Text:
    """A line that says how many locks are in which state."""
    said = ", ".join(f"{counts[name]} {name}" for name in STATES if counts[name])
    total = counts.total()
    return Text(f"{total} lock{'' if total == 1 else 's'}{': ' + said if said else ''}{more}", "dim")


def lock_table(records: Sequence[LockRecord], width: int) -> Table:
    """Locks as a table for a terminal of ``width`` columns. Keys that are too long for it are cut in the middle."""
    rows = [
        {
            "KEY": Text(printable(record.key)),
            "SORT KEY": Text(printable(record.sort_key or "")),
            "STATE": Text(_with_time(record), _STYLES.get(state(record), "red")),
            "OWNER": Text("" if record.is_released else ", ".join(map(_short, _owners(record)))),
            "TOKEN": Text(_text(record.fencing_token)),
            "WAITING": Text(_waiting(record) or ""),
        }
        for record in records
    ]
    names = ("KEY", "SORT KEY", "STATE", "OWNER", "TOKEN", "WAITING")
    shown = [name for name in names if name not in ("SORT KEY", "WAITING") or any(row[name] for row in rows)]
    widths = {name: max([len(name), *(row[name].cell_len for row in rows)]) for name in shown}
    keys = [name for name in shown if name.endswith("KEY")]
    left = width - _GAP * len(shown) - sum(widths[name] for name in shown if name not in (*keys, "OWNER"))
    wanted = sum(widths[name] for name in keys)
    share = min(width // 4, left // (1 + len(keys)))
    widths["OWNER"] = min(widths["OWNER"], max(_LEAST, share, left - wanted))
    most = max(_LEAST, (left - widths["OWNER"]) // len(keys))
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in shown:
        limit = min(widths[name], most) if name in keys else widths[name]
        justify: Any = "right" if name in ("TOKEN", "WAITING") else "left"
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=limit, justify=justify)
    for row in rows:
        table.add_row(*(_cut(row[name], most) if name in keys else row[name] for name in shown))
    return table


def _cut(text: Text, most: int) -> Text:
    """A text without its middle if it is longer than ``most``: what tells keys apart is at their ends."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return text[: most - 1 - end] + Text("\N{HORIZONTAL ELLIPSIS}") + text[len(text) - end :]


def print_record(record: LockRecord, *, err: bool = False) -> None:
    """Print one lock, with one line for each of its parts."""
    held = not record.is_released
    parts: list[tuple[str, str | None]] = [
        ("key", record.key),
        ("sort key", record.sort_key),
        ("state", _with_time(record)),
        ("unreadable", ", ".join(record.unreadable) or None),
        ("owner" if held else "last owner", record.owner),
        *zip(chain(["holders"], repeat("")), _holding(record), strict=False),
        ("lease", None if record.lease_duration is None else f"{record.lease_duration:g} s"),
        ("expires", moment(record.expires_at) if held else None),
        ("fencing token", _text(record.fencing_token) or None),
        ("waiting", _waiting(record)),
        ("rate", record.rate and in_words(record.rate)),
        ("next start", _next_start(record)),
        ("completed until" if state(record) == "completed" else "was done until", moment(record.completed_until)),
        ("result", record.result),
        ("data", None if record.data is None else _readable(record.data)),
        ("attributes", _json(record.attributes) if record.attributes else None),
    ]
    console = Console(stderr=err, highlight=False, soft_wrap=True)
    lines = [(name, text) for name, text in parts if text is not None]
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        style = _STYLES.get(state(record), "red") if name == "state" else ""
        console.print(Text.assemble((f"{name:<{width}}  ", "bold"), (printable(text), style)))


def queued_starts(record: LockRecord) -> tuple[float, int] | None:
    """Of a rate limit: in how many seconds the next start is free, and how many starts were given out that are not due.

    None: it is not one, or cannot be read.
    """
    try:
        limit, per, burst = map(float, (record.rate or "").split("/"))
        ahead = (record.next_at - record.read_at) * limit / per - burst  # type: ignore[operator]  # see except
        after, queued = max((ahead + 1) * per / limit, 0.0), max(0, math.ceil(ahead))  # nan stays nan
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return (after, queued) if after < _FAR else None


def waiting(record: LockRecord) -> int:
    """How many wait: acquires in the queue, or starts of a rate limit that are not due."""
    found = None if record.rate is None else queued_starts(record)
    return record.waiters if found is None else found[1]


def next_start(record: LockRecord) -> float | None:
    """When the next start of a rate limit is free, in epoch seconds; not before `read_at`."""
    found = queued_starts(record)
    return None if found is None or record.read_at is None else round(record.read_at + found[0], 3)


def _next_start(record: LockRecord) -> str | None:
    at = next_start(record)
    if at is None or record.read_at is None:
        return None
    return f"{moment(at)}, in {duration(at - record.read_at)}" if at > record.read_at else "now"


def _waiting(record: LockRecord) -> str | None:
    count, asleep = waiting(record), f" ({record.sleepers} asleep)" if record.sleepers else ""
    return f"{count}{asleep}" if count or asleep else None


def _with_time(record: LockRecord) -> str:
    name, left = state(record), seconds_left(record)
    if name == "rate" and (found := queued_starts(record)) is not None:
        return f"rate, next in {duration(found[0])}" if found[0] else "rate"
    if name in ("unreadable", "never a lock", "rate"):
        return name
    if is_semaphore(record):
        return held_by(record)
    if left is None:
        return "held, no expiry" if name == "held" else name
    return f"held, {duration(left)} left" if name == "held" else f"expired {duration(-left)} ago"


def held_by(record: LockRecord) -> str:
    """How many hold a semaphore. Its row does not say N, so readers look like all who take one."""
    if any(holder.take == MOST_PERMITS for holder in record.holders):
        return "held by a writer"
    count = len(record.holders)
    return f"held by {count}" if record.taken == count else f"held by {count}, who take {record.taken}"


def duration(seconds: float) -> str:
    """A rounded duration in a suitable unit: 12 s, 3 min, 5 h, 2 d."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _short(owner: str) -> str:
    prefix, separator, nonce = owner.rpartition("#")
    return printable(f"{prefix}#{nonce[:_NONCE_SHOWN]}" if separator and len(nonce) == 32 else owner)


def moment(seconds: float | None) -> str | None:
    """A time as text, in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _readable(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"{len(data)} bytes, base64 {encode_data(data)}"


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, default=_plain)


def _plain(value: object) -> object:
    """Convert a value that JSON has no type for: a set to a list, bytes to base64, a Decimal to a number."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes | bytearray):
        return encode_data(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)


class Filter(NamedTuple):
    """Which locks to show.

    prefix: only keys that begin with this text.
    states: only these states, in the words of `state`; none: all.
    held: only locks that are held, or were held until their lease expired.
    completed: show events that are completed also in a list for people, which only counts them otherwise.
    """

    prefix: str = ""
    states: frozenset[str] = frozenset()
    held: bool = False
    completed: bool = False

    def admits(self, record: LockRecord) -> bool:
        if not record.key.startswith(self.prefix) or (self.held and record.is_released):
            return False
        return not self.states or state(record) in self.states

    def is_shown(self, record: LockRecord) -> bool:
        """Whether a list for people shows it, which only counts it otherwise."""
        return self.completed or bool(self.states) or state(record) != "completed"


def read_pages(client: LockClient, key: str | None = None) -> Iterator[list[LockRecord]]:
    """The locks of a table, or of one of its partitions, as the answers arrive: a list for each page of DynamoDB's.

    Raises what `LockClient.list` raises.
    """
    session = client.__session__
    pages = pages_of(session, key)
    while (request := pages.request()) is not None:
        yield list(pages.records(client.__runner__.run(ask(session, pages.place, request))))


class Listing(NamedTuple):
    """The locks to print.

    key: only those of this partition; None: of all. wanted: only these. as_json: print JSON instead of a table on a
    terminal, and lines in a pipe.
    """

    client: LockClient
    key: str | None
    wanted: Filter
    as_json: bool

    def print_all(self, *, one_line: bool = False) -> None:
        """Print the locks once. one_line: the JSON array is to be a line."""
        if self.as_json:
            print_json_array((as_dict(record) for page in self._pages() for record in page), one_line)
        elif not sys.stdout.isatty():
            for page in self._pages():
                print_lines(page)
        else:
            console, counts, shown = Console(highlight=False), Counter[str](), 0
            for page in self._pages():
                counts.update(map(state, page))
                if first := sorted(filter(self.wanted.is_shown, page), key=_by_interest):
                    console.print(lock_table(first, console.width))
                    shown += len(first)
            if not shown:
                console.print(lock_table([], console.width))
            hidden = counts.total() - shown
            console.print("\n", summary(counts, f". --all lists the {hidden} completed" if hidden else ""), sep="")

    def watch(self, interval: float) -> None:
        """Show the locks again and again until Ctrl-C: in place on a terminal, one after the other in a pipe.

        As JSON, each list is one array on a line of its own. A reading that fails is reported, and tried again.
        An error of the first request is raised: a wrong table, a missing permission.
        """
        try:
            next(self._pages(), None)
            while True:
                try:
                    if not self.as_json and sys.stdout.isatty():
                        self._watch_on_terminal(interval)
                    self.print_all(one_line=True)
                except LockError as error:
                    say(f"{error}. It is tried again", "yellow")
                time.sleep(interval)
        except KeyboardInterrupt:
            return  # Ctrl-C is the regular way to end a watch

    def _watch_on_terminal(self, interval: float) -> None:
        console = Console(highlight=False)
        with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            is_first = True
            while True:
                counts, first = Counter[str](), list[LockRecord]()
                for page in self._pages():
                    counts.update(map(state, page))
                    found = [*first, *filter(self.wanted.is_shown, page)]
                    first = heapq.nsmallest(max(1, console.height - _AROUND), found, key=_by_interest)
                    if is_first:  # later the last complete list stays until the next one is complete
                        live.update(_screen(counts, first, console.width, "reading"), refresh=True)
                is_first = False
                live.update(_screen(counts, first, console.width, time.strftime("%H:%M:%S")), refresh=True)
                time.sleep(interval)

    def _pages(self) -> Iterator[list[LockRecord]]:
        for page in read_pages(self.client, self.key):
            yield _in_order(filter(self.wanted.admits, page))


def _in_order(records: Iterable[LockRecord]) -> list[LockRecord]:
    return sorted(records, key=lambda record: (record.key, record.sort_key or ""))


def _by_interest(record: LockRecord) -> tuple[bool, bool, str, str]:
    """Those that are held, expired or unreadable come first, also where not all locks fit on the screen."""
    is_quiet = state(record) in ("free", "completed")
    return is_quiet, not waiting(record), record.key, record.sort_key or ""


def _screen(counts: Counter[str], first: list[LockRecord], width: int, note: str) -> Group:
    more = f", {len(first)} shown" if len(first) < counts.total() else ""
    return Group(summary(counts, f"{more}   {note}"), "", lock_table(first, width))
