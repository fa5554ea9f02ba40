"""The protocol: why a lock can never have two holders. Read these rules before you change this module, acquire.py or
keep.py.

This module defines how the three talk to the code that drives them. acquire.py takes locks. keep.py keeps locks and
gives them back. All three consist of generators without I/O, clocks or threads. They yield Send(request) or
Wait(seconds), and are resumed with a Resumption: a reading of the clocks and the outcome. Threads, asyncio and the
simulator drive the same code.

The rules
---------
1. **A row changes hands by one conditional write.** A claim requires "no version, or released". A take-over requires
   "version = the one observed". DynamoDB evaluates condition and write as one step, so of two such writes one is
   refused.
2. **A take-over requires that the holder's validity is over**, by the rules of core/lease.py: DynamoDB's Date has
   reached the expiry stored in the version, or the version has not changed for its whole lease. A row whose lease
   cannot be read is an error. A holder counts its validity from before its first send, and by the same Dates, so its
   validity always ends first.
3. **A reply can be lost, and a request that its sender gave up on may still arrive, late or twice.** So the same body
   is sent again, with the same version. Any reply that shows a version sent by this acquisition, not released, is a
   grant.
4. **An unusable grant is corrected.** A grant is unusable if its validity had passed on arrival, or if a fast clock
   wrote its expiry. It is corrected by a take-over under its own version. The corrected version is struck off: if it
   shows up again, it is taken over again and never counts as a grant. (With a release and a new claim instead, a late
   release could free the lock under its holder.)
5. **A claim that is given up is followed by one release under its version**, sent like any other decision. If the claim
   arrives even later, or no release gets through, the row stays locked without a holder until its stored expiry, and
   no longer.
6. **Versions of one holder rise** by at least 1 ms from one send to the next, and a renewal requires ``version < the
   new one``. So a late renewal cannot turn the expiry back while the holder counts on a newer one. Renewals of one
   handle are sent one after the other, each with a new version; the driver of `renew` ensures that. Only the newest
   version sent may extend validity.
7. **A renewal that shortens the lease cuts validity before it is sent**, because its reply may be lost.
8. **Lost is final, and no renewal is sent for a lost lock**, because its row may still protect work in progress. A
   refused renewal may show my owner and token, not released. Then the row has a newer version of mine, and the next
   send goes above it. That is tried a handful of times; a row that refuses more was not written by us. After any other
   refusal, the lock is lost.
9. **From the first send of a release on, the handle is neither held nor renewed.** A release that is refused at its
   first send did not release anything. Nor did any release of a lock that a refused renewal has shown to be lost. After
   an ambiguous send, a refusal is read like this:

   - "released with my token, by me or another attempt of the hold" (resume.py) means done;
   - "held with my token by another attempt" means not done: it could not have resumed what was released;
   - "gone" or "another's" means done if my validity has not passed and the lock is not lost; otherwise the outcome is
     unknown;
   - "a version of my acquisition, with another token" is a late copy of a claim, which is released under that version.
     No handle holds under it: an adopt or a take-over writes a version of its own;
   - "what my own handover wrote under the parked owner" (handover.py, rule 5) is released under its version, too, if
     the handover was interrupted: nobody was given its string.

   The last two are read again from each refusal of such a release: a copy may land where an unanswered send freed the
   row.
10. **Owners are unique for each acquisition**, so owner and token identify one holder for ever. A hold that is resumed
    keeps its token. So its owner gets a part that is unique for each handle (resume.py).
11. **A claim or take-over for an event also requires that the event's completion is as observed**: absent, or passed by
    DynamoDB's Date. A release keeps the version, so with the version alone, a late take-over could erase a completion.
    A completion later than the Date means "done", no matter who holds the row. Only forget.py removes one. The Dates of
    two front ends may differ by a second. So where one says that the window has passed, another may still say "done",
    and give a duplicate the result. A claim removes that only when no front end can say so any more.
12. **The release itself completes an event**, in one request and under the same condition. So a late owner can neither
    complete nor release what another owns. A release that follows a failed commit completes nothing.
"""

from __future__ import annotations

