"""Rate limits: never too often, in order, without polling. Loaded only by those who use one.

The generic cell rate algorithm (GCRA) in one row. ``nextAt`` is its theoretical arrival time, in whole microseconds of
DynamoDB's time. T = per / limit is the time from one start to the next. A take of n starts costs C = n T, rounded up,
and B = burst T, rounded down, is how far nextAt may run ahead of a start. A take that is made at ``now`` and leaves
nextAt is *due* at max(now, nextAt - B). The version, owner and lease of the row are `RATE`: held, with a lease that no
client can read. *Sealed* is a row with this version that is not released.

| request   | condition                                                   | effect                                    |
|-----------|-------------------------------------------------------------|-------------------------------------------|
| busy      | sealed; now < nextAt <= latest                              | nextAt + C                                |
| idle      | no version (of any schema), token or map; or sealed, and    | sealed, nextAt = now + C                  |
|           | nextAt <= now                                               |                                           |
| give back | sealed, the last take is mine                               | nextAt - C, no last take                  |

The rules
---------
1. **now** is the wall clock if DynamoDB's time can be that (`ServerTime.bounds`), else the nearer bound. If the bounds
   are over 2 s apart, as after a freeze, or the Date is over 5 minutes old, the row is read first. If they are still
   apart, since the read was slow or the clock jumped meanwhile, now is the lower one. A slow now gives out only slots
   that were not used, and a caller that really was frozen is late (rule 4). A fast now would make everybody wait.
2. **Which form.** Busy if the nextAt that was seen last lies ahead, else the form that was right last time. A refusal
   shows the row, and the next form follows from it, with a new now. After STEPS writes in a row there is a pause.
3. **latest** = now + wait + B - C, or now if C is more than B by its rounding. If nextAt is beyond it, the take is
   refused at once. For 5 s, and no longer, the same nextAt refuses without a request: the row may be deleted, or a take
   given back.
4. **Start** when due, by the monotonic clock, counted from the send. A caller that is over `Limit.patience` late by
   elapsed time does not start: it gives the slot back and takes again, while its wait or the first decision lasts. So
   callers do not all start at once after a thaw, or when a network delivers delayed requests together. If now was the
   lower bound of rule 1, lateness counts from before the request that brought this Date: the caller may have been
   frozen at any time since then.
5. **No answer**: take again, under a new name and with a new now. A copy that lands uses up a slot in which nobody
   runs: fewer starts, never more. A row that shows a take of mine as the last one, not given back, is a grant.
6. **Give back** once, best effort, and by the name: with the number alone, a second copy would free a slot that is in
   use, because the next take may leave the same number. A take whose give back was sent never counts as a grant again.

So starts in any W true seconds are at most (W + E) / T + burst. E is the difference of two callers' errors in
DynamoDB's time, and `Limit.patience`. Proof: a take that runs and found nextAt = x is due at max(x, now) at the latest.
It leaves nextAt at max(x, now) + C, which is at most due + B. All other changes only add to nextAt, or remove a slot
in which nobody runs.
"""

from __future__ import annotations

from ..errors import LockConfigurationError, LockFormatError, RateLimitedError
from . import lease
from .outcome import ConditionFailed, Reply, another_answer, is_ambiguous, may_pass, undated
from .protocol import STEPS, WORTH_SENDING, undone
from .requests import Content, Update, read
from .row import RATE, kind_of, read_row, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .lease import ClockReading
    from .outcome import Item
    from .protocol import AcquireRequest, Conversation, Steps
    from .requests import Request

KEPT = 86_400  # seconds that a row is kept at least after its nextAt
LONGEST_WAIT = 86_400.0  # seconds
_NAME = 8  # characters of a take's name
_APART = 2.0  # seconds between the bounds of DynamoDB's time: more is a freeze, or a slow reply
_OLD = 300.0  # seconds; an older Date says too little, because clocks drift
_REFUSES = 5.0  # seconds for which a nextAt that was seen refuses without a request
_UNITS = ((86_400, "day"), (3600, "h"), (60, "min"))
_MOST = 10_000  # rate limits that one client remembers


