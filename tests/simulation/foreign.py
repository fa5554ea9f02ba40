"""A foreign client on the same rows that works like an older library's: Get and Put, opaque versions, patience.

All of them wait and hold by the same rules. They differ in what becomes of attributes that they do not know, and in
what a release leaves: Java's drops the attributes, or carries along those that it just read; Go's writes back those
that its first look showed; Python's drops them, and deletes the row whoever else keeps it.

It waits a whole lease from when it first saw a version, by its own monotonic clock. It counts its own lease from before
its send. It trusts the monotonic clock alone, so its clocks neither stop nor step. All foreign clients of a run share
the clocks of one machine, because they make no allowance for drift among themselves, which is not judged here.
"""

from dataclasses import dataclass, field
from typing import Any

from lambda_lock.core.outcome import Reply
from lambda_lock.core.protocol import Send, Wait
from lambda_lock.core.schema import JAVA

from .clocks import Clocks
from .schedule import draw_lease
from .world import Life, Process, Steps, World

_TIMEOUT = 2.0  # seconds


@dataclass(eq=False, repr=False)
class ForeignHolding:
    process: Process
    key: str
    version: str
    until: float  # by its monotonic clock
    over_now: bool = False
    suspects: list[tuple[str, str]] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.process.dead or self.over_now

    def is_held(self, elapsed: float) -> bool:
        return not self.over and self.process.monotonic() < self.until

    def owns(self, item: Any) -> bool:
        return item is not None and "isReleased" not in item and item.get("ownerName") == {"S": self.process.name}

    def __repr__(self) -> str:
        return f"{self.process.name} (foreign)"