from ..errors import LockConfigurationError, TransportError
from . import lease, requests
from .outcome import ConditionFailed, Reply, is_ambiguous, is_interrupt, is_throttled, may_pass
from .row import Watch, make_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator
    from typing import Any, Literal, TypeAlias, TypeVar

    from .lease import ClockReading
    from .outcome import Outcome
    from .requests import Content, Place, Request
    from .row import Row

    State: TypeAlias = tuple[str, ...]
    Event: TypeAlias = Literal["expired", "unanswered", "failed", "granted", "lost", "ending"]
    T = TypeVar("T")
    Steps: TypeAlias = Generator["Send | Wait", "Resumption", T]

SEND = 3.0  # seconds that one send may take if it must connect; on an open connection, a transport waits 1 s
DECISION = 5.0  # seconds for all sends of one decision
STEPS = 6  # how many requests may follow each other without a pause, no matter what the rows say; honest rows need four
OUTAGE = 2  # after so many releases in a row without an answer, no more are sent. A single one may be due to its row
WORTH_SENDING = 0.25  # seconds; if less is left of a decision, nothing more is sent

# The states of a Hold: the marks that are set in each. A lock is held in HELD and UNAVAILABLE while its validity lasts.
# In UNAVAILABLE, there is an outage, and hold_on_unavailable was chosen. So the end of validity is not yet the loss.
HELD: State = ()
UNAVAILABLE: State = ("unavailable",)
LOST: State = ("lost",)
ENDED: State = ("ended",)  # its last act has begun: a release, commit or handover
ENDED_AND_LOST: State = ("ended", "lost")
#: The state after each event: its validity "expired"; a renewal was "unanswered", "failed" with a lasting error, or was
#: "granted"; it turned out to be "lost"; its last act begins ("ending"). What is not listed changes nothing.
AFTER: dict[tuple[State, Event], State] = {
    (HELD, "expired"): LOST,
    (HELD, "unanswered"): UNAVAILABLE,
    (HELD, "lost"): LOST,
    (HELD, "ending"): ENDED,
    (UNAVAILABLE, "granted"): HELD,
    (UNAVAILABLE, "failed"): HELD,  # and lost as soon as its validity has passed
    (UNAVAILABLE, "lost"): LOST,
    (UNAVAILABLE, "ending"): ENDED,
    (LOST, "ending"): ENDED_AND_LOST,
    (ENDED, "lost"): ENDED_AND_LOST,
}


class Send:
    """Yielded: send this request now. The generator is resumed with its outcome.

    timeout: the time for the whole send, in seconds.
    """

    __slots__ = ("operation", "request", "timeout")

    def __init__(self, operation: str, request: dict[str, Any], timeout: float) -> None:
        self.operation = operation
        self.request = request
        self.timeout = timeout


class Wait:
    """Yielded: sleep. The generator is resumed with outcome None. Waking early does no harm."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Resumption:
    """Resumes a generator: a reading of the clocks, taken now, and the outcome of a Send."""

    __slots__ = ("outcome", "reading")

    def __init__(self, reading: ClockReading, outcome: Outcome | None = None) -> None:
        self.reading = reading
        self.outcome = outcome


class Entropy:
    """The source of randomness. ``nonce()`` returns 32 hex digits, ``jitter()`` a number uniform in [0, 1).

    Each call takes them from the system. Nothing is prepared at import time, because SnapStart and forks copy memory.
    """

    def __init__(self, nonce: Callable[[], str], jitter: Callable[[], float]) -> None:
        self.nonce = nonce
        self.jitter = jitter


class ClientMemory:
    """What one client remembers between calls: DynamoDB's time, and what it has observed of holders and rate limits."""

    def __init__(self, observation_cache_size: int) -> None:
        self.watch, self.server = Watch(), lease.ServerTime()
        self.observations = lease.Observations(observation_cache_size)
        # Of rate limits: the newest nextAt, when it was seen, whether the busy form was right, and the rate (rate.py).
        self.rates: dict[object, tuple[int, float, bool, str]] = {}
        self._seed_ms = 0

    def seed_ms(self, reading: ClockReading) -> int:
        """Return where the tokens of a new row start: DynamoDB's time, in epoch ms.

        A Date is half a second off on average, so rows that are deleted and made anew would often have equal tokens. So
        it is the wall clock as far as Dates confirm it, and each seed of a client is above its last one. Two
        threads at once, or two clients' clocks, may still give equal tokens, and clocks a lower one later.
        """
        found, now = self.server.bounds(reading), reading.wall
        if found is not None:
            now = min(max(now, found[0]), found[1])
        seed_ms, last = int(now * 1000), self._seed_ms
        if seed_ms <= last < seed_ms + 1000:  # a last one further ahead came from a wrong clock
            seed_ms = last + 1
        self._seed_ms = seed_ms
        return seed_ms


