"""A look of the waker at one key. Pure: it yields what is to be sent, called and put into the queue.

The rules
---------
1. **A look reads the lock's row and that of its sleepers.** Whoever lies down causes a look by the stream, after the
   entry is written. So either a look finds the lock free, or its mark is there before the release. The mark lets that
   release cause another look.
2. **The mark** is one write: how many sleep, when the next look comes, and a ticket at the end of those who wait, for
   all sleepers together. It requires that the lock is still held; if the lock is free by now, the look begins anew.
   A look that finds everything as it would write it writes nothing: so no mark causes looks without end.
3. **The claim** is that of an acquire that does not wait, for the first sleeper: owner ``holder#<nonce>``, a lease
   of 60 s. It is never an acquire by holder, which would end a living attempt of that holder. It comes when nobody who
   is awake is ahead of the sleepers' ticket, and takes their tickets out of the line.
4. **The call** is made once, after the claim. Answered, the entry goes and the look goes on with the next sleeper.
   Closed or denied: nobody will come, so the claim is released, under its own owner and no other. No clear answer:
   nothing is released, and the entry goes, because the sleeper may be awake and has 60 s. Certainly not made: the look
   fails, and is repeated. The entry goes after the call, so a waker that is killed in between is followed by one that
   finds it.
5. **A row that a sleeper has already** was claimed for it by a look that was killed, or by one that is at work now. So
   it is called again once the claim is AGAIN seconds old. Nothing is released then: the claim is another's.
6. **Nobody writes when a lease ends, so a look that leaves a sleeper behind sees to the next one**: a message that
   comes after the holder's expiry, or when those ahead no longer count, after LONGEST seconds at most. First the
   message, then ``wakeAt``, which saves the next look its own.
7. **Nobody sleeps any more**: the marks go, *then* the sleepers' row is read once more. One who lay down in between may
   have caused a look that still found the mark.
8. **A row that cannot be claimed at all**, such as a semaphore's, is the sleeper's own error: it is called without a
   claim, and its acquire tells it.

Being called is a hint. Whether a sleeper has the lock is decided by its acquire, so a call that is lost, doubled, late
or forged costs an invocation or a time-out, and never makes a second holder.
"""

from __future__ import annotations

from ..core import keep, lease, requests, sleepers, tickets
from ..core.outcome import ConditionFailed, Reply
from ..core.protocol import DECISION, STEPS, Resumption, Send, Wait, exchange
from ..core.requests import Update
from ..core.resume import holder_of
from ..core.row import MOST_WAITERS, SLEEPERS, is_of_sleepers, ticket_expiry, whole_of
from ..errors import LockFormatError, LockNotGrantedError
from .claim import LEASE, Claim, place_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TypeAlias, TypeVar

    from ..core.lease import ClockReading
    from ..core.outcome import Item
    from ..core.protocol import Entropy, Recall
    from ..core.requests import Place, Request
    from ..core.row import Row
    from ..core.sleepers import Entry, Sleeper

    T = TypeVar("T")
    Looking: TypeAlias = Generator["Send | Wait | Call | Message", Resumption, T]

LONGEST = 890  # seconds between two looks: a message is delayed by 900 s at most (SQS, SendMessage)
SOONEST = 2  # seconds
LATER = 2  # seconds that a message comes after the time that wakeAt names: a look is never its own next one
SPARED = 5  # seconds that the next look may come later than it would by a message of this one
AGAIN = 10  # seconds after a claim, at which its sleeper is called again
HELD_UP = 15  # seconds that the ticket counts beyond wakeAt, for a look that is late
MOST_CALLS = 20  # of one look; the next goes on
LONGEST_LOOK = 20.0  # seconds


class Call:
    """Yielded: call this sleeper now, once. Resumed with outcome None (answered), ClosedError, DeniedError, or another
    error: the outcome is unknown. What is certainly not made is thrown in instead."""

    def __init__(self, sleeper: Sleeper) -> None:
        self.sleeper = sleeper


