"""`lambda-lock ls`: prints the locks of a table as they are read, once or again and again."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live

from ..client.lock_client import LockClient
from ..client.record import LockRecord
from . import show
from .listing import Filter, Glance, in_order, read_pages

_AROUND = 4  # lines of a screen that are not locks


class Listed(NamedTuple):
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
        elif sys.stdout.isatty():
            self._print_tables()
        else:
            for page in self._pages():
                show.print_lines(page)

    def watch(self, interval: float) -> None:
        """Show the locks again and again until Ctrl-C: in place on a terminal, one after the other in a pipe.

        As JSON, each list is one array on a line of its own.
        """
        try:
            if not self.as_json and sys.stdout.isatty():
                self._watch_on_terminal(interval)
            while True:
                self.print_all(one_line=True)
                time.sleep(interval)
        except KeyboardInterrupt:
            return  # Ctrl-C is the regular way to end a watch

    def _pages(self) -> Iterator[list[LockRecord]]:
        for page in read_pages(self.client, self.key):
            yield in_order(filter(self.wanted.admits, page))

    def _print_tables(self) -> None:
        console, counts = Console(highlight=False), Counter[str]()
        for page in filter(None, self._pages()):
            console.print(show.lock_table(page, console.width))
            counts.update(map(show.state, page))
        if not counts:
            console.print(show.lock_table([], console.width))
        console.print("\n", show.summary(counts), sep="")

    def _watch_on_terminal(self, interval: float) -> None:
        console = Console(highlight=False)
        with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            is_first = True
            while True:
                glance = Glance(max(1, console.height - _AROUND))
                for page in self._pages():
                    glance.add(page)
                    if is_first:  # later the last complete list stays until the next one is complete
                        live.update(_screen(glance, console.width, "reading"), refresh=True)
                is_first = False
                live.update(_screen(glance, console.width, time.strftime("%H:%M:%S")), refresh=True)
                time.sleep(interval)


def _screen(glance: Glance, width: int, note: str) -> Group:
    first = glance.first
    more = f", {len(first)} shown" if len(first) < glance.counts.total() else ""
    return Group(show.summary(glance.counts, f"{more}   {note}"), "", show.lock_table(first, width))
