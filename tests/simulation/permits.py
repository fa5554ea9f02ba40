"""What must hold for semaphores, in true time: never more than N valid holders, and tokens that tell grants apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.core import lease
from lambda_lock.core.outcome import ConditionFailed, Reply
from lambda_lock.core.permits import Entry, entries_of, hold_of, write_entry
from lambda_lock.core.queue import LONGEST_NAP
from lambda_lock.core.row import MOST_PERMITS, SEAL, make_version
from lambda_lock.core.schema import JAVA

from .clocks import DATES, EPOCH
from .errands import SLACK, Waiter
from .items import remembered, waits_cannot_be_read
from .judge import Holding, Judge, OurHolding
from .line import Line

if TYPE_CHECKING:
    from lambda_lock.core.protocol import AcquireRequest, Hold, Send

    from .world import Process, World


def attempt_of(owner: str) -> str:
    """The name of an owner's entry."""
    return owner.rpartition("#")[2]


def permits_of(wanted: AcquireRequest) -> int:
    assert wanted.place.permits is not None
    return wanted.place.permits


@remembered
def by_attempt(item: Any) -> dict[str, Entry]:
    return {name: entry for name, entry in entries_of(item or {}, JAVA).items() if entry is not None}


def entries(world: World, key: str) -> list[Entry]:
    return list(by_attempt(world.table.get(key)).values())


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
    if not dead and world.rng.random() < 0.8:
        row |= {"heldMs": {"N": "300"}}
    return row


class PermitHolding(OurHolding):
    def owns(self, item: Any) -> bool:
        tokens = (item or {}).get("permitTokens", {}).get("M", {})
        name = hold_of(attempt_of(self.hold.owner))
        return self.has_an_entry(item) and tokens.get(name) == {"N": str(self.hold.token)}

    def has_an_entry(self, item: Any) -> bool:
        return attempt_of(self.hold.owner) in (item or {}).get("permits", {}).get("M", {})


class Crowd:
    """More may be valid at one moment than N: it depends on the frozen ones among them, who look when they thaw."""

    def __init__(self, needed: int, message: str) -> None:
        self.needed = needed
        self.message = message


class PermitJudge(Judge):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._all_tokens: dict[str, set[int]] = {}  # granted, by key
        self._crowds: dict[int, list[Crowd]] = {}  # by the identity of a frozen holding

    def new_line(self) -> Line:
        return PermitLine(self.world)

    def holding(self, process: Process, hold: Hold, wanted: AcquireRequest) -> OurHolding:
        return PermitHolding(process, hold, wanted)

    def waiter(self, process: Process, wanted: AcquireRequest) -> Waiter:
        return PermitWaiter(self.world, process, wanted)

    def wrote(self, process: Process, action: Send, before: Any, key: str) -> None:
        super().wrote(process, action, before, key)
        after: Any = self.world.table.get(key) or {}
        old, new = by_attempt(before), by_attempt(after)
        tokens = after.get("permitTokens", {}).get("M", {})
        if sorted(map(hold_of, new)) != sorted(tokens) or "permits" not in after:
            self.fail("maps", f"the maps of {key} differ: {new.keys()} and {tokens.keys()}")
        added = set(map(hold_of, new)) - set(map(hold_of, old))
        if len(added) > 1 or (added and len(new) > self._most(action)):
            self.fail("crowd of entries", f"{process.name} added {added} to {key}, which has {len(new)} now")
        until = max((entry.expiry_ms / 1000 for entry in new.values()), default=0.0)
        if JAVA.ttl in after and int(after[JAVA.ttl]["N"]) < until:
            self.fail("ttl", f"the row of {key} may go before an entry of it ends")

    def _most(self, action: Send) -> int:
        """N of the acquire that sent a claim."""
        for client in self.world.clients:
            watcher = client.task.watcher
            if isinstance(watcher, PermitWaiter) and id(action.request) in watcher.requests:
                return permits_of(watcher.wanted)
        return MOST_PERMITS if self.world.settings.other_permits else self.world.permits

    def _token(self, key: str, before: Any, after: Any) -> None:
        """The row's token rises with each grant, and is the grant's."""
        old = (before or {}).get("permitTokens", {}).get("M", {})
        new = after.get("permitTokens", {}).get("M", {})
        changed = {nonce: value for nonce, value in new.items() if old.get(nonce) != value}
        newest, last = int(after[JAVA.token]["N"]), self._tokens.get(key, 0)
        if newest < last or (changed and newest == last) or any(int(one["N"]) != newest for one in changed.values()):
            self.fail("token", f"token {newest} of {key} came after {last}, for {changed}")
        self._tokens[key] = newest

    def _grant_token(self, key: str, token: int) -> None:
        tokens = self._all_tokens.setdefault(key, set())
        if token in tokens:
            self.fail("token", f"token {token} of {key} was granted twice")
        tokens.add(token)

    def renewed(self, holding: Holding) -> None:
        """Others may have got permits since."""
        if not holding.owns(self.world.table.get(holding.key)) and self.changed[holding.key] < self.world.now:
            self._suspect(holding, "came back", f"{holding} renewed {holding.key}, and has no entry in it")

    def _meet(self, holding: Holding, others: list[Holding]) -> None:
        if self.world.settings.other_permits:
            return  # judged by the entries
        frozen = [other for other in others if other.process.frozen]
        valid = [other for other in others if other not in frozen and other.is_held(other.process.peek())]
        message = f"{holding} holds {holding.key} beside {', '.join(map(str, [*valid, *frozen]))}"
        needed = self.world.permits - len(valid)
        if needed <= 0:
            self.fail("overlap", message)
        elif len(frozen) >= needed:
            crowd = Crowd(needed, message)
            for other in frozen:
                self._crowds.setdefault(id(other), []).append(crowd)

    def thawed(self, process: Process) -> None:
        super().thawed(process)
        for holding in process.holdings:
            crowds = self._crowds.pop(id(holding), [])
            if holding.over or not holding.is_held(process.peek()) or self.is_fenced(holding):
                continue
            for crowd in crowds:
                crowd.needed -= 1
                if crowd.needed <= 0:
                    self.fail("overlap", f"{crowd.message} (frozen then, and held at the thaw)")


