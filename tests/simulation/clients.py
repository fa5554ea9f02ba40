"""The lives of our clients: acquire, hold, renew, then release or die, again and again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lambda_lock import errors
from lambda_lock.core import acquire, handover, keep, protocol, transaction
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.permit_queue import queue_for_permit
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, Conversation, Wait
from lambda_lock.core.queue import Queue
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.row import RESULT_MADE, is_attempt

from . import application, erasing, forgetting, several
from .errands import Adopter, Commit, Errand, Release, Waiter
from .forger import forge
from .holding import OurHolding
from .interrupts import REFUSED, THROWN, Cancelled, driven
from .items import OldPlace, place_of
from .schedule import draw_lease
from .world import Life, Process, Steps, T, World

_LAST_ACTS = 3  # how often the end of a hold is tried again after an interrupt
_PATIENCE = 40.0  # seconds of elapsed time that an acquire may take beyond its wait, for its sends and for giving up


def may_hand_over(hold: protocol.Hold) -> bool:
    """As in Lock.hand_over: not for a lock that deletes its row."""
    return not hold.delete_on_release


def latest_end(hold: protocol.Hold) -> float:
    """The elapsed time at which an application has to be done, for its deadline."""
    return float("inf") if hold.lease_end is None else hold.lease_end - max(0.5, hold.lease_ms / 1e5) - 0.05


class Client:
    """One of our processes, which remembers the server's time and other holders.

    string: what another client handed over. This client then runs beside ``beside``, in the same process, and only
        continues with that lock.
    """

    takes_strings = True  # of other clients
    process: Process
    memory: protocol.ClientMemory

    def __init__(
        self, world: World, name: str, keys: list[str], kind: str, beside: Client | None = None, string: str = ""
    ) -> None:
        self.world = world
        self.rng = world.rng
        self.keys = keys
        self.kind = kind  # of leases that it asks for
        self.process = beside.process if beside else Process(world, name, world.rng.choice(world.settings.skews))
        self.memory = beside.memory if beside else protocol.ClientMemory(100)
        self.noticed: set[str] = set()  # in the newest operation
        self.zombies: list[OurHolding] = []  # lost, but released only later
        self.old = world.weighs and self.takes_strings and world.rng.random() < world.settings.old
        #: The version of its code, as `result` says it. None: an older library, whose results do not say it.
        self.version = world.rng.choice(world.settings.versions) if world.settings.versions else None
        self.polls = world.rng.random() < world.settings.pollers if world.settings.pollers else False
        if not beside and self.takes_strings:
            world.clients.append(self)
        self.task = self.process.start(self.successor(string) if string else self.life())

    # -- a life

    def life(self) -> Life:
        settings = self.world.settings
        shares = settings.several, settings.forgets, settings.erases
        others = list(zip(shares, (several.turn, forgetting.turn, erasing.turn), strict=True))
        yield Wait(self.rng.uniform(0, 0.5) * self.rng.choice((0.1, self.world.scale)))
        while self.world.counts["grants"] < settings.grants and self.world.counts["turns"] < 4 * settings.grants:
            self.world.counts["turns"] += 1
            turn = next((turn for share, turn in others if share and self.rng.random() < share), None)
            if turn is not None:
                yield from turn(self)
                continue
            holding = yield from self.acquire()
            if holding is not None:
                yield from self.hold(holding)
            if settings.idle and self.rng.random() < settings.idle:
                yield Wait(self.rng.uniform(0.5, 3) * 86_400)
            elif self.polls:
                yield Wait(10 ** self.rng.uniform(-2, 0))
            elif self.rng.random() < 0.5:
                yield Wait(self.rng.uniform(0, 0.5) * self.rng.choice((0.1, self.world.scale)))

    def successor(self, string: str) -> Life:
        holding = yield from self.adopt(string)
        if holding is not None:
            yield from self.hold(holding)
            for zombie in self.zombies:
                yield from self.end(zombie)

    def acquire(self) -> Steps[OurHolding | None]:
        wanted = self.draw_wish()
        return (yield from self.take(wanted, Waiter(self.world, self.process, wanted), acquire.acquire))

    def adopt(self, string: str) -> Steps[OurHolding | None]:
        given = handover.read_handover(string, "locks")
        wanted = self.draw_wish()
        place = place_of(given.key)
        wanted.place = place if given.permits is None else PermitPlace(place, given.permits, given.owner)
        wanted.owner, wanted.lease_ms = given.owner, given.lease_ms
        wanted.waits, wanted.wait_until, wanted.replace, wanted.window, wanted.queue = False, 0.0, False, None, None
        watcher = Adopter(self.world, self.process, wanted, given.token)
        self.world.trace(self.process.name, f"adopts {given.key} of {given.owner} (token {given.token})")
        holding = yield from self.take(wanted, watcher, handover.adopt, given.token)
        if holding is not None:
            self.world.counts["adoptions"] += 1
            self.world.judge.adopt(given.key, string)
        return holding

    def talk(self) -> Conversation:
        """A conversation that begins now."""
        return Conversation(self.memory, self.world.entropy, self.process.reading())

    def take(
        self, wanted: AcquireRequest, waiter: Waiter, how: Callable[..., Steps[protocol.Hold]], *token: int
    ) -> Steps[OurHolding | None]:
        """how: the core's function. token: of the hold to adopt or resume. Returns None if nothing was granted."""
        process, world = self.process, self.world
        self.disturb(waiter, wanted.place.key)
        reading = process.reading()
        try:
            steps = how(wanted, *token, Conversation(self.memory, world.entropy, reading))
            hold = yield from self.watched(waiter, steps, waiter.what)
        except (*REFUSED, *THROWN) as error:
            world.trace(process.name, f"not granted: {error!r}")
            waiter.failed(error, process.peek())
            self.judge_error(error)
            inside = len(error.holders) if isinstance(error, errors.LockNotGrantedError) else 0
            if inside > (wanted.place.permits or inside) and "permits_differ" not in self.noticed:
                world.judge.fail("silent", f"{wanted.owner} saw {inside} holders, lets in fewer, and noticed nothing")
            return None
        except errors.DuplicateEventError as error:
            world.trace(process.name, f"done before: {error!r}")
            world.counts["duplicates"] += 1
            waiter.failed(error, process.peek())
            world.events.told_done(wanted.place.key)
            return None
        held_up = process.peek() - max(reading.elapsed, wanted.wait_until if wanted.waits else 0.0)
        if held_up > _PATIENCE and process.faulted < waiter.started:
            world.judge.fail("endless", f"an acquire of {wanted.owner} took {held_up:.0f} s beyond its wait")
        return self.granted(hold, waiter)

    def granted(self, hold: protocol.Hold, waiter: Waiter) -> OurHolding:
        holding, judge = OurHolding(self.process, hold, waiter.wanted), self.world.judge
        judge.granted(holding, hold.token)
        judge.expiry(holding, hold.expiry_ms if is_attempt(hold.owner) else 0, 3.5)
        # A slow clock may leave so little of the first validity that no renewal can come in time.
        holding.harmless = waiter.unharmed and hold.valid_until - self.process.peek() > 0.3
        return holding

    def disturb(self, watcher: Any, key: str) -> None:
        """Plan what may happen to an acquisition: it is given up, somebody forges waiters, or the process dies."""
        rng, world, settings, task = self.rng, self.world, self.world.settings, self.task
        if rng.random() < settings.give_up:
            patience = 10 ** rng.uniform(-3, 1) if rng.random() < 0.7 else rng.uniform(0, 2) * world.scale
            world.at(world.now + patience, self.process.call, task.interrupt, lambda: task.watcher is watcher)
        if settings.forge and rng.random() < settings.forge:
            world.at(world.now + 10 ** rng.uniform(-2, 1), forge, world, key)
        if rng.random() < settings.die / 2:
            world.at(world.now + rng.uniform(0, 1) * rng.choice((0.1, 1, world.scale)), self.perish)

    def watched(self, errand: Any, steps: Steps[T], what: str | None) -> Steps[T]:
        """Run the steps of an operation. ``errand`` is told what happens until they end.

        what: the operation, as for ``driven``. None: nothing is thrown into it.
        """
        self.task.watcher = errand
        self.noticed.clear()
        try:
            return (yield from driven(self.process, self.task, steps, what) if what else steps)
        finally:
            self.task.watcher = None
            errand.close()
            self.judge_noticed()

    def judge_noticed(self) -> None:
        """What is told of a row has a reason in this run: neither late answers nor copies look like the past."""
        world, noticed = self.world, self.memory.watch.noticed
        while noticed:
            event, place, about = noticed.popitem()[1]
            world.counts[event] += 1
            self.noticed.add(event)
            has_reason = not world.keeps or world.settings.reap or world.settings.erases
            if event == "permits_differ":
                has_reason = world.settings.other_permits > 0
            if not has_reason:
                world.judge.fail("false alarm", f"{self.process.name} noticed {event} of {place.key}: {about}")

    def judge_error(self, error: BaseException) -> None:
        settings = self.world.settings
        if isinstance(error, errors.LockFormatError) and not (settings.unreadable or self.old):
            self.world.judge.fail("escaped", repr(error))
        if isinstance(error, errors.LockConfigurationError) and not settings.dateless:
            self.world.judge.fail("escaped", repr(error))

    def draw_wish(self) -> AcquireRequest:
        rng, settings, now = self.rng, self.world.settings, self.process.peek()
        seconds = draw_lease(rng, self.kind) if rng.random() < 0.3 else self.world.scale
        waits = rng.random() >= settings.fail_fast
        deadline = now + seconds * rng.uniform(0.3, 3) + 1 if rng.random() < settings.deadline else None
        place, owner = (
            place_of(rng.choice(self.keys)),
            application.owner_name(self.process.name, self.process.world.entropy),
        )
        options: dict[str, Any] = {
            "lease_end": deadline,
            "wait_until": now + self.world.scale * rng.uniform(0.2, 3) if waits else 0.0,
            "waits": waits,
            "refresh_period": 1.0
            if self.world.scale < 15 and rng.random() < 0.5
            else max(1.0, self.world.scale / settings.polls),
            "replace": rng.random() < settings.replace,
            "delete_on_release": self.world.deletes or (not self.world.keeps and rng.random() < settings.delete),
            "hold_on_unavailable": settings.hold_on > 0 and rng.random() < settings.hold_on,
        }
        eligible = waits and not options["replace"] and not options["delete_on_release"]
        queues = bool(eligible and settings.queue and rng.random() < settings.queue)
        ttl, window = 86_400, None
        if settings.event:
            ttl = rng.choice((0, 60, 86_400))
        if settings.reap:
            ttl = rng.choice(settings.ttls)
        if settings.waits and waits:
            options["wait_until"] = now + rng.choice(settings.waits)
        if settings.event and rng.random() < settings.event:
            window = self.world.events.window(place.key)
        kind = queue_for_permit if settings.permits else Queue
        queue = kind if queues and not self.polls and window is None and options["wait_until"] - now >= 0.25 else None
        if settings.permits:
            permits = self.world.permits
            if settings.other_permits and rng.random() < settings.other_permits:
                permits = rng.choice((1, 2, 3, 4))
            place = self.permit_place(place, permits, owner)
        options |= {"window": window, "queue": queue}
        return AcquireRequest(place, owner, int(seconds * 1000), Content(ttl=ttl), **options)

    def permit_place(self, place: Place, permits: int, owner: str) -> PermitPlace:
        """Where it takes a permit, or several of them."""
        rng = self.rng
        if self.old or not self.world.weighs:
            return (OldPlace if self.old else PermitPlace)(place, permits, owner)
        is_heavy = rng.random() < self.world.settings.heavy
        take = rng.choice((permits, rng.randint(1, permits))) if is_heavy else rng.choice((None, 1, 1))
        return PermitPlace(place, permits, owner, take)

    # -- holding

    def hold(self, holding: OurHolding) -> Steps[None]:
        rng, settings, hold = self.rng, self.world.settings, holding.hold
        planned = rng.random() >= settings.no_heartbeat
        work, end = self.draw_work(hold)
        if planned:
            self.plan(holding)
        explicit = rng.random() < settings.reheartbeat
        part = 0
        while True:
            elapsed = self.process.reading().elapsed
            if elapsed >= end or hold.expire(elapsed):
                break
            part += 1
            yield Wait(max(0.001, min(end - elapsed, work / 3 * rng.uniform(0.5, 1.5))))
            if explicit and part == 1 + (rng.random() < 0.5):
                try:
                    yield from self.heartbeats(holding, planned)
                except THROWN:  # the application may go on, or leave its block
                    if rng.random() < 0.5:
                        break
        self.judge_end(holding, planned, end)
        yield from self.finish(holding)

    def draw_work(self, hold: protocol.Hold) -> tuple[float, float]:
        """How long the application works, and until when: it stops before the deadline."""
        leases = self.rng.uniform(0, 0.4) if self.rng.random() < 0.5 else self.rng.uniform(0.7, 3)
        work = hold.lease_ms / 1000 * leases
        return work, min(self.process.peek() + work, latest_end(hold))

    def heartbeats(self, holding: OurHolding, planned: bool) -> Steps[None]:
        """One or two heartbeats that the application asks for."""
        rng, settings = self.rng, self.world.settings
        for _ in range(1 + (rng.random() < settings.pair)):
            if settings.at_once and rng.random() < settings.at_once:
                self.process.start(self.renew_beside(holding))
            yield from self.turn(holding)
            lease_ms = None
            if rng.random() < settings.other_lease:
                lease_ms = max(1000, int(holding.hold.lease_ms * rng.choice((0.1, 0.3, 0.5, 2, 4))))
                lease_ms = min(lease_ms, 3_600_000)
            try:
                yield from self.renew(holding, lease_ms)
            finally:  # also after an error, as Renewer.now does
                if planned:
                    self.plan(holding)

    def turn(self, holding: OurHolding) -> Steps[None]:
        """Wait until no other renewal of this handle is under way, as Renewer does."""
        while holding.renewing:
            yield Wait(0.05)

    def renew_beside(self, holding: OurHolding) -> Life:
        """A renewal by another thread."""
        yield Wait(10 ** self.rng.uniform(-3, 0))
        yield from self.turn(holding)
        if not holding.over:
            with suppress(*THROWN):
                yield from self.renew(holding, by="heartbeat")

    def renew(self, holding: OurHolding, lease_ms: int | None = None, by: str = "application") -> Steps[bool]:
        """Renew once. The handle is marked for `turn`, so that its renewals are sent one after the other.

        by: who renews: the application, the heartbeat, or an acquisition of several locks.
        """
        hold, process, world = holding.hold, self.process, self.world
        holding.renewing = True
        before_ms, was_lost, valid_until = hold.expiry_ms, hold.lost, hold.valid_until
        world.trace(process.name, f"renews {holding}" + (f" for {lease_ms} ms" if lease_ms else ""))
        try:
            steps = keep.renew(hold, self.talk(), lease_ms=lease_ms)
            if by != "several":  # the acquisition drives those
                steps = driven(process, self.task if by == "application" else None, steps, f"renew by {by}")
            renewal = yield from steps
        except THROWN as error:
            world.trace(process.name, f"renewal of {holding}: {error!r}")
            if hold.valid_until > valid_until:
                world.judge.fail("false renewal", f"{holding} is held for longer by a renewal without an answer")
            raise
        finally:
            holding.renewing = False
        elapsed = process.peek()
        if renewal.renewed:
            world.judge.renewed(holding)
            world.counts["renewals"] += 1
            world.judge.expiry(holding, before_ms, 3.5)
        fenced = holding.dropped or world.judge.is_fenced(holding)
        # A commit may have ended the hold meanwhile. The answer to a second copy of it says that the lock is lost.
        by_commit = hold.ended and world.settings.answered_twice
        if hold.lost and not was_lost and elapsed < hold.valid_until and not (fenced or by_commit):
            world.judge.fail("robbed", f"{holding} was refused a renewal while it was valid")
        left = hold.valid_until - elapsed
        world.trace(process.name, f"renewed: {renewal.renewed}, error {renewal.error!r}, valid for {left:.3f} s")
        return renewal.renewed

    def plan(self, holding: OurHolding) -> None:
        """Plan heartbeats again, as after a grant and after each renewal by the application."""
        holding.plan += 1
        elapsed, hold = self.process.peek(), holding.hold
        if holding.over or not keep.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms):
            return
        when = keep.first_heartbeat(elapsed, hold.valid_until, hold.lease_ms)
        self.process.start(self.heartbeat(holding, holding.plan, when))

    def heartbeat(self, holding: OurHolding, plan: int, when: float) -> Life:
        hold = holding.hold
        while holding.plan == plan:
            elapsed = self.process.reading().elapsed
            if hold.ended or hold.expire(elapsed):
                return
            if elapsed < when:
                yield Wait(max(0.001, min(when - elapsed, 1.0 + hold.lease_ms / 5000)))
                continue
            if holding.renewing:
                yield from self.turn(holding)
                if holding.plan != plan or holding.over:
                    return
            try:
                renewed = yield from self.renew(holding, by="heartbeat")
            except THROWN:  # as in Renewer.renew: tried again after _AFTER_FAULT
                when = self.process.reading().elapsed + 1.0
                continue
            if holding.over:
                return
            elapsed = self.process.reading().elapsed
            if not renewed:
                when = elapsed + self.rng.uniform(0.05, 0.5)
            elif keep.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms):
                when = keep.next_heartbeat(elapsed, hold.valid_until)
            else:
                return

    def judge_end(self, holding: OurHolding, planned: bool, end: float) -> None:
        """A client that renews as planned, and is hit by no fault, still holds the lock when its work is done."""
        if not planned or not holding.harmless or self.process.faulted >= holding.since:
            return
        if self.world.judge.is_fenced(holding):
            return
        end = min(end, latest_end(holding.hold))
        if not holding.is_held(min(self.process.peek(), end)):
            early = f"{end - holding.hold.valid_until:.2f} s too early"
            self.world.judge.fail("lost for nothing", f"{holding} lost {holding.key} without a fault, {early}")

    # -- the end

    def finish(self, holding: OurHolding) -> Steps[None]:
        rng, settings = self.rng, self.world.settings
        zombies, self.zombies = self.zombies, []
        for zombie in zombies:
            yield from self.end(zombie)
        yield from self.may_die()
        if rng.random() < settings.forget:
            holding.plan += 1  # no more heartbeats
            self.world.trace(self.process.name, f"forgets {holding}")
        elif holding.hold.lost and rng.random() < settings.late_release:
            self.zombies.append(holding)
        else:
            yield from self.end(holding)

    def end(self, holding: OurHolding) -> Steps[None]:
        """End the hold by one of the last acts."""
        if holding.hold.window is not None:
            yield from self.end_event(holding)
            return
        draw, settings = self.rng.random(), self.world.settings
        if draw < settings.hand_over and may_hand_over(holding.hold):
            yield from self.hand_over(holding)
        elif draw < settings.hand_over + settings.commit and self.world.keeps:
            yield from self.commit(holding)
        else:
            yield from self.release(holding)

    def end_event(self, holding: OurHolding) -> Steps[None]:
        """As the wrapper around an event's handler does. The handler may commit."""
        rng, settings, world = self.rng, self.world.settings, self.world
        holding.failed = rng.random() < settings.fail
        world.trace(self.process.name, f"the handler under {holding} {'fails' if holding.failed else 'succeeds'}")
        if rng.random() < settings.die:
            world.at(world.now + 10 ** rng.uniform(-2.5, 0.7), self.perish)
        if settings.until_the_hour and rng.random() < settings.until_the_hour:  # a window that the result gives
            now = -int(-self.memory.server.after_freezes(self.process.reading()) // 1)
            holding.hold.window = 7200 - now % 3600
        holding.result = None if holding.hold.token % 5 == 0 else f"by {holding}"
        if self.version is not None and holding.result is not None:
            holding.result = f"{RESULT_MADE}{self.version} {holding.result}"
        if not holding.failed and rng.random() < settings.commit:
            yield from self.commit(holding)
        else:
            yield from self.release(holding, complete=not holding.failed)

    def hand_over(self, holding: OurHolding) -> Steps[None]:
        process, world, hold, rng = self.process, self.world, holding.hold, self.rng
        lease_ms = max(1000, int(holding.wanted.lease_ms * rng.choice((0.3, 1, 1, 2))))
        before_ms, had_it = hold.expiry_ms, holding.owns(world.table.get(holding.key))
        errand = Errand(world, process, holding.key)
        world.trace(process.name, f"hands over {holding} for {lease_ms} ms")
        steps = handover.hand_over(hold, self.talk(), lease_ms=min(lease_ms, 3_600_000))
        try:
            string = yield from self.watched(errand, steps, "hand-over")
        except THROWN as error:
            yield from self.end_again(holding, error)
            return
        except (errors.LockLostError, errors.TransportError, ServiceError) as error:
            world.trace(process.name, f"hand_over of {holding}: {error!r}")
            lost = isinstance(error, errors.LockLostError)
            is_wrong = (had_it and world.judge.changed[holding.key] < errand.started) if lost else errand.unharmed
            if is_wrong:
                world.judge.fail("refused", f"{holding} could not hand over, though it has the lock: {error!r}")
            yield from self.release(holding)
            return
        world.counts["handed over"] += 1
        world.judge.expiry(holding, before_ms, 3.5)
        self.handed_over(string)

    def handed_over(self, string: str) -> None:
        rng, world = self.rng, self.world
        for _ in range(rng.choice(world.settings.copies)):
            delay = 10 ** rng.uniform(-2, 0.3) if rng.random() < 0.7 else world.scale * rng.uniform(0, 1.5)
            world.at(world.now + delay, self.deliver, string)

    def deliver(self, string: str) -> None:
        """Hand the lock over. The string reaches some process, perhaps this one."""
        client = self.rng.choice(self.world.clients)
        client.process.call(Client, self.world, "", self.keys, self.kind, client, string)

    def commit(self, *holdings: OurHolding) -> Steps[None]:
        """Commit under one lock, or under several. If that fails, those of several that are still held are released."""
        process, world, is_one = self.process, self.world, len(holdings) == 1
        items: list[dict[str, Any]] = []
        for holding in holdings:
            application.change(world, holding.key)
            items += application.items(holding.key)
        errand = Commit(world, holdings)
        released: list[protocol.Hold] = []
        under = holdings[0] if is_one else list(holdings)
        world.trace(process.name, f"commits under {under}")
        holds, told = [holding.hold for holding in holdings], None if is_one else released.append
        result = holdings[0].result
        steps = transaction.commit(holds, items, self.talk(), told, result=result)
        try:
            yield from self.watched(errand, steps, "commit" if is_one else "commit under several")
            errand.told_done()
            if holdings[0].hold.window is not None:
                world.events.told_done(holdings[0].key)
            return
        except (errors.CommitRefusedError, errors.LockLostError) as error:
            world.counts["commits refused"] += 1
            errand.told_refused(error, isinstance(error, errors.LockLostError))
            world.trace(process.name, f"commit under {under}: {error!r}")
            if is_one:
                return
        except (errors.TransportError, ServiceError) as error:
            world.counts["commits unknown"] += 1
            world.trace(process.name, f"commit under {under}: {error!r}")
            if errand.unharmed:
                world.judge.fail("escaped", f"commit under {under}, without a fault: {error!r}")
            if is_one and self.rng.random() >= 0.5:
                return
        except THROWN as error:
            if is_one:
                yield from self.end_again(holdings[0], error)
                return
            world.trace(process.name, f"commit under {under}: {error!r}")
            if not isinstance(error, Exception):  # as in Group.commit, which then notes no releases
                released.clear()
        for holding in reversed(holdings):
            if holding.hold not in released:
                yield from self.release(holding)
        errand.released_all()

    def perish(self) -> None:
        """Die, and let another process take its place."""
        if self.process.dead or self.task.done:
            return
        self.process.die()
        world = self.world
        world.counts["processes"] += 1
        name = f"p{world.counts['processes']}"
        world.at(world.now + self.absence(), self.succeed, name)

    def may_die(self) -> Steps[None]:
        if self.rng.random() < self.world.settings.die:
            self.perish()
            yield Wait(0)

    def absence(self) -> float:
        return self.rng.uniform(0, 0.5) * self.world.scale

    def succeed(self, name: str) -> None:
        Client(self.world, name, self.keys, self.kind)

    def end_again(self, holding: OurHolding, error: BaseException, complete: bool = False) -> Steps[None]:
        """After something was thrown into a last act: go on as the drivers do.

        If the task was cancelled, `LastAct.undo` ends the lock at once, and nothing is thrown into that.
        Otherwise the error leaves the block, and close() or the application calls release, unless the process ends. A
        resumed lock whose hand-over was interrupted is left to the next attempt.
        """
        process, world, rng, hold = self.process, self.world, self.rng, holding.hold
        holding.interrupted += 1
        if hold.is_held(process.peek()):
            world.judge.fail("says held", f"{holding} counts as held after its last act was interrupted")
        if hold.resumed and hold.handed_over and not hold.unclear:
            holding.dropped = True
            world.trace(process.name, f"leaves {holding} to the next attempt")
            return
        if isinstance(error, Cancelled):
            yield from self.release(holding, complete, settled=True)
            return
        if holding.interrupted > _LAST_ACTS or rng.random() < 0.2:
            holding.plan += 1
            world.trace(process.name, f"leaves {holding} to its lease")
            return
        yield Wait(10 ** rng.uniform(-3, 1))
        yield from self.release(holding)

    def release(self, holding: OurHolding, complete: bool = False, settled: bool = False) -> Steps[None]:
        """settled: nothing is thrown into this one."""
        process, world = self.process, self.world
        errand = Release(world, holding)
        was_unclear = holding.hold.unclear
        delete = None if self.rng.random() < 0.9 or world.deletes else False
        result = holding.result if complete else None
        steps = keep.release(holding.hold, self.talk(), delete=delete, complete=complete, result=result)
        try:
            done = yield from self.watched(errand, steps, None if settled else "release")
        except THROWN as error:
            yield from self.end_again(holding, error, complete)
            return
        except (errors.TransportError, ServiceError) as error:
            world.trace(process.name, f"release of {holding}: {error!r}")
            if errand.unharmed and not was_unclear:
                world.judge.fail("escaped", f"release of {holding}, without a fault: {error!r}")
            return
        world.trace(process.name, f"release of {holding}: {done}")
        world.counts["releases"] += done
        world.judge.released(holding, done, errand)
        if done and complete:
            errand.told_completed()
            world.events.told_done(holding.key)
