"""The protocol: why two holders cannot be. Read these rules before a change to it, to acquire.py or to keep.py.

This module has the words in which the three speak to whoever drives them; acquire.py takes locks, keep.py keeps them
and gives them back. They are generators without I/O, clocks or threads: they yield Send(request) or Wait(seconds) and
are resumed with an Event: a look at the clocks and what came of it. Threads, asyncio and the simulator drive the same
code.

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

The states of a Hold
--------------------
Only its own methods change them. It is held while it is neither lost nor ended and its validity lasts.

| from                    | when                                               | to             | by               |
|-------------------------|----------------------------------------------------|----------------|------------------|
| held                    | its validity passes                                | lost           | expire           |
| held                    | it passes in an outage through which it is held on | unavailable    | expire           |
| unavailable             | a renewal is granted                               | held           | extend           |
| unavailable             | DynamoDB refuses a renewal with a lasting error    | lost           | answered, expire |
| held, unavailable       | a renewal is refused by its condition              | lost           | lose             |
| held, unavailable, lost | a release, commit or handing over is begun         | ended          | end, hand_over   |
| ended                   | its last act shows that it was lost before         | ended and lost | lose             |

Lost and ended are final, and one does not exclude the other. Marks that come with them: ``gone`` with lost, a refused
renewal showed the row to be another's, released or deleted, so that no release of mine can be carried out;
``handed_over`` with ended, a string was, or may have been, given away, under which another goes on as the same owner
(`withdraw`: none was); ``unclear`` with ended, a release or commit was sent whose outcome is unknown, so that a second
one reads a refusal accordingly (`doubt`, `settle`); ``completed`` with ended, a commit completed the event.
"""

from __future__ import annotations

from ..errors import TransportError
from . import lease, requests
from .outcome import NOT_DONE, ConditionFailed, Reply, ServiceError, TransactionCanceled
from .row import Row, make_version, read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeAlias, TypeVar

    from .lease import Look
    from .outcome import Outcome
    from .requests import Content, Place

    T = TypeVar("T")
    Steps: TypeAlias = Generator["Send | Wait", "Event", T]

SEND = 3.0  # seconds one send may take where it must connect; a transport waits 1 s on an open connection
DECISION = 5.0  # seconds for all sends of one decision
STEPS = 6  # requests that may follow each other without a pause, whatever the rows shown say: honest ones need four
_WORTH_SENDING = 0.25  # seconds: with less left of a decision no further send is tried


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
        window: int | None = None,
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
        self.window = window


class Hold:
    """A lock that was granted, until it is lost or ended: the states are at the head of this module.

    valid_until is elapsed seconds on the driver's timeline. version and expiry_ms are the newest *sent*. window: as in
    Wish. holder: who has it now, where a refused renewal named one. unavailable: DynamoDB did not answer the latest
    renewal. Others read these attributes, and change them by the methods alone.
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

    def lose(self, *, gone: bool = False, holder: str | None = None) -> None:
        self.gone = self.gone or gone
        self.holder = holder or self.holder
        self.lost = True  # last: threads that see it read the others

    def end(self) -> None:
        """A last act is begun."""
        self.ended = True

    def hand_over(self) -> None:
        self.ended = self.handed_over = True

    def withdraw(self) -> None:
        """No string was given after all; it stays ended."""
        self.handed_over = False

    def doubt(self) -> None:
        """A release or commit is about to be sent. While no answer is here, an exception may come up from the yield."""
        self.unclear = True

    def settle(self, *, unclear: bool) -> None:
        """The last act has its answer."""
        self.unclear = unclear

    def complete(self) -> None:
        self.completed = True

    # -- renewals

    def shorten(self, lease_ms: int, elapsed: float) -> None:
        """Cut validity, before a renewal with a shorter lease is sent (rule 7)."""
        if lease_ms < self.lease_ms:
            self.valid_until = min(self.valid_until, elapsed + lease_ms / 1000 * (1 - lease.DRIFT))

    def rise(self, lease_ms: int, now: float, nonce: str) -> str:
        """The version to send with this lease at ``now`` (DynamoDB's time), above all that were sent (rule 6)."""
        self.lease_ms = lease_ms
        self.expiry_ms = max(lease.expiry_ms(now, lease_ms), self.expiry_ms + 1)
        self.version = make_version(self.expiry_ms, nonce)
        return self.version

    def go_above(self, expiry_ms: int) -> None:
        """The next version is to rise above one of mine that was met (rule 8)."""
        self.expiry_ms = max(self.expiry_ms, expiry_ms)

    def extend(self, sent: float, date: int | None) -> None:
        """A renewal of the newest version, first sent at ``sent`` (elapsed), was granted at ``date``."""
        if date is not None:
            self.valid_until = max(self.valid_until, sent + lease.validity(self.lease_ms, self.expiry_ms, date))
        self.unavailable = False  # last: a look of another thread in between finds it valid, or held on

    def answered(self, outcome: Outcome) -> None:
        """A renewal was neither granted nor refused by its condition. Throttling does not end an outage."""
        no_answer = is_ambiguous(outcome) or isinstance(outcome, TransportError)
        self.unavailable = no_answer or (self.unavailable and may_pass(outcome))

    def note_data(self, data: str) -> None:
        """The row holds this data now (base64): its size counts for what is stored next."""
        self.item = {**self.item, self.place.schema.data: {"B": data}}


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
        return outcome.retryable and outcome.code not in NOT_DONE
    return not isinstance(outcome, TransportError) or outcome.ambiguous


def may_pass(outcome: Outcome) -> bool:
    """Whether it is worth sending again: what is no answer of DynamoDB's, or one that it calls temporary."""
    if isinstance(outcome, ServiceError):
        return outcome.retryable
    return isinstance(outcome, TransportError)


def row_of(outcome: Outcome | None, place: Place) -> Row | None:
    """The row that a refusal shows, None where nothing stood there. Whatever cannot be read in it is not mine."""
    return Row(outcome.item, place.schema) if isinstance(outcome, ConditionFailed) and outcome.item else None


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
