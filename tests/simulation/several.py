"""Turns of a client that takes several locks: acquire all, hold, then release all, commit under all, or die."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from lambda_lock.core import keep, several
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.protocol import AcquireRequest, Conversation, Hold, Send, Wait
from lambda_lock.errors import TransportError

from . import application
from .errands import Release, Waiter
from .holding import OurHolding
from .interrupts import REFUSED, THROWN, driven
from .items import place_of
from .network import keys_of
from .world import Process, Steps, World

if TYPE_CHECKING:
    from .clients import Client

_PATIENCE = 40.0  # seconds of elapsed time beyond the wait, and as many for each key


class Watch:
    """Watches one acquisition of several locks. It tells all to the Waiter of the lock that is being taken."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.waiter: Waiter | None = None
        self.active = False

    def begin(self, wanted: AcquireRequest) -> None:
        self.close()
        self.waiter, self.active = Waiter(self.group.world, self.group.process, wanted), True

    def pause(self) -> None:
        """From here on, requests no longer belong to the acquisition of this lock."""
        self.active = False

    def close(self) -> None:
        if self.waiter is not None:
            self.waiter.close()
        self.active = False

    def sends(self, action: Send) -> None:
        if self.active and self.waiter is not None:
            assert keys_of(action)[-1] == self.waiter.key
            self.waiter.sends(action)

    def woke(self, outcome: Any) -> None:
        if self.active and self.waiter is not None:
            self.waiter.woke(outcome)
            self.group.judge_deadlock()

    def closed(self) -> None:
        if self.waiter is not None:
            self.waiter.closed()

    def __getattr__(self, name: str) -> Any:
        """All else goes to the active Waiter."""
        return getattr(self.waiter, name) if self.active else lambda *_: None


class Group:
    """Several locks that one client takes together. To the core it is their keeper, as client/multi_lock.py is."""

    def __init__(self, client: Client, keys: list[str], wanted: AcquireRequest, planned: bool) -> None:
        self.client = client
        self.world: World = client.world
        self.process: Process = client.process
        self.keys = keys
        self.wanted = wanted
        self.planned = planned
        self.watcher = Watch(self)
        self.owners: list[str] = []  # one for each round
        self.kept: list[Hold] = []
        self.left: list[Hold] = []  # to their leases
        self.ended: list[Hold] = []
        self.holdings: dict[Hold, OurHolding] = {}
        self.started = self.world.now

    # -- as the keeper

    def each_wanted(self) -> Iterator[AcquireRequest]:
        self.end_round()
        owner = application.owner_name(self.process.name, self.process.world.entropy)
        self.owners.append(owner)
        self.world.judge.groups[owner] = self
        if len(self.owners) > 1:
            self.world.counts["begun anew"] += 1
            self.world.trace(self.process.name, f"begins anew as {owner}")
        for key in several.ordered(self.keys):
            wanted = copy(self.wanted)
            wanted.place, wanted.owner = place_of(key), owner
            self.watcher.begin(wanted)
            yield wanted

    def keep(self, hold: Hold) -> None:
        self.kept.append(hold)

    def watch(self, hold: Hold) -> None:
        waiter = self.watcher.waiter
        assert waiter is not None
        self.watcher.pause()
        self.holdings[hold] = self.client.granted(hold, waiter)
        if self.planned:
            self.client.plan(self.holdings[hold])

    def renew(self, hold: Hold, talk: Conversation) -> Steps[None]:
        holding = self.holdings[hold]
        yield from self.client.turn(holding)
        yield from self.client.renew(holding, by="several")
        if self.planned:
            self.client.plan(holding)

    def release(self, hold: Hold, talk: Conversation) -> Steps[bool]:
        self.watcher.pause()
        holding, task = self.holdings.get(hold), self.client.task
        assert holding is not None
        before = task.watcher
        errand = task.watcher = Release(self.world, holding)
        try:
            done = yield from keep.release(hold, self.client.talk())
        except (TransportError, ServiceError) as error:
            self.world.trace(self.process.name, f"release of {holding}: {error!r}")
            self.ended.append(hold)
            return not isinstance(error, TransportError)
        finally:
            task.watcher = before
            errand.close()
        self.world.judge.released(holding, done, errand)
        self.ended.append(hold)
        return True

    def leave(self, hold: Hold) -> None:
        hold.end()
        self.left.append(hold)

    def give_back(self) -> Steps[None]:
        """Release what is still kept: an interrupt came before the handle was returned."""
        for hold in reversed(self.kept):
            if hold not in self.left and hold not in self.ended:
                yield from self.client.release(self.holdings[hold], settled=True)

    # -- the judgement

    @property
    def unharmed(self) -> bool:
        return self.process.faulted < self.started

    def end_round(self) -> None:
        for owner in self.owners:
            self.world.judge.groups.pop(owner, None)

    def blocked_by(self) -> Group | None:
        """The group that has the lock which this one waits for, if it still takes locks."""
        waiter = self.watcher.waiter
        if self.process.dead or not self.watcher.active or waiter is None or not self.wanted.waits:
            return None
        row = self.world.table.get(waiter.key)
        if row is None or "ownerName" not in row or "isReleased" in row:
            return None
        other: Group | None = self.world.judge.groups.get(row["ownerName"]["S"])
        return None if other is self else other  # its own claim has landed

    def judge_deadlock(self) -> None:
        other: Group | None = self
        for _ in range(10):
            other = None if other is None else other.blocked_by()
            if other is self:
                self.world.judge.fail("deadlock", f"{self.owners[-1]} waits for itself, over {self.keys}")
                return

    def returned(self, holds: list[Hold]) -> None:
        """All are held, each for nearly its whole lease, and taken in order."""
        judge, elapsed = self.world.judge, self.process.peek()
        keys = [hold.place.key for hold in holds]
        if len(keys) != len(set(self.keys)):
            judge.fail("not all", f"{self.owners[-1]} asked for {self.keys} and got {keys}")
        for hold in holds:
            left = hold.valid_until - elapsed
            if not hold.is_held(elapsed):
                judge.fail("returned lost", f"{self.owners[-1]} was given {keys}, though {hold.place.key} is lost")
            renewable = keep.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms)
            if self.unharmed and renewable and left < 0.9 * hold.lease_ms / 1000 - 0.3:
                judge.fail("stale", f"{self.owners[-1]} was given {hold.place.key} for {left:.1f} s")

    def failed(self, error: BaseException) -> None:
        """Nothing of it is left behind."""
        judge, waiter = self.world.judge, self.watcher.waiter
        for hold in self.kept:
            if not hold.ended and hold not in self.left:
                judge.fail("left behind", f"{self.owners[-1]} failed with {error!r}, and kept {hold.place.key}")
        for key in set(self.keys) if self.unharmed else ():
            row = self.world.table.get(key)
            if row is not None and "isReleased" not in row and row.get("ownerName", {}).get("S") in self.owners:
                judge.fail("left behind", f"{self.owners[-1]} failed with {error!r}, and has {key} still")
        if waiter is not None and not self._is_granted(waiter):
            waiter.failed(error, self.process.peek())

    def _is_granted(self, waiter: Waiter) -> bool:
        """Whether its lock was taken. Then another Errand has watched its release."""
        return any(hold.owner == waiter.wanted.owner and hold.place.key == waiter.key for hold in self.holdings)


