"""A look of the waker at one key. Pure: it yields what is to be sent, called and put into the queue.

The rules
---------
1. **A look reads the lock's row and that of its sleepers.** Whoever lies down causes a look by the stream, after the
   entry is written. So either a look finds the lock free, or its mark is there before the release. The mark lets that
   release cause another look.
2. **The mark** is one write: how many sleep, when the next look comes, and a ticket at the end of those who wait, for
   all sleepers together, which says what the first of them takes. If the lock was released meanwhile, the mark itself
   causes another look, by the same filter. A look that finds everything as it would write it writes nothing, so no mark
   causes looks without end. It requires the time of the next look as it was read. So of looks at the same moment one
   marks, and a late copy changes nothing.
3. **The claim** is that of an acquire that does not wait, for the first sleeper: owner ``holder#<nonce>``, a lease
   of 60 s. It is never an acquire by holder, which would end a living attempt of that holder. It comes when nobody who
   is awake is ahead of the sleepers' ticket.
4. **The call** is made once, after the claim. Answered, the entry goes and the look goes on with the next sleeper. If
   nobody waits for it any more, the claim is released, under its own owner and no other. No clear answer: nothing is
   released, and the entry goes, because the sleeper may be awake and has 60 s. Certainly not made: the look fails, and
   is repeated. The entry goes after the call, so a waker that is killed in between is followed by one that finds it.
5. **A lock that its sleeper has already** was claimed by a look that was killed, or by one that is at work now. So the
   sleeper is called again once the claim is AGAIN seconds old. Nothing is released then: the claim is another's.
6. **Nobody writes when a lease ends, so a look that leaves a sleeper behind sees to the next one**: a message that
   comes after the holder's expiry, or when those ahead no longer count, after LONGEST seconds at most. First the
   message, then ``wakeAt``, which saves the next look its own.
7. **Nobody sleeps any more**: the marks go, *then* the sleepers' row is read once more. One who lay down in between may
   have caused a look that still found the mark.
8. **What cannot be claimed at all**, such as a semaphore by one who sleeps for a lock, is the sleeper's own error: it
   is called without a claim, and its acquire tells it.
9. **What no registration wrote calls nobody.** It goes in one write (rule 4 of core/sleepers.py), and the look begins
   anew.

Being called is a hint. Whether a sleeper has the lock is decided by its acquire, so a call that is lost, doubled, late
or forged costs an invocation or a time-out, and never makes a second holder.
"""

from __future__ import annotations

from ..core import keep, lease, requests, sleepers
from ..core.acquire import Acquisition, Blocked, Take
from ..core.outcome import ConditionFailed, Reply
from ..core.permits import PermitPlace
from ..core.protocol import STEPS, AcquireRequest, Wait
from ..core.requests import NOBODY_WAITS, Content, QueueCondition, Update
from ..core.resume import holder_of, name_of
from ..core.row import MOST_WAITERS, SLEEPERS, counts, is_of_sleepers, ticket_expiry, ticket_take, whole_of
from ..core.schema import ASLEEP, WAKE_AT
from ..core.tickets import make_ticket
from ..errors import LockFormatError, LockNotGrantedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.acquire import Next
    from ..core.outcome import Item
    from ..core.protocol import Conversation, Steps
    from ..core.requests import Place
    from ..core.row import Row
    from ..core.sleepers import Entry, Sleeper

LEASE = 60.0  # seconds that a sleeper has to wake up
LONGEST = 890  # seconds between two looks: a message is delayed by 900 s at most (SQS, SendMessage)
SOONEST = 2  # seconds
LATER = 2  # seconds from wakeAt to its message. So the message's look finds wakeAt over, and plans the next look
SPARED = 5  # seconds by which the look planned before may be later than this look needs it, without a new message
AGAIN = 10  # seconds after a claim, at which its sleeper is called again; the claim has another clock's time
HELD_UP = 15  # seconds that the ticket counts beyond wakeAt, for a look that is late
MOST_SERVED = 20  # entries that one look removes; the next goes on
LONGEST_LOOK = 20.0  # seconds


class ClosedError(Exception):
    """Nobody waits for this call any more, or the waker may not make it."""


class Call(Wait):
    """Yielded: call this sleeper, once. The look is resumed with outcome None (it answered), ClosedError, or another
    error (unknown). If it was certainly not called, the look ends. The driver of the core sees a pause of no time."""

    __slots__ = ("sleeper",)

    def __init__(self, sleeper: Sleeper) -> None:
        super().__init__(0)
        self.sleeper = sleeper


