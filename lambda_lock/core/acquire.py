"""Taking a lock: claim, take over, correct, wait, give up. Follows rules 1 to 5, 10 and 11 in protocol.py."""

from __future__ import annotations

from ..errors import (
    LockConfigurationError,
    LockError,
    LockFormatError,
    LockNotGrantedError,
    LockTimeoutError,
    TransportError,
)
from . import lease, requests
from .outcome import ConditionFailed, Reply, ServiceError, another_answer, is_interrupt, may_pass, undated
from .protocol import DECISION, SEND, STEPS, Hold, row_of, undone
from .row import WEIGHED, make_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeAlias

    from .outcome import Item, Outcome
    from .protocol import AcquireRequest, Conversation, Steps
    from .row import Row

    class Waiting(Protocol):
        """A wait in the queue (core/queue.py), which only an acquire that waits loads."""

        def run(self, step: Next) -> Steps[Next]: ...
        def leave(self, *, granted: bool = False) -> Steps[None]: ...
        def ahead(self, row: Row) -> int: ...


def acquire(wanted: AcquireRequest, talk: Conversation, keep: Callable[[Hold], None] | None = None) -> Steps[Hold]:
    """Take the lock. Return the Hold.

    keep: called with the Hold before it is returned, so that an interrupt on the way to the caller does not leak it.

    Raises LockNotGrantedError if the lock is held (LockTimeoutError after a wait) or too little time is left,
    DuplicateEventError if the event is done, LockFormatError if the row cannot be read, and LockConfigurationError if
    an answer has no Date. Otherwise raises the transport's TransportError or ServiceError, but a holder whose lease
    still ran when the wait ended is contention, even if DynamoDB no longer answered then.

    Before any error leaves, a claim that may have landed is released, if DynamoDB answers (rule 5). That also goes for
    an error that is thrown into the generator.
    """
    return Acquisition(wanted, talk, keep).finish()


class Take:
    """Next step: a claim (version None), or a take-over of the version observed.

    row: the row observed, if any.
    queue: what is required of those who wait; None for nothing.
    """

    def __init__(
        self, version: str | None = None, row: Row | None = None, queue: requests.QueueCondition | None = None
    ) -> None:
        self.version = version
        self.row = row
        self.queue = queue


class Read:
    """Next step: read the row, without waiting."""


class Blocked:
    """Next step: wait. Its kinds say why: Held, Missing and NoAnswer. Itself, it says nothing about a holder.

    row: the holder's row, if it is known. error: why nothing is known (no answer).
    """

    row: Row | None = None
    error: Exception | None = None


class Held(Blocked):
    """Next step: wait, because the row names a holder."""

    def __init__(self, row: Row) -> None:
        self.row = row


class Missing(Blocked):
    """Next step: wait, because there is no row, and only an existing one is wanted."""


class NoAnswer(Blocked):
    """Next step: wait, because DynamoDB gave no answer that shows who holds the lock."""

    def __init__(self, error: Exception) -> None:
        self.error = error


if TYPE_CHECKING:
    Next: TypeAlias = Hold | Take | Blocked | Read


