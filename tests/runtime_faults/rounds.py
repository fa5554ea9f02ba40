"""A round: Lambda environments that want one lock or permits, and one kind of fault that meets them again and again."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lambda_lock import LockClient
from lambda_lock.core.lease import GRACE
from lambda_lock.core.row import LONGEST_BELIEVED
from lambda_lock.errors import LockNotGrantedError, TransportError
from rig.engine import Engine
from rig.lambda_runtime import FunctionError, LambdaEnvironment
from tests.histories.caller import LOCKS, REGISTERS
from tests.histories.record import Recording, read
from tests.histories.weights import histories_of
from tests.prove import bench

HANDLERS = Path(__file__).with_name("handlers")

_ENVIRONMENTS = 3
_SLACK = 8.0  # seconds that a busy machine may take beyond what the protocol allows
_INIT_SECONDS = 60.0  # that a process may take to start, on a busy machine
_ANSWER_SECONDS = _INIT_SECONDS + 60.0  # that an invocation may take with its start, its deadline and its freezes
_SHORTEST = 1.5  # seconds: with less than one left, no lock is granted

# The errors of an invocation that tell its caller that the work may not be done.
_SAID = {"LockNotGrantedError", "LockTimeoutError", "LockLostError", "TransportError"}
_SAID |= {"Runtime.ExitError", "Sandbox.Timedout"}
# LockError: no thread can be started for the heartbeat. ImportError: a module that is loaded late cannot be mapped.
_SAID_WITHOUT_MEMORY = {"MemoryError", "OSError", "SystemError", "EngineError", "LockError", "ImportError"}
_SAID_WITHOUT_MEMORY |= {"Runtime.InvalidResponse"}


@dataclass(frozen=True)
class Plan:
    """What a round is like.

    kind: a key of `KINDS`. share: of the time that such a round takes. broken: the name of a rule of the protocol that
    is broken in the functions (tests/simulation/mutations.py), or "".
    """

    kind: str
    seed: int
    share: float = 1.0
    broken: str = ""


@dataclass
class Round:
    """What happened in a round.

    happened: how often each thing was done to environments ("killed", "frozen", "steps", …).
    not_free: locks that nobody could take within bounded time. lost: works that were answered as done, and are not.
    slowest: seconds until the lock was free again. troubles: everything else that must not happen.
    """

    plan: Plan
    happened: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    recording: Recording = field(default_factory=Recording)
    not_free: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    slowest: float = 0.0
    troubles: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> dict[str, list[str]]:
        """All that must not happen, beside what the recording has."""
        return {"not free": self.not_free, "lost": self.lost, "trouble of a function": self.troubles}

    @property
    def figures(self) -> bench.Figures:
        return {
            "happened": self.happened,
            "real kills and freezes": self.happened["killed"] + self.happened["frozen"],
            "answers to invocations": self.answers,
            "most seconds until a lock was free again": self.slowest,
        }


class Site:
    """One of the environments of a round, with a wall clock of its own."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage = stage
        self._clock = stage.folder / f"clock-{number}"
        self.number = number
        self.random = random.Random(f"{stage.plan.seed}-{number}")
        restores = stage.plan.kind == "restore"
        self.set_clock(self.random.uniform(-48, 0) * 3600 if restores else 0.0)
        variables = stage.engine.environment() | {"LAMBDA_LOCK_TABLE": LOCKS, "REGISTERS": REGISTERS}
        variables |= {"ENGINE_PORT": str(stage.engine.port), "EVIDENCE": str(stage.evidence), "LEASE": str(stage.lease)}
        variables |= {"WALL_CLOCK": str(self._clock), "BROKEN": stage.plan.broken}
        if restores:
            variables["AWS_LAMBDA_INITIALIZATION_TYPE"] = "snap-start"
        self.environment = LambdaEnvironment(
            "working.handler",
            HANDLERS,
            environment=variables,
            function_name=f"site-{number}",
            init_seconds=_INIT_SECONDS,
            # A frozen process goes on after its deadline, instead of being killed in its sleep.
            kill_late_seconds=stage.lease + 4.0 if stage.plan.kind in ("freeze", "starve", "weights") else 0.0,
            on_restore=self._restore if restores else None,
        )

    def set_clock(self, seconds: float) -> None:
        """Let the wall clock be off by so many seconds from now on."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

    def freeze(self, seconds: float) -> None:
        self.environment.freeze()
        self._stage.over.wait(seconds)
        self.environment.thaw()

    def _restore(self) -> None:
        """The snapshot was taken days ago, and goes on at the right time."""
        self.freeze(self.random.uniform(0.0, 0.5))
        self.set_clock(0.0)
        self._stage.count("restored")


class Stage:
    """What the parts of a round share."""

    def __init__(self, plan: Plan, engine: Engine, folder: Path) -> None:
        self.plan = plan
        self.engine = engine
        self.folder = folder
        self.evidence = folder / "evidence"
        self.evidence.mkdir()
        self.random = random.Random(plan.seed)
        self.key = f"{plan.kind}-{plan.seed}-{plan.broken}"
        self.lease = self.random.choice([1.0, 1.5, 2.0])
        self.timeout = max(_SHORTEST, self.lease * self.random.choice([0.7, 1.5, 3.0]))
        # The seconds that a dead holder and dead waiters may cost a later caller.
        self.patience = self.lease + GRACE + LONGEST_BELIEVED + _SLACK
        self.seconds = KINDS[plan.kind].seconds * plan.share
        self.over = threading.Event()  # set when the faults end: frozen processes thaw
        self.round = Round(plan)
        # N of the round's semaphores, by key. None: it works with locks.
        self.permits = {self.key: 3, f"{self.key}, config": 100} if plan.kind == "weights" else {}
        self.done: list[tuple[str, str]] = []  # the works that were answered as done: their kind and name
        self._guard = threading.Lock()

    def count(self, what: str, among: Counter[str] | None = None) -> None:
        """Count what happened, or was answered. Rounds do both on many threads."""
        with self._guard:
            (self.round.happened if among is None else among)[what] += 1


# What happens to an environment from outside, again and again until the round is over. Each waits first.


def _wait_for_a_moment(stage: Stage, site: Site) -> None:
    """Wait for any moment, or for one shortly after the next grant."""
    if site.random.random() < 0.4:
        stage.over.wait(site.random.uniform(0.0, 2.0))
        return
    seen = len(site.environment.lines)
    with contextlib.suppress(TimeoutError):
        site.environment.wait_for_line("granted", stage.seconds / 2, after=seen)
        stage.over.wait(site.random.uniform(0.0, 0.3))


def _kill(stage: Stage, site: Site) -> None:
    _wait_for_a_moment(stage, site)
    if site.environment.pid is not None:
        site.environment.kill()
        stage.count("killed")


def _freeze(stage: Stage, site: Site) -> None:
    """Most freezes are longer than lease and deadline. During some, somebody sets the clock."""
    _wait_for_a_moment(stage, site)
    if site.environment.pid is None:
        return
    site.environment.freeze()
    stage.count("frozen")
    taken = max(stage.lease, stage.timeout) + GRACE  # by then, others may have the lock
    short, long = (0.1, stage.lease), (stage.lease + GRACE, taken + LONGEST_BELIEVED)
    stage.over.wait(site.random.uniform(*site.random.choice([short, long, long])))
    if site.random.random() < 0.6:
        _set_clock(stage, site)
    site.environment.thaw()


def _kill_or_freeze(stage: Stage, site: Site) -> None:
    site.random.choice([_kill, _freeze])(stage, site)


def _step(stage: Stage, site: Site) -> None:
    stage.over.wait(site.random.uniform(0.05, 0.8))
    _set_clock(stage, site)


def _set_clock(stage: Stage, site: Site) -> None:
    size = site.random.choice([0.5, 3.0, 10.0, 600.0, 86_400.0])
    site.set_clock(site.random.uniform(-size, size))
    stage.count("steps")


def _nothing(stage: Stage, site: Site) -> None:
    stage.over.wait(1.0)


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    happen: what happens to environments from outside. acts: what functions do inside (handlers/working.py), each with
    its share. seconds: how long new events come, so that what is to be seen can happen.
    """

    happen: Callable[[Stage, Site], None]
    acts: dict[str, float]
    seconds: float


