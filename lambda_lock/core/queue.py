"""Waiting first come, first served. Loaded when an acquire that queues has to wait.

A row's ``waiters`` lists the tickets of those who wait, oldest first. A ticket is a lease: it has a name and an expiry,
and its waiter renews it. It counts until a Date has passed its expiry. One that is dated too far ahead does not count,
and neither does any other text. Order only adds conditions to a claim or a first take-over. Taking, renewing and giving
up a ticket touch nothing that decides who holds the lock, and never make a row. So the queue cannot make a second
holder: rules 1 to 5 of protocol.py decide who is granted the lock, no matter who waits.

1. **Who queues.** The client's `options.py` decides: an acquire that waits, for a plain lock that keeps its row.
   Everyone else claims and polls as if there were no queue. So does everyone while ``waiters`` cannot be read.
2. **Fast path.** The first claim requires that nobody waits. Uncontended, it is the only request. If its refusal shows
   that the lock is free and no ticket counts, the next claim follows at once.
3. **Taking a ticket.** Otherwise the waiter looks again, and then appends a ticket. If the list is full, it writes over
   a ticket at its end that no longer counts. Each ticket has a new name: a late copy of an old claim then finds no
   ticket to claim with. A waiter whose ticket is gone takes a new one, once. If that is gone too, a client that drops
   the column takes part, and the waiter goes on without the queue.
4. **Renewing.** A ticket that has little of its lease left is written anew, over its old text. So a late copy of a
   renewal brings nothing back, and moves nobody.
5. **Claiming** with a ticket requires that it is mine, and that none of those ahead counts. It removes mine and those
   ahead, each as observed. A claim without a ticket requires that no ticket counts, and removes all, as observed.
6. **Passing.** The first of those ahead also counts as dead if it let the lock go by for PATIENCE seconds: I saw that
   everybody could take the lock, and nobody was granted it. I wait that long for each one ahead. So a live waiter ahead
   of me passes the dead one before I do. The time begins anew when one of several ahead expires, and after a look
   without an answer. When it is over, I claim with mine, and remove the first. The others ahead keep theirs.
7. **Giving up** first removes the ticket. After that, no claim with it can land. The last try of a wait ignores the
   order, but removes no ticket that counts.
8. **Throttled.** Who queues does not send a throttled request again, but looks, until the last try. A look takes less
   of what a row is served. Outside a full queue, naps then grow to LONGEST_OUTSIDE. With a ticket, or while there is
   room, they never do.
9. **When to look** follows from how long the last holders held the lock, how uneven that was, and from how many are
   ahead. Only the first waiter wakes for the holder's expiry.
10. LONGEST_NAP, PATIENCE, RENEWED and the longest lease are protocol, the same in every version. A live waiter never
    sleeps longer than others have patience, or than its ticket counts. A ticket with a longer lease does not count.
"""

from __future__ import annotations

from . import lease, requests, tickets
from .acquire import Blocked, NoAnswer, Take
from .outcome import Reply, ServiceError, is_throttled
from .protocol import STEPS, Hold, row_of
from .row import LONGEST_BELIEVED, MOST_WAITERS, TICKET_NAME, counts, ticket_expiry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .acquire import Acquisition, Next
    from .outcome import Outcome
    from .protocol import Steps
    from .requests import Place, QueueCondition
    from .row import Row

LONGEST_NAP = 2.0  # seconds
PATIENCE = 3.0  # seconds for each one ahead: more than a nap and a request take
RENEWED = 5.0  # seconds: a ticket that counts for less is renewed; more than a nap, a look and a renewal take
SHORTEST_LEASE = 10.0  # seconds of a ticket: others may wait this long for a dead waiter whose turn is near
LONGEST_LEASE = LONGEST_BELIEVED - 5.0
LONGEST_COUNTED = 1.0  # seconds that one look adds at most to the patience: clocks may step, and answers may be slow
SHORTEST_NAP = 0.01  # seconds of a pause
_LEAVE = 1.0  # seconds for giving up a ticket
_FULL = 1.2  # seconds, the longest nap while there is no ticket left
LONGEST_OUTSIDE = 8.0  # seconds, the longest such nap after looks that DynamoDB throttled


