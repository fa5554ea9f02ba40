"""Permits that outlive an invocation: the executions of holds.py on semaphores.

A hold counts once, by the newest attempt that landed. Each token has one entry. A hold goes by a request that names its
token, or the version of a claim that is given up, or when it was dead. A holder has one at most.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lambda_lock.core import lease
from lambda_lock.core.permits import PermitPlace, hold_of
from lambda_lock.core.row import base_of

from .clients import place_of
from .clocks import EPOCH
from .holds import ByString, HoldJudge
from .items import by_attempt
from .judge import Holding, OurHolding
from .permits import PermitJudge

if TYPE_CHECKING:
    from lambda_lock.core.protocol import Send
    from lambda_lock.core.row import Row

    from .world import Process, World


class PermitHoldJudge(HoldJudge, PermitJudge):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._carried_out: set[int] = set()  # the ids of the requests that were carried out
        self._written: dict[tuple[str, str], float] = {}  # in true time, by key and entry

    def shown(self, item: Any) -> dict[str | None, Row]:
        owners = [f"{entry.prefix}#{attempt}" for attempt, entry in by_attempt(item).items()]
        return {base_of(owner): PermitPlace(place_of("-"), 1, owner).view(item) for owner in owners}

    def wrote(self, process: Process, action: Send, before: Any, key: str) -> None:
        super().wrote(process, action, before, key)
        if id(action.request) in self._requests:  # which are kept, so that no other one gets one of their ids
            self._carried_out.add(id(action.request))
        old, new = by_attempt(before), by_attempt(self.world.table.get(key))
        names = _named(action.request)
        for attempt, entry in old.items():
            if hold_of(attempt) in map(hold_of, new) or names & {str(entry.token), f"{entry.version}:"}:
                continue
            is_over = entry.expiry_ms / 1000 <= EPOCH + self.world.now + self.world.settings.front_ends
            seen = self.world.now - self._written.get((key, entry.text), -1e9)
            if not is_over and seen * 1000 < entry.lease_ms * (1 - lease.DRIFT):
                self.fail("robbed", f"{process.name} ended the hold of {attempt} in {key}, which was not dead")
        for entry in new.values():
            self._written.setdefault((key, entry.text), self.world.now)  # each text has a version of its own
        for holder, count in Counter(entry.prefix for entry in new.values()).items():
            if count > 1 and holder in self.holders:
                self.fail("two permits", f"{holder} has {count} permits of {key}")

    def released_by_string(self, key: str, owner: str, token: int, done: bool, errand: ByString) -> None:
        super().released_by_string(key, owner, token, done, errand)
        if not done and self._carried_out & errand.requests:
            self.fail("release", f"release of {owner} by string was False, and it was carried out")

    def _grant_token(self, key: str, token: int) -> None:
        """A resumed handle has the token of its hold. All others have one that nobody had before."""
        holding = self._newest[key]
        if not (isinstance(holding, OurHolding) and holding.hold.resumed):
            PermitJudge._grant_token(self, key, token)

    def _meet(self, holding: Holding, others: list[Holding]) -> None:
        super()._meet(holding, [other for other in others if not self.is_fenced(other)])


def _named(request: Any) -> set[str]:
    """The tokens and versions that a request names. Whoever gives up a claim knows its version only."""
    updates = [request, *(next(iter(item.values())) for item in request.get("TransactItems", ()))]
    values = [value for update in updates for value in update.get("ExpressionAttributeValues", {}).values()]
    return {text for value in values for text in value.values() if isinstance(text, str)}
