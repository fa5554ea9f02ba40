"""One run: a table with its stream, a queue, a waker, executions that sleep, and callers that wait awake."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from lambda_lock.core import acquire, keep, resume, sleepers
from lambda_lock.core.lease import ClockReading
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.permit_queue import queue_for_permit
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Send, Wait
from lambda_lock.core.queue import Queue
from lambda_lock.core.requests import Content
from lambda_lock.core.resume import name_of
from lambda_lock.core.row import counts, is_of_sleepers
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import LockError, LockFormatError, LockNotGrantedError, TransportError
from lambda_lock.waker.look import Call, ClosedError, Look, Message
from tests.simulation.clocks import EPOCH
from tests.simulation.holding import OurHolding
from tests.simulation.items import place_of
from tests.simulation.judge import Judge
from tests.simulation.permits import PermitJudge
from tests.simulation.runs import Result
from tests.simulation.schedule import Settings
from tests.simulation.world import EndlessError, Life, Process, World

from .filtering import key_of

KEY = "k"
CLOCKS = ("right", "right", "near", "fast", "slow")
_FAULTS = ("lost", "reply_lost", "double", "late", "failed_after", "failed_before", "throttled", "unsent", "slow")


class Plan:
    """What may happen in a run. Shares are of the occasions; seconds are true."""

    executions = 6
    arrive = 5.0  # seconds within which all have begun
    permits: int | None = None
    takes: tuple[int, ...] = ()  # what an execution or caller may take of them; empty: nobody says what it takes
    light = False  # whether only executions draw from these, and others take 1
    callers = 0  # that wait awake, in the queue
    pollers = 0  # that take a free lock again and again, without waiting
    rounds = 4  # of each of these
    hold = (0.5, 20.0)
    lease = (25.0, 60.0)
    faults = 0.0  # of the network: of each kind
    dies = 0.0  # of the executions that are granted, without a release
    cancelled = 0.0  # of those that sleep
    gives_up = 0.0
    killed = 0.0  # of the steps of a waker
    kill_at: int | None = None  # the step at which the first look that gets there is killed
    after = False  # ... after its request was sent
    throttled = 0.0  # of the invocations of the waker
    down: tuple[float, float] | None = None
    lag = (0.1, 1.0)  # of the stream
    late = 0.0  # of its records come a minute late
    doubled = 0.0  # of the records and messages
    lost = 0.0  # of the records
    unclear = 0.0  # of the calls
    forged = 0  # wake-ups that nobody asked for
    strangers = 0  # times that somebody writes entries which cannot be read among the sleepers
    slow = 0.0  # of the wake-ups take 70 s
    bound = 100.0  # seconds that a lock may stand idle while somebody sleeps, without any of the above
    ordered = False  # whether sleepers are to be served in order, because nothing goes wrong
    most = 0  # grants to others while one sleeps, if they are counted

    def __init__(self, **changes: Any) -> None:
        for name, value in changes.items():
            getattr(type(self), name)
            setattr(self, name, value)


class WakingJudge(Judge):
    """Also judges how long the lock stood idle while somebody slept, and in which order callers were served."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.world)
        self.scene = scene
        self.working: list[OurHolding] = []
        self.busy_until = 0.0
        self.troubled_until = 0.0
        self.registered = 0

    def trouble(self, seconds: float = 0.0) -> None:
        self.troubled_until = max(self.troubled_until, self.world.now + seconds)

    def wrote(self, process: Process, action: Send, before: Any, key: str) -> None:
        after = self.world.table.get(key)
        if key == KEY:  # and not the row of those who sleep
            super().wrote(process, action, before, key)
            if before and after and before.get(JAVA.token) != after[JAVA.token]:
                self._jumped(process, before)
        for entry in sleepers.entries_of(after):
            sleeper = sleepers.read_sleeper(entry)
            for each in self.scene.executions:
                if sleeper is not None and each.name == sleeper.holder and not each.registered:
                    self.registered += 1
                    each.registered = self.registered
        self.scene.streamed(key, after)

    def _jumped(self, process: Process, before: Any) -> None:
        """The token rose. No claim of the waker passes a living waiter ahead of the sleepers."""
        line = [ticket["S"] for ticket in before.get(JAVA.waiters, {}).get("L", [])]
        ours = next((at for at, ticket in enumerate(line) if is_of_sleepers(ticket)), len(line))
        date = int(EPOCH + self.world.now)
        ahead = [each for each in line[:ours] if counts(each, date - 1) and counts(each, date + 1)]
        if process.name.startswith("w") and ahead and self.scene.plan.permits is None:
            self.fail("jumped", f"{process.name} passed {', '.join(ahead)}")

    def works(self, holding: OurHolding, who: str) -> None:
        """Somebody was granted the lock, and begins to work."""
        self.granted(holding, holding.hold.token)
        asleep = [each for each in self.scene.executions if each.is_asleep]
        mine = next((each for each in self.scene.executions if each.name == who), None)
        slept = [each.asleep_since for each in (*asleep, *([mine] if mine and mine.slept else ()))]
        idle = self.world.now - max(self.busy_until, self.troubled_until, min(slept, default=self.world.now))
        if idle > self.scene.plan.bound:
            self.fail("forgotten", f"the lock stood idle for {idle:.0f} s before {who} got it, while somebody slept")
        for each in asleep:
            each.passed += 1
            if self.scene.plan.most and each.passed > self.scene.plan.most:
                self.fail("starved", f"{each.passed} others were granted while {each.name} slept")
            is_before = mine is not None and each.registered and (each.registered < (mine.registered or 10**9))
            if self.scene.plan.ordered and is_before and self.world.now - each.asleep_since > 5:
                self.fail("out of order", f"{who} came before {each.name}")
        self.working.append(holding)

    def ended(self, holding: OurHolding, until: float | None = None) -> None:
        plan, taken = self.scene.plan, sum(other.hold.place.take for other in self.working)
        if taken + max(plan.takes, default=1) > (plan.permits or 1):  # whoever takes most cannot come in
            self.busy_until = max(self.busy_until, self.world.now if until is None else until)
        holding.dropped = True
        self.working = [other for other in self.working if not other.dropped]


