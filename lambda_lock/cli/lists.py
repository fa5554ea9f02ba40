"""`lambda-lock ls`: prints the locks of a table as they are read, once or again and again."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live

from ..client.lock_client import LockClient
from ..client.record import LockRecord
from . import show
from .listing import Filter, Glance, in_order, read_pages

_AROUND = 4  # lines of a screen that are not locks


def print_all(client: LockClient, key: str | None, wanted: Filter, as_json: bool) -> None:
    """Print the locks once: a table on a terminal, lines or JSON in a pipe."""
    _print(_pages(client, key, wanted), as_json)


def watch(client: LockClient, key: str | None, wanted: Filter, interval: float, as_json: bool) -> None:
    """Show the locks again and again until Ctrl-C: in place on a terminal, one after the other in a pipe.

    As JSON, each list is one array on a line of its own.
    """
    try:
        if not as_json and sys.stdout.isatty():
            _watch_on_terminal(client, key, wanted, interval)
        while True:
            _print(_pages(client, key, wanted), as_json, one_line=True)
            time.sleep(interval)
    except KeyboardInterrupt:
        return  # Ctrl-C is the regular way to end a watch


def _pages(client: LockClient, key: str | None, wanted: Filter) -> Iterator[list[LockRecord]]:
    for page in read_pages(client, key):
        yield in_order(filter(wanted.admits, page))


def _print(pages: Iterator[list[LockRecord]], as_json: bool, one_line: bool = False) -> None:
    if as_json:
        show.print_json_array((show.as_dict(record) for page in pages for record in page), one_line=one_line)
    elif sys.stdout.isatty():
        _print_tables(pages)
    else:
        for page in pages:
            show.print_lines(page)


def _print_tables(pages: Iterator[list[LockRecord]]) -> None:
    console, counts, page = Console(highlight=False), Counter[str](), None
    for page in filter(None, pages):
        console.print(show.lock_table(page, console.width))
        counts.update(map(show.state, page))
    if page is None:
        console.print(show.lock_table([], console.width))
    console.print("\n", show.summary(counts), sep="")


def _watch_on_terminal(client: LockClient, key: str | None, wanted: Filter, interval: float) -> None:
    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        is_first = True
        while True:
            glance = Glance(max(1, console.height - _AROUND))
            for page in _pages(client, key, wanted):
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