class Acquisition:
    """One acquire: claim, take over, correct, poll, give up. core/handover.py uses the same steps to adopt."""

    def __init__(self, wanted: AcquireRequest, talk: Conversation, keep: Callable[[Hold], None] | None = None) -> None:
        self.has_failed = False  # whether it has failed, and releases what may have landed
        self.of_event = wanted.window is not None  # its claims require the event's completion as observed (rule 11)
        self.wanted = wanted
        self.talk = talk
        self.keep = keep
        self.started = talk.elapsed
        self.wait_until = wanted.wait_until if wanted.waits else talk.elapsed
        self.sent: dict[str, requests.Grant] = {}  # by version
        self.above_ms = 0  # each expiry that is written is above this
        self.versions: list[str] = []  # all that were ever sent
        self.last = Blocked()  # what is known about the holder, for the error that names it
        self.row: Row | None = None  # the newest one shown, and its Date
        self.date: int | None = None
        self.queue: Waiting | None = None  # of core/queue.py, once this has to wait
        self.polls = 0

    def finish(self) -> Steps[Hold]:
        """Run the acquisition. On any error, release first what may have landed (rule 5), within a decision's time."""
        return undone(self.run(), self._undo)

    def _undo(self, error: BaseException | None) -> Steps[None]:
        self.has_failed = True
        return self.abandon(looked=error is not None and not is_interrupt(error))

    def run(self) -> Steps[Hold]:
        """Take one step after another until the lock is granted.

        This is bounded: at most STEPS writes happen between two pauses, and `pause` raises when the wait is over.
        """
        step = self.first()
        if self.wanted.queue is not None and isinstance(step, Take):
            for _ in range(STEPS):  # claim, take over and correct while nobody waits: that needs no queue
                if not isinstance(step, Take):
                    break
                if step.version not in self.sent:
                    if self.row is not None and self.row.waiters != ():
                        break
                    step.queue = requests.NOBODY_WAITS
                step = self.judge((yield from self.write(step)))
            if not isinstance(step, Hold):  # only now is the queue loaded
                self.queue = self.wanted.queue(self)
                step = yield from self.queue.run(step)
        if not isinstance(step, Hold):
            step = yield from self.contend(step)
        if self.queue is not None:
            yield from self.queue.leave(granted=True)
            if self.talk.elapsed >= step.valid_until:  # leaving the queue took too long: correct the grant (rule 4)
                self.sent[step.version].struck = True
                step = yield from self.contend(Take(step.version, self.row))
        self.talk.memory.observations.forget(self.wanted.place.where)
        if self.keep is not None:
            self.keep(step)
        return step

    def contend(self, step: Next) -> Steps[Hold]:
        """Go on from ``step`` by rules 1 to 5, no matter who waits."""
        unpaused = 0
        while not isinstance(step, Hold):
            if isinstance(step, Take) and unpaused < STEPS:
                unpaused += 1
                step = self.judge((yield from self.write(step)))
                continue
            if isinstance(step, Take):
                step = NoAnswer(self.contradicted())
            if isinstance(step, Blocked):
                yield from self.pause(step)
                unpaused = 0
            step = yield from self.read()
        return step

    def read(self) -> Steps[Next]:
        """Read the row and judge it."""
        return self.judge((yield from self.exchange(requests.read(self.wanted.place)))[0])

    def first(self) -> Next:
        """Start with a claim, the only request without contention. A replacement first reads what it replaces."""
        if self.wanted.replace:
            return Read()
        weighs = self.wanted.place.format == WEIGHED  # rule 3 of permit_queue.py
        return Take(queue=requests.NOBODY_WAITS if weighs else None)

    # -- requests ---------------------------------------------------------------------------------------------------

    def write(self, step: Take) -> Steps[Outcome]:
        """Send a claim, take-over or replacement, with a version of its own."""
        wanted, talk, elapsed = self.wanted, self.talk, self.talk.elapsed
        if elapsed >= self.wait_until + wanted.decision:
            raise self.not_granted()
        lease_ms = wanted.lease_ms
        if wanted.lease_end is not None:  # not beyond the invocation's deadline
            lease_ms = min(lease_ms, int((wanted.lease_end - elapsed) * 1000))
        lease_ms = wanted.place.schema.round_lease(lease_ms)
        if lease_ms < lease.MIN_LEASE * 1000:
            raise too_late(wanted.place.key, lease_ms, waited=elapsed - self.started)
        now = talk.now()
        expiry_ms = max(lease.expiry_ms(now, lease_ms), self.above_ms + 1)
        version = make_version(expiry_ms, talk.entropy.nonce())
        seed_ms = talk.memory.seed_ms(talk.reading)
        self.sent[version] = sent = requests.Grant(wanted.owner, version, lease_ms, expiry_ms, seed_ms, elapsed)
        self.versions.append(version)
        request = self.request(step, sent)
        try:
            outcome, unclear = yield from self.exchange(request)
        except LockConfigurationError as error:
            sent.may_land = not error.is_unsent
            raise
        # The sender checks that a row has the requested Key. A PutItem has none, so its row is checked here.
        if isinstance(outcome, ConditionFailed) and not wanted.place.is_of(outcome.item):
            outcome, unclear = another_answer(request[0]), True
        sent.may_land = unclear or isinstance(outcome, Reply)
        if isinstance(outcome, ServiceError) and outcome.code == "ValidationException":
            yield from self.blame_the_token(outcome)
        if isinstance(outcome, Reply) and request[0] == "PutItem":  # returns nothing, but the row is now what was sent
            return Reply(request[1]["Item"], outcome.date)
        return outcome

    def blame_the_token(self, refusal: ServiceError) -> Steps[None]:
        """Raise a clear error if the token in the row is not a number.

        A write adds to the row's token. If that is not a number, DynamoDB only calls the request invalid.
        """
        place = self.wanted.place
        shown, _ = yield from self.exchange(requests.read(place))
        row = place.row(shown.item) if isinstance(shown, Reply) else None
        try:
            if row is not None:
                row.check_token(place.key)
        except LockFormatError as error:
            raise error from refusal

    def request(self, step: Take, grant: requests.Grant) -> requests.Request:
        wanted = self.wanted
        if wanted.replace:
            return requests.replace(
                wanted.place, grant, wanted.content, observed=step.row, only_if_exists=wanted.only_if_exists
            )
        until, date = step.row.completed_until if step.row else None, self.date
        return requests.claim(
            wanted.place,
            grant,
            wanted.content,
            observed=step.version,
            row=step.row,
            only_if_exists=wanted.only_if_exists,
            event=self.of_event,
            completed_until=until,
            keeps_result=until is not None and (date is None or date < until + lease.MARGIN),
            queue=step.queue,
        )

    def exchange(self, request: requests.Request, until: float | None = None) -> Steps[tuple[Outcome, bool]]:
        """Send a request as one decision. until: when it ends, if not as usual."""
        now = self.talk.elapsed
        if until is None and not self.wanted.waits:
            until = self.started + self.wanted.decision
        elif until is None:
            until = max(now + min(1.0, self.wanted.decision), min(now + self.wanted.decision, self.wait_until))
        # Who queues looks instead, which takes less of what a hot key is served, until the end of its wait.
        retry = self.wanted.queue is None or self.has_failed or now >= self.wait_until
        return self.talk.exchange(request, until, retry=retry)

    # -- judging the rows -------------------------------------------------------------------------------------------

    def judge(self, outcome: Outcome) -> Next:
        if isinstance(outcome, (Reply, ConditionFailed)):
            return self.see(outcome.item, outcome.date)
        if not may_pass(outcome):
            raise outcome
        if not self.wanted.waits:
            raise self.given_up(outcome)
        return NoAnswer(outcome)

    def see(self, item: Item | None, date: int | None) -> Next:
        wanted, observations = self.wanted, self.talk.memory.observations
        place = wanted.place
        self.row = row = place.row(item)
        self.date = date
        if wanted.only_if_exists and not item:
            self.last = Missing()
            return self.last
        if row is None:
            observations.forget(place.where)
            self.last = Blocked()
            return Take()
        if not wanted.delete_on_release and place.schema.released is not None:
            self.talk.memory.watch.look(place, row, self.started, self.talk.elapsed)
        if row.version in self.sent and not row.is_free:
            return self.own(row, row.version, date)
        if wanted.window is not None:
            row.refuse_done(place.key, date)
        if row.is_held:
            may_take_over = row.may_take_over(place.where, observations, self.talk.reading, date)
            self.last = Held(row)
            if row.free < 0:
                self.talk.memory.watch.notice("permits_differ", place, row.permits - row.free, row.permits)
            if not may_take_over or self.is_left_to_others(row, date):
                return self.last
        else:
            observations.forget(place.where)
            self.last = Blocked()
        row.check_token(place.key)
        return Take(row.taken_over, row)

    def is_left_to_others(self, row: Row, date: int | None) -> bool:
        """Whether all that is free is for those who wait in the queue, which this acquisition does not."""
        return self.queue is None and row.is_awaited(date)

    def own(self, row: Row, version: str, date: int | None) -> Hold | Take:
        """Judge a row with a version that this acquisition sent: it is a grant, or one to correct (rules 3 and 4)."""
        sent = self.sent[version]
        sent.may_land = True  # the row has it: a late copy landed, even if every answer so far was a refusal
        if date is None:
            raise undated(self.wanted.place.key)
        row.require_token(self.wanted.place.key)
        valid_until = sent.started + lease.validity(sent.lease_ms, sent.expiry_ms, date)
        no_good = self.talk.elapsed >= valid_until or lease.clock_was_fast(sent.lease_ms, sent.expiry_ms, date)
        if no_good or sent.struck:
            sent.struck = True
            return Take(version, row)
        return Hold(self.wanted, row, sent.lease_ms, sent.expiry_ms, valid_until, sent.started, claims=self.versions)

    def contradicted(self) -> LockError:
        """Return the error for contradicting answers.

        Each row that was shown allowed the next write, but each write was refused, or granted too late to be useful.
        """
        key = self.wanted.place.key
        error = TransportError(
            False,
            f"lock {key!r} was not granted: {STEPS} writes in a row failed, although each answer said that the next "
            "one would succeed. DynamoDB does not answer like this: check the endpoint and any proxy in between",
            key=key,
        )
        error.answered = True
        return error

    # -- waiting and giving up --------------------------------------------------------------------------------------

    def pause(self, blocked: Blocked) -> Steps[None]:
        """Sleep until the next poll, or until the next moment at which the lock may become free.

        Raises the final error when the wait is over.
        """
        talk = self.talk
        if talk.elapsed >= self.wait_until:
            raise self.given_up(blocked.error)
        seconds = lease.backoff(self.polls, self.wanted.refresh_period, talk.entropy.jitter())
        self.polls += 1
        yield from talk.wait(min([seconds, *self.soonest(blocked), self.wait_until - talk.elapsed]))

    def soonest(self, blocked: Blocked) -> list[float]:
        """Return in how many seconds the lock may become free without a release."""
        if blocked.row is None:
            return []
        moments = blocked.row.ends(self.talk.now(), self.talk.reading)
        # A row may name such a moment every few ms. Waiting for at least the first back-off avoids a busy loop.
        return [max(moment, lease.FIRST_BACKOFF) for moment in moments if moment > 0]

    def given_up(self, error: Exception | None) -> Exception:
        """Return the final error of a wait that is over. error: that of `NoAnswer`."""
        if error is None:
            return self.not_granted()
        if not self.lease_left():
            return error
        refused = self.not_granted()  # an outage does not make a lock free: its holder may be at work
        refused.__cause__ = error
        return refused

    def lease_left(self) -> float | None:
        """Return `Row.lease_left` of the newest row, in seconds. None also if that row shows no holder."""
        row = self.last.row
        if row is None or row is not self.row:
            return None
        return row.lease_left(self.talk.now(), self.talk.reading, self.date)

    def not_granted(self) -> LockNotGrantedError:
        wanted, waited, last, row = self.wanted, self.talk.elapsed - self.started, self.last.row, self.row
        holders = () if last is None else last.holders()
        ahead, lease_left = None, self.lease_left()
        if row is not None and row.waiters is not None and wanted.place.schema.waiters is not None:
            ahead = row.waiting(self.date) if self.queue is None else self.queue.ahead(row)
        if not ahead and self.vacancy():
            lease_left = 0.0
        said = f"{wanted.place.noun} {wanted.place.key!r} {self.state(ahead or 0)}"
        if wanted.waits:
            said += f", even after {waited:.1f} s of waiting"
        advice = "Wait longer, or let the caller try again" if wanted.waits else "Try again later, or pass wait=seconds"
        if wanted.advice is not None:
            advice = wanted.advice()
        return (LockTimeoutError if wanted.waits else LockNotGrantedError)(
            f"{said}. {advice}",
            key=wanted.place.key,
            holder=holders[0].owner if holders else None,
            waited=waited,
            retry_after=lease_left if row is None else row.turn(ahead or 0, lease_left),
            ahead=ahead,
            holders=holders,
        )

    def state(self, ahead: int) -> str:
        """Return why the lock is not granted, for an error."""
        if isinstance(self.last, Missing):
            return "does not exist, and only_if_exists was given"
        waiting = "1 waits" if ahead == 1 else f"{ahead} wait"
        if self.row is not None and self.row.sleepers:
            waiting += f" ({self.row.sleepers} asleep)"
        vacancy = self.vacancy()
        if vacancy:
            return f"{vacancy}, but {waiting} before this one" if ahead else f"{vacancy}, but no claim came in time"
        state = "is held by somebody else" if self.last.row is None else self.last.row.state()
        return f"{state}, and {waiting} before this one" if ahead else state

    def vacancy(self) -> str | None:
        """Return that the lock is free, for an error, if the newest answer shows it."""
        if self.row is not None:
            return self.row.vacancy
        return None if self.date is None or isinstance(self.last, Missing) else "is free"

    def abandon(self, *, looked: bool = False) -> Steps[None]:
        """Release any version of mine that may be in the row, the newest first (rule 5).

        This is bounded by the time of a decision, and by STEPS versions.

        looked: True if the newest reading of the clocks is fresh. Then a decision that is shorter than usual also ends
            the release early. After an interrupt it is not: time counts from the first reply, because the wall clock
            may have been set forward while that was under way.
        """
        talk, decision = self.talk, self.wanted.decision
        began = talk.elapsed
        if self.queue is not None:  # first, so that no claim with a ticket can land any more
            yield from self.queue.leave()
        version = next((version for version, sent in reversed(self.sent.items()) if sent.may_land), None)
        if version is None:
            return
        outcome = yield from talk.send(self.release_of(version), decision)
        until = talk.elapsed + decision
        if looked and decision < DECISION:
            until = max(began + decision, until - min(SEND, decision))
        if may_pass(outcome) and talk.elapsed < until:
            yield from talk.wait(lease.backoff(0, 1.0, talk.entropy.jitter()))
            outcome, _ = yield from self.exchange(self.release_of(version), until)
        for _ in range(STEPS):
            row = row_of(outcome, self.wanted.place)
            if row is None or row.is_free or row.version is None or row.version not in self.sent:
                return
            # A refusal may show another version of mine that landed before this one, or meanwhile.
            outcome, _ = yield from self.exchange(self.release_of(row.version), until)

    def release_of(self, version: str) -> requests.Request:
        wanted = self.wanted
        return requests.release(
            wanted.place,
            owner=wanted.owner,
            version=version,
            delete=wanted.delete_on_release,
            format=self.sent[version].format,
        )


def too_late(key: str, left_ms: int, waited: float = 0.0) -> LockNotGrantedError:
    """Return the error for a lease that would be shorter than a second because the invocation ends."""
    return LockNotGrantedError(
        f"lock {key!r} was not taken: only {max(left_ms, 0)} ms are left before the invocation's deadline, and a lease "
        "takes at least a second. Raise the function's timeout, or acquire earlier",
        key=key,
        waited=waited,
        too_late=True,
    )
