"""The protocol: why two holders cannot be. This is the one module that may break it; read its rules before a change.

Generators without I/O, clocks or threads: they yield Send(request) or Wait(seconds) and are resumed with an Event: a
look at the clocks and what came of it. Threads, asyncio and the simulator drive the same code.

The rules
---------
1. **A row changes hands by one conditional write**: a claim under "no version, or released", a take-over under "version
   = the one observed". DynamoDB evaluates condition and write as one, so of two such writes one is refused.
2. **A take-over needs a holder whose validity is over**, by core/lease.py's rules: DynamoDB's Date has reached the
   expiry stored in the version, or the version stood unchanged for its whole lease. A row whose lease cannot be read is
   an error. A holder counts its validity from before its first send, and by the same Dates: it always ends first.
3. **A reply can be lost, and a request that its sender gave up on may still arrive, late or twice.** So the same body
   is sent again, version included, and any reply that shows a version that this acquisition sent, not released, is a
   grant.
4. **A grant that is no good** (its validity passed on arrival, or its expiry was written by a fast clock) **is
   corrected**: taken over under its own version. The corrected version is struck off: seen again, it is taken over
   again and never counted. (Releasing it and claiming anew let a late release free the lock under its holder.)
5. **A claim that is given up is followed by one release under its version**, sent like any other decision. Should it
   arrive even later, or no release get through, it leaves a lock that nobody holds until its stored expiry, and no
   longer.
6. **Versions of one holder rise** by at least 1 ms from one sent to the next, and a renewal requires ``version < the
   new one``: a late renewal cannot turn the expiry back under a holder that counts on a newer one. Renewals of one
   handle are sent one after the other (whoever drives `renew` sees to it), each with a new version; only the newest
   sent may extend validity.
7. **A renewal that shortens the lease cuts validity before it is sent**: its reply may be lost.
8. **Lost is final, and nothing is sent for it**: the row may still protect the work in hand. A refused renewal that
   shows my owner and token, not released, met a newer version of mine: go above it (a handful of times: what refuses
   more was not written by us). Any other refusal is: lost.
9. **From the first send of a release on, the handle is neither held nor renewed.** A release refused at its first send
   is not a release, nor is any of a lock that a refused renewal has shown to be lost. After an ambiguous send,
   "released with my owner and token" is done; "gone" or "another's" is done while my validity has not passed and the
   lock is not lost, and otherwise unknown; "mine with another token" is a late copy of my claim, released under its
   version.
10. **Owners are unique for each acquisition**, so owner and token name one holder for ever.
11. **An event's claim or take-over also requires its completion to be as observed**: absent, or passed by DynamoDB's
    Date. A release keeps the version, so under the version alone a late take-over could erase a completion. A
    completion later than the Date answers "done", whoever holds the row.
12. **An event is completed by the release itself**, in one request, under the same condition: a late owner can neither
    complete nor release what another owns. A release that follows a failed commit completes nothing.
"""

from __future__ import annotations

from ..errors import (
    DuplicateEventError,
    LockConfigurationError,
    LockError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
    TransportError,
)
from . import lease, requests
from .outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled, another_answer
from .row import Row, make_version, read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeAlias, TypeVar

    from .lease import Look, Observation
    from .outcome import Item, Outcome
    from .requests import Content, Place

    T = TypeVar("T")
    Steps: TypeAlias = Generator["Send | Wait", "Event", T]

SEND = 3.0  # seconds one send may take where it must connect; a transport waits 1 s on an open connection
DECISION = 5.0  # seconds for all sends of one decision
STEPS = 6  # requests that may follow each other without a pause, whatever the rows shown say: honest ones need four
_WORTH_SENDING = 0.25  # seconds: with less left of a decision no further send is tried

# Refused for the moment, and certainly not carried out. Any other error worth a retry may have been carried out.
_REFUSED_FOR_NOW = frozenset(
    {
        "ThrottlingException",
        "ThrottledException",
        "Throttling",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "TransactionConflictException",
        "InvalidSignatureException",
        "RequestTimeTooSkewed",
        "ExpiredTokenException",
        "UnrecognizedClientException",
    }
)


class Send:
    """Yielded: send this request now. Resumed with its outcome; ``timeout`` bounds the whole send, seconds."""

    __slots__ = ("operation", "request", "timeout")

    def __init__(self, operation: str, request: dict[str, Any], timeout: float) -> None:
        self.operation = operation
        self.request = request
        self.timeout = timeout