class Limit:
    """A rate: ``limit`` starts in ``per`` seconds, of which ``burst`` may come at once. One take is of n starts.

    cost, room: C and B in microseconds. patience: how many seconds late a start may be.
    """

    def __init__(self, limit: int, per: float, burst: int, n: int) -> None:
        micros = round(per * 1e6)
        self.cost = -(-n * micros // limit)
        self.room = burst * micros // limit
        self.every = per / limit
        self.patience = max(0.5, self.every / 10)
        self.text = f"{limit}/{per:.15g}/{burst}"
        self.said = f"{limit} per {duration(per)}, one every {duration(self.every)}"


class Start:
    """One start. Its steps are `steps`.

    wanted: says where, how long to wait, for how long to try without an answer, and how long the row is kept.
    differs: called with the rate in the row (as in ``Limit.text``) if another caller wrote a different one.
    sent: the takes that may have landed and were not given back, by name, each with its now, the reading before it, and
        the elapsed time from which lateness counts.
    shown: the last take in the row that was seen last, and its nextAt.
    """

    def __init__(
        self, wanted: AcquireRequest, limit: Limit, talk: Conversation, differs: Callable[[str], None]
    ) -> None:
        self.wanted = wanted
        self.place = wanted.place
        self.limit = limit
        self.talk = talk
        self.differs = differs
        self.started = talk.elapsed
        self.sent: dict[str, tuple[int, ClockReading, float]] = {}
        self.shown = "", 0

    def steps(self) -> Steps[float]:
        """Take a slot and wait until it is due. Return how many seconds that took.

        Raises RateLimitedError if no start is free within the wait, LockFormatError for the row of a lock or semaphore,
        and the transport's TransportError or ServiceError if DynamoDB gave no answer within a decision. If an error
        leaves, a take that may have landed is given back.
        """
        return undone(self.run(), lambda _: self.give_back())

    def run(self) -> Steps[float]:
        while True:
            slot = yield from self.take_start()
            if (yield from self.is_in_time(slot)):
                return self.talk.elapsed - self.started
            yield from self.give_back()
            if self.talk.elapsed > max(self.wanted.wait_until, self.started + self.wanted.decision):
                raise self.limited("its slot passed while this process or DynamoDB stood still")

    def is_in_time(self, slot: tuple[ClockReading, float, float]) -> Steps[bool]:
        """Wait until a slot is due. Return False if it is too late to start in it (rule 4)."""
        sent, since, due = slot
        while self.talk.elapsed - since - due <= self.limit.patience:
            left = due - (self.talk.reading.monotonic - sent.monotonic)
            if left < 1e-6:  # nextAt counts microseconds
                return True
            yield from self.talk.wait(min(left, self.wanted.refresh_period))
        return False

    def take_start(self) -> Steps[tuple[ClockReading, float, float]]:
        """Take a slot, by rules 1 to 3 and 5. Return the clock reading before the take was sent, the elapsed time from
        which lateness counts, and how many seconds after both the slot is due.
        """
        until = self.talk.elapsed + self.wanted.decision
        writes = 0
        while True:
            if not self.is_time_known():
                yield from self.look(until)
            now = self.now()
            known = (0, 0.0, False, self.limit.text)
            next_at, seen, busy, rate = self.talk.memory.rates.get(self.place.where, known)
            if rate != self.limit.text:  # that of another caller, who takes by the same row
                self.differs(rate)
            wait = max(self.wanted.wait_until - self.talk.elapsed, 0.0)
            latest = now + max(int(wait * 1e6) + self.limit.room - self.limit.cost, 0)
            if self.shown[0] in self.sent and self.shown[1] <= latest + self.limit.cost:
                return self.slot(*self.shown)
            if next_at > latest and self.talk.elapsed - seen <= _REFUSES:
                raise self.limited()
            busy = busy or next_at > now
            name = self.talk.entropy.nonce()[:_NAME]
            self.sent[name] = now, self.talk.reading, self.talk.elapsed - self.behind()
            writes += 1
            try:
                outcome = yield from self.talk.send(self.request(name, now, latest, busy), until - self.talk.elapsed)
            except LockConfigurationError as error:
                if error.is_unsent:
                    del self.sent[name]
                raise
            if isinstance(outcome, Reply):
                self.see(outcome.item, busy)
                if self.shown[0] == name and self.shown[1] <= latest + self.limit.cost:
                    return self.slot(*self.shown)
                outcome = another_answer("UpdateItem")
            if isinstance(outcome, ConditionFailed):
                self.see(outcome.item)
                if self.shown[0] != name:
                    del self.sent[name]
                if writes % STEPS:
                    continue
                outcome = self.limited("other starts came first, again and again")
            elif not is_ambiguous(outcome):
                del self.sent[name]
            if not may_pass(outcome) and not isinstance(outcome, RateLimitedError):
                raise outcome
            pause = lease.backoff(writes, 1.0, self.talk.entropy.jitter())
            if self.talk.elapsed + pause + WORTH_SENDING > until:
                raise outcome
            yield from self.talk.wait(pause)

    def slot(self, name: str, next_at: int) -> tuple[ClockReading, float, float]:
        """The slot of a take that left ``next_at``. From here on no other take of mine counts."""
        now, sent, since = self.sent[name]
        self.sent = {name: (now, sent, since)}
        return sent, since, max(next_at - self.limit.room - now, 0) / 1e6

    def give_back(self) -> Steps[None]:
        """Give back the newest take that may have landed, once (rule 6)."""
        if not self.sent:
            return
        name = list(self.sent)[-1]
        self.sent = {}
        update = _RateUpdate(self.place)
        update.sets.append("#next_at = #next_at - :cost")
        update.values[":cost"] = {"N": str(self.limit.cost)}
        update.removes.append("#last_take")
        update.expect(version={"S": RATE}, released=None, last_take={"S": name})
        outcome = yield from self.talk.send(update.request(ReturnValues="ALL_NEW"), self.wanted.decision)
        if isinstance(outcome, (Reply, ConditionFailed)):
            self.see(outcome.item)

    # -- requests and what they show

    def look(self, until: float) -> Steps[None]:
        """Read the row, to learn DynamoDB's time."""
        self.see((yield from self.talk.ask(read(self.place), until)).item)

    def request(self, name: str, now: int, latest: int, busy: bool) -> Request:
        """A take, in one of its two forms."""
        update, cost, ttl = _RateUpdate(self.place), self.limit.cost, self.wanted.content.ttl
        update.set(last_take={"S": name}, rate={"S": self.limit.text})
        if busy:
            update.sets.append("#next_at = #next_at + :cost")
            update.expect(version={"S": RATE}, released=None)
            update.require("#next_at > :now", now={"N": str(now)}, cost={"N": str(cost)})
            update.require("#next_at <= :latest", latest={"N": str(latest)})
        else:
            update.set(owner={"S": RATE}, version={"S": RATE}, lease={"S": RATE}, next_at={"N": str(now + cost)})
            nobody = [f"attribute_not_exists(#{field})" for field in ("version", "token", "permits")]
            free = " AND ".join([*nobody, update.no_foreign_version()])
            sealed = "#version = :version AND attribute_not_exists(#released)"
            update.require(f"({free} OR {sealed} AND #next_at <= :now)", now={"N": str(now)})
            update.removes.append("#released")
        # The busy form does not know the nextAt that it leaves, only the latest one.
        update.store(Content(ttl=None if ttl is None else max(ttl, KEPT)), (latest + cost) // 1000)
        return update.request(ReturnValues="ALL_NEW")

    def see(self, item: Item | None, busy: bool | None = None) -> None:
        """Note what the row shows. Raises LockFormatError if it is not a rate limit's.

        busy: the form by which it was just written. None: the next form follows from the row.
        """
        schema, key, next_at, rate = self.place.schema, self.place.key, 0, self.limit.text
        self.shown = "", 0
        row = read_row(item, schema, key)
        if row is not None and (row.version is not None or row.token is not None or schema.permits in row.item):
            if row.version != RATE or row.next_at is None or row.released:
                kind = "a damaged rate limit" if row.version == RATE else f"{kind_of(row.version)}, not a rate limit"
                raise LockFormatError(f"{key!r} is {kind}: give the rate limit another key, or delete the row", key=key)
            next_at, rate = row.next_at, str(row.rate)
            self.shown = text_of(row.item, schema.last_take or "") or "", next_at
        rates, where = self.talk.memory.rates, self.place.where
        busy = next_at > self.now() if busy is None else busy
        rates[where] = next_at, self.talk.elapsed, busy, rate
        lease.drop_oldest(rates, _MOST)

    # -- time

    def is_time_known(self) -> bool:
        found = self.talk.memory.server.bounds(self.talk.reading)
        return found is not None and found[1] - found[0] <= _APART and found[2] <= _OLD

    def now(self) -> int:
        """DynamoDB's time by rule 1, in microseconds."""
        found = self.talk.memory.server.bounds(self.talk.reading)
        if found is None:
            raise undated(self.place.key)
        low, high, _ = found
        return int((low if high - low > _APART else min(max(self.talk.reading.wall, low), high)) * 1e6)

    def behind(self) -> float:
        """By how many seconds now may be behind DynamoDB's time, if it is the lower bound. Else 0."""
        found = self.talk.memory.server.bounds(self.talk.reading)
        return found[2] if found is not None and found[1] - found[0] > _APART else 0.0

    def limited(self, why: str = "no start is free within the wait") -> RateLimitedError:
        limit = self.limit
        known = (0, 0.0, False, limit.text)
        next_at, _, _, rate = self.talk.memory.rates.get(self.place.where, known)
        after = max(next_at + limit.cost - limit.room - self.now(), 0) / 1e6
        advice = "Wait longer, or try again then" if self.wanted.advice is None else self.wanted.advice()
        if rate != limit.text:
            advice += f". Others started by another rate: {changed(self.place.key, rate)}"
        return RateLimitedError(
            f"rate limit {self.place.key!r} ({limit.said}): {why}, the next one is in {duration(after)}. {advice}",
            key=self.place.key,
            retry_after=after,
            waited=self.talk.elapsed - self.started,
            every=limit.every,
        )


def duration(seconds: float) -> str:
    """A duration for people, to three digits: "0.1 s", "1.5 min", "1 day"."""
    seconds = float(f"{seconds:.3g}")
    size, unit = next((each for each in _UNITS if seconds >= each[0]), (1, "s"))
    count = f"{float(f'{seconds / size:.3g}'):,.6f}".rstrip("0").rstrip(".")
    return f"{count} {unit}{'s' * (unit == 'day' and count != '1')}"


def in_words(rate: str) -> str:
    """The rate in a row, ``limit/per/burst``, for people. What cannot be read stays as it is."""
    try:
        limit, per, burst = rate.split("/")
        return f"{limit} per {duration(float(per))}, burst {burst}"
    except ValueError:
        return rate


def changed(key: str, rate: str) -> str:
    """What to say and do if the row has another ``rate``."""
    return (
        f"{in_words(rate)}. Pass the same everywhere. If you changed it, what was taken at the old rate still counts: "
        f"`lambda-lock release {key!r} --force` clears that backlog"
    )


class _RateUpdate(Update):
    """Builds a write to a rate limit's row. ``permits`` is the map that makes a row a semaphore's."""

    named = (*Update.named, "last_take", "next_at", "permits", "rate")
