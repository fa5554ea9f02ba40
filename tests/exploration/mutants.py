"""The rules, and what kills the mutants of each: the explorer, or else the simulator.

Most mutants are those of tests/simulation/mutations.py. The others are here: constants that are just too small for the
proof, and rules whose breach the simulator hardly meets.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from lambda_lock.core import lease, protocol
from tests.prove.mistakes import Change, alter, planted, put, together
from tests.simulation.mutations import MUTATIONS

_HELD = """\
row = self.wanted.place.row(outcome.item) if isinstance(outcome, ConditionFailed) else None
if row is not None and row.version in self.sent and not row.is_free:
    row.seen = self.talk.memory.observations.note("mine", row, 1000, self.talk.reading, None)
    return Held(row)
..."""

OWN: dict[str, Change] = {
    "a claim of what is held": alter(
        "Update.take", "argument free released", 'f"({free} OR NOT ({free}) OR #released = :released)"'),
    "a margin of 1.45 s": put(lease, "MARGIN", 1.45),
    "a holder's allowance for drift of 0.0004, and a waiter's": put(lease, "DRIFT", 0.0004),
    "no allowance for drift by who observes": alter("Observation.is_over", "operand DRIFT 1", ""),
    "an expiry counted as reached a second early": alter("may_take_over", "operand date 1000", "(date + 1) * 1000"),
    "an expiry counted as reached a fifth of a second early": alter("may_take_over", "operand date 1000", "... + 200"),
    "a version of mine in a refusal not counted as a grant": alter("Acquisition.judge", "line see", _HELD),
    "a renewal refused by a newer version of mine counted as lost": put(
        protocol.Hold, "go_above", lambda self, expiry_ms: self.lose()),
    "a refused renewal counted as granted": alter("keep.renew", "argument Reply", "(Reply, ConditionFailed)"),
    "an unanswered renewal counted as granted": alter(
        "keep.renew", "line answered", "...\nhold.valid_until += hold.lease_ms / 1000"),
    "an adoption that does not go above the version found": alter("Adoption.see", "set above_ms", ""),
    "a holder that resumes whatever hold it finds": together(
        alter("HolderAcquisition.see", "term holder None", ""), alter("HolderAcquisition.see", "term holder_of", "")),
    "a handle that counts as held while it commits": together(
        alter("transaction.commit", "line end", "hold.ended = False"),
        alter("transaction.commit", "line _send", "...\n[hold.end() for hold in holds]")),
    "a conflict with another transaction counted as a refusal": alter("transaction._send", "term conflict", "True"),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A rule that is broken.

    rule: where it stands.
    name: of the mutation.
    case: in which the explorer kills it; "" if the simulator does.
    width: the narrowest bounds of the case in which it can show, counted from 0.
    """

    rule: str
    name: str
    case: str = ""
    width: int = 0

    @property
    def redundant(self) -> str:
        """Why no failure is expected. "" if one is."""
        return MUTATIONS[self.name].redundant if self.name in MUTATIONS else _REDUNDANT.get(self.name, "")