class Message(Wait):
    """Yielded: cause a look at this key after ``delay`` seconds. The driver of the core sees a pause of no time."""

    __slots__ = ("delay",)

    def __init__(self, delay: int) -> None:
        super().__init__(0)
        self.delay = delay


class Claim(Acquisition):
    """The claim for a sleeper, from the row as it was just read.

    If it is not granted, ``row`` is the newest that was shown. ``ahead`` are the tickets of the awake waiters whose
    turn it is; empty if the lock is held. ``is_due`` says whether that row can be claimed: an answer came too late.
    """

    is_due = False

    def __init__(self, place: Place, sleeper: Sleeper, read: Reply | ConditionFailed, talk: Conversation) -> None:
        owner, nonce = sleeper.holder, talk.entropy.nonce()
        if sleeper.permits is None:
            owner = f"{owner}#{nonce}"
        else:
            owner = f"{owner}#{name_of(owner)}/{nonce}"
            place = PermitPlace(place, sleeper.permits, owner, sleeper.take)
        super().__init__(AcquireRequest(place, owner, int(LEASE * 1000), Content(ttl=sleeper.ttl)), talk)
        self.read_before = read
        self.ahead: list[str] = []

    def first(self) -> Next:
        return self.see(self.read_before.item, self.read_before.date)

    def is_left_to_others(self, row: Row, date: int | None) -> bool:
        return False  # the sleepers have a ticket: those behind it do not come first, whatever they take

    def see(self, item: Item | None, date: int | None) -> Next:
        """As an acquisition does. All sleepers share a ticket. While they have none, every waiter is ahead of them.

        The claim takes the sleepers' tickets out of the queue, and the expired ones ahead of them.
        """
        step, self.ahead = super().see(item, date), []
        self.is_due = isinstance(step, Take)
        if not isinstance(step, Take) or step.version in self.sent:
            return step
        row, gone = step.row, dict[int, str]()
        if row is None or not row.waiters:  # None: the list cannot be read, and nobody queues
            return Take(step.version, row, None if row is not None and row.waiters is None else NOBODY_WAITS)
        living = [counts(ticket, date) for ticket in row.waiters]
        ours = [index for index, ticket in enumerate(row.waiters) if living[index] and is_of_sleepers(ticket)]
        for index, ticket in enumerate(row.waiters):
            is_before = not ours or index < ours[0]
            if is_of_sleepers(ticket) or (is_before and not living[index]):
                gone[index] = ticket
            elif is_before:
                self.ahead.append(ticket)
        needed = sum(map(row.need, self.ahead))
        if self.ahead and (not ours or needed + row.take > row.free):
            self.is_due = False
            return Blocked()
        condition = QueueCondition(gone, alone=not ours, behind=needed)
        self.ahead = []
        return Take(step.version, row, condition)


