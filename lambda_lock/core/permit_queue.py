"""Waiting for a permit first come, first served. Loaded when an acquire with permits= has to wait.

The rules are those of queue.py, with these differences. "Free" means that fewer than N hold. With F permits free, the
first F in the queue may claim: a waiter claims while more permits are free than tickets that count are ahead. A permit
becomes free N times as often as one holder releases. So when to look follows from the time that the last one was held,
divided by N.

Where the row counts weights (permits.py), a ticket says what its owner takes, and these come in addition:

1. **Order.** A waiter claims while what is free, less what those ahead need, is enough for it. So those behind one who
   takes all wait, and those ahead of it go in together.
2. **Passing.** The first one ahead lets the lock go by while as much is free, by the Date, as it needs. Who passes it
   leaves the others ahead what they need, if one of them takes more than 1: that one cannot take what is free now, so
   nobody may say that it let it go by.
3. **Nobody passes one who waits for more than 1**, whether by a last try, without the queue, by holder, or asleep:
   while its ticket counts, a caller without a ticket claims only if enough is free for all whose tickets count, and for
   itself. Otherwise callers that take one whenever one becomes free would starve it. The same holds for a caller that
   takes more than 1, whoever waits: else writers that try whenever the row is free would starve a reader. So the first
   claim of a row that counts weights requires that nobody waits. If its refusal shows that enough is free, the next
   claim follows at once. A heavy waiter that died costs the others its ticket: 10 to 35 s. Where callers pass different
   N, each believes that nobody needs more than its own.
4. In a row that does not count weights yet, one who takes more than 1 needs all N: the row changes over while nobody
   holds (rule 10 of permits.py).
"""

from __future__ import annotations

from .permits import PermitRow
from .queue import LONGEST_COUNTED, LONGEST_NAP, SHORTEST_NAP, Pace, Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .acquire import Acquisition
    from .lease import ClockReading
    from .requests import Place
    from .row import Row


def queue_for_permit(acquisition: Acquisition, unreadable: Callable[[Place], None] | None = None) -> Queue:
    """The wait of one acquisition of a permit."""
    return Queue(acquisition, unreadable, PermitPace())


class PermitPace(Pace):
    """When to look. The last release does not say when the next one comes, because any holder may be next. So a nap is
    a part of the time between two releases. While nothing changes for longer than expected, looks become rarer."""

    GAP = 0.1  # lower than a lock's: of several holders, one may release before the time that they usually take
    LONGEST_GAP = 0.15  # seconds: more than a lock's, because nobody knows which of the holds is near its end
    TURN = 0.3  # lower than a lock's: a waiter further back sleeps this in addition, at each look

    def __init__(self) -> None:
        super().__init__()
        self._permits, self._free = 1, 0
        self._shown: object = None  # what changes with each grant and release

    def note(self, row: Row | None, reading: ClockReading, date: int | None) -> None:
        if not isinstance(row, PermitRow):
            return
        self._permits, self._free = row.at_once, max(row.free, 0)
        shown = row.item.get(row.schema.token), len(row.entries)
        if shown == self._shown:
            return
        self._shown, self._since = shown, reading.elapsed
        held_ms = row.held_ms()
        if held_ms is not None:
            self.learn(held_ms / 1000 / row.at_once)

    def nap(self, ahead: int, reading: ClockReading, free: float | None) -> float:
        """As for a lock, but ``hold`` is the time between two releases."""
        gap = min(max(self.hold * self._permits * self.GAP, SHORTEST_NAP), self.LONGEST_GAP)
        turn = self.TURN * max(ahead - self._free, 0) * self.hold
        if free is not None:
            return min(max(gap, self.LET_GO_BY * free) + turn, LONGEST_COUNTED)
        late = self.LATE * (reading.elapsed - self._since - self.hold)
        return min(max(gap, self.hold * self.LONG, late) + turn, LONGEST_NAP)