def broken(name: str) -> AbstractContextManager[None]:
    return planted(OWN[name] if name in OWN else MUTATIONS[name].change)


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
    Mutant("permits 3", "a permit claimed though its hold has a token"),
    Mutant("permits 4", "a permit released under its token alone"),
    Mutant("permits 4", "a permit resumed without the entry seen"),
    Mutant("permits 4", "a permit committed and released without its token"),
    Mutant("permits 4", "a permit's renewal that may turn the expiry back", "late renewals of a permit", 1),
    Mutant("permits 5", "a permit held on through an outage"),
    Mutant("permits 6", "a semaphore begun over one that is there", "one permit"),
    Mutant("permits 6", "maps removed once they are empty"),
    Mutant("permits 7", "a row that is kept no longer than its last writer's permit"),
    Mutant("permits 7", "a permit's row kept for two days beside leases of weeks"),
    Mutant("permits 8", "the token of a dead permit left in its map"),
    Mutant("permits 9", "a release that takes off one permit, whatever it had", "a reader and a writer"),
    Mutant("permits 9", "a release that leaves what it takes in its map", "a reader and a writer"),
    Mutant("permits 9", "a claim that does not count what it takes", "a reader and a writer"),
    Mutant("permits 9", "a claim that does not say what it takes", "a reader and a writer"),
    Mutant("permits 9", "a claim that asks for one permit, whatever it takes", "a reader and a writer"),
    Mutant("permits 9", "a sum that does not count at all", "a reader and a writer"),
    Mutant("permits 9", "what the dead had not given back", "a dead writer"),
    Mutant("permits 9", "each of the dead counted as one permit", "a dead writer"),
    Mutant("permits 9", "what a dead hold took left in its map", "a dead writer"),
    Mutant(
        "permits 9", "a release that does not look whether the row counts weights",
        "a string that does not know the weight"),
    Mutant("permits 10", "a row that changes over while others hold", "weights that begin to count", 2),
    Mutant(
        "permits 10", "one who takes more let into a row that does not count weights", "weights that begin to count"),
    Mutant("permits 10", "a claim without weights in whatever row", "weights that begin to count"),
    Mutant("permits 10", "a claim given up as if in the row that was seen last"),
    Mutant("queue 1", "a queue that goes on though waiters cannot be read"),
    Mutant("queue 2", "a first claim that does not ask whether somebody waits", "a queue"),
    Mutant("queue 3", "a ticket taken at the front", "a queue"),
    Mutant("queue 3", "a ticket taken again by a copy of its append"),
    Mutant("queue 3", "a ticket written over one that counts"),
    Mutant("queue 4", "tickets that are never renewed"),
    Mutant("queue 4", "a renewal by index, over whoever is there"),
    Mutant("queue 4", "a late copy of a renewal that brings a ticket back"),
    Mutant("queue 4", "tickets that expire by the waiter's own clock"),
    Mutant("queue 4", "tickets dated by the waiter's own clock"),
    Mutant("queue 4", "a ticket that counts however far ahead it is dated"),
    Mutant("queue 5", "a claim from any ticket", "a queue"),
    Mutant("queue 5", "a claim from the first ticket that leaves it there"),
    Mutant("queue 6", "no patience with those ahead", "a queue"),
    Mutant("queue 6", "patience of a quarter of a second more for each further one ahead"),
    Mutant("queue 6", "the dead never passed"),
    Mutant("queue 6", "patience that goes on over other grants"),
    Mutant("queue 6", "patience that goes on though fewer are ahead"),
    Mutant("queue 6", "patience that goes on over looks without an answer"),
    Mutant("queue 6", "all those ahead removed once the first one is dead"),
    Mutant("queue 7", "a ticket given up that is not removed"),
    Mutant("queue 7", "a last try that removes whoever is ahead"),
    Mutant("queue 7", "no last try"),
    Mutant("queue 7", "a try like the last one at each look", "a queue"),
    Mutant("queue 10", "tickets renewed when hardly anything is left"),
    Mutant("queue 10", "naps longer than others have patience"),
    Mutant("permit queue", "a free permit taken from any ticket"),
    Mutant("permit queue", "a claim from a ticket that leaves nothing to those ahead"),
    Mutant("permit queue 1", "those ahead counted, whatever they take"),
    Mutant("permit queue 1", "a ticket that does not say what its owner takes"),
    Mutant("permit queue 2", "patience with one who waits for five while one is free"),
    Mutant("permit queue 2", "who passes the dead leaves nothing to the others ahead"),
    Mutant("permit queue 3", "a caller without a ticket that passes one who waits for more"),
    Mutant("permit queue 3", "one who takes more that passes those who wait for one"),
    Mutant("permit queue 3", "a first claim that does not ask whether one waits for more"),
    Mutant("permit queue 3", "a last try that passes one who waits for more"),
    Mutant("permit queue 4", "one who takes more let in beside others where weights do not count"),
    Mutant("permit queue", "the dead that wait for a semaphore never passed"),
    Mutant("permit queue", "little patience with those who wait for a semaphore, over other grants"),
    Mutant("permit queue", "patience with those who wait for a semaphore that goes on over other grants"),
)  # fmt: skip

#: Numbered rules without a mutant of their own, and why.
SPARED = {
    "transaction 4": "it only tells more often what became of a commit; without it, the outcome would be unknown",
    "transaction 7": "the client refuses such a commit before the core is asked (tests/client)",
    "resume 7": "it is about order alone; the simulator of sleepers breaks it (tests/simulation/waking)",
    "queue 8": "it keeps a hot key going; the simulator breaks it (tests/simulation/mutations.py)",
    "queue 9": "it says when to look, for the sake of few requests; that nobody sleeps too long is rule 10",
}
