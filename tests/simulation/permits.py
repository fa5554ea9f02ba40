"""What must hold for semaphores, in true time: never more than N valid holders, and tokens that tell grants apart.

Where permits outlive an invocation (holds.py), a hold counts once, by the newest attempt that landed. Each token has
one entry. An entry goes by a request that names its token, or the version of a claim that is given up, or after it has
expired. A holder has one permit at most.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from lambda_lock.core import lease
from lambda_lock.core.permits import Entry, PermitPlace, hold_of, write_entry
from lambda_lock.core.protocol import Send
from lambda_lock.core.row import SEAL, WEIGHED, Row, base_of, make_version
from lambda_lock.core.schema import JAVA

from .clocks import EPOCH
from .errands import ByString
from .holding import OurHolding
from .items import by_attempt, place_of, takes_in, wrong_weights
from .judge import Holding, Judge
from .world import Process, World


def sealed(item: dict[str, Any], world: World) -> dict[str, Any]:
    """A semaphore's row from before the run: all free since some time, or all held by the dead."""
    expiry_ms = int(item["recordVersionNumber"]["S"][3:16])
    dead = {} if world.rng.random() < 0.6 else {f"dead{number}": number for number in range(world.permits)}
    texts = {nonce: write_entry(make_version(expiry_ms, "0" * 32), 5000, "before") for nonce in dead}
    row = {
        **item,
        **{name: {"S": SEAL} for name in (JAVA.owner, JAVA.version, JAVA.lease)},
        "permits": {"M": texts},
        "permitTokens": {"M": {nonce: {"N": str(number)} for nonce, number in dead.items()}},
    }
    if world.weighs and world.rng.random() < 0.6:
        row |= {JAVA.version: {"S": WEIGHED}, "permitTakes": {"M": {}}, "permitsTaken": {"N": str(len(dead))}}
        if len(dead) > 1 and world.rng.random() < 0.5:  # one of them held all
            row |= {name: {"M": {"dead0": row[name]["M"]["dead0"]}} for name in ("permits", "permitTokens")}
            row["permitTakes"] = {"M": {"dead0": {"N": str(len(dead))}}}
    if not dead and world.rng.random() < 0.8:
        row |= {"heldMs": {"N": "300"}}
    return row


@dataclass
class Crowd:
    """More than N valid holders at one moment, if so many (``needed``) of the frozen ones still hold when they thaw."""

    needed: int
    message: str


