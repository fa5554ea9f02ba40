"""Taking several locks: all or none, in one order, so that no two callers wait for each other.

They are ordinary locks, each taken as core/acquire.py does and kept as core/keep.py does. This module adds no write. So
the rules of protocol.py alone ensure that each of them has one holder. These rules come on top:

1. **One order**: by the bytes of the keys in UTF-8, each key once. Each caller waits only for a key that comes after
   all keys that it holds. So callers never wait for each other, not even in a circle.
2. **One owner and one wait** for all. The locks held are renewed during the wait for later ones.
3. **All or none**: after any error, the locks taken are released, the newest first.
4. **Lost while waiting**: if a lock is lost before all are held, all are released. The acquisition begins anew, under a
   new owner (protocol.py, rule 10), while the wait lasts.
5. **Before the caller gets them**, each with less than 0.9 of its lease left is renewed once, unless its lease already
   lasts until the invocation ends. Then all are held, or rule 4 applies.
6. **An outage does not make a lock free**: a holder that was seen, also before rule 4 applied, is contention until its
   lease ends.
7. With a wait of 0, each key gets one decision. Its holder may be a caller that is then refused another key. A wait
   that is over when a key's turn comes still allows one try of that key.
"""

from __future__ import annotations

from ..errors import LockNotGrantedError, LockTimeoutError, TransportError
from . import keep, lease
from .acquire import Acquisition
from .outcome import ServiceError, may_pass
from .protocol import OUTAGE, Wait, undone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol, TypeVar

    from .protocol import AcquireRequest, Conversation, Hold, Resumption, Send, Steps

    T = TypeVar("T")

    class Keeper(Protocol):
        """Keeps the locks held while others are waited for (client/multi_lock.py)."""

        def each_wanted(self) -> Iterable[AcquireRequest]:
            """Return one request for each key, as `ordered`, all under one owner. Each call takes a new owner."""

        def keep(self, hold: Hold) -> None:
            """Note a granted lock. Called before any other code runs, so that an interrupt does not leak it."""

        def watch(self, hold: Hold) -> None:
            """From here on, renew it."""

        def renew(self, hold: Hold, talk: Conversation) -> Steps[None]:
            """Renew it once, but not while another renewal of it is under way."""

        def release(self, hold: Hold, talk: Conversation) -> Steps[bool]:
            """Release it. Returns whether DynamoDB answered; if it did not, the lease ends the lock."""

        def leave(self, hold: Hold) -> None:
            """Leave it to its lease: DynamoDB does not answer."""


MOST_KEYS = 50
_FRESH = 0.9  # of the lease


class LostMeanwhile(Exception):
    """One of the locks was lost while others were waited for."""

    def __init__(self, hold: Hold) -> None:
        super().__init__("a lock was lost while others were waited for")
        self.hold = hold


def ordered(keys: Iterable[str]) -> list[str]:
    """Return the keys in the order in which everybody takes them, each one once (rule 1)."""
    return sorted(set(keys), key=lambda key: key.encode())


def acquire_all(keeper: Keeper, talk: Conversation) -> Steps[list[Hold]]:
    """Take all locks that ``keeper`` asks for, or none. Return the Holds, in the order of their keys.

    Raises what `acquire` raises, with the key of the lock that it is about.
    """
    return SeveralAcquisition(keeper, talk).finish()


