"""Reads the locks of a table for `ls` and `dashboard`: page by page, and only those that are asked for."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..client.base import run, session_of
from ..client.lock_client import LockClient
from ..client.record import LockRecord, ask, pages_of
from . import show


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


def in_order(records: Iterable[LockRecord]) -> list[LockRecord]:
    """The records, sorted by their keys."""
    return sorted(records, key=lambda record: (record.key, record.sort_key or ""))


class Glance:
    """What fits on one screen of a table of any size: how many locks there are, and the first few.

    room: how many locks to keep. If there are more, those that are held, expired or unreadable come first.
    """

    def __init__(self, room: int) -> None:
        self.counts: Counter[str] = Counter()
        self._room = room
        self._first: list[LockRecord] = []

    def add(self, records: Iterable[LockRecord]) -> None:
        records = list(records)
        self.counts.update(map(show.state, records))
        self._first = heapq.nsmallest(self._room, [*self._first, *records], key=_by_interest)

    @property
    def first(self) -> list[LockRecord]:
        return in_order(self._first)


def _by_interest(record: LockRecord) -> tuple[bool, bool, str, str]:
    is_quiet = show.state(record) in ("free", "completed")
    return is_quiet, not record.waiters, record.key, record.sort_key or ""