KINDS = {
    "kill": Kind(_kill, {"work": 1.0}, 6.0),
    "freeze": Kind(_freeze, {"work": 1.0}, 16.0),
    "clocks": Kind(_step, {"work": 1.0}, 5.0),
    "fork": Kind(_nothing, {"work": 0.5, "fork": 0.5}, 6.0),
    "fork and kill": Kind(_kill, {"fork": 1.0}, 6.0),
    "restore": Kind(_nothing, {"work": 1.0}, 4.0),
    "memory": Kind(_nothing, {"work": 0.6, "exhaust": 0.4}, 5.0),
    "starve": Kind(_nothing, {"work": 0.6, "starve": 0.4}, 8.0),
    "weights": Kind(_kill_or_freeze, {"work": 1.0}, 10.0),
}
# Rules of the protocol whose absence functions can see within seconds, and the kind of fault that shows it. That expiry
# is not judged by the waiter's clock is shown by callers: a function whose clock is ahead has no time left to acquire.
MUTANTS = {
    "an observation not restarted when the version changes": "clocks",
    "a commit without the lock's condition": "freeze",
    "a release without owner and token": "freeze",
    "a claim that asks for one permit, whatever it takes": "weights",
}
_DONE = {"fork": "forked", "exhaust": "out of memory", "starve": "starved"}