class Wait:
    """Yielded: sleep. Resumed with outcome None. Waking early does no harm."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Event:
    """What a generator is resumed with: a look at the clocks taken now, and the outcome of a Send."""

    __slots__ = ("look", "outcome")

    def __init__(self, look: Look, outcome: Outcome | None = None) -> None:
        self.look = look
        self.outcome = outcome


class Chance:
    """Where randomness comes from: ``nonce()`` 32 hex digits, ``jitter()`` uniform in [0, 1). From the system at each
    call, never from import time: SnapStart and forked workers copy memory."""

    __slots__ = ("jitter", "nonce")

    def __init__(self, nonce: Callable[[], str], jitter: Callable[[], float]) -> None:
        self.nonce = nonce
        self.jitter = jitter


class Memory:
    """What one client remembers between calls: DynamoDB's time, and what it observed of other holders."""

    __slots__ = ("observations", "server")

    def __init__(self, observation_cache_size: int) -> None:
        self.server = lease.ServerTime()
        self.observations = lease.Observations(observation_cache_size)


class Wish:
    """What an acquisition wants. Times are elapsed seconds on the driver's timeline.

    lease_end: when the lease must end (the invocation's deadline), None for no such end. wait_until: when to stop
    waiting; patient False is one decision. refresh_period caps the back-off of polls, seconds. replace: the row is
    replaced whole, so that what others left in it goes. window: for an event, the seconds for which it counts as done
    once it is completed; None for a plain lock. advice: for the error of a wait that ran out; None for the usual one.
    """

    __slots__ = (
        "advice",
        "content",
        "delete_on_release",
        "hold_on_unavailable",
        "lease_end",
        "lease_ms",
        "only_if_exists",
        "owner",
        "patient",
        "place",
        "refresh_period",
        "replace",
        "wait_until",
        "window",
    )

    def __init__(
        self,
        place: Place,
        owner: str,
        lease_ms: int,
        content: Content,
        *,
        lease_end: float | None = None,
        wait_until: float = 0.0,
        patient: bool = False,
        refresh_period: float = 1.0,
        delete_on_release: bool = False,
        only_if_exists: bool = False,
        replace: bool = False,
        hold_on_unavailable: bool = False,
        advice: str | None = None,
    ) -> None:
        self.place = place
        self.owner = owner
        self.lease_ms = lease_ms
        self.content = content
        self.lease_end = lease_end
        self.wait_until = wait_until
        self.patient = patient
        self.refresh_period = refresh_period
        self.delete_on_release = delete_on_release
        self.only_if_exists = only_if_exists
        self.replace = replace
        self.hold_on_unavailable = hold_on_unavailable
        self.advice = advice
        self.window: int | None = None


class Hold:
    """A lock that was granted, until it is lost or ended. valid_until is elapsed seconds on the driver's timeline.

    version and expiry_ms are the newest *sent*. lost: final, set by `renew` or `expire`. gone: a refused renewal showed
    the row to be another's, released or deleted, so that no release of mine can be carried out. ended: one was begun;
    handed_over: a string was, or may have been, given away, under which another goes on as the same owner.
    unclear: one was sent whose outcome is unknown, so that a second one reads a refusal accordingly. window: as in
    Wish; completed: a commit completed the event.
    """

    __slots__ = (
        "completed",
        "completed_until",
        "delete_on_release",
        "ended",
        "expiry_ms",
        "gone",
        "handed_over",
        "hold_on_unavailable",
        "holder",
        "item",
        "lease_end",
        "lease_ms",
        "lost",
        "owner",
        "place",
        "token",
        "ttl",
        "unavailable",
        "unclear",
        "valid_until",
        "version",
        "window",
    )

    def __init__(self, wish: Wish, row: Row, lease_ms: int, expiry_ms: int, valid_until: float) -> None:
        assert row.version is not None
        self.place = wish.place
        self.owner = wish.owner
        self.ttl = wish.content.ttl
        self.delete_on_release = wish.delete_on_release
        self.lease_end = wish.lease_end
        self.item = row.item
        self.token = row.require_token(wish.place.schema, wish.place.key)
        self.completed_until = row.completed_until
        self.window = wish.window
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
        # Where the row is deleted, a late copy of the claim could bring owner and token back after another had the
        # lock: a renewal that is granted proves nothing then.
        self.hold_on_unavailable = wish.hold_on_unavailable and not wish.delete_on_release
        self.unavailable = False
        self.holder: str | None = None

    def is_held(self, elapsed: float) -> bool:
        return not (self.lost or self.ended) and elapsed < self.valid_until

    def is_over(self) -> bool:
        return self.lost or self.ended

    def expire(self, elapsed: float) -> bool:
        """Lose the lock if its validity is over; returns whether it is lost.

        Where it is to be held on through an outage and DynamoDB did not answer the latest renewal, it is not lost: not
        held either, until a renewal is granted, which proves that nobody had it in between.
        """
        if not self.ended and elapsed >= self.valid_until and not (self.hold_on_unavailable and self.unavailable):
            self.lost = True
        return self.lost


