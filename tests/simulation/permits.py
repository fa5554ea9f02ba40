"""What must hold for semaphores, in true time: never more than N valid holders, and tokens that tell grants apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.core.permits import hold_of, write_entry
from lambda_lock.core.row import SEAL, make_version
from lambda_lock.core.schema import JAVA

from .items import by_attempt
from .judge import Holding, Judge

if TYPE_CHECKING:
    from lambda_lock.core.protocol import Send

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
    if not dead and world.rng.random() < 0.8:
        row |= {"heldMs": {"N": "300"}}
    return row


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
        wanted = self._requests.get(id(action.request))
        return self.world.permits if wanted is None else wanted.place.permits or 0

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