class Look:
    """One look at the row of ``place``."""

    def __init__(self, place: Place, talk: Conversation) -> None:
        self.place = place
        self.talk = talk
        self.until = talk.elapsed + LONGEST_LOOK
        self.served = 0  # entries

    def run(self) -> Steps[None]:
        """Raises the transport's error, or what a claim raises for a DynamoDB that cannot be used: look again."""
        steps = 0
        while self.served < MOST_SERVED and self.talk.elapsed < self.until:
            served, read = self.served, (yield from self.talk.ask(requests.read(self.place)))
            there = yield from self.talk.ask(requests.read(sleepers.place_of_sleepers(self.place)))
            entries = sleepers.entries_of(there.item)
            strangers_go = sleepers.without_strangers(self.place, there.item)
            if strangers_go is not None:
                yield from self.talk.write(strangers_go)
            elif (yield from self._serve(entries, read) if entries else self._clear(self.place.view(read.item or {}))):
                return
            steps = 0 if self.served > served else steps + 1
            if steps >= STEPS:
                raise sleepers.contended(self.place.key)
        yield Message(SOONEST)

    # -- somebody sleeps

    def _serve(self, entries: list[Entry], read: Reply | ConditionFailed) -> Steps[bool]:
        """Claim for the first sleeper and call it, or mark. Return whether the look is over."""
        sleeper, hold = sleepers.read_sleeper(entries[0]), None
        assert sleeper is not None, "strangers went before"
        try:
            claim = Claim(self.place, sleeper, read, self.talk)
            hold = yield from claim.finish()
        except LockFormatError:
            pass
        except LockNotGrantedError:
            if claim.is_due:
                return False
            seconds = self._seconds(claim, sleeper)
            if seconds is not None:
                return (yield from self._mark(claim, len(entries), seconds))
        answer = yield from self._call(sleeper)
        if hold is not None and isinstance(answer, ClosedError):
            yield from keep.release(hold, self.talk)
        self.served += 1
        yield from sleepers.remove(self.place, lambda entry: entry == entries[0], self.talk)
        return False

    def _seconds(self, claim: Claim, sleeper: Sleeper) -> float | None:
        """Return the seconds until a lease or ticket ends, or a call is repeated. None: repeat the call now."""
        row, now = claim.row, self.talk.now()
        assert row is not None, "what is missing is free"
        if claim.ahead:  # they take the lock, which is a write, or their tickets expire
            return max(ticket_expiry(ticket) or 0 for ticket in claim.ahead) + 1 - now
        seconds = min([end for end in row.ends(now, self.talk.reading) if end > 0], default=LONGEST) + 1.0
        if row.is_free or holder_of(row.owner) != sleeper.holder:
            return seconds
        left = ((row.expiry_ms or 0) - (row.lease_ms or 0)) / 1000 - lease.GRACE + AGAIN - now
        return min(seconds, left) if row.lease_ms == LEASE * 1000 and 0 < left <= AGAIN + SPARED else None

    def _call(self, sleeper: Sleeper) -> Steps[Exception | None]:
        return self.talk.heard((yield Call(sleeper)))  # type: ignore[return-value]  # no Reply

    # -- marks

    def _mark(self, claim: Claim, count: int, seconds: float) -> Steps[bool]:
        """Plan the next look, and write what is missing of the mark. Return whether this look is over."""
        now, row, update = self.talk.now(), claim.row, Update(self.place)
        assert row is not None
        delay = int(-(-min(max(seconds, SOONEST), LONGEST) // 1))
        wake_at = whole_of(row.item, WAKE_AT, 11) or 0
        if not now < wake_at <= now + delay + SPARED:
            wake_at = int(now) + delay
            yield Message(delay + LATER)
        names = {attribute: update.name(attribute) for attribute in (ASLEEP, WAKE_AT)}
        for attribute, value in ((ASLEEP, count), (WAKE_AT, wake_at)):
            if row.item.get(attribute) != {"N": str(value)}:
                update.sets.append(f"{names[attribute]} = :{attribute}")
                update.values[f":{attribute}"] = {"N": str(value)}
        self._stand_in_line(update, row, wake_at, claim.wanted.place.take)
        if not update.sets:
            return True
        update.require("attribute_exists(#version)")
        if WAKE_AT in row.item:
            update.require(f"{names[WAKE_AT]} = :seen", seen=row.item[WAKE_AT])
        else:
            update.require(f"attribute_not_exists({names[WAKE_AT]})")
        return isinstance((yield from self.talk.write(update.request())), Reply)

    def _stand_in_line(self, update: Update, row: Row, wake_at: int, take: int) -> None:
        """Append the sleepers' ticket, or renew it where it is. It counts until the next look is surely over.

        take: how many permits the first sleeper takes. So nobody who comes later may take what it waits for.
        """
        if row.waiters is None:  # the list cannot be read
            return
        ticket = {"S": make_ticket(SLEEPERS, wake_at + HELD_UP, take)}
        index = next((index for index, other in enumerate(row.waiters) if is_of_sleepers(other)), None)
        if index is None and len(row.waiters) < MOST_WAITERS:
            update.sets.append("#waiters = list_append(if_not_exists(#waiters, :none), :ticket)")
            update.values |= {":none": {"L": []}, ":ticket": {"L": [ticket]}}
            update.require("(attribute_not_exists(#waiters) OR size(#waiters) < :most)", most={"N": str(MOST_WAITERS)})
            update.require("NOT contains(#waiters, :one)", one=ticket)
        elif index is not None and (
            ticket_take(row.waiters[index]) != take
            or not wake_at <= (ticket_expiry(row.waiters[index]) or 0) <= wake_at + 2 * HELD_UP
        ):
            update.sets.append(f"#waiters[{index}] = :ticket")
            update.values[":ticket"] = ticket
            update.require(f"#waiters[{index}] = :old", old={"S": row.waiters[index]})

    def _clear(self, row: Row) -> Steps[bool]:
        """Nobody sleeps: remove the marks. Return whether there were none."""
        update = Update(self.place)
        for name in [name for name in (ASLEEP, WAKE_AT) if name in row.item]:
            update.removes.append(update.name(name))
            update.require(f"{update.removes[-1]} = :{name}", **{name: row.item[name]})
        ours = {index: ticket for index, ticket in enumerate(row.waiters or ()) if is_of_sleepers(ticket)}
        if ours:
            QueueCondition(ours).write(update)
        if update.removes:
            yield from self.talk.write(update.request())
        return not update.removes