def acquire(
    wish: Wish, memory: Memory, chance: Chance, look: Look, keep: Callable[[Hold], None] | None = None
) -> Steps[Hold]:
    """Take the lock. Returns the Hold.

    keep: called with it before it is returned, so that an interrupt on the way to the caller does not leak it.

    Raises LockNotGrantedError (LockTimeoutError where it waited), LockFormatError, LockConfigurationError (an answer
    without a Date), and the transport's TransportError or ServiceError where nothing better is known. Whatever is
    raised, also into the generator, a claim that may have landed is released first, if DynamoDB answers (rule 5).
    """
    return (yield from Acquisition(wish, memory, chance, look, keep).finish())


class Sent:
    """A claim or take-over that was sent: what its version is worth, and whether it may (still) land."""

    __slots__ = ("expiry_ms", "lease_ms", "may_land", "started", "struck")

    def __init__(self, started: float, lease_ms: int, expiry_ms: int) -> None:
        self.started = started  # elapsed, before its first send
        self.lease_ms = lease_ms
        self.expiry_ms = expiry_ms
        self.may_land = True
        self.struck = False


class Take:
    """Next: a claim (no version), or a take-over of the version observed. ``row`` is what was observed, if anything."""

    __slots__ = ("row", "version")

    def __init__(self, version: str | None = None, row: Row | None = None) -> None:
        self.version = version
        self.row = row


class Read:
    """Next: read the row, without waiting."""


class Held:
    """Next: wait. ``row`` is None where nothing is known of the holder, ``error`` why (no answer).

    ``missing``: there is no row, and only an existing one is wanted.
    """

    __slots__ = ("error", "missing", "row", "seen")

    def __init__(
        self,
        row: Row | None = None,
        seen: Observation | None = None,
        error: Exception | None = None,
        missing: bool = False,
    ) -> None:
        self.row = row
        self.seen = seen
        self.error = error
        self.missing = missing


if TYPE_CHECKING:
    Next: TypeAlias = Hold | Take | Held | Read


