"""The rules, and what kills the mutants of each: the explorer, or else the simulator.

Most mutants are those of tests/simulation/mutations.py. The others are here: constants that are just too small for the
proof, and rules whose breach the simulator hardly meets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from lambda_lock.core import acquire, handover, keep, lease, protocol, requests, resume, transaction
from lambda_lock.core.outcome import ConditionFailed, Reply
from tests.simulation.mutations import MUTATIONS, patched

from .table import conjuncts

_Patch = Callable[[Any, str, Any], None]
OWN: dict[str, Callable[[_Patch], None]] = {}


class Mutant:
    """A rule that is broken.

    rule: where it stands.
    name: of the mutation.
    case: in which the explorer kills it; "" if the simulator does.
    width: the narrowest bounds of the case in which it can show, counted from 0.
    """

    def __init__(self, rule: str, name: str, case: str = "", width: int = 0) -> None:
        self.rule = rule
        self.name = name
        self.case = case
        self.width = width

    @property
    def redundant(self) -> str:
        """Why no failure is expected. "" if one is."""
        return MUTATIONS[self.name].redundant if self.name in MUTATIONS else _REDUNDANT.get(self.name, "")


def broken(name: str) -> Any:
    return patched(OWN[name] if name in OWN else MUTATIONS[name].patch)


def ignored(condition: str) -> str:
    """A condition that always holds, with the same placeholders."""
    return " AND ".join(f"({part} OR NOT {part})" for part in conjuncts(condition))


def _own(name: str) -> Callable[[Any], Any]:
    def add(change: Callable[[_Patch], None]) -> Callable[[_Patch], None]:
        assert name not in MUTATIONS
        OWN[name] = change
        return change

    return add


@_own("a claim of what is held")
def _(patch: _Patch) -> None:
    original = requests.claim

    def claim(*arguments: Any, observed: str | None, **more: Any) -> Any:
        operation, request = original(*arguments, observed=observed, **more)
        if observed is None:
            request = {**request, "ConditionExpression": ignored(request["ConditionExpression"])}
        return operation, request

    patch(requests, "claim", claim)


@_own("a margin of 1.45 s")
def _(patch: _Patch) -> None:
    patch(lease, "MARGIN", 1.45)


@_own("a holder's allowance for drift of 0.0004, and a waiter's")
def _(patch: _Patch) -> None:
    patch(lease, "DRIFT", 0.0004)


@_own("no allowance for drift by who observes")
def _(patch: _Patch) -> None:
    def is_over(self: Any, monotonic: float, date: int | None) -> bool:
        if (monotonic - self.monotonic) * 1000 >= self.lease_ms:
            return True
        by_dates = self.lease_ms + max(2000, lease.MARGIN * 1000 + self.lease_ms * lease.DRIFT)
        return date is not None and self.date is not None and (date - self.date) * 1000 >= by_dates

    patch(lease.Observation, "is_over", is_over)


@_own("an expiry counted as reached a second early")
def _(patch: _Patch) -> None:
    original = lease.may_take_over

    def may_take_over(row: Any, seen: Any, received: Any, date: int | None) -> bool:
        return original(row, seen, received, None if date is None else date + 1)

    patch(lease, "may_take_over", may_take_over)


@_own("an expiry counted as reached a fifth of a second early")
def _(patch: _Patch) -> None:
    original = lease.may_take_over

    def may_take_over(row: Any, seen: Any, received: Any, date: int | None) -> bool:
        is_over = row.expiry_ms is not None and date is not None and date * 1000 >= row.expiry_ms - 200
        return is_over or original(row, seen, received, date)

    patch(lease, "may_take_over", may_take_over)


@_own("a version of mine in a refusal not counted as a grant")
def _(patch: _Patch) -> None:
    original = acquire.Acquisition.judge

    def judge(self: Any, outcome: Any) -> Any:
        item = outcome.item if isinstance(outcome, ConditionFailed) else None
        row = self.wanted.place.row(item)
        if row is not None and row.version in self.sent and not row.is_free:
            row.seen = self.memory.observations.note("mine", row, 1000, self.reading, None)
            return acquire.Held(row)
        return original(self, outcome)

    patch(acquire.Acquisition, "judge", judge)


@_own("a renewal refused by a newer version of mine counted as lost")
def _(patch: _Patch) -> None:
    def go_above(self: Any, expiry_ms: int) -> None:
        self.lose()

    patch(protocol.Hold, "go_above", go_above)


@_own("a refused renewal counted as granted")
def _(patch: _Patch) -> None:
    original = keep.renew

    def renew(*arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        steps = original(*arguments, **more)
        try:
            action = next(steps)
            while True:
                event = yield action
                if isinstance(event.outcome, ConditionFailed):
                    event = protocol.Event(event.reading, Reply(None, event.outcome.date))
                action = steps.send(event)
        except StopIteration as end:
            return end.value

    patch(keep, "renew", renew)


@_own("an unanswered renewal counted as granted")
def _(patch: _Patch) -> None:
    original = protocol.Hold.answered

    def answered(self: Any, outcome: Any) -> None:
        original(self, outcome)
        self.valid_until += self.lease_ms / 1000

    patch(protocol.Hold, "answered", answered)


@_own("an adoption that does not go above the version found")
def _(patch: _Patch) -> None:
    original = handover.Adoption.see

    def see(self: Any, item: Any, date: int | None) -> Any:
        step = original(self, item, date)
        self.above_ms = 0
        return step

    patch(handover.Adoption, "see", see)


@_own("a holder that resumes whatever hold it finds")
def _(patch: _Patch) -> None:
    original = resume.HolderAcquisition.see

    def see(self: Any, item: Any, date: int | None) -> Any:
        row = self.wanted.place.row(item)
        self.holder = resume.holder_of(None if row is None else row.owner)
        return original(self, item, date)

    patch(resume.HolderAcquisition, "see", see)


@_own("a handle that counts as held while it commits")
def _(patch: _Patch) -> None:
    original = transaction.commit

    def commit(hold: Any, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        steps = original(hold, *arguments, **more)
        try:
            action = next(steps)
            while True:
                hold.ended = False
                action = steps.send((yield action))
        except StopIteration as end:
            hold.ended = True
            return end.value

    patch(transaction, "commit", commit)


@_own("a conflict with another transaction counted as a refusal")
def _(patch: _Patch) -> None:
    patch(transaction, "_is_conflict", lambda outcome: False)


_REDUNDANT = {
    "a renewal refused by a newer version of mine counted as lost": "versions of one handle rise, so no row that we "
    "wrote has a newer one; this goes on where something else repeats or changes a request",
}

#: Each rule at the head of core/protocol.py and core/lease.py has one or more mutants.
MUTANTS: tuple[Mutant, ...] = (
    Mutant("protocol 1", "a take-over without the version observed", "a dead holder"),
    Mutant("protocol 1", "a claim of what is held", "two clients"),
    Mutant("protocol 2", "expiry judged by the waiter's clock", "a wrong wall clock"),
    Mutant("protocol 2", "an expiry counted as reached a second early", "by the Date"),
    Mutant("protocol 2", "an expiry counted as reached a fifth of a second early", "by the Date, a moment later"),
    Mutant("protocol 2", "an observation not restarted when the version changes", "unchanged for its lease"),
    Mutant("protocol 2", "a row taken over whose lease cannot be read", "a lease that cannot be read"),
    Mutant("protocol 2", "a lease of zero counted as one that is over", "a lease of zero"),
    Mutant("protocol 3", "a version of mine in a refusal not counted as a grant", "two clients"),
    Mutant("protocol 4", "released and claimed again instead of corrected", "corrections, alone"),
    Mutant("protocol 4", "a corrected version counted when it is seen again", "a correction without an answer", 1),
    Mutant("protocol 4", "a grant of a fast clock not corrected", "a wrong wall clock"),
    Mutant("protocol 5", "a claim given up and not released", "given up"),
    Mutant("protocol 5", "a claim given up and released by a single send", "given up, alone"),
    Mutant("protocol 6", "a renewal that may turn the expiry back", "late renewals", 1),
    Mutant("protocol 6", "renewals whose versions do not rise", "late renewals", 1),
    Mutant("protocol 7", "a shortened lease not cut before it is sent", "a shorter lease"),
    Mutant("protocol 8", "a renewal refused by a newer version of mine counted as lost", "late renewals", 1),
    Mutant("protocol 8", "a refused renewal counted as granted", "an outage", 1),
    Mutant("protocol 8", "an unanswered renewal counted as granted", "late renewals", 1),
    Mutant("protocol 9", "a handle that counts as held while it is released", "two clients"),
    Mutant("protocol 9", "a release without owner and token", "two clients"),
    Mutant("protocol 9", "a late copy of the claim that release leaves", "a release without an answer"),
    Mutant("protocol 9", "whatever a refused release shows released as a late copy", "two clients", 1),
    Mutant("protocol 9", "a lost row counted as released"),
    Mutant("protocol 10", "an owner that is not unique for each acquisition", "two clients"),
    Mutant("protocol 11", "an event claimed and taken over regardless of its completion", "an event"),
    Mutant("protocol 11", "an event taken over regardless of its completion", "an event"),
    Mutant("protocol 11", "a completion observed as there or not there alone", "an event"),
    Mutant("protocol 11", "an event's end judged by the client's clock", "an event and a wrong clock"),
    Mutant("protocol 11", "an event that another holds not looked at"),
    Mutant("protocol 12", "a completion by a second request after the release", "an event"),
    Mutant("protocol 12", "a completion without owner and token", "an event"),
    Mutant("protocol 12", "a release after a refused commit that completes", "an event that commits"),
    Mutant("lease, expiry", "no grace"),
    Mutant("lease, holder", "validity by the lease alone", "by the Date"),
    Mutant("lease, holder", "validity by the stored expiry alone", "unchanged for its lease"),
    Mutant("lease, holder", "validity counted from the reply", "unchanged for its lease", 1),
    Mutant("lease, MARGIN", "no margin between two Dates", "by the Date"),
    Mutant("lease, MARGIN", "a margin of 1.45 s", "by the Date"),
    Mutant("lease, DRIFT", "no allowance for drift", "unchanged for its lease"),
    Mutant("lease, DRIFT", "a holder's allowance for drift of 0.0004, and a waiter's", "unchanged for its lease"),
    Mutant("lease, DRIFT", "no allowance for drift by who observes", "a foreign holder"),
    Mutant("lease, waiter", "an observation by Dates without allowance", "a waiter that freezes"),
    Mutant("lease, waiter", "an observation counted by elapsed time, which may run ahead"),
    Mutant("lease, elapsed", "elapsed time by the monotonic clock alone", "a holder that freezes"),
    Mutant("lease, elapsed", "elapsed time by the wall clock alone"),
    Mutant("lease, elapsed", "elapsed time anchored once"),
    Mutant("handover 1", "a handle that counts as held while it is handed over", "handed over"),
    Mutant("handover 2", "an adoption under any token", "handed over"),
    Mutant("handover 2", "an adoption that does not raise the token", "handed over"),
    Mutant("handover 3", "an adoption that does not go above the version found", "handed over"),
    Mutant("handover 4", "an adoption given up and not released", "handed over, given up", 1),
    Mutant("handover 5", "an adopter of a parked hold under the first handle's name"),
    Mutant("handover 6", "a lock handed over that deletes its row"),
    Mutant("resume 1", "attempts that all bear the owner of the hold", "resumed"),
    Mutant("resume 1", "attempts under one owner, and a token that rises", "resumed"),
    Mutant("resume 1", "what an attempt hands over parked under the first handle's name", "resumed twice"),
    Mutant("resume 2", "a resume without the owner seen"),
    Mutant("resume 2", "a resume without the token"),
    Mutant("resume 2", "a resume that may turn the expiry back"),
    Mutant("resume 2", "a hold known by its token or a higher one"),
    Mutant("resume 3", "any row of the hold counted as a grant", "resumed twice"),
    Mutant("resume 3", "the validity of a resume counted from its reply"),
    Mutant("resume 4", "a resume that is given up and released"),
    Mutant("resume 5", "a release by string that asks for the first name only", "resumed twice"),
    Mutant("resume 5", "a release by string without the token"),
    Mutant("resume 5", "a release by string without the owner", "resumed twice"),
    Mutant("resume 6", "a holder that resumes whatever hold it finds", "by holder"),
    Mutant("transaction 1", "a commit without the lock's condition", "commits"),
    Mutant("transaction 1", "a commit that leaves the lock held", "commits"),
    Mutant("transaction 1", "a handle that counts as held while it commits", "commits"),
    Mutant("transaction 2", "a commit under a new client token at each decision", "commits, alone"),
    Mutant("transaction 3", "a conflict with another transaction counted as a refusal", "conflicts"),
    Mutant("transaction 5", "a refused commit not followed by a release", "commits, alone"),
    Mutant("transaction 5", "a refusal counted as final, no matter how the release ended", "commits, alone"),
    Mutant("transaction 6", "a second refusal by the application's conditions counted as final", "commits, refused", 1),
    Mutant("transaction 6", "a client token counted as known for ever"),
    Mutant("transaction 8", "a commit under several locks with the condition of one"),
    Mutant("transaction 9", "a refused commit under several locks not followed by releases"),
    Mutant("permits 1", "dead permits replaced whether or not they are as observed"),
    Mutant("permits 1", "a permit's expiry judged by the caller's clock", "one permit and a wrong clock"),
    Mutant("permits 2", "a size that does not count at all", "one permit"),
    Mutant("permits 2", "a size that counts for nothing if dead permits are replaced"),
    Mutant("permits 3", "a permit claimed though there is an entry of mine"),
    Mutant("permits 4", "a permit committed and released without its token"),
    Mutant("permits 4", "a permit's renewal that may turn the expiry back", "late renewals of a permit", 1),
    Mutant("permits 5", "a permit held on through an outage"),
    Mutant("permits 6", "a semaphore begun over one that is there", "one permit"),
    Mutant("permits 6", "maps removed once they are empty"),
    Mutant("permits 7", "a row that is kept no longer than its last writer's permit"),
    Mutant("queue 1", "a queue that goes on though waiters cannot be read"),
    Mutant("queue 2", "a first claim that does not ask whether somebody waits", "a queue"),
    Mutant("queue 3", "a place taken at the front", "a queue"),
    Mutant("queue 3", "a place taken again by a copy of its append"),
    Mutant("queue 3", "a place written over one that counts"),
    Mutant("queue 4", "places that are never renewed"),
    Mutant("queue 4", "a renewal by index, over whoever is there"),
    Mutant("queue 4", "a late copy of a renewal that brings a place back"),
    Mutant("queue 4", "places that expire by the waiter's own clock"),
    Mutant("queue 4", "places dated by the waiter's own clock"),
    Mutant("queue 4", "a place that counts however far ahead it is dated"),
    Mutant("queue 5", "a claim from any place", "a queue"),
    Mutant("queue 5", "a claim from the first place that leaves it there"),
    Mutant("queue 6", "no patience with those ahead", "a queue"),
    Mutant("queue 6", "patience of a quarter of a second more for each further one ahead"),
    Mutant("queue 6", "the dead never passed"),
    Mutant("queue 6", "patience that goes on over other grants"),
    Mutant("queue 6", "patience that goes on though fewer are ahead"),
    Mutant("queue 6", "patience that goes on over looks without an answer"),
    Mutant("queue 6", "all those ahead removed once the first one is dead"),
    Mutant("queue 7", "a place given up that is not removed"),
    Mutant("queue 7", "a last try that removes whoever is ahead"),
    Mutant("queue 7", "no last try"),
    Mutant("queue 7", "a try like the last one at each look", "a queue"),
    Mutant("queue 9", "places renewed when hardly anything is left"),
    Mutant("queue 9", "naps longer than others have patience"),
    Mutant("permit queue", "a free permit taken from any place"),
    Mutant("permit queue", "a claim from a place that leaves nothing to those ahead"),
    Mutant("permit queue", "the dead that wait for a semaphore never passed"),
    Mutant("permit queue", "little patience with those who wait for a semaphore, over other grants"),
    Mutant("permit queue", "patience with those who wait for a semaphore that goes on over other grants"),
)

#: Numbered rules without a mutant of their own, and why.
SPARED = {
    "transaction 4": "it only tells more often what became of a commit; without it, the outcome would be unknown",
    "transaction 7": "the client refuses such a commit before the core is asked (tests/client)",
    "queue 8": "it says when to look, for the sake of few requests; that nobody sleeps too long is rule 9",
}