class SeveralAcquisition:
    """One acquisition of several locks."""

    def __init__(self, keeper: Keeper, talk: Conversation) -> None:
        self.keeper = keeper
        self.talk = talk
        self.started = talk.elapsed
        self.holds: list[Hold] = []
        self.wanted: AcquireRequest | None = None  # of the lock that is being taken
        self.taking: Acquisition | None = None  # while its steps have not ended
        self.seen: dict[str, Acquisition] = {}  # by key, the newest that got an answer, in any round
        self.watching = False  # whether to look for lost locks after each pause

    def finish(self) -> Steps[list[Hold]]:
        """Take the locks. After any error, release those taken (rule 3)."""
        return undone(self.run(), self.undo)

    def run(self) -> Steps[list[Hold]]:
        """Take them all. If one is lost, begin anew after a pause, while the wait lasts (rule 4)."""
        rounds = 0
        while True:
            try:
                yield from self.take_all()
                return self.holds
            except LostMeanwhile as lost:
                hold = lost.hold
            yield from self.release_all()
            wanted, now = self.wanted, self.talk.elapsed
            assert wanted is not None
            if not wanted.waits or now >= wanted.wait_until:
                key, waited = hold.place.key, now - self.started
                raise (LockTimeoutError if wanted.waits else LockNotGrantedError)(
                    f"lock {key!r} was taken, but lost while others of its group were taken. {waited:.1f} s have "
                    "passed. Pass a longer wait= or lease_duration=, or let the caller try again",
                    key=key,
                    holder=hold.holder,
                    waited=waited,
                )
            pause = lease.backoff(rounds, wanted.refresh_period, self.talk.entropy.jitter())
            rounds += 1
            yield from self.talk.wait(min(pause, wanted.wait_until - now))

    def undo(self, error: BaseException | None = None) -> Steps[None]:
        """Release the locks taken, and a claim that may have landed."""
        self.watching = False
        if self.taking is not None:  # an interrupt came outside its steps, so they have not cleaned up
            yield from self.taking.abandon()
            self.taking = None
        yield from self.release_all()

    def take_all(self) -> Steps[None]:
        self.watching = True
        for wanted in self.keeper.each_wanted():
            self.wanted = wanted
            acquisition = Acquisition(wanted, self.talk, self.keep)
            if wanted.waits:
                acquisition.started = self.started  # errors name the whole wait, which is one for all
                acquisition.wait_until = max(wanted.wait_until, self.talk.elapsed)  # each is tried once, however late
            self.taking = acquisition
            try:
                hold = yield from self.take_one(acquisition)
            except (ServiceError, TransportError) as error:
                self.check_seen(error)
                raise
            self.keeper.watch(hold)
            lost = self.lost()
            if lost is not None:
                raise lost
        for hold in self.holds:
            yield from self.freshen(hold)
        self.check_held()

    def take_one(self, acquisition: Acquisition) -> Steps[Hold]:
        try:
            return (yield from self.watched(acquisition.finish()))
        finally:
            if acquisition.date is not None:
                self.seen[acquisition.wanted.place.key] = acquisition

    def check_seen(self, error: ServiceError | TransportError) -> None:
        """Raise LockNotGrantedError if DynamoDB did not answer, but a holder was seen whose lease lasts (rule 6)."""
        for acquisition in self.seen.values() if may_pass(error) else ():
            if acquisition.lease_left():
                raise acquisition.not_granted() from error

    def keep(self, hold: Hold) -> None:
        self.holds.append(hold)
        self.keeper.keep(hold)

    def freshen(self, hold: Hold) -> Steps[None]:
        """Renew a lock that was held for a while, so that the caller gets nearly a whole lease (rule 5)."""
        fresh = hold.valid_until - self.talk.elapsed >= _FRESH * hold.lease_ms / 1000
        if not fresh and keep.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms):
            yield from self.watched(self.keeper.renew(hold, self.talk))

    def check_held(self) -> None:
        """Raise LostMeanwhile if one of the locks is not held: the caller gets all of them, or begins anew."""
        for hold in self.holds:
            if not hold.is_held(self.talk.elapsed):
                raise LostMeanwhile(hold)

    def release_all(self) -> Steps[None]:
        """Release what was taken, the newest first. This is bounded by a decision for each."""
        self.watching = False
        unanswered = 0  # in a row
        while self.holds:
            hold = self.holds[-1]
            if unanswered == OUTAGE:
                self.keeper.leave(hold)
            else:
                answered = yield from self.watched(self.keeper.release(hold, self.talk))
                unanswered = 0 if answered else unanswered + 1
            self.holds.pop()

    def watched(self, steps: Steps[T]) -> Steps[T]:
        """Run ``steps``, and note each reading of the clocks.

        If a lock is found lost after a pause, LostMeanwhile is thrown into the steps, which release what they may have
        taken. An interrupt is thrown into them, too.
        """
        resume: Callable[[Any], Send | Wait] = steps.send
        value: Resumption | BaseException | None = None
        try:
            while True:
                try:
                    while True:  # inside the try: an interrupt may come between any two steps of this loop
                        step = resume(value)
                        event = yield step
                        self.talk.heard(event)
                        lost = self.lost() if self.watching and isinstance(step, Wait) else None
                        resume, value = (steps.send, event) if lost is None else (steps.throw, lost)
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as error:
                    if steps.gi_frame is None:  # type: ignore[attr-defined]  # they have ended
                        self.taking = None
                        if isinstance(error, StopIteration):
                            result: T = error.value
                            return result
                        raise
                    self.watching = False
                    resume, value = steps.throw, error
        finally:
            del value  # it may be an error, which would keep this frame and the locks alive (see runtime/drive.py)

    def lost(self) -> LostMeanwhile | None:
        """Return the error to throw into the steps if a lock is lost. None while they clean up: another throw would cut
        that short."""
        if self.taking is not None and self.taking.has_failed:
            return None
        lost = next((hold for hold in self.holds if hold.ended or hold.expire(self.talk.elapsed)), None)
        if lost is None:
            return None
        self.watching = False  # once is enough: the steps need time to clean up
        return LostMeanwhile(lost)