def play(plan: Plan, engine: Engine) -> Round:
    """Play a round on an engine that has the tables `LOCKS` and `REGISTERS`.

    The environment of this process must point at the engine: it takes the lock at the end.
    """
    with tempfile.TemporaryDirectory(prefix="lambda-lock-faults-") as folder, contextlib.ExitStack() as stack:
        stage = Stage(plan, engine, Path(folder))
        sites = [Site(stage, number) for number in range(_ENVIRONMENTS)]
        for site in sites:
            stack.callback(site.environment.close)
        with _running(stage, sites):
            stage.over.wait(stage.seconds)
        for site in sites:
            site.environment.close()  # with all that was forked
        take_the_lock(stage)
        compare_works(stage)
        paths = sorted(stage.evidence.iterdir())
        stage.round.recording = read(paths, calm=False)
        if stage.permits:
            add_up(stage, paths)
        return stage.round


@contextlib.contextmanager
def _running(stage: Stage, sites: list[Site]) -> Iterator[None]:
    """Deliver events to all environments while faults meet them. At the end, the faults end first.

    The last environment is spared by faults from outside, so that somebody can take what the others leave.
    """

    def trouble_them(site: Site) -> None:
        while not stage.over.is_set():
            KINDS[stage.plan.kind].happen(stage, site)
        site.set_clock(0.0)
        site.environment.thaw()

    faults = [_thread(stage, trouble_them, site) for site in sites[:-1]]
    events = [_thread(stage, _deliver_events, stage, site) for site in sites]
    try:
        yield
    finally:
        stage.over.set()
        for thread in (*faults, *events):
            thread.join()


