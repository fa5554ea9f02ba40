"""Holds that outlive an invocation: executions whose states run in processes of their own, and are tried again.

Without zombies, an attempt begins only after all earlier ones of its execution are over: dead, ended or dropped. Then
no two holders may overlap, whoever they are. With zombies (`Settings.zombies`, `twice`), earlier attempts live on. They
renew, release, park and commit. Then the newest attempt to land must be alone, but for earlier ones of its own hold. A
zombie, and a third party that came after the newest, may believe themselves inside at the same time.
"""

from __future__ import annotations

from typing import Any

from lambda_lock.core import acquire, handover, resume
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, Send
from lambda_lock.core.requests import Place
from lambda_lock.core.resume import name_of
from lambda_lock.core.row import base_of
from lambda_lock.errors import LockLostError, TransportError

from .clients import Client
from .errands import Adopter, ByString, Waiter, gives_back
from .holding import OurHolding
from .interrupts import THROWN
from .items import place_of
from .world import Life, Process, Steps, World

_TRIES = 6  # attempts of one state
_NAMES = ("x{}", "x{}", "x/{}", "x#{}/y", "x{}/")  # holders, with what separates the parts of an owner


class Resumer(Waiter):
    """Watches one resume: a hold that is there is resumed, and is not released if the resume is given up."""

    def __init__(self, world: World, process: Process, wanted: AcquireRequest, token: int) -> None:
        super().__init__(world, process, wanted)
        self.what = "resume"
        self._was_there = world.judge.has(self.key, wanted.owner, token)
        world.judge.resumes(wanted, token)

    def sends(self, action: Send) -> None:
        super().sends(action)
        if gives_back(action):
            self.fail("gave back", f"{self.wanted.owner} released {self.key}, which it resumes")

    def failed(self, error: BaseException, elapsed: float) -> None:
        if self._was_there:
            self.refused(elapsed, f"could not resume, though the hold is there: {error!r}")


class HolderWaiter(Waiter):
    """Watches one acquisition by a holder: a hold of the same holder counts as free, and is never released."""

    def __init__(self, world: World, process: Process, wanted: AcquireRequest) -> None:
        super().__init__(world, process, wanted)
        world.judge.holders.add(wanted.owner.rpartition("#")[0])

    def sends(self, action: Send) -> None:
        super().sends(action)
        names = {value.get("S") for value in action.request.get("ExpressionAttributeValues", {}).values()}
        names |= set(action.request.get("ExpressionAttributeNames", {}).values())  # a permit's entry is named there
        if gives_back(action) and not names & {self.wanted.owner, self.wanted.owner.rpartition("#")[2]}:
            self.fail("gave back", f"{self.wanted.owner} released {self.key}, which it resumes")

    def _is_its_own(self) -> bool:
        row = self._row()
        if row is not None and row.own_take < self.wanted.place.take:
            return False  # a hold does not grow
        return row is not None and resume.holder_of(row.owner) == resume.holder_of(self.wanted.owner)

    def _is_free(self) -> bool:
        return self._is_its_own() or super()._is_free()

    def _free_at(self, since: float) -> float:
        return since if self._is_its_own() else super()._free_at(since)