class PermitWaiter(Waiter):
    def __init__(self, world: World, process: Process, wanted: AcquireRequest) -> None:
        self.requests: set[int] = set()
        self._kept: list[Any] = []  # so that no other request gets one of their ids
        super().__init__(world, process, wanted)

    def sends(self, action: Send) -> None:
        super().sends(action)
        self.requests.add(id(action.request))
        self._kept.append(action.request)

    def _note(self, outcome: Any) -> None:
        if isinstance(outcome, (Reply, ConditionFailed)):
            item = outcome.item or {}
            self.strayed = self.strayed or waits_cannot_be_read(item)
            mine = by_attempt(item).get(attempt_of(self.wanted.owner))
            if mine is not None:
                self._may_be_there.add(mine.version)
            return
        super()._note(outcome)

    def _is_free(self) -> bool:
        live = [
            entry for entry in entries(self.world, self.key) if entry.expiry_ms / 1000 - EPOCH + DATES >= self.world.now
        ]
        return len(live) < permits_of(self.wanted)

    def _free_at(self, since: float) -> float:
        """The latest true time at which enough entries are dead for this waiter, if there are no writes."""
        ends = []
        for entry in entries(self.world, self.key):
            observed = since + self.wanted.refresh_period + SLACK + entry.lease_ms / 1000 * (1 + 2 * lease.DRIFT)
            if self.wanted.queue is not None:
                observed += LONGEST_NAP
            ends.append(min(observed, entry.expiry_ms / 1000 - EPOCH + DATES))
        excess = len(ends) - permits_of(self.wanted)
        return since if excess < 0 else sorted(ends)[excess]

    def _landed(self) -> str | None:
        mine = by_attempt(self.world.table.get(self.key)).get(attempt_of(self.wanted.owner))
        return None if mine is None else mine.version


class PermitLine(Line):
    def _state(self, row: Any) -> Any:
        return row.get(JAVA.token)

    def _over_since(self, key: str, row: Any) -> float:
        return 0.0  # the size is a condition of each claim

    def _is_grant(self, waiter: Waiter, before: Any, after: Any) -> bool:
        name = attempt_of(waiter.wanted.owner)
        return name in by_attempt(after) and name not in by_attempt(before)

    def _left(self, key: str, waiter: Waiter) -> int:
        return max(permits_of(waiter.wanted) - len(entries(self.world, key)), 0)
