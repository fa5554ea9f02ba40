"""Reads the locks of a table page by page, and `lambda-lock ls`: prints them as they are read."""

from __future__ import annotations

import heapq
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live

from ..client.lock_client import LockClient
from ..client.pages import pages_of
from ..client.record import LockRecord, ask
from ..client.session import run, session_of
from ..errors import LockError
from . import show
from .exits import say

_AROUND = 4  # lines of a screen that are not locks


class Filter(NamedTuple):
    """Which locks to show.

    prefix: only keys that begin with this text.
    states: only these states, in the words of `show.state`; none: all.
    held: only locks that are held, or were held until their lease expired.
    """

    prefix: str = ""
    states: frozenset[str] = frozenset()
    held: bool = False

    def admits(self, record: LockRecord) -> bool:
        if not record.key.startswith(self.prefix) or (self.held and record.is_released):
            return False
        return not self.states or show.state(record) in self.states


def read_pages(client: LockClient, key: str | None = None) -> Iterator[list[LockRecord]]:
    """The locks of a table, or of one of its partitions, as the answers arrive: a list for each page of DynamoDB's.

    Raises what `LockClient.list` raises.
    """
    session = session_of(client)
    pages = pages_of(session, key)
    while (request := pages.request()) is not None:
        yield list(pages.take(run(client, ask(session, pages.place, request))))


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
            show.print_json_array((show.as_dict(record) for page in self._pages() for record in page), one_line)
        elif not sys.stdout.isatty():
            for page in self._pages():
                show.print_lines(page)
        else:
            console, counts = Console(highlight=False), Counter[str]()
            for page in filter(None, self._pages()):
                console.print(show.lock_table(page, console.width))
                counts.update(map(show.state, page))
            if not counts:
                console.print(show.lock_table([], console.width))
            console.print("\n", show.summary(counts), sep="")

    def watch(self, interval: float) -> None:
        """Show the locks again and again until Ctrl-C: in place on a terminal, one after the other in a pipe.

        As JSON, each list is one array on a line of its own. A reading that fails is told, and tried again. What the
        first request is refused for is raised: a wrong table, a missing permission.
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
                    counts.update(map(show.state, page))
                    first = heapq.nsmallest(max(1, console.height - _AROUND), [*first, *page], key=_by_interest)
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
    """Where not all locks fit on the screen, those that are held, expired or unreadable come first."""
    is_quiet = show.state(record) in ("free", "completed")
    return is_quiet, not record.waiters, record.key, record.sort_key or ""


def _screen(counts: Counter[str], first: list[LockRecord], width: int, note: str) -> Group:
    more = f", {len(first)} shown" if len(first) < counts.total() else ""
    return Group(show.summary(counts, f"{more}   {note}"), "", show.lock_table(_in_order(first), width))