class Execution:
    """Work under one hold, state after state, as a state machine runs it. Nothing can go wrong with the machine itself.

    hold: the base owner and the token, as the newest report named them.
    """

    def __init__(self, world: World, keys: list[str], kind: str) -> None:
        world.counts["executions"] += 1
        self.world = world
        self.rng = world.rng
        self.key = world.rng.choice(keys)
        self.keys = keys
        self.kind = kind
        self.holder = world.rng.choice(_NAMES).format(world.counts["executions"])
        self.named = world.rng.random() < world.settings.by_holder
        self.hold: tuple[str, int] | None = None
        self.parked = False  # the last state ended with a handover
        self.left = world.rng.choice((1, 2, 2, 3, 4))
        self.tries = 0
        self.done = False
        self.warm: Attempt | None = None  # one that has ended, in a process that lives on
        self.running: list[Attempt] = []
        world.at(world.now + self._delay(), self.begin)

    def _delay(self) -> float:
        """Between two attempts: from a moment to longer than the lease."""
        rng = self.rng
        return 10 ** rng.uniform(-2, 0.5) if rng.random() < 0.7 else self.world.scale * rng.uniform(0.0, 1.4)

    def begin(self) -> None:
        """Begin the next attempt: of the next state, or of the release at the end."""
        world, rng, settings = self.world, self.rng, self.world.settings
        if self.done or self.running:
            return
        self.tries += 1
        if self.tries > _TRIES:
            self.end()
            return
        for _ in range(1 + (rng.random() < settings.twice)):
            warm, self.warm = self.warm, None
            reuse = warm is not None and not warm.process.dead and rng.random() < 0.6
            attempt = Attempt(self, warm if reuse else None)
            self.running.append(attempt)
            if rng.random() < settings.zombies:
                delay = 10 ** rng.uniform(-2, 0.5) if rng.random() < 0.4 else world.scale * rng.uniform(0.0, 1.5)
                world.at(world.now + delay, self.time_out, attempt)

    def time_out(self, attempt: Attempt) -> None:
        """The machine gives an attempt up, whose process lives on, and begins the next."""
        if attempt in self.running:
            self.world.counts["zombies"] += 1
            self.world.trace(self.holder, f"gives {attempt.name} up, and tries again")
            self.running.clear()
            self.begin()

    def reported(self, attempt: Attempt, hold: tuple[str, int], *, parked: bool) -> None:
        """A state is done."""
        if attempt not in self.running:
            return
        self._over(attempt)
        self.hold, self.parked = hold, parked
        self.left -= 1
        self.tries = 0
        self.world.at(self.world.now + self._delay(), self.begin)

    def failed(self, attempt: Attempt, *, lost: bool = False) -> None:
        """An attempt ended with an error, or its process died."""
        if attempt not in self.running:
            return
        self._over(attempt, reuse=not attempt.process.dead)
        if lost:
            self.end()
        else:
            self.world.at(self.world.now + self._delay(), self.begin)

    def ended(self, attempt: Attempt) -> None:
        """The last state, or the release at the end, is done."""
        if attempt in self.running:
            self._over(attempt)
            self.end()

    def _over(self, attempt: Attempt, *, reuse: bool = True) -> None:
        self.running.clear()
        if reuse:
            self.warm = attempt

    def end(self) -> None:
        """The work is over. Sometimes the string is released again, when others have the lock."""
        if self.done:
            return
        self.done, world, rng = True, self.world, self.rng
        if self.hold is not None and rng.random() < world.settings.release_again:
            for _ in range(rng.choice((1, 2))):
                world.at(world.now + self._delay(), Attempt, self, None, self.hold)
        if world.counts["grants"] < world.settings.grants and world.counts["executions"] < 3 * world.settings.grants:
            Execution(world, self.keys, self.kind)