class AcquireRequest:
    """What an acquisition asks for. Times are elapsed seconds on the driver's timeline.

    lease_end: when the lease must end (the invocation's deadline); None if there is no such end.
    wait_until: when to stop waiting.
    waits: whether to wait at all; False means one decision.
    refresh_period: the longest back-off between polls, in seconds.
    replace: replace the whole row, so that attributes of others disappear.
    window: for an event, how long it counts as done after its completion, in seconds; None for a plain lock.
    advice: gives the remedy in the error when the lock is not granted; None for the usual one.
    decision: seconds for all sends of one decision of this acquisition.
    queue: makes the core/queue.py Queue of an acquisition, to wait first come, first served; None to poll by rules 1 to
        5 alone.
    """

    def __init__(
        self,
        place: Place,
        owner: str,
        lease_ms: int,
        content: Content,
        *,
        lease_end: float | None = None,
        wait_until: float = 0.0,
        waits: bool = False,
        refresh_period: float = 1.0,
        delete_on_release: bool = False,
        only_if_exists: bool = False,
        replace: bool = False,
        hold_on_unavailable: bool = False,
        advice: Callable[[], str] | None = None,
        window: int | None = None,
        queue: Callable[[Any], Any] | None = None,
        decision: float = DECISION,
    ) -> None:
        self.place = place
        self.owner = owner
        self.lease_ms = lease_ms
        self.content = content
        self.lease_end = lease_end
        self.wait_until = wait_until
        self.waits = waits
        self.refresh_period = refresh_period
        self.delete_on_release = delete_on_release
        self.only_if_exists = only_if_exists
        self.replace = replace
        self.hold_on_unavailable = hold_on_unavailable
        self.advice = advice
        self.window = window
        self.queue = queue
        self.decision = decision

    def like(self, place: Place, owner: str) -> AcquireRequest:
        """Return the same request for another lock, or under another owner."""
        return AcquireRequest(**{**vars(self), "place": place, "owner": owner})


