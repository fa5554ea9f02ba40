"""Waiting for a permit first come, first served. Loaded when an acquire with permits= has to wait.

The rules are those of queue.py, with these differences. "Free" means that fewer than N hold. With F permits free, the
first F in the queue may claim: who has i others ahead claims while more than i are free, and removes its own place. A
permit becomes free N times as often as one holder releases. So when to look follows from the time that the last one was
held, divided by N.
"""

from __future__ import annotations

from . import requests
from .acquire import Take
from .permits import PermitRow
from .queue import IDLE, LONGEST_COUNTED, LONGEST_NAP, SHORTEST_NAP, Ghosts, Pace, Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .acquire import Acquisition, Next
    from .lease import Look
    from .requests import Place
    from .row import Row, Schema


class PermitQueue(Queue):
    """The wait of one acquisition of a permit."""

    def __init__(self, acquisition: Acquisition, unreadable: Callable[[Place], None] | None = None) -> None:
        super().__init__(acquisition, unreadable)
        self.ghosts = _Ghosts()
        self.pace = _Pace()

    def is_idle(self, step: Next) -> bool:
        row, date = step.row if isinstance(step, Take) else None, self.acquisition.date
        if not isinstance(row, PermitRow) or date is None:
            return False
        since = row.all_free_since_ms(self.acquisition.wish.place.schema, date)
        return since is not None and date * 1000 - since >= IDLE * 1000

    def line(self, step: Take, waiters: tuple[str, ...], ahead: tuple[str, ...]) -> requests.Line | None:
        row = step.row
        if waiters and self.mine is not None and isinstance(row, PermitRow) and row.free > len(ahead):
            return requests.Line(index=len(ahead), place=self.mine, behind=len(ahead))
        return super().line(step, waiters, ahead)


class _Ghosts(Ghosts):
    def __init__(self) -> None:
        super().__init__()
        self._since: dict[str, float] = {}  # when this acquisition saw each entry first, as it is

    def is_seen(self, row: Row | None, look: Look) -> bool:
        if not isinstance(row, PermitRow):
            return True
        entries = [entry for entry in row.entries.values() if entry is not None]
        self._since = {entry.text: self._since.get(entry.text, look.elapsed) for entry in entries}
        dead = [entry for entry in row.dead.values() if look.elapsed - self._since[entry.text] >= entry.lease_ms / 1000]
        return row.permits - len(row.entries) + len(dead) > 0

    def all_see(self, step: Take, date: int | None) -> bool:
        return isinstance(step.row, PermitRow) and step.row.free_by(date) > 0


class _Pace(Pace):
    """The next release is always as far away, because nobody knows which of the holders it will be. So a nap is a part
    of the time between two releases. While nothing changes for longer than expected, looks become rarer."""

    def __init__(self) -> None:
        super().__init__()
        self._permits, self._free = 1, 0
        self._changed = 0.0  # elapsed seconds
        self._shown: object = None  # what changes with each grant and release

    def note(self, row: Row | None, look: Look, date: int | None, schema: Schema) -> None:
        if not isinstance(row, PermitRow):
            return
        self._permits, self._free = row.permits, max(row.free, 0)
        shown = row.item.get(schema.token), len(row.entries)
        if shown == self._shown:
            return
        self._shown, self._changed = shown, look.elapsed
        held_ms = row.held_ms(schema)
        if held_ms is not None:
            self.learn(held_ms / 1000)

    def nap(self, ahead: int, look: Look, free: float | None) -> float:
        every = self.hold / self._permits  # seconds between two releases
        gap = min(max(self.hold / 10, SHORTEST_NAP), 0.15)
        turn = 0.3 * max(ahead - self._free, 0) * every
        if free is not None:
            return min(max(gap, 0.3 * free) + turn, LONGEST_COUNTED)
        late = 0.05 * (look.elapsed - self._changed - every)
        return min(max(gap, every / 100, late) + turn, LONGEST_NAP)
