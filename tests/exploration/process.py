"""One process under exploration: the shipped generators, its clocks, and what its application may still do.

A process is a function of what it was told: the moves of its application, the answers to its requests, and the readings
of its clocks. A generator cannot be copied, so a process is made again from that list (`Explorer.node`) wherever the
exploration branches. canonical.py says when two processes are the same.
"""

import copy
from collections.abc import Generator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from lambda_lock.core import acquire, handover, keep, lease, resume, transaction
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled
from lambda_lock.core.permit_queue import queue_for_permit
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Entropy, Hold, Resumption
from lambda_lock.core.queue import Queue
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.resume import name_of
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import LockError
from tests.simulation import application
from tests.simulation.clocks import EPOCH
from tests.simulation.world import GivenUp

SECOND = 1 << 20  # units of time: all clocks are exact in floats, so no reading depends on how it was computed
KEY = "k"
MAIN, BEAT = 0, 1  # the lines of execution: the application's, and the heartbeat's
INSTANT = 0.06  # seconds: a pause up to this long may take no time
BY_STRING = frozenset({"adopt", "resume", "end"})  # the moves that take the string of another process
_TAKING = frozenset({"acquire", "adopt", "resume"})  # the moves that may end with a hold
_EPOCH = int(EPOCH)


@dataclass(frozen=True, eq=False)
class Setup:
    """What a process may do, and its clocks.

    acquires, renewals, ends: how many acquires, renewals of each hold, and last acts of each hold.
    lease: in ms. shorter: of the renewals that ask for another lease; None if there are none.
    wait: seconds, as ``wait=``; 0 for one decision.
    permits, take: as ``permits=`` and ``take=``; 0 for a lock.
    acts: the last acts among "release", "commit", "hand over", "complete" (the release of a handler that succeeded).
    adopts, resumes, ends_strings: how many strings it may adopt, resume and release.
    reports: whether its string is known from the grant on, and not only once it hands over.
    holder: acquires as this holder; "" for an owner of its own.
    ppm: the rate of its clocks, in millionths away from true time. skew: how many seconds its wall clock is ahead.
    wakes: how often an acquire may wake before its pause is over.
    """

    acquires: int = 1
    renewals: int = 0
    ends: int = 1
    lease: int = 2000
    shorter: int | None = None
    wait: float = 0.0
    acts: tuple[str, ...] = ("release",)
    adopts: int = 0
    queue: bool = False
    permits: int = 0
    take: int | None = None
    window: int | None = None
    ppm: int = 0
    skew: float = 0.0
    wakes: int = 2
    outages: bool = False
    resumes: int = 0
    ends_strings: int = 0
    reports: bool = False
    holder: str = ""

    @property
    def by_string(self) -> dict[str, int]:
        """How often each of these moves may come."""
        return {"adopt": self.adopts, "resume": self.resumes, "end": self.ends_strings}

    def ticks(self, now: int) -> int:
        """How far its clocks have come since the start, if none was stopped."""
        return now + now * self.ppm // 1_000_000

    def when(self, ticks: int) -> int:
        """The first true time at which its clocks have come so far."""
        now = ticks * 1_000_000 // (1_000_000 + self.ppm)
        while self.ticks(now) < ticks:
            now += 1
        while now > 0 and self.ticks(now - 1) >= ticks:
            now -= 1
        return now

    def read(self, now: int, stopped: int) -> tuple[float, float, float]:
        """Monotonic, boot and wall clock. ``stopped``: for how long the first two have been stopped."""
        ticks = self.ticks(now)
        running = (ticks - stopped) / SECOND
        return running, running, _EPOCH + (ticks + int(self.skew * SECOND)) / SECOND