class Acquisition:
    """One acquire: claim, take over, correct, poll, give up. core/handover.py adopts by the same steps."""

    def __init__(
        self, wish: Wish, memory: Memory, chance: Chance, look: Look, keep: Callable[[Hold], None] | None = None
    ) -> None:
        self.wish = wish
        self.memory = memory
        self.chance = chance
        self.look = look
        self.keep = keep
        self.started = look.elapsed
        self.wait_until = wish.wait_until if wish.patient else look.elapsed
        self.sent: dict[str, Sent] = {}
        self.last = Held()  # what is known of the holder, for an error that names it
        self.polls = 0

    def finish(self) -> Steps[Hold]:
        """Run; whatever is raised, also into the generator, what may have landed is released first (rule 5).

        That takes DECISION seconds at most. What is thrown in meanwhile makes it begin anew the first time, so that who
        is interrupted twice, or closed, still gives back; the second time it ends there.
        """
        try:
            return (yield from self.run())
        except GeneratorExit:
            raise
        except BaseException:
            try:
                yield from self.abandon()
            except GeneratorExit:
                raise
            except BaseException as again:
                yield from self.abandon()
                if not isinstance(again, Exception):  # an interrupt; a closed client is no news
                    raise
            raise

    def run(self) -> Steps[Hold]:
        """Bounded by STEPS writes between two pauses, and by `pause`, which raises where the wait is over."""
        step, unpaused = self.first(), 0
        while not isinstance(step, Hold):
            if isinstance(step, Take) and unpaused < STEPS:
                unpaused += 1
                step = self.judge((yield from self.write(step)))
                continue
            if isinstance(step, Take):
                step = Held(error=self.contradicted())
            if isinstance(step, Held):
                yield from self.pause(step)
                unpaused = 0
            step = self.judge((yield from self.exchange(requests.read(self.wish.place)))[0])
        self.memory.observations.forget(self.wish.place.where)
        if self.keep is not None:
            self.keep(step)
        return step

    def first(self) -> Next:
        """A claim, which uncontended is the only request; a replacement reads first what it replaces."""
        return Read() if self.wish.replace else Take()

    # -- requests ---------------------------------------------------------------------------------------------------

    def write(self, step: Take) -> Steps[Outcome]:
        """A claim, take-over or replacement, under a version of its own."""
        if self.look.elapsed >= self.wait_until + DECISION:
            raise self.not_granted()
        lease_ms = self.lease_now()
        now = self.memory.server.now(self.look)
        expiry_ms = self.expiry(now, lease_ms)
        version = make_version(expiry_ms, self.chance.nonce())
        self.sent[version] = sent = Sent(self.look.elapsed, lease_ms, expiry_ms)
        request = self.request(step, requests.Grant(self.wish.owner, version, lease_ms, expiry_ms, int(now * 1000)))
        outcome, unclear = yield from self.exchange(request)
        # Whoever sends sees to it that rows are of the key that was asked for; a PutItem alone does not say its key.
        if isinstance(outcome, ConditionFailed) and not self.wish.place.is_of(outcome.item):
            outcome, unclear = another_answer(request[0]), True
        sent.may_land = unclear or isinstance(outcome, Reply)
        if isinstance(outcome, ServiceError) and outcome.code == "ValidationException":
            yield from self.blame_the_token(outcome)
        if isinstance(outcome, Reply) and request[0] == "PutItem":  # which returns nothing: what stands there was sent
            return Reply(request[1]["Item"], outcome.date)
        return outcome

    def blame_the_token(self, refusal: ServiceError) -> Steps[None]:
        """A write counts on from the row's token, and DynamoDB calls it invalid where that is none: say so."""
        place = self.wish.place
        shown, _ = yield from self.exchange(requests.read(place))
        row = read_row(shown.item, place.schema, place.key) if isinstance(shown, Reply) else None
        try:
            self.check_token(row)
        except LockFormatError as error:
            raise error from refusal

    def check_token(self, row: Row | None) -> None:
        """Raise LockFormatError for a row whose token no grant could count on from; without one it begins anew."""
        place = self.wish.place
        if row is not None and place.schema.token in row.item:
            row.require_token(place.schema, place.key)

    def expiry(self, now: float, lease_ms: int) -> int:
        return lease.expiry_ms(now, lease_ms)

    def request(self, step: Take, grant: requests.Grant) -> requests.Request:
        wish = self.wish
        if wish.replace:
            return requests.replace(
                wish.place, grant, wish.content, observed=step.row, only_if_exists=wish.only_if_exists
            )
        return requests.claim(
            wish.place,
            grant,
            wish.content,
            observed=step.version,
            only_if_exists=wish.only_if_exists,
            event=wish.window is not None,
            completed_until=step.row.completed_until if step.row else None,
        )

    def exchange(self, request: requests.Request, until: float | None = None) -> Steps[tuple[Outcome, bool]]:
        until = self.decision_end() if until is None else until
        outcome, unclear, self.look = yield from exchange(request, self.memory, self.chance, self.look, until)
        return outcome, unclear

    def decision_end(self) -> float:
        now = self.look.elapsed
        if not self.wish.patient:
            return self.started + DECISION
        return max(now + 1.0, min(now + DECISION, self.wait_until))

    def lease_now(self) -> int:
        """The lease in ms: as wished, but never past the invocation's deadline."""
        wish = self.wish
        lease_ms = wish.lease_ms
        if wish.lease_end is not None:
            lease_ms = min(lease_ms, int((wish.lease_end - self.look.elapsed) * 1000))
        lease_ms = wish.place.schema.round_lease(lease_ms)
        if lease_ms < lease.MIN_LEASE * 1000:
            raise too_late(wish.place.key, lease_ms, waited=self.look.elapsed - self.started)
        return lease_ms

    # -- judging what is seen ---------------------------------------------------------------------------------------

    def judge(self, outcome: Outcome) -> Next:
        if isinstance(outcome, (Reply, ConditionFailed)):
            return self.see(outcome.item, outcome.date)
        if self.wish.patient and may_pass(outcome):
            return Held(error=outcome)
        raise outcome

    def see(self, item: Item | None, date: int | None) -> Next:
        place, observations = self.wish.place, self.memory.observations
        row = read_row(item, place.schema, place.key)
        if row is None and self.wish.only_if_exists:
            self.last = Held(missing=True)
            return self.last
        if row is not None and row.version in self.sent and not row.is_free:
            return self.own(row, row.version, date)
        if row is not None and self.wish.window is not None:
            self.refuse_done(row, date)
        if row is None or row.is_free:
            self.check_token(row)
            observations.forget(place.where)
            return Take(row=row)
        assert row.version is not None
        lease_ms = row.require_lease(place.schema, place.key)
        seen = observations.note(place.where, row, lease_ms, self.look, date)
        self.last = Held(row, seen)
        if not lease.may_take_over(row, seen, self.look, date):
            return self.last
        self.check_token(row)
        return Take(row.version, row)

    def own(self, row: Row, version: str, date: int | None) -> Hold | Take:
        """A row under a version that this acquisition sent: a grant, or one to correct (rules 3 and 4)."""
        sent = self.sent[version]
        sent.may_land = True  # it has, even if every answer was a refusal: a copy of it came late
        if date is None:
            raise self.undated()
        row.require_token(self.wish.place.schema, self.wish.place.key)
        valid_until = sent.started + lease.validity(sent.lease_ms, sent.expiry_ms, date)
        no_good = self.look.elapsed >= valid_until or lease.clock_was_fast(sent.lease_ms, sent.expiry_ms, date)
        if no_good or sent.struck:
            sent.struck = True
            return Take(version, row)
        return Hold(self.wish, row, sent.lease_ms, sent.expiry_ms, valid_until)

    def refuse_done(self, row: Row, date: int | None) -> None:
        """Raise DuplicateEventError where the event is done, by DynamoDB's time (rule 11)."""
        place, until = self.wish.place, row.completed_until
        stored = row.item.get(place.schema.completed_until)
        if stored is None:
            return
        if until is None or stored != {"N": str(until)}:  # a claim under another number would be refused for ever
            raise LockFormatError(
                f"the row of event {place.key!r} has a {place.schema.completed_until} that cannot be read as epoch "
                f"seconds: {stored!r}. It is left alone; remove that attribute, or the row",
                key=place.key,
            )
        if date is None:
            raise self.undated()
        if until > date:
            raise DuplicateEventError(
                f"event {place.key!r} was done before, and counts as done for {until - date} s more",
                key=place.key,
                result=row.item.get(place.schema.result, {}).get("S"),
                completed_until=until,
            )

    def contradicted(self) -> LockError:
        """Each row shown let the next write pass, and each write was refused, or granted too late to be of use."""
        key = self.wish.place.key
        return TransportError(
            False,
            f"lock {key!r} was not granted: {STEPS} writes in a row failed, although each answer said that the next "
            "one would pass. Check the endpoint, and what stands between: DynamoDB does not answer so",
            key=key,
        )

    def undated(self) -> LockConfigurationError:
        key = self.wish.place.key
        return LockConfigurationError(
            f"the answer for lock {key!r} has no Date header: this is not DynamoDB, and its time cannot be trusted. "
            "Check the endpoint, and proxies in between",
            key=key,
        )

    # -- waiting and giving up --------------------------------------------------------------------------------------

    def pause(self, held: Held) -> Steps[None]:
        """Sleep until the next poll, or the next moment that can change a thing; raises where the wait is over."""
        now = self.look.elapsed
        if now >= self.wait_until:
            raise held.error or self.not_granted()
        seconds = lease.backoff(self.polls, self.wish.refresh_period, self.chance.jitter())
        self.polls += 1
        moments = [self.wait_until - now]
        if held.row is not None and held.row.expiry_ms is not None:
            # A Date is cut to whole seconds: it reaches the expiry with the next full one.
            moments.append(-(-held.row.expiry_ms // 1000) - self.memory.server.now(self.look))
        if held.seen is not None:
            moments.append(held.seen.seconds_left(self.look.monotonic))
        event = yield Wait(min(seconds, *(moment for moment in moments if moment > 0)))
        self.look = event.look

    def not_granted(self) -> LockNotGrantedError:
        held = self.last
        key, holder = self.wish.place.key, held.row.owner if held.row else None
        waited = self.look.elapsed - self.started
        retry_after = None
        if held.seen is not None and held.row is not None:
            retry_after = held.seen.seconds_left(self.look.monotonic)
            if held.row.expiry_ms is not None:
                retry_after = min(retry_after, held.row.expiry_ms / 1000 - self.memory.server.now(self.look))
            retry_after = max(retry_after, 0.0)
        state = "does not exist, as only_if_exists asks" if held.missing else f"is held by {holder or 'somebody else'}"
        if not self.wish.patient:
            return LockNotGrantedError(
                f"lock {key!r} {state}. {self.wish.advice or 'Try again later, or give wait=seconds'}",
                key=key,
                holder=holder,
                waited=waited,
                retry_after=retry_after,
            )
        return LockTimeoutError(
            f"lock {key!r} {state}, still after {waited:.1f} s of waiting. "
            f"{self.wish.advice or 'Wait longer, or let the caller try again'}",
            key=key,
            holder=holder,
            waited=waited,
            retry_after=retry_after,
        )

    def abandon(self) -> Steps[None]:
        """Release whichever version of mine may be there, the newest first (rule 5).

        Bounded by DECISION seconds from the first answer on (an interrupt brings no look at the clocks), and by STEPS
        versions.
        """
        version = next((version for version, sent in reversed(self.sent.items()) if sent.may_land), None)
        if version is None:
            return
        event = yield Send(*self.give_back(version), SEND)
        self.look, outcome = event.look, event.outcome
        assert outcome is not None
        until = self.look.elapsed + DECISION
        if may_pass(outcome):
            self.look = (yield Wait(lease.backoff(0, 1.0, self.chance.jitter()))).look
            outcome, _ = yield from self.exchange(self.give_back(version), until)
        for _ in range(STEPS):
            row = row_of(outcome, self.wish.place)
            if row is None or row.is_free or row.version is None or row.version not in self.sent:
                return
            # A refusal may show another of mine: it landed before this one, or meanwhile.
            outcome, _ = yield from self.exchange(self.give_back(row.version), until)

    def give_back(self, version: str) -> requests.Request:
        return requests.release(
            self.wish.place,
            owner=self.wish.owner,
            version=version,
            delete=self.wish.delete_on_release,
            expiry_ms=self.sent[version].expiry_ms,
            content=requests.Content(ttl=self.wish.content.ttl),
        )


def too_late(key: str, left_ms: int, waited: float = 0.0) -> LockNotGrantedError:
    """The error for a lease that would end with the invocation in less than a second."""
    error = LockNotGrantedError(
        f"lock {key!r} was not taken: {max(left_ms, 0)} ms are left before the invocation's deadline, a lease takes at "
        "least a second. Raise the function's timeout, or acquire earlier",
        key=key,
        waited=waited,
    )
    error.too_late = True
    return error


def exchange(
    request: requests.Request, memory: Memory, chance: Chance, look: Look, until: float
) -> Steps[tuple[Outcome, bool, Look]]:
    """Send, and send the same body again while nobody can say what came of it, until ``until`` (elapsed seconds).

    Returns the last outcome, whether any send was ambiguous, and the last look. Rule 3. Bounded by ``until``: there is
    a pause before each further send, and none is sent later.
    """
    unclear = False
    tries = 0
    while True:
        sent = look
        event = yield Send(*request, min(SEND, max(until - sent.elapsed, _WORTH_SENDING)))
        look, outcome = event.look, event.outcome
        assert outcome is not None
        memory.server.note(getattr(outcome, "date", None), sent, look)
        if isinstance(outcome, (Reply, ConditionFailed)):
            return outcome, unclear, look
        unclear = unclear or is_ambiguous(outcome)
        if not may_pass(outcome):
            return outcome, unclear, look
        pause = lease.backoff(tries, 1.0, chance.jitter())
        if look.elapsed + pause + _WORTH_SENDING > until:
            return outcome, unclear, look
        tries += 1
        look = (yield Wait(pause)).look


def is_ambiguous(outcome: Outcome) -> bool:
    """Whether a request with this outcome may have been carried out."""
    if isinstance(outcome, TransactionCanceled):
        return False
    if isinstance(outcome, ServiceError):
        return outcome.retryable and outcome.code not in _REFUSED_FOR_NOW
    return not isinstance(outcome, TransportError) or outcome.ambiguous


def may_pass(outcome: Outcome) -> bool:
    """Whether it is worth sending again: what is no answer of DynamoDB's, or one that it calls temporary."""
    if isinstance(outcome, ServiceError):
        return outcome.retryable
    return isinstance(outcome, TransportError)


class Renewal:
    """What came of one renewal: renewed, lost, or an error that says nothing (unknown is not lost)."""

    __slots__ = ("error", "renewed")

    def __init__(self, renewed: bool, error: Exception | None = None) -> None:
        self.renewed = renewed
        self.error = error


def renew(
    hold: Hold,
    memory: Memory,
    chance: Chance,
    look: Look,
    *,
    lease_ms: int | None = None,
    data: str | None = None,
    delete_data: bool = False,
) -> Steps[Renewal]:
    """One renewal of a held lock, with another lease or other data where given. Rules 6, 7 and 8.

    Sent once, and again only to go above a newer version of mine, at most STEPS times; who wants to try again calls
    again, so that each attempt has a version of its own. Sets ``hold.lost`` where it is refused or comes too late.
    """
    for _ in range(STEPS):
        if hold.expire(look.elapsed) or hold.is_over():
            return Renewal(False)
        sent = look
        new_lease = _renewed_lease(hold, lease_ms or hold.lease_ms, sent)
        if new_lease < hold.lease_ms:
            hold.valid_until = min(hold.valid_until, sent.elapsed + new_lease / 1000 * (1 - lease.DRIFT))
        hold.expiry_ms = max(lease.expiry_ms(memory.server.now(sent), new_lease), hold.expiry_ms + 1)
        hold.version = version = make_version(hold.expiry_ms, chance.nonce())
        request = requests.renew(
            hold.place,
            owner=hold.owner,
            token=hold.token,
            version=version,
            lease_ms=new_lease,
            expiry_ms=hold.expiry_ms,
            completed_until=hold.completed_until,
            content=requests.Content(data, ttl=hold.ttl),
            delete_data=delete_data,
        )
        hold.lease_ms = new_lease
        event = yield Send(*request, SEND)
        look, outcome = event.look, event.outcome
        assert outcome is not None
        memory.server.note(getattr(outcome, "date", None), sent, look)
        if hold.ended:  # released meanwhile: what came of this renewal says nothing
            return Renewal(False)
        if isinstance(outcome, Reply):
            return _extended(hold, sent, look, outcome.date)
        if not isinstance(outcome, ConditionFailed):
            no_answer = is_ambiguous(outcome) or isinstance(outcome, TransportError)
            hold.unavailable = no_answer or (hold.unavailable and may_pass(outcome))  # throttled: no end of an outage
            return Renewal(False, outcome)
        row = row_of(outcome, hold.place)
        if row is None or not is_mine(row, hold) or row.is_free or row.expiry_ms is None:
            hold.gone = row is None or row.is_free or not is_mine(row, hold)
            hold.holder = row.owner if row is not None and not row.is_free and row.owner != hold.owner else None
            break
        if row.version == version:  # an earlier send of this very request, by a transport that sends again by itself
            return _extended(hold, sent, look, outcome.date)
        hold.expiry_ms = max(hold.expiry_ms, row.expiry_ms)
    hold.lost = True
    return Renewal(False)


def _renewed_lease(hold: Hold, lease_ms: int, look: Look) -> int:
    if hold.lease_end is not None:
        lease_ms = min(lease_ms, int((hold.lease_end - look.elapsed) * 1000))
    return hold.place.schema.round_lease(max(lease_ms, int(lease.MIN_LEASE * 1000)))


def _extended(hold: Hold, sent: Look, look: Look, date: int | None) -> Renewal:
    if hold.expire(look.elapsed):
        return Renewal(False)
    if date is not None:
        hold.valid_until = max(hold.valid_until, sent.elapsed + lease.validity(hold.lease_ms, hold.expiry_ms, date))
    hold.unavailable = False  # last: a look of another thread in between must not find it neither valid nor held on
    return Renewal(True)


def release(
    hold: Hold,
    memory: Memory,
    chance: Chance,
    look: Look,
    *,
    data: str | None = None,
    delete: bool | None = None,
    complete: bool = False,
    result: str | None = None,
) -> Steps[bool]:
    """End the hold and release its row, or delete it; ``complete`` the event in the same request, with the ``result``
    to store. Rules 9 and 12.

    Returns True where it is released, False where it was lost before. Raises TransportError(ambiguous=True) where
    nobody can know, and the transport's errors where nothing was done.
    """
    hold.ended = True
    request = requests.release(
        hold.place,
        owner=hold.owner,
        token=hold.token,
        delete=hold.delete_on_release if delete is None else delete,
        expiry_ms=hold.expiry_ms,
        completed_until=hold.completed_until,
        completion=completion(hold, memory, look, result) if complete else None,
        content=requests.Content(data, ttl=hold.ttl),
    )
    until = look.elapsed + DECISION
    before, hold.unclear = hold.unclear, True  # as long as no answer is here: an exception may come up from the yield
    outcome, unclear, look = yield from exchange(request, memory, chance, look, until)
    if isinstance(outcome, Reply):
        return True  # still unclear to the caller, whom an interrupt may keep from hearing of it
    hold.unclear = before or unclear
    if not isinstance(outcome, ConditionFailed):
        raise _unknown(hold, outcome) if hold.unclear else outcome
    row = row_of(outcome, hold.place)
    mine = row is not None and row.owner == hold.owner and not hold.handed_over  # else it may be who adopted it
    if row is not None and mine and not row.is_free and row.token != hold.token:
        # A late copy of my claim, which found the lock free: it stands for nobody.
        copy = requests.release(
            hold.place,
            owner=hold.owner,
            version=row.version,
            delete=hold.delete_on_release if delete is None else delete,
            expiry_ms=row.expiry_ms or hold.expiry_ms,
            content=requests.Content(data, ttl=hold.ttl),
        )
        _, _, look = yield from exchange(copy, memory, chance, look, until)
    if hold.gone or not hold.unclear:
        return False
    if row is not None and row.is_free and is_mine(row, hold):
        return True
    if look.elapsed < hold.valid_until and not hold.lost:
        return True
    raise _unknown(hold, outcome)


def completion(hold: Hold, memory: Memory, look: Look, result: str | None) -> requests.Completion:
    """The completion of an event, now; after a freeze too its window is whole."""
    assert hold.window is not None, "a plain lock completes nothing"
    return requests.Completion(-int(-memory.server.after_freezes(look) // 1) + hold.window, result)


def _unknown(hold: Hold, cause: Exception) -> TransportError:
    error = TransportError(
        True,
        f"whether lock {hold.place.key!r} was released is unknown: no clear answer within {DECISION:.0f} s. It ends by "
        f"itself at the end of its lease of {hold.lease_ms / 1000:g} s",
        key=hold.place.key,
    )
    error.__cause__ = cause
    return error


def is_mine(row: Row, hold: Hold) -> bool:
    """Whether a row bears this hold's owner and token, released or not."""
    return row.owner == hold.owner and row.token == hold.token


def row_of(outcome: Outcome | None, place: Place) -> Row | None:
    """The row that a refusal shows, None where nothing stood there. Whatever cannot be read in it is not mine."""
    return Row(outcome.item, place.schema) if isinstance(outcome, ConditionFailed) and outcome.item else None


def not_there(key: str, row: Row | None) -> LockLostError:
    """The error for a lock that turned out to be another's, released, adopted or gone."""
    holder = row.owner if row is not None and not row.is_free else None
    return LockLostError(
        f"lock {key!r} is not ours any more: {f'the row names {holder}' if holder else 'nobody holds it'}. It was "
        "released, adopted or taken over when its lease had ended; acquire it anew",
        key=key,
        holder=holder,
    )


def ask(request: requests.Request, memory: Memory, chance: Chance, look: Look) -> Steps[Reply]:
    """Send a request that changes nothing, and again while it is unclear or refused for the moment."""
    outcome, _, _ = yield from exchange(request, memory, chance, look, look.elapsed + DECISION)
    if not isinstance(outcome, Reply):
        raise outcome
    return outcome


def read(place: Place, memory: Memory, chance: Chance, look: Look) -> Steps[tuple[Row | None, int | None]]:
    """The row as it stands (None: there is none) and the reply's Date."""
    reply = yield from ask(requests.read(place), memory, chance, look)
    return read_row(reply.item, place.schema, place.key), reply.date
