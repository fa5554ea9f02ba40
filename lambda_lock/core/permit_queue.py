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
from .queue import IDLE, USUAL_HOLD, Ghosts, Pace, Queue

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
        self._ghosts = _Ghosts()
        self._pace = _Pace()

    def _idle(self, step: Next) -> bool:
        row, date = step.row if isinstance(step, Take) else None, self.acquisition.date
        if not isinstance(row, PermitRow) or date is None:
            return False
        since = row.all_free_since_ms(self.acquisition.wish.place.schema, date)
        return since is not None and date * 1000 - since >= IDLE * 1000

    def _line(self, step: Take, waiters: tuple[str, ...], ahead: tuple[str, ...]) -> requests.Line | None:
        row = step.row
        if waiters and self.mine is not None and isinstance(row, PermitRow) and row.free > len(ahead):
            return requests.Line(index=len(ahead), place=self.mine, behind=len(ahead))
        return super()._line(step, waiters, ahead)


class _Ghosts(Ghosts):
    def _all_see(self, step: Take, date: int | None) -> bool:
        return isinstance(step.row, PermitRow) and step.row.free_by(date) > 0


class _Pace(Pace):
    """The next release is always as far away: nobody knows which of the holders it will be. While nothing changes for
    longer than expected, looks become rarer."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: object = None  # what changes with each grant and release

    def note(self, row: Row | None, look: Look, date: int | None, schema: Schema) -> None:
        if not isinstance(row, PermitRow):
            return
        held_ms = row.held_ms(schema)
        self._hold = (USUAL_HOLD if held_ms is None else held_ms / 1000) / row.permits
        shown = row.item.get(schema.token), len(row.entries)
        if shown != self._shown:
            self._shown, self._since = shown, look.elapsed

    def _left(self, hold: float, held: float) -> float:
        return hold