class Queue:
    """The wait of one acquisition."""

    def __init__(
        self,
        acquisition: Acquisition,
        unreadable: Callable[[Place], None] | None = None,
        pace: Pace | None = None,
    ) -> None:
        """unreadable: called if the waiters in the row cannot be read. pace: when to look. None: as for a lock."""
        self.acquisition = acquisition
        self._unreadable = unreadable
        self.index: int | None = None  # of my ticket in the newest row
        self._name: str | None = None  # of the ticket that is being taken, until it is seen
        self._names: set[str] = set()  # of all tickets ever asked for: at most three
        self._asked: str | None = None  # a ticket that may be in the row, but was not seen there
        self._there: dict[str, int] = {}  # the tickets of mine that may be in the row, and where they are expected
        self._shown: Row | None = None  # the newest row whose waiters were noted
        self._losses = 0
        self._crowding = 0.0  # grows with what DynamoDB throttles, and falls slowly with what it answers
        self._stalls = 0  # pauses in a row because writes were refused, or looks not answered
        self._refused = 0  # writes, in a row
        self._renewed = False  # whether my ticket was, since the last pause: once only, for Dates may jump to and fro
        self.patience = Patience()
        self.pace = pace or Pace()

    def run(self, step: Next) -> Steps[Next]:
        """Wait until the lock is granted. Returns something else than a Hold if the wait goes on without the queue."""
        waiters = self._waiters()
        fresh = isinstance(step, Take) and step.version not in self.acquisition.sent
        failed = isinstance(step, NoAnswer)
        if waiters is not None and not failed and not (fresh and not self._living(waiters)):
            yield from self._sleep(self._moment())
            step = yield from self.acquisition.read()
        writes = 0
        while not isinstance(step, Hold):
            waiters = self._waiters()
            if waiters is None and self._unreadable is not None:
                self._unreadable(self.acquisition.wanted.place)
            if waiters is None or self._losses > 1:
                return step
            write = self._write(step, waiters)
            if write is not None and writes < STEPS and self._refused < 2:
                writes += 1
                step = yield from write
                continue
            writes = self._refused = 0
            step = yield from self._pause(step, waiters, write is not None)
        return step

    def ahead(self, row: Row) -> int:
        """How many tickets that count come before this one in a row."""
        waiters = row.waiters or ()
        mine = next((index for index, ticket in enumerate(waiters) if self._is_mine(ticket)), None)
        return sum(counts(ticket, self.acquisition.date) for ticket in waiters[:mine])

    # -- what to do -------------------------------------------------------------------------------------------------

    def _waiters(self) -> tuple[str, ...] | None:
        """The waiters in the newest row. None if they cannot be read. Notes whether my ticket is among them."""
        row = self.acquisition.row
        waiters = () if row is None else row.waiters
        if waiters is None:
            return None
        if row is self._shown and row is not None:  # nothing new: a ticket asked for since then cannot be in it
            return waiters
        self._shown = row
        had, self.index = self.index, None
        self._there = {} if self._asked is None else {self._asked: self._there[self._asked]}
        for index in reversed(range(len(waiters))):  # a late copy of an append may bring an old text of mine back
            if self._is_mine(waiters[index]):
                self._there[waiters[index]] = self.index = index
        if self._asked in waiters:
            self._asked = None
        if self.index is not None:
            self._name = None
        elif had is not None:
            self._losses += 1
        return waiters

    def _is_mine(self, ticket: str) -> bool:
        return ticket[:TICKET_NAME] in self._names

    def _living(self, waiters: tuple[str, ...]) -> tuple[int, ...]:
        """The indexes of those ahead of me that count."""
        date = self.acquisition.date
        return tuple(index for index, ticket in enumerate(waiters[: self.index]) if counts(ticket, date))

    def _write(self, step: Next, waiters: tuple[str, ...]) -> Steps[Next] | None:
        """The write that the newest row calls for. None: wait."""
        acquisition = self.acquisition
        if isinstance(step, NoAnswer):
            self.patience = Patience()  # those ahead may have had no answer either
            return None
        if not isinstance(step, (Take, Blocked)):
            return None
        if isinstance(step, Take) and step.version in acquisition.sent:
            return self._claim(step)  # a correction, which never looks at the queue
        living, row, reading, last = self._living(waiters), step.row, acquisition.talk.reading, self._is_last()
        schema = acquisition.wanted.place.schema
        self.pace.note(acquisition.row, reading, acquisition.date)
        item = {} if row is None else row.item
        grant = (item.get(schema.version), item.get(schema.token)) if isinstance(step, Take) else None
        first = waiters[living[0]] if living and isinstance(step, Take) else None
        if row is not None and not row.is_free_for_all(acquisition.date, first):
            first = None
        self.patience.note(grant, first, len(living), reading.monotonic)
        if isinstance(step, Take):
            condition = self.condition(step, waiters, living)
            if condition is not None or (last and (row is None or not row.is_awaited(acquisition.date))):
                return self._claim(Take(step.version, step.row, condition))
        if last:
            return None
        return self._take_ticket(waiters) if self.index is None else self._renew(waiters[self.index], len(living))

    def _is_last(self) -> bool:
        return self.acquisition.talk.elapsed >= self.acquisition.wait_until

    def condition(self, step: Take, waiters: tuple[str, ...], living: tuple[int, ...]) -> QueueCondition | None:
        """What a claim requires now. None: it may not be sent yet, or (at the last try) requires nothing."""
        if not waiters:
            return requests.NOBODY_WAITS
        if self.index is None:
            return None if living else requests.QueueCondition(dict(enumerate(waiters)), alone=True)
        row = step.row
        needs = [1 if row is None else row.need(waiters[index]) for index in living]
        spare = 0 if row is None else row.free - row.take
        if sum(needs) <= spare:  # each of those ahead is left what it needs
            return self.condition_from(self.index, waiters, living, behind=sum(needs))
        if not self._is_last():
            if self.patience.left(len(living)) > 0:
                return None
            living, needs = living[1:], needs[1:]
        behind = sum(needs) if max(needs, default=1) > 1 else 0
        return self.condition_from(self.index, waiters, living, behind) if behind <= spare else None

    def condition_from(
        self, index: int, waiters: tuple[str, ...], left: tuple[int, ...], behind: int = 0
    ) -> QueueCondition:
        """What a claim with my ticket requires. It keeps the tickets ahead whose indexes are in ``left``."""
        gone = {at: ticket for at, ticket in enumerate(waiters[: index + 1]) if at not in left}
        return requests.QueueCondition(gone, behind=behind)

    def _claim(self, step: Take) -> Steps[Next]:
        return self._judge((yield from self.acquisition.write(step)))

    def _take_ticket(self, waiters: tuple[str, ...]) -> Steps[Next] | None:
        """Append my ticket, or write it over the first of those at the end of a full list that do not count."""
        date, index = self.acquisition.date, len(waiters)
        if index >= MOST_WAITERS:
            while index > 0 and not counts(waiters[index - 1], date):
                index -= 1
            if index == len(waiters):
                return None
        return self._ask(waiters, index)

    def _ask(self, waiters: tuple[str, ...], index: int) -> Steps[Next]:
        acquisition = self.acquisition
        place, living = acquisition.wanted.place, len(self._living(waiters))
        # The same name until it is seen, and the same text while an append is unclear: a late copy of an append then
        # cannot put another ticket of mine ahead of me.
        self._name = name = self._name or acquisition.talk.entropy.nonce()[:TICKET_NAME]
        known = self._asked is not None
        self._asked = self._asked or tickets.make_ticket(name, self._expiry(living), place.take)
        self._names.add(name)
        self._there[self._asked] = index
        if index < len(waiters):
            request = tickets.renew_ticket(place, index, waiters[index], self._asked)
        else:
            request = tickets.take_ticket(place, self._asked)
        outcome, unclear = yield from acquisition.exchange(request)  # if it raises, `_asked` stays
        if not (unclear or known or isinstance(outcome, Reply)):
            self._there.pop(self._asked)
            self._asked = None
        if isinstance(outcome, ServiceError) and outcome.code == "ValidationException":
            self._losses = 2  # the column is not a list: go on without the queue
            return acquisition.last
        return self._judge(outcome)

    def _renew(self, mine: str, living: int) -> Steps[Next] | None:
        """Renew my ticket, if it counts for less than RENEWED seconds or does not count."""
        assert self.index is not None
        date, until, expiry = self.acquisition.date, ticket_expiry(mine) or 0, self._expiry(living)
        if date is None or self._renewed or (counts(mine, date) and (until - date >= RENEWED or expiry <= until)):
            return None
        place = self.acquisition.wanted.place
        new = tickets.make_ticket(mine[:TICKET_NAME], expiry, place.take)
        return self._send_renewal(tickets.renew_ticket(place, self.index, mine, new))

    def _send_renewal(self, request: requests.Request) -> Steps[Next]:
        outcome, _ = yield from self.acquisition.exchange(request)
        self._renewed = isinstance(outcome, Reply)
        return self._judge(outcome)

    def _expiry(self, living: int) -> int:
        """The expiry of a ticket that is written now: soon after its turn, so that most waits renew nothing."""
        acquisition, reading = self.acquisition, self.acquisition.talk.reading
        seconds = max(SHORTEST_LEASE, self.pace.turn(living, reading) + RENEWED)
        seconds = min(seconds, LONGEST_LEASE, max(acquisition.wait_until - reading.elapsed, 0.0))
        return -int(-(acquisition.talk.now() + seconds + 1) // 1)

    def _judge(self, outcome: Outcome) -> Next:
        self._refused = 0 if isinstance(outcome, Reply) else self._refused + 1
        return self.acquisition.judge(outcome)

    # -- pauses -----------------------------------------------------------------------------------------------------

    def _pause(self, step: Next, waiters: tuple[str, ...], refused: bool) -> Steps[Next]:
        """Wait for the next look, and look. Raises the final error when the wait is over."""
        acquisition = self.acquisition
        now, living = acquisition.talk.elapsed, len(self._living(waiters))
        error = step.error if isinstance(step, NoAnswer) else None
        if self._is_last():
            raise acquisition.given_up(error)
        failed, throttled = error is not None, is_throttled(error)
        if isinstance(step, Blocked):
            self._crowding = min(self._crowding + 4, 8) if throttled else max(self._crowding - 0.2, 0.0)
        outside = not (refused or self._there)  # no ticket of mine is or may be in the row,
        outside = outside and (len(waiters) >= MOST_WAITERS or (failed and not throttled))  # and none is left, or known
        if outside:
            seconds = self._nap_outside()
        elif failed:
            longest = min(acquisition.wanted.refresh_period, LONGEST_NAP)
            seconds = lease.backoff(self._stalls, longest, acquisition.talk.entropy.jitter())
        elif refused:  # ever longer: a row that refuses all that it seemed to allow must not make this a busy loop
            seconds = self._moment() * 2 ** min(self._stalls, 5)
        else:
            reading = acquisition.talk.reading
            seconds = self.pace.nap(living, reading, self.patience.free(reading.monotonic))
            if living == 0 and isinstance(step, Blocked):
                seconds = min([seconds, *acquisition.soonest(step)])
        if isinstance(step, Take) and not refused:
            seconds = min(seconds, max(self.patience.left(living), SHORTEST_NAP))
        self._stalls, self._renewed = self._stalls + 1 if refused or failed else 0, False
        yield from self._sleep(min(seconds, acquisition.wait_until - now))
        # While those ahead have time, a look without an answer is not repeated, unless it is the last one.
        patient = isinstance(step, Take) and living > 0 and not self._is_last()
        return (yield from (self._look_once() if outside or patient else acquisition.read()))

    def _nap_outside(self) -> float:
        """How long to sleep while there is no ticket left: ever longer while DynamoDB throttles.

        Waiters without a ticket must leave room for those in the queue. DynamoDB serves 3,000 reads a second of a row,
        and throttles the first one in the queue like any other.
        """
        longest: float = min(_FULL * 2**self._crowding, LONGEST_OUTSIDE)
        return longest * (0.5 + 0.5 * self.acquisition.talk.entropy.jitter())

    def _look_once(self) -> Steps[Next]:
        """Read the row, and do not send that again if it is refused: the next nap is longer then, and patience begins
        anew."""
        acquisition, wanted = self.acquisition, self.acquisition.wanted
        return acquisition.judge((yield from acquisition.talk.send(requests.read(wanted.place), wanted.decision)))

    def _sleep(self, seconds: float) -> Steps[None]:
        """Sleep, in pieces of ``refresh_period``: after each, the driver asks whether the wait was cancelled."""
        talk = self.acquisition.talk
        until = talk.elapsed + seconds
        for _ in range(1 + int(LONGEST_OUTSIDE * 100)):
            left = until - talk.elapsed
            if left <= 0:
                return
            yield from talk.wait(min(left, self.acquisition.wanted.refresh_period))

    def _moment(self) -> float:
        return 0.01 + 0.04 * self.acquisition.talk.entropy.jitter()

    # -- its end ----------------------------------------------------------------------------------------------------

    def leave(self, *, granted: bool = False) -> Steps[None]:
        """Remove my tickets that may be in the row. Best effort: a ticket that stays expires.

        granted: the newest row is that of the grant, and shows which tickets of mine are left.
        """
        acquisition = self.acquisition
        place, limit = acquisition.wanted.place, min(_LEAVE, acquisition.wanted.decision)
        if granted:
            self._asked = self._shown = None
            self._waiters()
        self.index = None
        for mine, expected in list(self._there.items()):
            # Callers that came together give up together, and each that leaves changes the others' indexes.
            until, text, index = acquisition.talk.elapsed + limit, mine, expected
            for attempt in range(MOST_WAITERS):
                if attempt > 1 and acquisition.talk.elapsed >= until:
                    break
                outcome = yield from acquisition.talk.send(tickets.return_ticket(place, index, text), limit)
                row = row_of(outcome, place)
                if row is not None and row.version in acquisition.sent:
                    acquisition.sent[row.version].may_land = True  # it landed, even if every answer was a refusal
                left = () if row is None else row.waiters or ()
                shown = [at for at, one in enumerate(left) if one[:TICKET_NAME] == mine[:TICKET_NAME]]
                if not shown:
                    break
                index, text = shown[0], left[shown[0]]  # a renewal without an answer has changed its text
            del self._there[mine]  # only now: an interrupt in between starts this again


class Patience:
    """For how long those ahead have let the lock go by, as seen by one waiter."""

    def __init__(self) -> None:
        self.seconds = 0.0  # for which the first of those ahead has let it go by
        self._grant: object = None  # the last one, if the lock may be taken after it. None: the lock is held
        self._ahead: tuple[str | None, int] = None, 0  # the first of those ahead, and how many they are
        self._since = 0.0  # by the monotonic clock: when I first saw that it may be taken
        self._last = 0.0  # when it was noted last

    def note(self, grant: object, first: str | None, ahead: int, now: float) -> None:
        """Note one look. It counts the time since the one before, if that saw the same.

        The claim that follows requires the same grant and the same ticket, so they were there until it landed.

        grant: what tells the last grant from others, if I may take the lock. None if it is held.
        first: the first of those ahead, if everybody may take the lock.
        ahead: how many are ahead. If one of them expires, all who wait behind it begin anew. They would pass one
            another, if each had been patient enough already.
        now: by the monotonic clock.
        """
        if grant is None or grant != self._grant:
            self._since = now
        if first is not None and (grant, first, ahead) == (self._grant, *self._ahead):
            self.seconds += min(now - self._last, LONGEST_COUNTED)
        else:
            self.seconds = 0.0
        self._grant, self._ahead, self._last = grant, (first, ahead), now

    def free(self, now: float) -> float | None:
        """For how many seconds I have seen that I may take the lock. None if it is held."""
        return None if self._grant is None else now - self._since

    def left(self, ahead: int) -> float:
        """For how many more seconds I wait for the first one ahead. 0 or less: it counts as dead.

        Those ahead may begin to count a nap later than I do. So the time grows with each one ahead: they pass first.
        """
        return PATIENCE * ahead - self.seconds


class Pace:
    """When to look: from how long the last holders held the lock, and since when this one holds it.

    `python -m benchmarks.contention.virtual --constants` shows what each number is for.
    """

    USUAL = 0.05  # seconds of a hold, if nothing is known
    SPREAD = 0.25  # of a hold: how far the next may be from the only one that is known
    FAR = 2.0  # times the holds' mean distance from their mean: a hold that differs by more is early or late
    PART = 0.2  # of a hold: the shortest next one that is expected; and of that, the nap of a waiter further back
    GAP = 0.13  # of a hold: the nap of the first waiter when the lock may be released at any moment
    LONGEST_GAP = 0.1  # seconds: the longest such nap,
    LONG = 0.018  # of a hold: if this is longer, the longest such nap
    EARLY = 0.2  # of the time until the lock may be released: when it was granted is not known exactly
    LATE = 0.09  # of the time for which a hold has been longer than expected: looks become rarer
    TURN = 0.85  # of the holds ahead: a waiter further back sleeps for this part, because holds may be shorter
    NAP = 0.25  # seconds: a nap may be so much longer for each one ahead
    OTHER = 8.0  # times the holds' mean: a hold that takes longer is of other work, and says how long that takes
    LET_GO_BY = 0.2  # of the time that those ahead have let a free lock go by, or for which it should have been free

    def __init__(self) -> None:
        self.hold = self.USUAL  # seconds, the running mean of those seen
        self._spread = self.SPREAD * self.USUAL  # their mean distance from it; a guess, until there are several
        self._known = False
        self._token: int | None = None
        self._since = 0.0  # elapsed seconds

    def note(self, row: Row | None, reading: lease.ClockReading, date: int | None) -> None:
        if row is None or row.token == self._token:
            return
        held_ms = row.held_ms()
        if held_ms is not None:
            self.learn(held_ms / 1000)
        self._token, self._since = row.token, reading.elapsed
        if date is not None and row.expiry_ms is not None and row.lease_ms is not None:
            granted = (row.expiry_ms - row.lease_ms) / 1000 - lease.GRACE  # only a hint: a renewal makes it later
            self._since -= max(date - granted - lease.TRUNCATED, 0.0)  # the holder's time may be as much behind

    def learn(self, hold: float) -> None:
        hold = max(hold, 0.001)  # above 0, because `nap` divides by it
        known, self._known = self._known and hold < self.hold * self.OTHER, True
        # Other work is taken to be as even as the work before.
        self._spread = (self._spread + abs(hold - self.hold)) / 2 if known else self._spread * hold / self.hold
        self.hold = (self.hold + hold) / 2 if known else hold

    def turn(self, ahead: int, reading: lease.ClockReading) -> float:
        """A guess of the seconds until a waiter behind ``ahead`` others gets the lock."""
        return abs(self.hold - (reading.elapsed - self._since)) + ahead * self.hold

    def nap(self, ahead: int, reading: lease.ClockReading, free: float | None) -> float:
        """How long to sleep with a ticket behind ``ahead`` others.

        free: for how many seconds they have let the lock go by. None if it is held.
        """
        gap = max(min(self.hold * self.GAP, max(self.LONGEST_GAP, self.hold * self.LONG)), SHORTEST_NAP)
        far, held = self.FAR * self._spread, reading.elapsed - self._since
        hold = max(self.hold - far, self.hold * self.PART)
        if free is not None:
            return min(max(self.TURN * ahead * (hold + gap), gap, self.LET_GO_BY * free), LONGEST_COUNTED)
        if ahead == 0:
            return min(max(self.EARLY * (hold - held), self.LATE * (held - self.hold - far), gap), LONGEST_NAP)
        nap = min(max(self.PART * hold, self.LATE * held, self.NAP * hold / self.hold), 1.0)
        late = min(nap, self.LET_GO_BY * (held - hold))
        turn = max(hold - held, late) + self.TURN * (ahead - 0.5) * (hold + gap)
        return min(max(turn, SHORTEST_NAP), LONGEST_NAP, (ahead + 1) * nap)
