"""Who waits in which order, in true time: the judge's list of places, and what may happen to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.core.row import JAVA, MOST_WAITERS

from .clocks import EPOCH

if TYPE_CHECKING:
    from lambda_lock.core.protocol import Send

    from .judge import Waiter
    from .world import Process, World

DATES = 1.5  # seconds between two Dates of one moment, truncated
_OLD = 4.0  # seconds: a release that is dated so long before it landed may make the lock look idle


class Place:
    """One place in a row's waiters. taken: the number of its append among all, in true time."""

    def __init__(self, waiter: Waiter, taken: int) -> None:
        self.waiter = waiter
        self.taken = taken


class Line:
    """The places of a run.

    disturbed: the keys whose waiters somebody else wrote (foreign clients, forgers). Their places have no order of
        their own but the one that the row shows.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.disturbed: set[str] = set()
        self.places: dict[str, Place] = {}
        self._appends = 0
        self._freed: dict[str, float] = {}  # the true time of each key's last release
        self._owners: dict[str, Waiter] = {}  # of each name that was ever asked for
        self._claims: dict[int, tuple[Waiter, bool, Any]] = {}  # by request: whose, and whether it is a last try

    def sends(self, waiter: Waiter, action: Send) -> None:
        """A waiter sends a request."""
        if takes_place(action):
            for value in action.request["ExpressionAttributeValues"].values():
                for entry in value.get("L", ()):
                    self._owners[entry["S"]] = waiter
                    waiter.places.add(entry["S"])
        elif "ReturnValues" in action.request or action.operation == "PutItem":
            last = waiter.process.peek() >= waiter.wish.wait_until
            self._claims.setdefault(id(action.request), (waiter, last, action.request))

    def wrote(self, process: Process, key: str, action: Send, before: Any, after: Any) -> None:
        """Judge what a write did to those who wait."""
        old, new = _names(before), _names(after)
        if self._frees(before or {}, after or {}):
            self._freed[key] = self.world.now
        if old is None or new is None:
            self.disturbed.add(key)
            return
        if old == new and id(action.request) not in self._claims:
            return
        waiter, last, _ = self._claims.get(id(action.request), (None, False, None))
        for name in new:
            if name not in old:
                owner = self._owners.get(name)
                if owner is None or not takes_place(action):
                    self.disturbed.add(key)
                else:  # taken anew, where a late copy of an append brings back a place that was removed
                    self._appends += 1
                    self.places[name] = Place(owner, self._appends)
        if len(new) > MOST_WAITERS and len(new) > len(old):
            self.world.judge.fail("crowd", f"{len(new)} wait for {key}")
        if len(set(new)) < len(new) and key not in self.disturbed:
            self.world.judge.fail("crowd", f"a place is twice in {new}")
        removed = [name for name in old if name not in new]
        if action.operation in ("PutItem", "DeleteItem"):  # the Java client's, replace=True, or the row is gone
            for name in removed:
                self._lost(name)
            return
        if removed:
            self._removed(process, key, waiter, last or self._seems_idle(key, before), removed)
        granted = waiter is not None and self._is_grant(waiter, before or {}, after or {})
        if waiter is not None and granted and waiter.wish.queue is not None and not last:
            self._granted(key, waiter, old)

    def forged(self, key: str, before: Any, after: Any) -> None:
        """Somebody else wrote the waiters."""
        self.disturbed.add(key)
        for name in set(_names(before) or ()) - set(_names(after) or ()):
            self._lost(name)

    def _lost(self, name: str) -> None:
        if name in self._owners:
            self._owners[name].losses += 1

    def _removed(self, process: Process, key: str, waiter: Waiter | None, last: bool, removed: list[str]) -> None:
        """A request of ours removed places. Those of others were ghosts, or the request was a last try."""
        ghosts = 0  # before the one looked at
        for name in removed:
            owner = self._owners.get(name)
            if owner is None:
                ghosts += 1
                continue
            alive = owner is not waiter and self._is_alive(name, key)
            owner.losses += 1
            if owner.process is process:
                ghosts += owner is not waiter
            elif waiter is None:
                self.world.judge.fail("thrown out", f"{process.name} removed the place {name} of {owner.wish.owner}")
            elif not alive:
                ghosts += 1
                self.world.counts["ghosts removed"] += 1
            elif not last and ghosts > 1:  # rule 5 takes it for one of them
                self.world.counts["removed with ghosts"] += 1
            elif not last and ghosts:
                self.world.counts["removed behind one ghost"] += 1
            elif not last:
                self.world.judge.fail("thrown out", f"{owner.wish.owner}, who waits, lost its place to {process.name}")

    def _seems_idle(self, key: str, before: Any) -> bool:
        """Whether a release that was written long before it landed makes the lock look idle."""
        since = float((before or {}).get(JAVA.free_since, {"N": "0"})["N"]) / 1000 - EPOCH
        return self._is_released(before or {}) and since + _OLD - DATES < self._freed.get(key, 0.0)

    def _frees(self, before: Any, after: Any) -> bool:
        return self._is_released(after) and not self._is_released(before)

    def _is_released(self, item: Any) -> bool:
        return JAVA.released in item

    def _is_grant(self, waiter: Waiter, before: Any, after: Any) -> bool:
        """Whether a write of a waiter takes the lock, and does not only correct."""
        version = before.get(JAVA.version)
        return bool(version != after.get(JAVA.version)) and (version or {}).get("S") not in waiter.versions

    def _left(self, key: str, waiter: Waiter) -> int:
        """How many more may hold the key."""
        return 0

    def _granted(self, key: str, waiter: Waiter, old: tuple[str, ...]) -> None:
        """A claim of a waiter landed, that is not a last try. Nobody may wait before it, unless enough is left."""
        if waiter.losses > 1 or waiter.strayed:
            return  # goes on without the queue
        if len(set(old)) < len(old):
            return  # forged
        mine = [name for name in old if name in waiter.places]
        ahead = old[: old.index(mine[0])] if mine else old
        if key not in self.disturbed:  # also those that took their place earlier, wherever the row has them
            taken = self.places[mine[0]].taken if mine else self._appends + 1
            ahead = tuple(name for name in old if name in self.places and self.places[name].taken < taken)
        alive = [
            self._owners[name].wish.owner
            for name in ahead
            if self._owners.get(name) is not waiter and self._is_alive(name, key) and name in self._after(key)
        ]
        if len(alive) > self._left(key, waiter):
            self.world.judge.fail("out of order", f"{waiter.wish.owner} got {key}, though {alive[0]} waits")

    def _after(self, key: str) -> tuple[str, ...]:
        """Who waits now: those that a claim removed are judged by `_removed`."""
        return _names(self.world.table.get(key)) or ()

    def _is_alive(self, name: str, key: str) -> bool:
        """Whether the owner of a place waits for it, and no fault has kept it from looking after it.

        A freeze may stop the clock by which it observes a dead holder, so any fault counts.
        """
        owner = self._owners.get(name)
        return (
            owner is not None
            and owner.waits
            and not owner.process.dead
            and not owner.process.frozen
            and owner.unharmed
            and owner.process.peek() < owner.wish.wait_until
            and owner.losses < 2
        )

    def ended(self, waiter: Waiter) -> None:
        """An acquisition is over. If no fault hit it, none of its places is left."""
        left = [name for name in self._after(waiter.key) if name in waiter.places]
        if left and waiter.unharmed and waiter.key not in self.disturbed:
            self.world.judge.fail("place left", f"{waiter.wish.owner} is done, and left its place {left[0]}")


def takes_place(action: Send) -> bool:
    return "list_append" in action.request.get("UpdateExpression", "")


def leaves_place(action: Send) -> bool:
    return action.request.get("UpdateExpression", "").startswith("REMOVE")


def _names(item: Any) -> tuple[str, ...] | None:
    """The places in a row. None if they cannot be read."""
    entries = (item or {}).get(JAVA.waiters, {"L": []}).get("L")
    if not isinstance(entries, list) or any("S" not in entry for entry in entries):
        return None
    return tuple(entry["S"] for entry in entries)
