"""The waker's claim for a sleeper: an ordinary one that does not wait, and keeps the order."""

from __future__ import annotations

from ..core.acquire import Acquisition, Held, Take
from ..core.permits import PermitPlace, name_of
from ..core.protocol import AcquireRequest
from ..core.requests import NOBODY_WAITS, Content, QueueCondition
from ..core.row import counts, is_of_sleepers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.acquire import Next
    from ..core.outcome import ConditionFailed, Item, Reply
    from ..core.requests import Place
    from ..core.sleepers import Sleeper

LEASE = 60.0  # seconds that a sleeper has to wake up


class Claim(Acquisition):
    """One claim, from the row as it was just read.

    If it is not granted, ``row`` is the newest that was shown, and ``ahead`` whose turn it is: the tickets of those who
    are awake, if the lock is there for the taking.
    """

    def __init__(self, place: Place, sleeper: Sleeper, read: Reply | ConditionFailed, *shared: Any) -> None:
        """shared: as for an Acquisition."""
        owner, nonce = sleeper.holder, shared[1].nonce()
        if sleeper.permits is None:
            owner = f"{owner}#{nonce}"
        else:
            owner = f"{owner}#{name_of(owner)}/{nonce}"
            place = PermitPlace(place, sleeper.permits, owner)
        super().__init__(AcquireRequest(place, owner, int(LEASE * 1000), Content(ttl=sleeper.ttl)), *shared)
        self.read_before = read
        self.ahead: list[str] = []

    def first(self) -> Next:
        return self.see(self.read_before.item, self.read_before.date)

    def see(self, item: Item | None, date: int | None) -> Next:
        """As an acquisition does. All who sleep have one ticket. If they have none yet, whoever waits is before them.

        The claim takes their tickets out of the line, and those ahead that have expired.
        """
        step, self.ahead = super().see(item, date), []
        if not isinstance(step, Take) or step.version in self.sent:
            return step
        row, gone = step.row, dict[int, str]()
        if row is None or not row.waiters:  # None: the list cannot be read, and nobody queues
            return Take(step.version, row, None if row is not None and row.waiters is None else NOBODY_WAITS)
        living = [counts(ticket, date) for ticket in row.waiters]
        ours = [index for index, ticket in enumerate(row.waiters) if living[index] and is_of_sleepers(ticket)]
        for index, ticket in enumerate(row.waiters):
            is_before = not ours or index < ours[0]
            if is_of_sleepers(ticket) or (is_before and not living[index]):
                gone[index] = ticket
            elif is_before:
                self.ahead.append(ticket)
        if self.ahead and (not ours or len(self.ahead) >= row.free):
            return Held()
        condition = QueueCondition(gone, alone=not ours, behind=len(self.ahead))
        self.ahead = []
        return Take(step.version, row, condition)
