"""Waiting first come, first served. Loaded when an acquire that queues has to wait.

A row's ``waiters`` lists the places of those who wait, oldest first. Order only adds conditions to a claim or a first
take-over. Taking and giving up a place touch nothing that decides who holds the lock, and never make a row. So the
queue cannot make a second holder: who is granted the lock is decided by rules 1 to 5 of protocol.py, whoever waits.

1. **Who queues.** The client's `order.py` decides: an acquire that waits, for a plain lock that keeps its row.
   Everyone else claims and polls as if there were no queue. So does everyone while ``waiters`` cannot be read.
2. **Fast path.** The first claim requires that nobody waits. Uncontended, it is the only request.
3. **Taking a place.** After the refusal, the waiter looks again, and then appends a place. Its name is drawn anew: a
   late copy of an old claim then finds no place to claim from. A waiter whose place is gone takes a new one, once. If
   that is gone too, a client that drops the column takes part, and the waiter goes on without the queue.
4. **Claiming from the first place** requires that the first place is mine, and removes it.
5. **Ghosts.** Those ahead are dead if the lock was there for the taking for PATIENCE seconds, as the waiter saw it,
   with the same ones ahead. Or for IDLE seconds by DynamoDB's clock, since the release or the dead holder's expiry. The
   claim then requires the waiters as observed, and writes the rest. With more than one ahead, a waiter leaves the one
   right behind the first enough time to do this: otherwise it would take that one for a ghost, too.
6. **Giving up** first removes the place. After that, no claim from a place can land.
7. **The last try** of a wait ignores the order. It also removes those ahead, if the waiter saw the lock free for as
   long as anybody may sleep, with the same ones there.
8. **When to look** follows from how long the last holders held the lock, how uneven that was, and from the place. Only
   the first one wakes for the holder's expiry.
9. The longest nap and PATIENCE are protocol, the same in every version: nobody who is alive sleeps longer than
   others have patience.
"""

from __future__ import annotations

from . import lease, requests
from .acquire import Held, Take
from .outcome import NOT_DONE, Reply, ServiceError
from .protocol import SEND, STEPS, Hold, Send, Wait, row_of
from .row import MOST_WAITERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .acquire import Acquisition, Next
    from .lease import Look
    from .outcome import Outcome
    from .protocol import Steps
    from .requests import Place
    from .row import Row, Schema

LONGEST_NAP = 2.0  # seconds
PATIENCE = 3.0  # seconds
IDLE = 8.0  # seconds; more than the longest patience, and by more than two Dates of one moment may differ
LONGEST_COUNTED = 1.0  # seconds that one look adds to the patience
_AFTER_GRANT = 0.25  # of a look's seconds, if the lock was granted to somebody since the look before
_TURN = 0.25  # seconds that each further waiter leaves to the one before it
_TURNS = 2.0  # seconds, for all of them
LONGEST_PATIENCE = PATIENCE + LONGEST_NAP - LONGEST_COUNTED + _TURNS
SHORTEST_NAP = 0.01  # seconds of a pause
_USUAL_HOLD = 0.05  # seconds, if nothing is known
_USUAL_SPREAD = 0.39  # of the hold
_LEAVE = 1.0  # seconds for giving up a place
_FULL = 1.0  # seconds, the longest nap while there is no place left
LONGEST_OUTSIDE = 8.0  # seconds, the longest one after looks that DynamoDB throttled


