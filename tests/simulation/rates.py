"""Rate limits: who starts when, in true time.

The judge knows no clock but the true one. It counts the starts of each row: in any W seconds at most
``(W + E) / T + burst``, where E is by how much callers may be wrong about DynamoDB's time, and how late they may start.
"""

from collections import defaultdict, deque
from contextlib import suppress
from typing import Any

from lambda_lock.core import rate
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.protocol import AcquireRequest, Conversation, Send, Wait
from lambda_lock.core.requests import Content
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import RateLimitedError, TransportError

from .clients import Client
from .clocks import EPOCH
from .errands import Errand
from .interrupts import THROWN
from .items import place_of
from .judge import Judge
from .world import Life, Process, World

_TRIP = 2.0  # seconds between the bounds of DynamoDB's time, at most: if they are further apart, the row is read first
_SLOW = 2.3  # seconds that a slow read may add to that
_NEXT_AT, _LAST_TAKE = str(JAVA.next_at), str(JAVA.last_take)
_LATE = 1.0  # seconds beyond its wait that a start may take if nothing went wrong


class RateJudge(Judge):
    """Judges the starts of a run."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.limit, self.per, self.burst = world.rng.choice(world.settings.rates)
        self.spacing = self.per / self.limit
        self.patience = max(0.5, self.spacing / 10)
        self.rows: dict[str, int] = defaultdict(int)  # how often the row of a key was deleted
        self.landed: dict[tuple[str, str], int] = {}  # in which of its rows each take landed, by its name
        #: Of each row: how many started, and the least (starts less those that the time allows) before any of them.
        self.levels: dict[tuple[str, int], tuple[float, float]] = {}
        self.worst = 0.0
        self.within: dict[tuple[str, int], deque[tuple[float, int]]] = defaultdict(deque)  # starts of the last ``per``
        self.most = 0  # starts in any ``per`` seconds

    @property
    def error(self) -> float:
        """E, in seconds: the difference of two callers' errors, and how late they may start."""
        settings = self.world.settings
        wrong = _TRIP + _SLOW if settings.slow else _TRIP
        is_right = set(settings.skews) == {"right"} and not settings.step
        if is_right and not settings.freeze:  # clocks that are right at the beginning, and drift
            wrong = min(0.4 + 0.1 + 2 * settings.drift / 1e6 * self.world.now, wrong)
        return self.patience + 2 * settings.front_ends + wrong

    def wrote(self, process: Process, action: Send, before: Any, key: str) -> None:
        super().wrote(process, action, before, key)
        after = self.world.table.get(key)
        if after is None:
            return
        name = after.get(_LAST_TAKE, {}).get("S")
        if name is not None and name != (before or {}).get(_LAST_TAKE, {}).get("S"):
            self.landed[key, name] = self.rows[key]
        next_at, now = int(after[_NEXT_AT]["N"]) / 1e6, EPOCH + self.world.now
        most = max(self.world.settings.rate_waits) + (self.burst + 1) * self.spacing + _TRIP + _SLOW + 1.0
        if next_at > now + most and (before is None or next_at > int(before[_NEXT_AT]["N"]) / 1e6):
            self.fail("far ahead", f"{process.name} left nextAt of {key} {next_at - now:.1f} s ahead")
        if int(after[JAVA.ttl]["N"]) < next_at + 86_399:
            self.fail("ttl", f"the row of {key} may go {next_at - int(after[JAVA.ttl]['N']):.0f} s after its nextAt")

    def deleted(self, key: str) -> None:
        """Somebody deleted the row: the limit begins anew, and earlier takes are counted apart."""
        self.rows[key] += 1

    def started(self, process: Process, key: str, name: str, n: int) -> None:
        """n starts at once, in the slot of this take."""
        world = self.world
        world.counts["grants"] += n if n < 1000 else 1
        world.counts["starts"] += 1
        if (key, name) not in self.landed:
            self.fail("nothing taken", f"{process.name} started in a slot of {key} that it never took")
            return
        row = key, self.landed[key, name]
        count, least = self.levels.get(row, (0.0, float("inf")))
        within = self.within[row]
        within.append((world.now, n))
        while within[0][0] <= world.now - self.per:
            within.popleft()
        self.most = max(self.most, sum(each for _, each in within))
        # Starts before this one, less those that the time up to now allows: the least of these begins the worst window.
        least = min(least, count - world.now / self.spacing)
        count += n
        self.levels[row] = count, least
        excess = (count - world.now / self.spacing - least - self.burst) * self.spacing
        self.worst = max(self.worst, excess)
        if excess > self.error:
            self.fail("too often", f"{process.name} started in {key}: {excess:.2f} s worth of starts too many")