def turn(client: Client) -> Steps[None]:
    """One turn with several locks."""
    rng, world, process, task = client.rng, client.world, client.process, client.task
    keys = rng.sample(client.keys, rng.randint(min(2, len(client.keys)), len(client.keys)))
    wanted, settings = client.draw_wish(), world.settings
    group = Group(client, keys, wanted, rng.random() >= settings.no_heartbeat)
    watch = group.watcher
    client.disturb(watch, "")
    reading = process.reading()
    task.watcher = watch
    world.trace(process.name, f"wants {keys}")
    try:
        steps = several.acquire_all(group, Conversation(client.memory, world.entropy, reading))
        holds = yield from driven(process, task, steps, "acquire of several")
    except (*REFUSED, *THROWN) as error:
        world.trace(process.name, f"not granted: {error!r}")
        if isinstance(error, THROWN):  # the client does so after every error; the core needs it after no other
            yield from group.give_back()
        group.failed(error)
        client.judge_error(error)
        return
    finally:
        task.watcher = None
        watch.close()
        group.end_round()
        late = process.peek() - max(reading.elapsed, wanted.wait_until if wanted.waits else 0.0)
        if late > _PATIENCE * (1 + len(keys)) and process.faulted < group.started:
            world.judge.fail("endless", f"{keys} took {late:.0f} s beyond the wait")
    world.counts["groups"] += 1
    group.returned(holds)
    yield from _hold(client, group, [group.holdings[hold] for hold in holds])


def _hold(client: Client, group: Group, holdings: list[OurHolding]) -> Steps[None]:
    rng, settings = client.rng, client.world.settings
    work, end = client.draw_work(holdings[0].hold)
    while True:
        elapsed = client.process.reading().elapsed
        lost = [holding.hold.expire(elapsed) for holding in holdings]  # each notices its own loss
        if elapsed >= end or True in lost:
            break
        yield Wait(max(0.001, min(end - elapsed, work / 3 * rng.uniform(0.5, 1.5))))
    for holding in holdings:
        client.judge_end(holding, group.planned, end)
    yield from client.may_die()
    if rng.random() < settings.forget:
        for holding in holdings:
            holding.plan += 1  # no more heartbeats
    elif rng.random() < settings.commit:
        yield from client.commit(*holdings)
    else:
        for holding in reversed(holdings):
            yield from client.release(holding)