class Queue:
    """The wait of one acquisition."""

    def __init__(self, acquisition: Acquisition, unreadable: Callable[[Place], None] | None = None) -> None:
        """unreadable: called if the waiters in the row cannot be read."""
        self.acquisition = acquisition
        self._unreadable = unreadable
        self.mine: str | None = None  # the place
        self._name: str | None = None  # of the place that is being taken, until it is seen
        self._names: set[str] = set()  # of all places ever asked for: at most three
        self._indexes: dict[str, int] = {}  # where each place that may be there was seen, or is expected
        self._unclear: set[str] = set()  # the places among them whose append has no clear answer yet
        self._shown: Row | None = None  # the newest row whose waiters were noted
        self._losses = 0
        self._crowding = 0  # grows with looks that were throttled while there is no place left, and falls with others
        self._stalls = 0  # pauses in a row because writes were refused
        self._refused = 0  # writes, in a row
        self.ghosts = Ghosts()
        self.pace = Pace()

    def run(self, step: Next) -> Steps[Next]:
        """Wait until the lock is granted. Returns something else than a Hold if the wait goes on without the queue."""
        waiters = self._waiters()
        if waiters is not None and not self._has_been_idle(step):
            yield from self._sleep(self._moment())
            step = yield from self.acquisition.read()
        writes = 0
        while not isinstance(step, Hold):
            waiters = self._waiters()
            if waiters is None and self._unreadable is not None:
                self._unreadable(self.acquisition.wish.place)
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

    def _has_been_idle(self, step: Next) -> bool:
        """Whether the refusal shows a lock that has long been free: all that wait are dead, so no look is needed."""
        acquisition = self.acquisition
        fresh = isinstance(step, Take) and step.version not in acquisition.sent
        return fresh and self.is_idle(step)

    def is_idle(self, step: Next) -> bool:
        """Whether the lock has been there for the taking for IDLE seconds by DynamoDB's clock."""
        return has_been_idle(step, self.acquisition.date, self.acquisition.wish.place.schema)

    def ahead(self, waiters: tuple[str, ...]) -> int:
        """How many of ``waiters`` come before this one."""
        return waiters.index(self.mine) if self.mine in waiters else len(waiters)

    # -- what to do -------------------------------------------------------------------------------------------------

    def _waiters(self) -> tuple[str, ...] | None:
        """The waiters in the newest row. None if they cannot be read. Notes whether my place is among them."""
        row = self.acquisition.row
        waiters = () if row is None else row.waiters
        if waiters is None:
            return None
        if row is self._shown and row is not None:  # nothing new: a place asked for since then cannot be in it
            return waiters
        self._shown = row
        for name in [name for name in self._indexes if name not in waiters and name not in self._unclear]:
            del self._indexes[name]
        mine = [name for name in waiters if name in self._names]  # late copies of appends may bring old ones back
        for name in mine:
            self._indexes[name] = waiters.index(name)
            self._unclear.discard(name)
        if self.mine is not None and self.mine not in waiters:
            self._losses += 1
        self.mine = mine[0] if mine else None
        if self.mine is not None:
            self._name = None
        return waiters

    def _write(self, step: Next, waiters: tuple[str, ...]) -> Steps[Next] | None:
        """The write that the newest row calls for. None: wait."""
        acquisition = self.acquisition
        if not isinstance(step, (Take, Held)) or (isinstance(step, Held) and step.error is not None):
            return None
        if isinstance(step, Take) and step.version in acquisition.sent:
            return self._claim(step)  # a correction, which never looks at the queue
        ahead = waiters[: self.ahead(waiters)]
        self.ghosts.note(ahead, step, acquisition.look, acquisition.date)
        self.pace.note(acquisition.row, acquisition.look, acquisition.date, acquisition.wish.place.schema)
        if isinstance(step, Take):
            line = self.line(step, waiters, ahead)
            if line is not None or acquisition.row is None or acquisition.look.elapsed >= acquisition.wait_until:
                return self._claim(Take(step.version, step.row, line))
        if self.mine is None and len(waiters) < MOST_WAITERS and acquisition.look.elapsed < acquisition.wait_until:
            return self._take_place(waiters)
        return None

    def line(self, step: Take, waiters: tuple[str, ...], ahead: tuple[str, ...]) -> requests.Line | None:
        """What a claim may require now. None: it may not be sent yet, or (at the last try) requires nothing."""
        acquisition = self.acquisition
        if not waiters:
            return requests.NOBODY_WAITS
        if self.mine is not None and not ahead:
            return requests.Line(index=0, place=self.mine)
        rest = waiters[len(ahead) + (self.mine is not None) :]
        last = acquisition.look.elapsed >= acquisition.wait_until
        if self.is_idle(step) or self.ghosts.patience_left() <= 0 or (last and self.ghosts.seconds >= LONGEST_NAP):
            return requests.Line(observed=waiters, rest=rest)
        if last and self.mine is not None:
            return requests.Line(index=len(ahead), place=self.mine)
        return None

    def _claim(self, step: Take) -> Steps[Next]:
        outcome = yield from self.acquisition.write(step)
        self._count(outcome)
        return self.acquisition.judge(outcome)

    def _take_place(self, waiters: tuple[str, ...]) -> Steps[Next]:
        acquisition = self.acquisition
        # The same name until it is seen: a late copy of an append then cannot put me behind myself.
        self._name = name = self._name or acquisition.chance.nonce()[:8]
        known = name in self._unclear
        self._names.add(name)
        self._indexes[name] = len(waiters)
        self._unclear.add(name)  # until it is answered, the yield may raise
        outcome, unclear = yield from acquisition.exchange(requests.take_place(acquisition.wish.place, name))
        self._count(outcome)
        if not (unclear or known):
            self._unclear.discard(name)
        if isinstance(outcome, ServiceError) and outcome.code == "ValidationException":
            self._losses = 2  # the column is not a list: go on without the queue
            return acquisition.last
        return acquisition.judge(outcome)

    def _count(self, outcome: Outcome) -> None:
        self._refused = 0 if isinstance(outcome, Reply) else self._refused + 1

    # -- pauses -----------------------------------------------------------------------------------------------------

    def _pause(self, step: Next, waiters: tuple[str, ...], refused: bool) -> Steps[Next]:
        """Wait for the next look, and look. Raises the final error when the wait is over."""
        acquisition = self.acquisition
        now = acquisition.look.elapsed
        if now >= acquisition.wait_until:
            raise acquisition.given_up(step.error if isinstance(step, Held) else None)
        outside = not (refused or self._indexes)  # no place of mine is or may be in the row
        if outside:
            seconds = self._nap_outside(step)
        elif isinstance(step, Held) and step.error is not None:
            longest = min(acquisition.wish.refresh_period, LONGEST_NAP)
            seconds = lease.backoff(acquisition.polls, longest, acquisition.chance.jitter())
            acquisition.polls += 1
        elif refused:  # ever longer: a row of which nothing that is shown comes true must not make this a busy loop
            seconds = self._moment() * 2 ** min(self._stalls, 5)
        else:
            free = self.ghosts.seconds if isinstance(step, Take) else None
            seconds = self.pace.nap(self.ahead(waiters), acquisition.look, free)
            if self.ahead(waiters) == 0 and isinstance(step, Held):
                seconds = min([seconds, *acquisition.soonest(step)])
        if isinstance(step, Take) and not refused:
            seconds = min(seconds, max(self.ghosts.patience_left(), SHORTEST_NAP))
        self._stalls = self._stalls + 1 if refused else 0
        seconds = min(seconds, acquisition.wait_until - now)
        yield from self._sleep(seconds)
        return (yield from (self._look_once() if outside else acquisition.read()))

    def _nap_outside(self, step: Next) -> float:
        """How long to sleep while there is no place left: ever longer while looks are throttled.

        All who are outside must leave room for those in the queue. DynamoDB serves 3,000 reads a second of a row, and
        throttles the first one in the queue like anybody else.
        """
        error = step.error if isinstance(step, Held) else None
        throttled = isinstance(error, ServiceError) and error.code in NOT_DONE
        self._crowding = min(self._crowding + 2, 8) if throttled else max(self._crowding - 1, 0)
        longest: float = min(_FULL * 2**self._crowding, LONGEST_OUTSIDE)
        return longest * (0.2 + 0.8 * self.acquisition.chance.jitter())

    def _look_once(self) -> Steps[Next]:
        """Read the row, and do not send that again if it is refused: the next nap is longer then."""
        acquisition = self.acquisition
        sent = acquisition.look
        event = yield Send(*requests.read(acquisition.wish.place), min(SEND, acquisition.wish.decision))
        acquisition.look, outcome = event.look, event.outcome
        assert outcome is not None
        acquisition.memory.server.note(getattr(outcome, "date", None), sent, event.look)
        return acquisition.judge(outcome)

    def _sleep(self, seconds: float) -> Steps[None]:
        """Sleep, in pieces of ``refresh_period``: after each, the driver asks whether the wait was cancelled."""
        acquisition = self.acquisition
        until = acquisition.look.elapsed + seconds
        for _ in range(1 + int(LONGEST_OUTSIDE * 100)):
            left = until - acquisition.look.elapsed
            if left <= 0:
                return
            acquisition.look = (yield Wait(min(left, acquisition.wish.refresh_period))).look

    def _moment(self) -> float:
        return 0.01 + 0.04 * self.acquisition.chance.jitter()

    # -- its end ----------------------------------------------------------------------------------------------------

    def leave(self, *, granted: bool = False) -> Steps[None]:
        """Remove my places that may be in the row. Best effort: a place that stays is a ghost.

        granted: the newest row is that of the grant, and shows which places of mine are left.
        """
        acquisition = self.acquisition
        place, limit = acquisition.wish.place, min(_LEAVE, acquisition.wish.decision)
        if granted:
            self._unclear.clear()
            self._shown = None
            self._waiters()
        self.mine = None
        for name, index in list(self._indexes.items()):
            # Callers that came at once give up at once, and each that leaves moves the others.
            until = acquisition.look.elapsed + limit
            for attempt in range(MOST_WAITERS):
                if attempt > 1 and acquisition.look.elapsed >= until:
                    break
                event = yield Send(*requests.leave_place(place, index, name), limit)
                acquisition.look = event.look
                row = row_of(event.outcome, place)
                acquisition.note_landed(row)
                if row is None or row.waiters is None or name not in row.waiters:
                    break
                index = row.waiters.index(name)
            del self._indexes[name]  # only now: an interrupt in between starts this again