class Process:
    """``left`` returns what the form of the process is made of. ``setup`` never changes."""

    def __init__(self, index: int, setup: Setup, start: int) -> None:
        self.index = index
        self.setup = setup
        self.name = setup.holder or f"p{index}"
        self.world = SimpleNamespace(entropy=Entropy(self._nonce, lambda: 0.999))
        self.entropy = self.world.entropy
        self.memory = ClientMemory(4)
        monotonic, boottime, wall = setup.read(start, 0)
        self.latest = lease.ClockReading(0.0, monotonic, wall, boottime)
        self.drawn = 0
        self.tasks: list[Any] = [None, None]
        self.kinds = ["", ""]
        self.actions: list[Any] = [None, None]
        self.hold: Hold | None = None
        self.acquires = setup.acquires
        self.by_string = setup.by_string
        self.renewals = self.ends = self.wakes = 0
        self.string = ""  # names its hold to others
        self.wanted: tuple[str | None, int] | None = None  # the base owner and token of the string that it took
        self.told = ""  # of the newest last act
        self.failure = ""
        self.clean = True  # no request of the newest acquire may still land
        self.robbed: tuple[str | None, int] | None = None  # owner and token of the valid lock that it has just lost
        self.asked = ""  # the owner of the newest acquire
        self.ended = False  # its acquire has just ended without the lock
        self.gave_up = False  # the same, and its last request was answered
        self.answered = False  # the last request of its newest last act was answered
        self.until: float | None = None  # the elapsed seconds at which its wait in a queue is over

    def changed(self) -> Any:
        return [
            self.memory, self.latest, self.drawn, self.tasks, self.kinds, self.actions, self.hold, self.acquires,
            self.by_string, self.wanted, self.renewals, self.ends, self.wakes, self.string, self.told, self.failure,
            self.clean, self.until,
            self.asked, self.ended, self.gave_up, self.answered, self.robbed,
        ]  # fmt: skip

    def left(self) -> Any:
        """What decides the future. Once there is nothing more to do, only the hold, and what is judged (see `Node`)."""
        if any(self.tasks) or self.moves() or self.string:
            return self.changed()
        hold = self.hold
        held = None if hold is None or hold.is_over() else (hold.valid_until, hold.owner, hold.token, self.latest)
        return ["at rest", held, self.told, self.failure, self.clean, self.asked, self.ended, self.gave_up,
                self.answered, self.robbed, self.acquires, self.wanted]  # fmt: skip

    def _nonce(self) -> str:
        self.drawn += 1
        return f"{self.index:02x}{self.drawn:06x}{'0' * 24}"  # the first eight make an owner or a place unique

    @property
    def place(self) -> Place:
        return Place("locks", JAVA, "key", KEY, None, None)

    @property
    def tries(self) -> int:
        """How many acquires it has begun."""
        return self.setup.acquires - self.acquires

    def reading(self, clocks: tuple[float, float, float]) -> lease.ClockReading:
        reading = self.latest.after(*clocks)
        self.latest = copy.copy(reading)  # a copy, so that the form does not depend on who keeps a reading
        return reading

    # -- what the application may do

    def moves(self) -> list[tuple[str, ...]]:
        if self.failure:
            return []
        hold = self.hold
        found: list[tuple[str, ...]] = []
        if self.tasks[MAIN] is None:
            if self.acquires and (hold is None or hold.is_over() or self.ends < self.setup.ends):
                found.append(("acquire",))
            found += [(act,) for act, left in self.by_string.items() if left and (hold is None or act == "end")]
            failed = self.told.startswith("hand over: ") and not self.string
            if hold is not None and self.ends and (not hold.ended or hold.unclear or failed):
                found += [(act,) for act in (("release",) if hold.ended else self.setup.acts)]
        if hold is not None and self.tasks[BEAT] is None and self.renewals and not hold.is_over():
            found.append(("renew",))
            if self.setup.shorter is not None:
                found.append(("renew", "shorter"))
        return found

    def start(self, move: tuple[str, ...], clocks: tuple[float, float, float]) -> None:
        reading = self.reading(clocks)
        self.ended = self.gave_up = self.answered = False
        task = BEAT if move[0] == "renew" else MAIN
        self.kinds[task] = move[0]
        self.tasks[task] = self._steps(move, reading)
        self._go(task, None)

    def _steps(self, move: tuple[str, ...], reading: lease.ClockReading) -> Any:
        act, setup, talk = move[0], self.setup, Conversation(self.memory, self.entropy, reading)
        if act == "acquire":
            self.acquires -= 1
            owner = application.owner_name(self.name, self.entropy)
            if setup.holder and setup.permits:  # an attempt of the one hold that the holder has
                owner = f"{setup.holder}#{name_of(setup.holder)}/{self.entropy.nonce()}"
            self._begin(owner)
            how = resume.acquire if setup.holder else acquire.acquire
            return how(self._wish(self.asked, reading), talk)
        if act in BY_STRING:
            return self._take_string(act, handover.read_handover(move[1], "locks"), talk)
        hold = self.hold
        assert hold is not None
        if act == "renew":
            self.renewals -= 1
            return keep.renew(hold, talk, lease_ms=setup.shorter if len(move) > 1 else None)
        self.ends -= 1
        self.told = ""
        if act == "commit":
            return transaction.commit([hold], application.items(KEY), talk)
        if act == "hand over":
            return handover.hand_over(hold, talk, lease_ms=setup.lease)
        return keep.release(hold, talk, complete=act == "complete")

    def _take_string(self, act: str, given: handover.Handover, talk: Conversation) -> Any:
        self.by_string[act] -= 1
        if act == "end":
            self.told = ""
            self.wanted = given.owner, given.token
            return resume.release(self._place_for(given.owner), given.owner, given.token, talk)
        owner = given.owner if act == "adopt" else f"{given.owner}/{self.entropy.nonce()}"
        self._begin(owner)
        self.wanted = given.owner, given.token
        take = handover.adopt if act == "adopt" else resume.resume
        return take(self._wish(owner, talk.reading, by_string=True), given.token, talk)

    def _begin(self, owner: str) -> None:
        self.hold, self.wakes, self.clean, self.asked, self.wanted = None, 0, True, owner, None
        self.string = self.told = ""

    def _wish(self, owner: str, reading: lease.ClockReading, by_string: bool = False) -> AcquireRequest:
        setup = self.setup
        place = self._place_for(owner, None if by_string else setup.take)  # a string does not know what its hold takes
        queue: Any = (queue_for_permit if setup.permits else Queue) if setup.queue and not by_string else None
        until, content = reading.elapsed + setup.wait, Content(ttl=86_400 if setup.window is not None else None)
        self.until = until if queue is not None else None
        waits: dict[str, Any] = {"wait_until": until, "waits": setup.wait > 0 and not by_string, "refresh_period": 60.0}
        special: dict[str, Any] = {"window": setup.window, "hold_on_unavailable": setup.outages, "queue": queue}
        return AcquireRequest(place, owner, setup.lease, content, **waits, **special)

    def _place_for(self, owner: str, take: int | None = None) -> Place:
        permits = self.setup.permits
        return PermitPlace(self.place, permits, owner, take) if permits else self.place

    # -- what it is told

    def resume(self, task: int, outcome: Any, clocks: tuple[float, float, float], early: bool, lost: str = "") -> None:
        """``lost``: "late" if the request may still land, though its sender is told that there was no answer."""
        reading = self.reading(clocks)
        self.wakes += early and task == MAIN
        self.clean = self.clean and lost != "late"
        self._go(task, Resumption(reading, outcome))

    def die(self, clocks: tuple[float, float, float]) -> None:
        """It does nothing more. Its hold stays valid for as long as its clocks would have shown."""
        self.reading(clocks)
        self.tasks, self.kinds, self.actions = [None, None], ["", ""], [None, None]
        self.acquires = self.renewals = self.ends = 0
        self.by_string = dict.fromkeys(self.by_string, 0)
        self.told = ""
        self.wanted = self.until = None
        self.ended = self.gave_up = self.answered = False
        self.robbed = None

    def interrupt(self, late: bool) -> None:
        self.clean = self.clean and not late
        self._go(MAIN, GivenUp())

    def _go(self, task: int, told: Any) -> None:
        steps: Generator[Any, Any, Any] = self.tasks[task]
        answered = isinstance(told, Resumption) and isinstance(told.outcome, (Reply, ConditionFailed))
        self.ended = self.gave_up = self.answered = False
        self.robbed = None
        hold = self.hold
        was_lost = hold is not None and hold.lost
        try:
            action = steps.throw(told) if isinstance(told, BaseException) else steps.send(told)
        except StopIteration as end:
            self._over(task, end.value, None, answered)
        except (LockError, ServiceError, TransactionCanceled, GivenUp) as error:
            if self.kinds[task] in ("acquire", "adopt"):  # a resume gives nothing back
                self.ended, self.gave_up = True, answered or isinstance(told, BaseException)
            self._over(task, None, type(error).__name__, answered)
        except Exception as error:  # noqa: BLE001 - what nobody expects is a failure of the code under proof
            self.failure = f"{self.kinds[task]} raised {error!r}"
            self._over(task, None, "escaped", answered)
        else:
            self.actions[task] = action
        lost = hold is not None and hold.lost and not was_lost and not hold.ended
        if hold is not None and lost and self.latest.elapsed < hold.valid_until:
            self.robbed = hold.owner, hold.token

    def _over(self, task: int, value: Any, error: str | None, answered: bool) -> None:
        kind = self.kinds[task]
        self.tasks[task] = self.actions[task] = None
        self.kinds[task] = ""
        if kind in _TAKING:
            self.until = None
            self.told = "" if error is None else f"{kind}: {error}"
            if isinstance(value, Hold):
                self.hold = value
                self.renewals, self.ends = self.setup.renewals, self.setup.ends
                self.string = handover.write_handover(value) if self.setup.reports else ""
            return
        if kind == "renew":
            return
        self.answered = answered
        self.told = f"{kind}: {error or (value if isinstance(value, bool) else 'done')}"
        if kind == "hand over" and error is None:
            self.string = value