def _thread(stage: Stage, function: Callable[..., None], *arguments: Any) -> threading.Thread:
    def run() -> None:
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - it makes the round a bad one
            stage.round.troubles.append(repr(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _deliver_events(stage: Stage, site: Site) -> None:
    number = 0
    while not stage.over.is_set():
        number += 1
        event = _new_event(stage, site, number)
        if event["how"] != "deduplicate":
            deliver(stage, site, event)
        elif not _deliver_until_done(stage, site, event):
            stage.round.not_free.append(f"event {event['name']}")


def _new_event(stage: Stage, site: Site, number: int) -> dict[str, Any]:
    acts = KINDS[stage.plan.kind].acts
    (act,) = site.random.choices([*acts], [*acts.values()])
    how = "deduplicate" if act != "fork" and site.random.random() < 0.3 else "with_lock"
    seconds = site.random.choice([0.0, 0.05, 0.2, stage.lease * 1.2])
    name = f"{stage.key}-{site.number}-{number}"
    event = {"name": name, "key": stage.key, "how": how, "act": act, "seconds": seconds}
    if stage.permits:
        how = site.random.choice(["take", "take", "read", "rebuild"])
        event |= {"how": how, "take": site.random.randint(1, 3)}
        if how != "take":
            event["key"] = f"{stage.key}, config"
    if act == "exhaust":
        event |= {"leaves": site.random.randint(4, 18), "keeps": site.random.random() < 0.5}
    return event


def deliver(stage: Stage, site: Site, event: dict[str, Any]) -> bool:
    """Invoke the function once. Returns whether it said that the work is done."""
    if event["act"] in _DONE:
        stage.count(_DONE[event["act"]])
    try:
        site.environment.invoke(event, stage.timeout).result(_ANSWER_SECONDS)
    except FunctionError as error:
        stage.count(error.type, stage.round.answers)
        if error.type not in (_SAID | _SAID_WITHOUT_MEMORY if stage.plan.kind == "memory" else _SAID):
            stage.round.troubles.append(f"{error.type}: {error.message}\n{''.join(map(str, error.trace))}")
        if error.type in _SAID_WITHOUT_MEMORY and stage.over.is_set():
            site.environment.kill()  # its limit stays; Lambda ends a process that is out of memory
        return False
    stage.count("done", stage.round.answers)
    stage.done.append((event["how"], event["name"]))
    return True


def _deliver_until_done(stage: Stage, site: Site, event: dict[str, Any]) -> bool:
    """Deliver an event as a queue does: again, until it is done. Now and then once more.

    Returns False if it is not done within bounded time after all faults.
    """
    left = stage.patience
    while left > 0:
        started = time.monotonic()
        if deliver(stage, site, event):
            if site.random.random() < 0.3:
                deliver(stage, site, event)
            return True
        event = event | {"act": "work", "seconds": 0.0}  # a fault that came each time would leave it undone
        time.sleep(0.1)
        if stage.over.is_set():
            left -= time.monotonic() - started
    return False


# What is judged when everything is over


def take_the_lock(stage: Stage) -> None:
    """All functions are dead or done: a new caller gets the lock, at the latest after lease and dead waiters."""
    started = time.monotonic()
    with LockClient(LOCKS, lease_duration=2.0, refresh_period=0.2) as client:
        for key, permits in stage.permits.items() or [(stage.key, None)]:
            try:
                lock = client.acquire(key, wait=stage.patience, permits=permits, take=permits)
            except (LockNotGrantedError, TransportError) as error:
                stage.round.not_free.append(f"lock {key}: {error}")
            else:
                with contextlib.suppress(TransportError):  # it was free, even if a busy machine loses it again
                    lock.release()
    stage.round.slowest = time.monotonic() - started


def add_up(stage: Stage, paths: list[Path]) -> None:
    """Let the checker read what was recorded as what holders of permits saw."""
    lines = [(number, json.loads(line)) for number, path in enumerate(paths) for line in path.read_text().splitlines()]
    stage.round.recording.histories = histories_of(lines, stage.permits)
    stage.round.recording.double_holders = []  # of locks


def compare_works(stage: Stage) -> None:
    """Each work that was answered as done must be there once."""
    there: dict[str, list[str]] = {"deduplicate": list(_works(stage, f"{stage.key}, once").get("SS", []))}
    there["with_lock"] = [each["S"] for each in _works(stage, stage.key).get("L", [])]
    for how, name in sorted(set(stage.done)):
        if how in there and there[how].count(name) != 1:
            stage.round.lost.append(f"{how} {name}: there {there[how].count(name)} times")


def _works(stage: Stage, key: str) -> dict[str, Any]:
    request = {"TableName": REGISTERS, "Key": {"key": {"S": key}}, "ConsistentRead": True}
    works: dict[str, Any] = stage.engine.dynamodb("GetItem", request).get("Item", {}).get("works", {})
    return works