class RateClient(Client):
    """One process that starts something again and again."""

    takes_strings = False

    @property
    def judge(self) -> RateJudge:
        judge = self.world.judge
        assert isinstance(judge, RateJudge)
        return judge

    def life(self) -> Life:
        rng, settings, judge = self.rng, self.world.settings, self.judge
        crowd = settings.clients[-1]
        pause = crowd * judge.spacing / settings.hurry
        yield Wait(rng.uniform(0, pause))
        while self.world.counts["turns"] < settings.grants:
            self.world.counts["turns"] += 1
            if rng.random() < settings.die:
                self.world.at(self.world.now + rng.uniform(0, 1), self.perish)
            n = 1
            if judge.burst > 1 and rng.random() < settings.several_starts:
                n = rng.randint(1, judge.burst)
            yield from self.start(rng.choice(self.keys), n)
            if settings.reset and rng.random() < settings.reset:
                key = rng.choice(self.keys)
                if self.world.table.get(key) is not None:
                    self.world.table.store((key,), None)
                    judge.deleted(key)
            if rng.random() < 0.7:
                yield Wait(rng.uniform(0, 2 * pause * n))

    def start(self, key: str, n: int, wait: float | None = None) -> Life:
        world, rng, judge, process = self.world, self.rng, self.judge, self.process
        wait = rng.choice(world.settings.rate_waits) if wait is None else wait
        reading = process.reading()
        wanted = wish(key, reading.elapsed + wait, wait)
        limit = rate.Limit(judge.limit, judge.per, judge.burst, n)
        differs = lambda other: judge.fail("differs", other)  # noqa: E731
        start = rate.Start(wanted, limit, Conversation(self.memory, world.entropy, reading), differs)
        watch = Errand(world, process, key)
        if rng.random() < world.settings.give_up:
            after = 10 ** rng.uniform(-3, 1)
            world.at(world.now + after, process.call, self.task.interrupt, lambda: self.task.watcher is watch)
        try:
            yield from self.watched(watch, start.steps(), "rate_limit")
        except (TransportError, ServiceError, *THROWN) as error:
            world.trace(process.name, f"no start: {error!r}")
            return
        except RateLimitedError as error:
            world.trace(process.name, f"no start: {error}")
            world.counts["limited"] += 1
            if error.retry_after < 0 or (watch.unharmed and error.waited > wait + _LATE + judge.patience):
                judge.fail("refused late", f"{process.name} was refused after {error.waited:.1f} of {wait} s: {error}")
            return
        if world.settings.refused_inside and rng.random() < world.settings.refused_inside:
            yield Wait(rng.choice((0.0, 0.1, 5.0)))  # for the inner limit
            world.trace(process.name, f"gives back {n} of {key}")
            start.talk = self.talk()
            with suppress(*THROWN):
                yield from self.watched(Errand(world, process, key), start.give_back(), "rate_limit")
            return
        world.trace(process.name, f"STARTS {n} of {key}")
        judge.started(process, key, next(iter(start.sent)), n)
        if watch.unharmed and process.peek() - reading.elapsed > wait + _LATE + judge.patience:
            judge.fail("started late", f"{process.name} started {process.peek() - reading.elapsed - wait:.1f} s late")

    def absence(self) -> float:
        return self.rng.uniform(0, 1)

    def succeed(self, name: str) -> None:
        RateClient(self.world, name, self.keys, self.kind)


def wish(key: str, until: float, wait: float) -> AcquireRequest:
    place, content = place_of(key), Content(ttl=60)
    return AcquireRequest(place, "", 1000, content, wait_until=until, waits=wait > 0, refresh_period=10.0)


def start_once_more(world: World, key: str) -> None:
    """At the end, the limit is not stuck: a caller that waits long enough starts."""
    judge, row = world.judge, world.table.get(key)
    assert isinstance(judge, RateJudge)
    ahead = 0.0 if row is None else int(row[_NEXT_AT]["N"]) / 1e6 - EPOCH - world.now
    wait = max(ahead, 0.0) + judge.spacing + _TRIP
    world.settings.freeze = world.settings.step = world.settings.give_up = world.settings.interrupt = 0.0
    world.settings.refused_inside = 0.0
    world.settings.skews = ("right",) * 6
    client = RateClient(world, "last", [key], "")
    client.process.spared = client.process.steady = True
    before = world.counts["starts"]
    client.task.life = client.start(key, 1, wait)
    world.run()
    if world.counts["starts"] == before:
        judge.fail("stuck", f"{key} gives no start within {wait:.1f} s")