class Message:
    """Yielded: put a message into the queue that causes a look at this key, in so many whole seconds."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds


class ClosedError(Exception):
    """Nobody waits for this call any more."""


class DeniedError(Exception):
    """The waker may not make this call."""


class Look:
    """One look at the row of ``place``. woken: who was called, with the error if that failed."""

    def __init__(self, place: Place, memory: Recall, entropy: Entropy, reading: ClockReading) -> None:
        self.place = place
        self.memory = memory
        self.entropy = entropy
        self.reading = reading
        self.until = reading.elapsed + LONGEST_LOOK
        self.woken: list[tuple[Sleeper, Exception | None]] = []

    def run(self) -> Looking[None]:
        """Raises the transport's error, or what a claim raises for a DynamoDB that cannot be used: look again."""
        steps = 0
        while len(self.woken) < MOST_CALLS and self.reading.elapsed < self.until:
            done = len(self.woken)
            item, date = yield from self._read(self.place)
            asleep = sleepers.entries_of((yield from self._read(sleepers.place_of_sleepers(self.place)))[0])
            if asleep:
                is_over = yield from self._serve(asleep, item, date)
            else:
                is_over = not (yield from self._clear(self.place.view(item or {})))
            if is_over:
                return
            steps = 0 if len(self.woken) > done else steps + 1
            if steps >= STEPS:
                raise sleepers.contended(self.place.key)
        yield Message(SOONEST)

    def _read(self, place: Place) -> Looking[tuple[Item | None, int | None]]:
        outcome = yield from self._send(requests.read(place))
        if not isinstance(outcome, Reply):
            raise outcome
        return outcome.item, outcome.date

    def _send(self, request: Request) -> Looking[Reply | Exception]:
        until = self.reading.elapsed + DECISION
        shared = self.memory, self.entropy, self.reading, until
        outcome, _, self.reading = yield from exchange(request, *shared)
        return outcome

    # -- somebody sleeps

    def _serve(self, asleep: list[Entry], item: Item | None, date: int | None) -> Looking[bool]:
        """Claim for the first sleeper and call it, or mark. Return whether the look is over."""
        sleeper = sleepers.read_sleeper(asleep[0])
        if sleeper is None:  # not ours
            yield from self._remove(asleep)
            return False
        try:
            place = place_for(self.place, sleeper)
            claim = Claim(place, sleeper, item, date, self.memory, self.entropy, self.reading)
            try:
                hold = yield from claim.finish()
            except LockNotGrantedError:
                self.reading = claim.reading
                return (yield from self._refused(asleep, sleeper, claim))
        except LockFormatError as error:
            yield from self._call(sleeper, error)
            yield from self._remove(asleep)
            return False
        self.reading = claim.reading
        answer = yield from self._call(sleeper)
        if isinstance(answer, (ClosedError, DeniedError)):
            yield from keep.release(hold, self.memory, self.entropy, self.reading)
        yield from self._remove(asleep)
        return False

    def _refused(self, asleep: list[Entry], sleeper: Sleeper, claim: Claim) -> Looking[bool]:
        row, now = claim.row, self._now()
        assert row is not None, "what is missing is free"
        if claim.ahead:  # they take the lock, or do not count any more
            seconds = max(ticket_expiry(ticket) or 0 for ticket in claim.ahead) + 1 - now
        else:
            seconds = min([end for end in row.ends(now, self.reading) if end > 0], default=LONGEST) + 1
        if not row.is_free and holder_of(row.owner) == sleeper.holder:
            claimed = ((row.expiry_ms or 0) - (row.lease_ms or 0)) / 1000 - lease.GRACE
            if row.lease_ms != LEASE * 1000 or not 0 < claimed + AGAIN - now <= AGAIN:
                yield from self._call(sleeper)
                yield from self._remove(asleep)
                return False
            seconds = min(seconds, claimed + AGAIN - now)
        return (yield from self._mark(row, claim, len(asleep), seconds))

    def _call(self, sleeper: Sleeper, error: Exception | None = None) -> Looking[Exception | None]:
        event = yield Call(sleeper)
        self.reading = event.reading
        answer = event.outcome
        assert not isinstance(answer, Reply)
        self.woken.append((sleeper, answer or error))
        return answer

    def _remove(self, asleep: list[Entry]) -> Looking[None]:
        shared = self.memory, self.entropy, self.reading
        self.reading = yield from sleepers.remove(self.place, asleep, asleep[0], *shared)

    # -- marks

    def _mark(self, row: Row, claim: Claim, count: int, seconds: float) -> Looking[bool]:
        """See to the next look, and write the mark as far as it is not there. Return whether the look is over."""
        now, schema, update = self._now(), self.place.schema, Update(self.place)
        seconds = int(-(-min(max(seconds, SOONEST), LONGEST) // 1))
        wake_at = whole_of(row.item, schema.wake_at or "", 11) or 0
        if not now < wake_at <= now + seconds + SPARED:
            wake_at = int(now) + seconds
            yield Message(seconds + LATER)
        for name, value in ((schema.sleepers, count), (schema.wake_at, wake_at)):
            if name is not None and row.item.get(name) != {"N": str(value)}:
                placeholder = update.name(name)
                update.sets.append(f"{placeholder} = :{placeholder[1:]}")
                update.values[f":{placeholder[1:]}"] = {"N": str(value)}
        self._stand_in_line(update, row, wake_at)
        if not update.sets:
            return True
        update.require("attribute_exists(#version)")
        if row.permits == 1 and not claim.ahead:
            update.expect(released=None)
        outcome = yield from self._send(update.request())
        if not isinstance(outcome, (Reply, ConditionFailed)):
            raise outcome
        return isinstance(outcome, Reply)

    def _stand_in_line(self, update: Update, row: Row, wake_at: int) -> None:
        """Append the sleepers' ticket, or renew it where it is. It counts until the next look is surely over."""
        waiters = row.waiters
        if waiters is None:  # what is there is not a line
            return
        ticket = tickets.make_ticket(SLEEPERS, wake_at + HELD_UP)
        index = next((index for index, other in enumerate(waiters) if is_of_sleepers(other)), None)
        if index is None and len(waiters) < MOST_WAITERS:
            update.sets.append("#waiters = list_append(if_not_exists(#waiters, :none), :ticket)")
            update.values |= {":none": {"L": []}, ":ticket": {"L": [{"S": ticket}]}}
            update.require("(attribute_not_exists(#waiters) OR size(#waiters) < :most)", most={"N": str(MOST_WAITERS)})
        elif index is not None and not wake_at <= (ticket_expiry(waiters[index]) or 0) <= wake_at + 2 * HELD_UP:
            update.sets.append(f"#waiters[{index}] = :ticket")
            update.values[":ticket"] = {"S": ticket}
            update.require(f"#waiters[{index}] = :old", old={"S": waiters[index]})

    def _clear(self, row: Row) -> Looking[bool]:
        """Nobody sleeps: remove the marks. Return whether there were any."""
        update, schema = Update(self.place), self.place.schema
        for name in (schema.sleepers, schema.wake_at):
            if name in row.item:
                placeholder = update.name(name)
                update.removes.append(placeholder)
                update.require(f"attribute_exists({placeholder})")
        waiters = row.waiters or ()
        for index in reversed(range(len(waiters))):
            if is_of_sleepers(waiters[index]):
                update.removes.append(f"#waiters[{index}]")
                update.require(f"#waiters[{index}] = :old{index}", **{f"old{index}": {"S": waiters[index]}})
        if not update.removes:
            return False
        outcome = yield from self._send(update.request())
        if not isinstance(outcome, (Reply, ConditionFailed)):
            raise outcome
        return True

    def _now(self) -> float:
        return self.memory.server.now(self.reading)