class WakingPermitJudge(WakingJudge, PermitJudge):
    """The same for a semaphore."""


class Scene:
    """A run of a plan from a seed."""

    def __init__(self, seed: int, plan: Plan, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.plan = plan
        self.world = World(rng, Settings(freeze=0.0, step=0.0, **dict.fromkeys(_FAULTS, plan.faults)), trace)
        self.world.permits = plan.permits or 0
        self.judge = self.world.judge = (WakingJudge if plan.permits is None else WakingPermitJudge)(self)
        self.executions: list[Execution] = []
        self.looks = 0
        self.looked: list[float] = []
        self._newest: dict[str, float] = {}  # when the newest record of a row is delivered
        self._warm: list[tuple[Process, ClientMemory]] = []  # environments of the waker that are idle
        self._kill_at = plan.kill_at
        for number in range(plan.executions):
            self.world.at(rng.uniform(0, plan.arrive), Execution(self, f"x{number}").begin)
        for number in range(plan.callers + plan.pollers):
            waits = number < plan.callers
            name = f"c{number}" if waits else f"p{number - plan.callers}"
            process = Process(self.world, name, rng.choice(CLOCKS))
            self.world.at(rng.uniform(0, 5), process.start, self.caller(process, waits))
        for _ in range(plan.forged):
            self.world.at(rng.uniform(5, 100), self.forge)
        for _ in range(plan.strangers):
            self.world.at(rng.uniform(0, 60), self.intrude)

    def run(self, name: str) -> Result:
        try:
            self.world.run()
        except EndlessError as error:
            self.judge.fail("endless", str(error))
        for execution in self.executions:
            if not execution.over:
                self.judge.fail("stuck", f"{execution.name} never got the lock")
        self.world.counts["runs"] = 1
        return Result(self.seed, name, self.judge.failures, self.world.counts, "-m tests.simulation.waking --plan")

    # -- the table's stream, and the queue

    def streamed(self, key: str, image: Any) -> None:
        """A row was written: its record passes the filter or not, and is delivered after those before it."""
        rng, plan = self.rng, self.plan
        if (named := key_of(key, image)) is None:
            return
        if rng.random() < plan.lost:
            self.judge.trouble(3700)
            return
        lag = 60.0 if rng.random() < plan.late else rng.uniform(*plan.lag)
        self.judge.trouble(0 if lag < 60 else lag)
        when = self._newest[key] = max(self._newest.get(key, 0.0), self.world.now + lag)
        for _ in range(1 + (rng.random() < plan.doubled)):
            self.world.at(when, self.invoke, named, "stream")

    def queued(self, key: str, seconds: float) -> None:
        for _ in range(1 + (self.rng.random() < self.plan.doubled)):
            self.world.at(self.world.now + seconds + self.rng.uniform(0, 2), self.invoke, key, "queue")

    def again(self, key: str, source: str) -> None:
        """The waker died: the stream repeats its record, and the queue its message."""
        seconds = 2.0 if source == "stream" else 70.0
        self.judge.trouble(seconds + 70.0)
        self.world.at(self.world.now + seconds, self.invoke, key, source)

    def invoke(self, key: str, source: str) -> None:
        world, rng, plan = self.world, self.rng, self.plan
        if plan.down is not None and plan.down[0] <= world.now < plan.down[1]:
            self.judge.trouble(plan.down[1] - world.now + 75)
            world.at(plan.down[1] + rng.uniform(0, 5), self.invoke, key, source)
            return
        if rng.random() < plan.throttled:
            self.judge.trouble(70.0)
            world.at(world.now + rng.uniform(1, 10), self.invoke, key, source)
            return
        world.at(world.now + rng.uniform(0.02, 0.6), self.look, key, source)

    def look(self, key: str, source: str) -> None:
        self.looks += 1
        self.looked = [*self.looked[-300:], self.world.now]
        if len(self.looked) > 300 and self.world.now - self.looked[0] < 60:
            self.judge.fail("busy loop", "the waker looked 300 times in a minute")
            return
        if self._warm and self.rng.random() < 0.8:
            process, memory = self._warm.pop()
        else:
            process = Process(self.world, f"w{self.looks}", "right" if self.rng.random() < 0.8 else "near")
            memory = ClientMemory(10)
        process.start(self.looking(process, key, source, memory))

    def looking(self, process: Process, key: str, source: str, memory: ClientMemory) -> Life:
        """The waker's function: a look of the shipped code. Its calls and messages happen here."""
        world, plan, rng = self.world, self.plan, self.rng
        steps = Look(place_of(key), Conversation(memory, world.entropy, process.reading())).run()
        step, number = next(steps), 0
        try:
            while True:
                number += 1
                if self._kill_at == number or rng.random() < plan.killed:
                    self._kill_at = None
                    self.again(key, source)
                    if plan.after and isinstance(step, Call):
                        self.called(step)
                    elif plan.after and isinstance(step, Send):
                        world.at(world.now + 0.0005, process.die)
                        yield step
                    process.die()
                    return
                if isinstance(step, Call):
                    event = yield Wait(rng.uniform(0.01, 0.2))
                    event.outcome = self.called(step)
                elif isinstance(step, Message):
                    event = yield Wait(rng.uniform(0.01, 0.2))
                    world.trace(process.name, f"message in {step.delay} s")
                    self.queued(key, step.delay)
                else:
                    event = yield step
                step = steps.send(event)
        except StopIteration:
            self._warm.append((process, memory))
        except (LockError, ServiceError, TransportError) as error:
            world.trace(process.name, f"failed: {error!r}")
            self.judge.trouble(80.0)
            self.queued(key, 5)
            self._warm.append((process, memory))

    def called(self, step: Call) -> Exception | None:
        """A call arrives or not, and so does its answer. Returns what the waker gets."""
        callback = step.sleeper.callback
        execution = next(each for each in self.executions if each.name == step.sleeper.holder)
        self.world.trace(execution.name, f"is called by {callback}")
        draw = self.rng.random()
        if draw < self.plan.unclear:
            self.judge.trouble(3700 if draw < self.plan.unclear / 2 else 70)
            if draw > self.plan.unclear / 2:
                execution.wake(callback)
            return TimeoutError("no answer")
        return None if execution.wake(callback) else ClosedError("TaskTimedOut")

    def forge(self) -> None:
        asleep = [execution for execution in self.executions if execution.is_asleep]
        if asleep:
            execution = self.rng.choice(asleep)
            execution.wake(execution.callback)

    def intrude(self) -> None:
        table, key = self.world.table, sleepers.place_of_sleepers(place_of(KEY)).key
        row = table.get(key)
        if row is not None:
            entries = list(sleepers.entries_of(row))
            for _ in range(self.rng.randint(1, 5)):
                entries.insert(self.rng.randint(0, len(entries)), {"S": "nobody"})
            item = {**row, "asleep": {"L": entries}}
            table.store(table.key(item, False), item)

    # -- who wants the lock

    def drawn(self, *, awake: bool = False) -> int | None:
        """What a caller takes, or an execution in all its attempts."""
        takes = self.plan.takes and ((1,) if awake and self.plan.light else self.plan.takes)
        return self.rng.choice(takes) if takes else None

    def wanted(self, owner: str, reading: ClockReading, wait: float, take: int | None) -> AcquireRequest:
        permits, seconds = self.plan.permits, self.rng.uniform(*self.plan.lease)
        place = place_of(KEY) if permits is None else PermitPlace(place_of(KEY), permits, owner, take)
        queue = None if not wait else Queue if permits is None else queue_for_permit
        waiting: dict[str, Any] = {"wait_until": reading.elapsed + wait, "waits": wait > 0, "queue": queue}
        return AcquireRequest(place, owner, int(seconds * 1000), Content(ttl=86_400), **waiting)

    def caller(self, process: Process, waits: bool) -> Life:
        """A caller that waits awake, in the queue, or one that polls with wait=0."""
        rng, world, memory = self.rng, self.world, ClientMemory(10)
        for _ in range(self.plan.rounds):
            reading = process.reading()
            owner, wait = f"{process.name}#{world.entropy.nonce()}", 120.0 if waits else 0.0
            wanted = self.wanted(owner, reading, wait, self.drawn(awake=True))
            try:
                hold = yield from acquire.acquire(wanted, Conversation(memory, world.entropy, reading))
            except (LockError, ServiceError):
                yield Wait(rng.uniform(0.05, 0.3))
                continue
            holding = OurHolding(process, hold, wanted)
            yield from self.work(holding, process.name, memory, rng.uniform(*self.plan.hold) / 4)
            if not waits:
                yield Wait(rng.uniform(0.0, 0.2))

    def work(self, holding: OurHolding, who: str, memory: ClientMemory, seconds: float) -> Life:
        hold = holding.hold
        self.judge.works(holding, who)
        until = hold.expiry_ms / 1000 - EPOCH + 2.0
        self.world.at(self.world.now + hold.lease_ms / 1000, self._left, holding, until)
        event = yield Wait(min(seconds, hold.lease_ms / 1000 - 5))
        try:
            yield from keep.release(hold, Conversation(memory, self.world.entropy, event.reading))
        except (LockError, ServiceError):
            self.judge.ended(holding, until)
            return
        self.judge.ended(holding)

    def _left(self, holding: OurHolding, until: float) -> None:
        """The lease is over: if it was not released, the row is busy until then."""
        if not holding.dropped:
            self.judge.ended(holding, until)


class Execution:
    """One suspended workflow: it tries, sleeps, is woken or times out, tries again, works, and is done."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.name = name
        self.callback = ""
        self.over = False
        self.asleep_since = 0.0
        self.slept = False
        self.passed = 0  # by others that were granted while it slept
        self.registered = 0  # its rank among those that lay down; 0: none
        self._number = 0
        self.take = scene.drawn()
        self._lying_down = 0  # attempts that are lying down now
        scene.executions.append(self)

    @property
    def is_asleep(self) -> bool:
        return bool(self.callback) and not self.over

    def begin(self) -> None:
        """An invocation of its function."""
        if self.over:
            return
        if self._lying_down:  # its entry was called before its write was answered: a copy may replace the next entry
            self.scene.judge.trouble(3700)
        self._number += 1
        process = Process(self.scene.world, f"{self.name}.{self._number}", self.scene.rng.choice(CLOCKS))
        process.start(self.attempt(process, ClientMemory(10)))

    def attempt(self, process: Process, memory: ClientMemory) -> Life:
        scene, world, rng = self.scene, self.scene.world, self.scene.rng
        reading = process.reading()
        name = "" if scene.plan.permits is None else f"{name_of(self.name)}/"
        wanted = scene.wanted(f"{self.name}#{name}{world.entropy.nonce()}", reading, 0.0, self.take)
        try:
            hold = yield from resume.acquire(wanted, Conversation(memory, world.entropy, reading))
        except LockNotGrantedError:
            yield from self.lie_down(process, memory)
            return
        except LockFormatError as error:
            scene.judge.fail("of another weight", f"{self.name} takes {self.take}: {error}")
            return
        except (LockError, ServiceError) as error:
            world.trace(self.name, f"tries again: {error!r}")
            world.at(world.now + rng.uniform(1, 5), self.begin)
            return
        holding = OurHolding(process, hold, wanted)
        if rng.random() < scene.plan.dies:
            scene.judge.works(holding, self.name)
            yield Wait(rng.uniform(0.1, 3))
            self.over = True
            process.die()
            scene.judge.ended(holding, hold.expiry_ms / 1000 - EPOCH + 2.0)
            return
        yield from scene.work(holding, self.name, memory, rng.uniform(*scene.plan.hold))
        self.over = True

    def lie_down(self, process: Process, memory: ClientMemory) -> Life:
        scene, world, rng = self.scene, self.scene.world, self.scene.rng
        if not self.callback:
            self.callback, self.asleep_since = f"{self.name}@{world.entropy.nonce()}", world.now
            world.at(world.now + 3600, self.wake, self.callback)
        row = place_of(KEY)
        sleeper = sleepers.Sleeper(self.name, "task", self.callback, scene.plan.permits, 86_400, self.take)
        self._lying_down += 1
        try:
            done = yield from sleepers.lie_down(row, sleeper, Conversation(memory, world.entropy, process.reading()))
        except (LockError, ServiceError):
            done = False
        finally:
            self._lying_down -= 1
        if not done:
            scene.judge.trouble(20.0)
            world.at(world.now + rng.uniform(1, 5), process.call, process.start, self.lie_down(process, memory))
            return
        world.trace(self.name, f"sleeps, {self.callback}")
        self.slept = True
        draw = rng.random()
        if draw < scene.plan.cancelled:
            world.at(world.now + rng.uniform(0, 40), self.cancel)
        elif draw < scene.plan.cancelled + scene.plan.gives_up:
            yield Wait(rng.uniform(1, 40))
            if self.callback == sleeper.callback:
                self.callback, self.over = "", True
                try:
                    talk = Conversation(memory, world.entropy, process.reading())
                    yield from sleepers.remove(row, lambda entry: sleepers.is_of(entry, self.name), talk)
                except (LockError, ServiceError):
                    return

    def cancel(self) -> None:
        self.scene.judge.trouble(75.0)  # if it was called just before, the lock is held for it for a minute
        self.callback, self.over = "", True

    def wake(self, callback: str) -> bool:
        """A callback is called. Returns whether this execution slept under it."""
        scene = self.scene
        if not self.callback or callback != self.callback or self.over:
            return False
        self.callback = ""
        seconds = scene.rng.uniform(0.15, 2.5)
        if scene.rng.random() < scene.plan.slow:
            seconds = 70.0
            scene.judge.trouble(150.0)
        scene.world.at(scene.world.now + seconds, self.begin)
        return True


def simulate(seed: int, plan: Mapping[str, Any], trace: Callable[[str], None] | None = None, name: str = "") -> Result:
    return Scene(seed, Plan(**plan), trace).run(name)