class Attempt(Client):
    """One invocation: it takes or resumes the hold, works, and reports. Or it releases by string."""

    takes_strings = False

    def __init__(
        self, execution: Execution, beside: Attempt | None = None, string: Any = None, stale: bool = False
    ) -> None:
        world = execution.world
        self.given: tuple[str, int] | None = string  # to release, and nothing else
        self.stale = stale  # the string was adopted before
        world.counts["processes"] += 1
        self.execution = execution
        self.name = f"a{world.counts['processes']}"
        super().__init__(world, self.name, [execution.key], execution.kind, beside)

    def life(self) -> Life:
        execution = self.execution
        if self.given is not None and self.stale and self.rng.random() < 0.5:
            holding = yield from self.resume(*self.given)
            if holding is not None:
                self.world.judge.fail("revived", f"{holding} was resumed by a string that was adopted before")
            return
        given = self.given or (execution.hold if execution.left <= 0 else None)
        if given is not None:
            yield from self.release_by_string(*given)
            return
        holding = yield from (self.acquire_first() if execution.hold is None else self.go_on(*execution.hold))
        if holding is not None:
            yield from self.hold(holding)

    def succeed(self, name: str) -> None:
        """The process has died: tell the machine."""
        self.execution.failed(self)

    # -- beginning

    def place(self, owner: str, take: int | None = None) -> Place:
        place = place_of(self.execution.key)
        return PermitPlace(place, self.world.permits, owner, take) if self.world.permits else place

    def wish_for(self, owner: str) -> AcquireRequest:
        wanted = self.draw_wish()
        # Later, nobody needs to know what it takes.
        is_weighed = getattr(wanted.place, "weighs", False) and self.execution.hold is None
        wanted.place, wanted.owner = self.place(owner, wanted.place.take if is_weighed else None), owner
        wanted.delete_on_release, wanted.replace, wanted.window, wanted.queue = False, False, None, None
        return wanted

    def acquire_first(self) -> Steps[OurHolding | None]:
        execution, world = self.execution, self.world
        holder, name = (execution.holder if execution.named else self.name), world.entropy.nonce()[:8]
        if execution.named and world.permits:
            name = f"{name_of(holder)}/{name}"
        wanted = self.wish_for(f"{holder}#{name}")
        watcher = (HolderWaiter if execution.named else Waiter)(world, self.process, wanted)
        how = resume.acquire if execution.named else acquire.acquire
        holding = yield from self.take(wanted, watcher, how)
        if holding is None:
            execution.failed(self)
        return holding

    def go_on(self, owner: str, token: int) -> Steps[OurHolding | None]:
        """Resume; or acquire again by holder, as an acquire step that runs twice; or adopt what was handed over."""
        execution, world, draw = self.execution, self.world, self.rng.random()
        settings = world.settings
        if draw < settings.acquire_again and execution.named:
            return (yield from self.acquire_first())
        parts = f"{owner}/{world.entropy.nonce()}"
        if draw > 1 - settings.adopt and execution.parked:
            wanted = self.wish_for(parts if self.rng.random() < 0.5 else owner)
            wanted.waits = False
            watcher: Waiter = Adopter(world, self.process, wanted, token)
            world.trace(self.process.name, f"adopts {owner} (token {token})")
            holding = yield from self.take(wanted, watcher, handover.adopt, token)
            if holding is not None:
                world.counts["adoptions"] += 1
                world.judge.adopt(execution.key, f"{owner} {token}")
                if self.rng.random() < settings.release_again:  # a string that is used up
                    delay = 10 ** self.rng.uniform(-2, 0.5)
                    world.at(world.now + delay, Attempt, execution, self, (owner, token), True)
        else:
            holding = yield from self.resume(owner, token)
        if holding is None:
            execution.failed(self, lost=self.lost)
        return holding

    def resume(self, owner: str, token: int) -> Steps[OurHolding | None]:
        world, wanted = self.world, self.wish_for(f"{owner}/{self.world.entropy.nonce()}")
        wanted.waits = False
        world.trace(self.process.name, f"resumes {owner} (token {token}) as {wanted.owner}")
        return (yield from self.take(wanted, Resumer(world, self.process, wanted, token), resume.resume, token))

    def judge_error(self, error: BaseException) -> None:
        if "a hold does not grow" not in str(error):
            super().judge_error(error)
        self.lost = isinstance(error, LockLostError)

    lost = False

    # -- ending

    def finish(self, holding: OurHolding) -> Steps[None]:
        rng, settings, execution = self.rng, self.world.settings, self.execution
        hold = holding.hold
        yield from self.may_die()
        name = (base_of(hold.owner) or "", hold.token)
        if hold.lost and rng.random() < 0.5:
            holding.plan += 1
            execution.failed(self, lost=True)
            return
        if execution.left > 1 or rng.random() < settings.by_string:
            if rng.random() < settings.park:
                self.string = False
                yield from self.hand_over(holding)
                if self.string:
                    execution.reported(self, name, parked=True)
                else:
                    execution.failed(self, lost=not holding.dropped)
            else:  # the handle is dropped, and the hold left to its lease or the next state
                holding.plan += 1
                holding.dropped = True
                self.world.trace(self.process.name, f"leaves {holding}")
                execution.reported(self, name, parked=False)
            return
        if rng.random() < settings.commit and self.world.keeps:
            yield from self.commit(holding)
        else:
            yield from self.release(holding)
        yield from self.may_die()  # before the machine learns of it
        execution.ended(self)

    string = False

    def handed_over(self, string: str) -> None:
        self.string = True

    def release_by_string(self, owner: str, token: int) -> Steps[None]:
        world, process, execution = self.world, self.process, self.execution
        watcher = ByString(world, process, execution.key)
        world.trace(process.name, f"releases {owner} (token {token}) by string")
        steps = resume.release(self.place(owner), owner, token, self.talk())
        try:
            done = yield from self.watched(watcher, steps, "release by string")
        except THROWN:
            execution.failed(self)  # which tries again
            return
        except (TransportError, ServiceError) as error:
            world.trace(process.name, f"release of {owner} by string: {error!r}")
            if watcher.unharmed and not world.settings.zombies:
                world.judge.fail("escaped", f"release of {owner} by string, without a fault: {error!r}")
            execution.failed(self)
            return
        world.trace(process.name, f"release of {owner} by string: {done}")
        world.counts["released by string"] += done
        if isinstance(watcher.outcome, (Reply, ConditionFailed)):
            world.judge.released_by_string(execution.key, owner, token, done, watcher)
        execution.ended(self)