class Ghosts:
    """Whether the waiters ahead are dead: the lock was there for the taking, and none of them took it."""

    def __init__(self) -> None:
        self._found = False  # whether a look has found the lock free, with the same ones ahead
        self._free: tuple[str | None] | None = None  # the version in the look before, if that found it free
        self.seconds = 0.0  # for which all could see that it was free
        self._ahead: tuple[str, ...] = ()
        self._seen = 0.0  # for which I saw that it was free, as those who came before me do a nap later at the latest
        self._last: float | None = None
        self._version: str | None = None  # the row's, and since when this acquisition has seen it
        self._version_since = 0.0

    def note(self, ahead: tuple[str, ...], step: Take | Held, look: Look, date: int | None) -> None:
        """Note one look. The seconds add up over other grants in between: fail-fast callers may take the lock again.
        They also do if one of those behind the first leaves: what kept the others from claiming is the first.

        The very first look that finds the lock free counts the time since the look before, though it may have become
        free only now. That is for the one right behind a ghost. Those further back wait for it to act first. After
        another grant in between, such a look counts a part of it: those ahead may have slept while it was free before.
        """
        if ahead[:1] != self._ahead[:1] or not set(ahead) <= set(self._ahead):
            self.seconds, self._seen, self._found, self._free, self._last = 0.0, 0.0, False, None, None
        self._ahead = ahead
        seen = self.is_seen(step.row, look)
        free = None
        if isinstance(step, Take):
            free = (None if step.row is None else step.row.version,)
            seconds = self._counted(free, look)
            self._seen += seconds if seen else 0.0
            self.seconds += seconds if self.all_see(step, date) else 0.0
            self._found = True
        self._free, self._last = free, look.elapsed

    def _counted(self, free: tuple[str | None], look: Look) -> float:
        """How many seconds a look counts that finds the lock free."""
        if self._last is None or not (self._found or len(self._ahead) == 1):
            return 0.0
        seconds = min(look.elapsed - self._last, LONGEST_COUNTED)
        return seconds if free == self._free or not self._found else _AFTER_GRANT * seconds

    def is_seen(self, row: Row | None, look: Look) -> bool:
        """Whether this acquisition has seen the row unchanged for its lease: what it remembers from others does not
        count, since those ahead may not know it."""
        if row is None:
            return True
        if row.version != self._version:
            self._version, self._version_since = row.version, look.elapsed
        return row.is_free or look.elapsed - self._version_since >= (row.lease_ms or 0) / 1000

    def all_see(self, step: Take, date: int | None) -> bool:
        """Whether the lock is there for the taking for everybody: released or past its expiry, not just unchanged for
        its lease since I first saw it."""
        expiry_ms = None if step.row is None else step.row.expiry_ms
        return step.version is None or (expiry_ms is not None and date is not None and date * 1000 >= expiry_ms)

    def patience_left(self) -> float:
        """For how many more seconds the lock must be there for the taking. 0 or less: those ahead are dead."""
        patience = PATIENCE
        if len(self._ahead) > 1:  # the one before may have slept this much longer than its look has counted
            patience += LONGEST_NAP - LONGEST_COUNTED + min(_TURN * (len(self._ahead) - 1), _TURNS)
        # Those ahead may have seen the holder's version a nap later than I did: they may take it over a nap later.
        return min(patience - self.seconds, patience + LONGEST_NAP - self._seen)