class ForeignClient:
    def __init__(self, world: World, name: str, keys: list[str], kind: str, clocks: Clocks | None) -> None:
        self.world = world
        self.rng = world.rng
        self.keys = keys
        self.kind = kind
        self.process = Process(world, name, steady=True, clocks=clocks)
        self.readable = world.rng.random() >= world.settings.unreadable
        self.zero = name.endswith("2")  # an unreadable lease is written as "0"; otherwise as a Go duration
        # Columns that it does not know are written back (updateExistingLockRecord).
        self.carries = world.rng.random() < 0.5
        rules = world.settings.foreign_rules
        self.rules = rules[0] if len(rules) == 1 else world.rng.choice(rules)
        self.first: Any = None  # what the first look of an acquire showed
        self.process.start(self.life())

    def life(self) -> Life:
        settings = self.world.settings
        yield Wait(self.rng.uniform(0, 0.5) * self.rng.choice((0, self.world.scale)))
        while self.world.counts["grants"] < settings.grants and self.world.counts["turns"] < 4 * settings.grants:
            self.world.counts["turns"] += 1
            holding = yield from self.acquire(self.rng.choice(self.keys))
            if holding is not None:
                yield from self.hold(holding)
                if self.process.dead:
                    yield Wait(0)
            yield Wait(self.rng.uniform(0, 0.5) * self.world.scale)

    def acquire(self, key: str) -> Steps[Any]:
        give_up = self.process.monotonic() + self.world.scale * 3
        seen, since, self.first = None, 0.0, None
        while self.process.monotonic() < give_up:
            request = {"TableName": "locks", "Key": {"key": {"S": key}}, "ConsistentRead": True}
            event = yield Send("GetItem", request, _TIMEOUT)
            if isinstance(event.outcome, Reply):
                row, now = event.outcome.item, self.process.monotonic()
                version = row[JAVA.version]["S"] if row else None
                self.first = self.first or row
                if row and version != seen:
                    seen, since = version, now
                if row is None or "isReleased" in row or now - since >= self.lease_in(row):
                    holding = yield from self.put(key, version, row)
                    if holding is not None:
                        return holding
            yield Wait(max(0.3, self.world.scale / 10))
        return None

    @staticmethod
    def lease_in(row: Any) -> float:
        text = row[JAVA.lease]["S"]
        if text == "0":
            return float("inf")
        return float(text[:-1]) if text.endswith("s") else int(text) / 1000

    def written(self, lease_ms: int) -> str:
        if self.readable:
            return str(lease_ms)
        return "0" if self.zero else f"{lease_ms / 1000:f}s"

    def put(self, key: str, observed: str | None, row: Any) -> Steps[Any]:
        seconds = draw_lease(self.rng, self.kind) if self.rng.random() < 0.3 else self.world.scale
        lease_ms = int(seconds * 1000)
        item = {"key": {"S": key}, JAVA.owner: {"S": self.process.name}, JAVA.lease: {"S": self.written(lease_ms)}}
        item[JAVA.version] = {"S": self.world.entropy.nonce()}
        kept = {"java": row if self.carries else None, "go": self.first, "python": None}[self.rules]
        if row is not None and kept is not None:
            item = {**{name: value for name, value in kept.items() if name != "isReleased"}, **item}
        request: dict[str, Any] = {"TableName": "locks", "Item": item, "ExpressionAttributeNames": {"#k": "key"}}
        request["ConditionExpression"] = "attribute_not_exists(#k)"
        if observed is not None:
            request["ConditionExpression"] = "attribute_exists(#k) AND #v = :v"
            request["ExpressionAttributeNames"]["#v"] = JAVA.version
            request["ExpressionAttributeValues"] = {":v": {"S": observed}}
        until = self.process.monotonic() + lease_ms / 1000
        event = yield Send("PutItem", request, _TIMEOUT)
        if not isinstance(event.outcome, Reply) or self.process.monotonic() >= until:
            return None
        holding = ForeignHolding(self.process, key, item[JAVA.version]["S"], until)
        self.world.judge.granted(holding)
        return holding

    def hold(self, holding: ForeignHolding) -> Steps[Any]:
        rng, settings = self.rng, self.world.settings
        beats = rng.choice(settings.foreign_heartbeats)
        lease = holding.until - self.process.monotonic()
        for _ in range(beats):
            yield Wait(lease / 3)
            if not (yield from self.heartbeat(holding, lease)):
                holding.over_now = True
                return
        left = holding.until - self.process.monotonic()
        yield Wait(max(0.0, left * rng.choice(settings.foreign_work)))
        if rng.random() < settings.die + 0.2:
            holding.over_now = rng.random() < 0.5  # or the client relies on it until its time is over
            return
        holding.over_now = True
        yield from self.release(holding)

    def heartbeat(self, holding: ForeignHolding, lease: float) -> Steps[Any]:
        version, until = self.world.entropy.nonce(), self.process.monotonic() + lease
        mine = self.mine(holding)
        mine["ExpressionAttributeValues"][":new"] = {"S": version}
        event = yield Send("UpdateItem", {**mine, "UpdateExpression": "SET #v = :new"}, _TIMEOUT)
        if not isinstance(event.outcome, Reply) or self.process.monotonic() >= holding.until:
            return False
        holding.version, holding.until = version, until
        return True

    def release(self, holding: ForeignHolding) -> Steps[Any]:
        mine = self.mine(holding)
        if self.world.deletes or self.rules == "python":
            yield Send("DeleteItem", mine, _TIMEOUT)
            return
        mine["ExpressionAttributeNames"]["#r"] = "isReleased"
        mine["ExpressionAttributeValues"][":r"] = {"S": "1"}
        yield Send("UpdateItem", {**mine, "UpdateExpression": "SET #r = :r"}, _TIMEOUT)

    def mine(self, holding: ForeignHolding) -> dict[str, Any]:
        return {
            "TableName": "locks",
            "Key": {"key": {"S": holding.key}},
            "ConditionExpression": "attribute_exists(#k) AND #v = :v AND #o = :o",
            "ExpressionAttributeNames": {"#k": "key", "#v": JAVA.version, "#o": JAVA.owner},
            "ExpressionAttributeValues": {":v": {"S": holding.version}, ":o": {"S": self.process.name}},
        }