class Hold:
    """A granted lock, until it is lost or ended.

    valid_until: elapsed seconds on the driver's timeline.
    since: elapsed seconds before the first send of the request that was granted.
    claims: all versions that its acquisition sent.
    version, expiry_ms: the newest that were *sent*.
    gone: a refused renewal showed that the row is another's, released or deleted: no release of mine can come any more.
    holder: the owner that has the lock now, if a refused renewal named one.
    handed_over: a string was returned, or may have been, with which another process continues as the same owner.
    resumed: earlier strings of the hold are still good. So a handover that fails leaves it to the next attempt.
    unclear: the outcome of a release or commit that was sent is unknown. A second one interprets a refusal accordingly.
    completed: DynamoDB has confirmed the commit or release that completed the event.

    Other code only reads these attributes. The methods may run on several threads at once, and in signal handlers.
    """

    def __init__(
        self,
        wanted: AcquireRequest,
        row: Row,
        lease_ms: int,
        expiry_ms: int,
        valid_until: float,
        since: float = 0.0,
        *,
        claims: Collection[str] = (),
        resumed: bool = False,
    ) -> None:
        assert row.version is not None
        assert row.token is not None
        self.since = since
        self.claims = claims
        self.resumed = resumed
        self.place = wanted.place
        self.owner = wanted.owner
        self.ttl = wanted.content.ttl
        self.delete_on_release = wanted.delete_on_release
        self.lease_end = wanted.lease_end
        self.item, self.take = row.item, row.own_take
        self.token = row.token
        self.completed_until = row.completed_until
        self.window = wanted.window
        self.completed = False
        self.version = row.version
        self.lease_ms = lease_ms
        self.expiry_ms = expiry_ms
        self.valid_until = valid_until
        self.lost = False
        self.gone = False
        self.ended = False
        self.handed_over = False
        self.unclear = False
        # If the row is deleted on release, a late copy of the claim could bring back its owner and token after another
        # had the lock. Then a granted renewal proves nothing. The same goes for an entry of a semaphore's row.
        keeps = not wanted.delete_on_release and wanted.place.seal is None
        self.hold_on_unavailable = wanted.hold_on_unavailable and keeps
        self.unavailable = False
        self.holder: str | None = None

    def is_held(self, elapsed: float) -> bool:
        return not (self.lost or self.ended) and elapsed < self.valid_until

    def is_over(self) -> bool:
        return self.lost or self.ended

    @property
    def state(self) -> State:
        if self.ended:
            return ENDED_AND_LOST if self.lost else ENDED
        return LOST if self.lost else UNAVAILABLE if self.unavailable else HELD

    def _become(self, event: Event) -> None:
        """Change the state as AFTER says. It takes back neither ``lost`` nor ``ended``, whoever sets them meanwhile."""
        after = AFTER.get((self.state, event))
        for mark in after or ():
            setattr(self, mark, True)
        if after == HELD:
            self.unavailable = False

    def expire(self, elapsed: float) -> bool:
        """Note that validity has passed, if it has. Return whether the lock is lost."""
        # In this order: a renewal that is granted changes valid_until first, and then clears the mark.
        if not self.unavailable and elapsed >= self.valid_until:
            self._become("expired")
        return self.lost

    def lose(self, *, gone: bool = False, holder: str | None = None) -> None:
        self.gone = self.gone or gone
        self.holder = holder or self.holder
        self._become("lost")  # last: a thread that sees it also reads the others

    def end(self) -> None:
        self._become("ending")

    def hand_over(self) -> None:
        self.end()
        self.handed_over = True

    def withdraw(self) -> None:
        """Note that no string was returned after all. The hold stays ended."""
        self.handed_over = False

    def settle(self, *, unclear: bool) -> None:
        """Note whether the outcome of a release or commit is unknown: also while it is sent, as the yield may raise."""
        self.unclear = unclear

    def count_for(self, window: int) -> None:
        """Let the event count as done for so many seconds, once it is completed."""
        self.window = window

    def complete(self, until: int) -> None:
        """Note that the event is completed: DynamoDB has said so. until: as written, in epoch seconds."""
        self.completed_until = until
        self.completed = True

    # -- renewals

    def shorten(self, lease_ms: int, elapsed: float) -> None:
        """Cut validity before a renewal with a shorter lease is sent (rule 7)."""
        if lease_ms < self.lease_ms:
            self.valid_until = min(self.valid_until, elapsed + lease_ms / 1000 * (1 - lease.DRIFT))

    def rise(self, lease_ms: int, now: float, nonce: str) -> requests.Grant:
        """Return what to send with this lease at ``now`` (DynamoDB's time), above all earlier versions (rule 6)."""
        self.lease_ms = lease_ms
        self.expiry_ms = max(lease.expiry_ms(now, lease_ms), self.expiry_ms + 1)
        self.version = make_version(self.expiry_ms, nonce)
        return requests.Grant(self.owner, self.version, lease_ms, self.expiry_ms)

    def go_above(self, expiry_ms: int) -> None:
        """Make the next version rise above one of mine that the row showed (rule 8)."""
        self.expiry_ms = max(self.expiry_ms, expiry_ms)

    def extend(self, sent: float, date: int | None) -> None:
        """Note that a renewal with the newest version, first sent at ``sent`` (elapsed), was granted at ``date``."""
        if date is not None:
            valid_until = sent + lease.validity(self.lease_ms, self.expiry_ms, date)
            if self.lease_end is not None and self.resumed:  # the row's lease lasts longer
                valid_until = min(valid_until, self.lease_end)
            self.valid_until = max(self.valid_until, valid_until)
        self._become("granted")  # last: whoever looks in between finds the hold valid or unavailable

    def answered(self, outcome: Outcome) -> None:
        """Note that a renewal was neither granted nor refused by its condition. Throttling does not end an outage."""
        if self.hold_on_unavailable and (is_ambiguous(outcome) or isinstance(outcome, TransportError)):
            self._become("unanswered")
        elif not may_pass(outcome):
            self._become("failed")

    def note_data(self, data: str | None) -> None:
        """Note that the row holds this data now (base64; None: none). Its size counts when more is stored."""
        name = self.place.schema.data
        rest = {other: value for other, value in self.item.items() if other != name}
        self.item = rest if data is None else {**rest, name: {"B": data}}