class PermitJudge(Judge):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._all_tokens: dict[str, set[int]] = {}  # granted, by key
        self._crowds: dict[int, list[Crowd]] = {}  # by the identity of a frozen holding
        self._carried_out: set[int] = set()  # the ids of the requests that were carried out
        self._written: dict[tuple[str, str], float] = {}  # in true time, by key and entry
        self._takes: dict[tuple[str, str, str | None], int] = {}  # by key, hold and token

    def wrote(self, process: Process, action: Send, before: Any, key: str) -> None:
        super().wrote(process, action, before, key)
        if id(action.request) in self.erasures:
            return
        after: Any = self.world.table.get(key) or {}
        old, new = by_attempt(before), by_attempt(after)
        tokens = after.get("permitTokens", {}).get("M", {})
        if sorted(map(hold_of, new)) != sorted(tokens) or "permits" not in after:
            self.fail("maps", f"the maps of {key} differ: {new.keys()} and {tokens.keys()}")
        added = set(map(hold_of, new)) - set(map(hold_of, old))
        taken = self._weigh(process, key, before, after, tokens)
        if len(added) > 1 or (added and taken > self._most(action)):
            said = f"{process.name} added {added} to {key}, of which {taken} are taken now, by {len(new)}"
            self.fail("crowd of entries", said)
        until = max((entry.expiry_ms / 1000 for entry in new.values()), default=0.0)
        if JAVA.ttl in after and int(after[JAVA.ttl]["N"]) < until:
            self.fail("ttl", f"the row of {key} may go before an entry of it ends")
        if self._outlive:
            self._wrote_entries(process, action, key, old, new)

    def _weigh(self, process: Process, key: str, before: Any, after: Any, tokens: Any) -> int:
        """Judge what a row says of weights. Return how many permits are taken."""
        takes = takes_in(after)
        for name, take in takes.items():
            self._takes[key, hold_of(name), tokens.get(hold_of(name), {}).get("N")] = take
        if wrong := wrong_weights(before, after):
            self.fail(wrong[0], f"{process.name} wrote {key}: {wrong[1]}")
        return sum(takes.values())

    def _wrote_entries(
        self, process: Process, action: Send, key: str, old: dict[str, Entry], new: dict[str, Entry]
    ) -> None:
        if id(action.request) in self._requests:  # which are kept, so that no other one gets one of their ids
            self._carried_out.add(id(action.request))
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

    def shown(self, item: Any) -> dict[str | None, Row]:
        place = place_of("-")
        owners = [f"{entry.prefix}#{attempt}" for attempt, entry in by_attempt(item).items()]
        return {base_of(owner): PermitPlace(place, 1, owner).view(item) for owner in owners}

    def released_by_string(self, key: str, owner: str, token: int, done: bool, errand: ByString) -> None:
        super().released_by_string(key, owner, token, done, errand)
        if not done and self._carried_out & errand.requests:
            self.fail("release", f"release of {owner} by string was False, and it was carried out")

    def _most(self, action: Send) -> int:
        """N of the acquire that sent a claim."""
        wanted = self._requests.get(id(action.request))
        return self.world.permits if wanted is None else wanted.place.permits or 0

    def _token(self, key: str, before: Any, after: Any) -> None:
        """The row's token rises with each grant, and is the grant's."""
        if after is None:  # erased: a new life
            self._tokens.pop(key, None)
            self._all_tokens.pop(key, None)
            return
        old = (before or {}).get("permitTokens", {}).get("M", {})
        new = after.get("permitTokens", {}).get("M", {})
        changed = {nonce: value for nonce, value in new.items() if old.get(nonce) != value}
        newest, last = int(after[JAVA.token]["N"]), self._tokens.get(key, 0)
        if newest < last or (changed and newest == last) or any(int(one["N"]) != newest for one in changed.values()):
            self.fail("token", f"token {newest} of {key} came after {last}, for {changed}")
        self._tokens[key] = newest

    def _grant_token(self, key: str, token: int) -> None:
        """A resumed handle has the token of its hold. All others have one that nobody had before."""
        newest = self._newest[key]
        if isinstance(newest, OurHolding) and newest.hold.resumed:
            return
        tokens = self._all_tokens.setdefault(key, set())
        if token in tokens:
            self.fail("token", f"token {token} of {key} was granted twice")
        tokens.add(token)

    def renewed(self, holding: Holding) -> None:
        """Its own entry is there. Others may have got permits since."""
        if holding.over or self.is_fenced(holding):
            return
        if not holding.owns(self.world.table.get(holding.key)) and self.changed[holding.key] < self.world.now:
            self._suspect(holding, "came back", f"{holding} renewed {holding.key}, and has no entry in it")

    def _meet(self, holding: Holding, others: list[Holding]) -> None:
        if self.world.settings.other_permits:
            return  # judged by the entries
        if self.is_fenced(holding):
            return
        others = [other for other in others if not self.is_fenced(other)]
        frozen = [other for other in others if other.process.frozen]
        valid = [other for other in others if other not in frozen and other.is_held(other.process.peek())]
        message = f"{holding} holds {holding.key} beside {', '.join(map(str, [*valid, *frozen]))}"
        needed = self.world.permits + 1 - sum(map(self._take_of, [holding, *valid]))
        if needed <= 0:
            self.fail("overlap", message)
        elif sum(map(self._take_of, frozen)) >= needed:
            crowd = Crowd(needed, message)
            for other in frozen:
                self._crowds.setdefault(id(other), []).append(crowd)

    def _take_of(self, holding: Holding) -> int:
        """How many permits a holding has: as its caller believes, and as the row said when it was granted."""
        assert isinstance(holding, OurHolding)
        hold = hold_of(holding.hold.owner.rpartition("#")[2])
        return max(self._takes.get((holding.key, hold, str(holding.hold.token)), 1), holding.hold.place.take)

    def thawed(self, process: Process) -> None:
        super().thawed(process)
        for holding in process.holdings:
            crowds = self._crowds.pop(id(holding), [])
            if holding.over or not holding.is_held(process.peek()) or self.is_fenced(holding):
                continue
            for crowd in crowds:
                crowd.needed -= self._take_of(holding)
                if crowd.needed <= 0:
                    self.fail("overlap", f"{crowd.message} (frozen then, and held at the thaw)")


def _named(request: Any) -> set[str]:
    """The tokens and versions that a request names. One that gives up a claim names its version only."""
    updates = [request, *(next(iter(item.values())) for item in request.get("TransactItems", ()))]
    values = [value for update in updates for value in update.get("ExpressionAttributeValues", {}).values()]
    return {text for value in values for text in value.values() if isinstance(text, str)}
