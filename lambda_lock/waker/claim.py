"""The waker's claim for a sleeper: an ordinary one that does not wait, and keeps the order."""

from __future__ import annotations

from ..core import requests
from ..core.acquire import Acquisition, Held, Take
from ..core.permits import PermitPlace, name_of
from ..core.protocol import AcquireRequest
from ..core.requests import Content
from ..core.row import counts, is_of_sleepers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.acquire import Next
    from ..core.lease import ClockReading
    from ..core.outcome import Item
    from ..core.protocol import Entropy, Recall
    from ..core.requests import Place, QueueCondition
    from ..core.row import Row
    from ..core.sleepers import Sleeper

LEASE = 60.0  # seconds that a sleeper has to wake up


def place_for(place: Place, sleeper: Sleeper) -> Place:
    """Return where what this sleeper waits for is: the lock's row, or its entry in it."""
    if sleeper.permits is None:
        return place
    return PermitPlace(place, sleeper.permits, f"{sleeper.holder}#{name_of(sleeper.holder)}")


class Claim(Acquisition):
    """One claim, from the row as it was just read.

    If it is not granted, ``row`` is the newest that was shown, and ``ahead`` whose turn it is, if anybody may take it.
    """

    def __init__(
        self,
        place: Place,
        sleeper: Sleeper,
        item: Item | None,
        date: int | None,
        memory: Recall,
        entropy: Entropy,
        reading: ClockReading,
    ) -> None:
        attempt = entropy.nonce() if sleeper.permits is None else f"{name_of(sleeper.holder)}/{entropy.nonce()}"
        wanted = AcquireRequest(
            place,
            f"{sleeper.holder}#{attempt}",
            int(LEASE * 1000),
            Content(ttl=sleeper.ttl),
            wait_until=reading.elapsed,
        )
        super().__init__(wanted, memory, entropy, reading)
        self.shown = item, date
        self.ahead: list[str] = []

    def first(self) -> Next:
        return self.see(*self.shown)

    def see(self, item: Item | None, date: int | None) -> Next:
        step, self.ahead = super().see(item, date), []
        if not isinstance(step, Take) or step.version in self.sent:
            return step
        self.ahead = _ahead(self.row, date)
        return Held() if self.ahead else Take(step.version, step.row, _condition(self.row, date))


def _ahead(row: Row | None, date: int | None) -> list[str]:
    """Return the tickets that are before those who sleep, if there are as many as permits are free (of a lock, one).

    All together, they have one ticket. If they have none yet, whoever waits is before them.
    """
    if row is None or not row.waiters:
        return []
    ours = _ours(row.waiters, date)
    before = [ticket for ticket in row.waiters[:ours] if counts(ticket, date) and not is_of_sleepers(ticket)]
    return before if before and (ours is None or len(before) >= row.free) else []


def _ours(waiters: tuple[str, ...], date: int | None) -> int | None:
    """Return the index of their ticket."""
    found = (index for index, ticket in enumerate(waiters) if is_of_sleepers(ticket) and counts(ticket, date))
    return next(found, None)


def _condition(row: Row | None, date: int | None) -> QueueCondition | None:
    """Return what the claim requires of those who wait. It removes their tickets, and those ahead that have expired.

    None: nothing, because the list cannot be read.
    """
    waiters = () if row is None else row.waiters
    if not waiters:
        return requests.NOBODY_WAITS if waiters == () else None
    ours = _ours(waiters, date)
    gone, left = {}, 0
    for index, ticket in enumerate(waiters):
        if is_of_sleepers(ticket) or ((ours is None or index < ours) and not counts(ticket, date)):
            gone[index] = ticket
        elif ours is not None and index < ours:
            left += 1
    return requests.QueueCondition(gone, alone=ours is None, behind=left)