class Conversation:
    """What one operation and DynamoDB say to each other, in turns. All steps of the operation share it.

    Operations that may run at the same time, such as a renewal and a release, have one each.
    memory: what the client remembers. reading: the newest reading of the clocks; only this class replaces it.
    """

    __slots__ = ("entropy", "memory", "reading")

    def __init__(self, memory: ClientMemory, entropy: Entropy, reading: ClockReading) -> None:
        self.memory = memory
        self.entropy = entropy
        self.reading = reading

    @property
    def elapsed(self) -> float:
        return self.reading.elapsed

    def now(self) -> float:
        return self.memory.server.now(self.reading)

    def heard(self, event: Resumption) -> Outcome | None:
        """Note the clocks of a resumption, also of one that other code was given. Return its outcome."""
        self.reading = event.reading
        return event.outcome

    def wait(self, seconds: float, step: type[Wait] = Wait) -> Steps[None]:
        self.heard((yield step(seconds)))

    def send(self, request: requests.Request, left: float = SEND) -> Steps[Outcome]:
        """Send a request once. left: the seconds that are left for it. It takes no longer than SEND."""
        sent = self.reading
        outcome = self.heard((yield Send(*request, min(SEND, max(left, WORTH_SENDING)))))
        assert outcome is not None
        self.memory.server.note(getattr(outcome, "date", None), sent, self.reading)
        return outcome

    def exchange(self, request: Request, until: float | None = None, retry: bool = True) -> Steps[tuple[Outcome, bool]]:
        """Send a request. Send the same body again, after a pause, while its outcome is unknown or temporary (rule 3).

        until: no further send is planned after this, in elapsed seconds. None: after the time of a decision.
        retry: False: what DynamoDB throttled is not sent again, unless an earlier send of it was ambiguous.
        Returns the last outcome, and whether any send was ambiguous.
        """
        until, unclear, tries = self.elapsed + DECISION if until is None else until, False, 0
        while True:
            try:
                outcome = yield from self.send(request, until - self.elapsed)
            except LockConfigurationError as error:
                error.is_unsent = error.is_unsent and not unclear  # from here on it speaks of the whole decision
                raise
            if isinstance(outcome, (Reply, ConditionFailed)):
                return outcome, unclear
            unclear = unclear or is_ambiguous(outcome)
            if not may_pass(outcome) or not (retry or unclear or not is_throttled(outcome)):
                return outcome, unclear
            pause = lease.backoff(tries, 1.0, self.entropy.jitter())
            if self.elapsed + pause + WORTH_SENDING > until:
                return outcome, unclear
            tries += 1
            yield from self.wait(pause)

    def ask(self, request: requests.Request, until: float | None = None) -> Steps[Reply]:
        """As `exchange`, for a request that changes nothing. Raises whatever is not its reply."""
        outcome, _ = yield from self.exchange(request, until)
        if not isinstance(outcome, Reply):
            raise outcome
        return outcome

    def write(self, request: requests.Request, until: float | None = None) -> Steps[Reply | ConditionFailed]:
        """As `exchange`, for a conditional write. Raises all but its reply, or that its condition refused it."""
        outcome, _ = yield from self.exchange(request, until)
        if not isinstance(outcome, (Reply, ConditionFailed)):
            raise outcome
        return outcome


def undone(steps: Steps[T], undo: Callable[[BaseException | None], Steps[None]]) -> Steps[T]:
    """Run ``steps``. On any error, also one thrown in, run ``undo(error)`` before it leaves.

    If another error is thrown in meanwhile, ``undo(None)`` starts over, once. So a caller that is interrupted twice, or
    whose client is closed, still gives back what it may have taken. A third error ends the undo.
    """
    try:
        return (yield from steps)
    except GeneratorExit:
        raise
    except BaseException as error:
        try:
            yield from undo(error)
        except GeneratorExit:
            raise
        except BaseException as again:
            yield from undo(None)
            if is_interrupt(again):  # an interrupt takes precedence, a closed client does not
                raise
        raise


def row_of(outcome: Outcome | None, place: Place) -> Row | None:
    """Return the row that a refusal shows, None if there was none. What cannot be read in it is None, so never mine."""
    return place.view(outcome.item) if isinstance(outcome, ConditionFailed) and outcome.item else None