def has_been_idle(step: Next, date: int | None, schema: Schema) -> bool:
    """Whether the lock has been there for the taking for IDLE seconds by DynamoDB's clock.

    A claim dated by a slow clock has an expiry long past. Its row also carries the last release: what is older than
    that counts from there.
    """
    row = step.row if isinstance(step, Take) else None
    if row is None or date is None:
        return False
    if row.expiry_ms is None:
        return False  # a foreign client had the lock last: it carries along the freeSince of a release before
    since = row.free_since_ms(schema)
    if not row.is_free:
        since = max(row.expiry_ms, since or 0)
    return since is not None and date * 1000 - since >= IDLE * 1000


class Pace:
    """When to look: from how long the last holders held the lock, and since when this one holds it.

    The numbers are those for which `python -m benchmarks.contention.virtual` shows the throughput of polling, or close
    to it, in every row, with few looks.
    """

    def __init__(self) -> None:
        self.hold = _USUAL_HOLD  # seconds, the running mean of those seen
        self._spread = _USUAL_SPREAD * _USUAL_HOLD  # their mean distance from it; a guess, until there are several
        self._known = False
        self._token: int | None = None
        self._since = 0.0  # elapsed seconds

    def note(self, row: Row | None, look: Look, date: int | None, schema: Schema) -> None:
        if row is None or row.token == self._token:
            return
        held_ms = row.held_ms(schema)
        if held_ms is not None:
            self.learn(held_ms / 1000)
        self._token, self._since = row.token, look.elapsed
        if date is not None and row.expiry_ms is not None and row.lease_ms is not None:
            granted = (row.expiry_ms - row.lease_ms) / 1000 - lease.GRACE  # a hint only: a renewal turns it back
            self._since -= max(date - granted, 0.0)

    def learn(self, hold: float) -> None:
        known, self._known = self._known, True
        self._spread = (self._spread + abs(hold - self.hold)) / 2 if known else _USUAL_SPREAD * hold
        self.hold = (self.hold + hold) / 2 if known else hold

    def nap(self, ahead: int, look: Look, free: float | None) -> float:
        """How long to sleep in the place behind ``ahead`` others.

        free: for how many seconds they have let the lock go by. None if it is held.
        """
        uneven = self._spread > self.hold / 5
        gap = min(max(self.hold / (8.0 if uneven else 6.3), SHORTEST_NAP), 0.1)
        hold, held = max(self.hold - self._spread, self.hold / 5), look.elapsed - self._since
        if ahead == 0 and free is None:  # a part of the rest only, because when the holder began is not known exactly
            return min(max(0.25 * (hold - held), 0.05 * (held - hold), gap), LONGEST_NAP)
        nap = min(max(hold / 5, 0.1 if uneven else 0.25), 1.0)
        late = min(nap, 0.3 * (held - hold)) if held > hold else 0.0
        if free is not None:
            return min(max(0.6 * ahead * (hold + gap), gap, 0.3 * free), 1.0)
        turn = max(hold - held, late, 0.0) + (0.55 if uneven else 0.8) * (ahead - 0.5) * (hold + gap)
        return min(max(turn, SHORTEST_NAP), LONGEST_NAP, (ahead + 1) * nap)
