"""The holds of a block, one for each of its keys, and the attempt that this invocation has on each. No SDK here.

They are taken in one order, the same for all callers (core/several.py, rule 1), and released in the reverse order.

An execution has one invocation at a time, so the attempt before a resume is dead (core/resume.py). Threads of one
invocation share one attempt: two would refuse each other.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from ..client.lock import Lock
from ..client.lock_client import LockClient
from ..core.protocol import OUTAGE
from ..core.row import base_of
from ..errors import LockError, LockLostError, TransportError
from ..observe.log import NOT_RELEASED
from ..observe.observer import package

_RESUMES = 3  # in one verification
#: Stands for an invocation without a deadline. The hold goes on after the invocation. So the lease in the row must not
#: end with it, not even in the last renewal before a function is killed.
_UNENDING = SimpleNamespace(get_remaining_time_in_millis=lambda: math.inf)


class HoldLostError(LockLostError):
    """The hold of this execution is lost for good. A type of its own, because the SDK keeps only the name of a type."""


class DurableHold:
    """One hold, from its acquire to its release. It is found again by its owner and token, which are checkpointed.

    permits: N, for a permit of a semaphore; None for a lock. take: how many of them; None: one.
    """

    def __init__(
        self,
        client: LockClient,
        key: str,
        lease_duration: float,
        permits: int | None = None,
        take: int | None = None,
    ) -> None:
        self.client = client
        self.key = key
        self.lease_duration = lease_duration
        self.permits = permits
        self.take = take
        self._asked: dict[str, Any] = {"lease_duration": lease_duration, "permits": permits, "context": _UNENDING}
        self.owner = ""
        self.token = -1
        self._attempt: Lock | None = None
        self._renewed = False
        self._lost: HoldLostError | None = None
        self._left = False
        self._guard = threading.Lock()

    def acquire(self, holder: str) -> None:
        """Take the lock, or go on with what ``holder`` has of it. Raises what LockClient.acquire raises with wait=0."""
        attempt = self.client.acquire(self.key, holder=holder, wait=0, take=self.take, **self._asked)
        self.begin(base_of(attempt.owner) or attempt.owner, attempt.fencing_token)
        self._attempt = attempt

    @property
    def has_waker(self) -> bool:
        """Whether the lock's table has a waker, as this invocation's environment says."""
        from ..client import sleep  # here and below: loaded only by those who find the lock held

        return sleep.has_waker(self.client.__session__)

    def lie_down(self, holder: str, callback: str) -> bool:
        """Write the callback among the sleepers of the lock. False: there is no room, or the write may have failed.

        No error is raised: after False, the caller polls as without a waker.
        """
        from ..client import sleep

        try:
            lying_down = sleep.lie_down(
                self.client.__session__, self.key, None, holder, "durable", callback, self.permits, self.take
            )
            there_is_room: bool = self.client.__runner__.run(lying_down)
        except LockError as error:
            message = "an execution that waits for lock %r polls, since it could not lie down: %s"
            package.tell("not_asleep", message, self.key, error, key=self.key)
            return False
        return there_is_room

    def get_up(self, holder: str) -> None:
        """Remove the callback from the sleepers, if it is there. Errors are logged: the waker only finds it closed."""
        from ..client import sleep

        try:
            self.client.__runner__.run(sleep.get_up(self.client.__session__, self.key, holder))
        except LockError as error:
            message = "an execution that waited for lock %r is still among its sleepers: %s"
            package.tell("not_asleep", message, self.key, error, key=self.key)

    def begin(self, owner: str, token: int) -> None:
        """Go on with the hold that was checkpointed. Sends nothing."""
        self.owner, self.token = owner, token

    def verified(self) -> Lock:
        """Return the attempt of this invocation, which holds the lock now.

        The first call in an invocation resumes the hold. Later calls look at the clocks only. Raises HoldLostError if
        the hold is lost or the block was left, TransportError if its lease is over as soon as it is resumed, each time,
        and what LockClient.resume raises.
        """
        with self._guard:
            if self._left:
                raise HoldLostError(
                    f"the block of durable_lock for {self.key!r} was left, or its invocation was suspended: do not use "
                    "the lock after it",
                    key=self.key,
                )
            self._renewed = False
            attempt = self._live()
            for _ in range(_RESUMES):
                if attempt is None:
                    self._resumed()
                    attempt = self._live()  # close() or a freeze may have ended it again
            if attempt is None:
                raise TransportError(
                    False,
                    f"lock {self.key!r} was resumed {_RESUMES} times, and each time its lease of "
                    f"{self.lease_duration:g} s was over before it could be used. Try again, or pass durable_lock a "
                    "longer lease_duration",
                    key=self.key,
                )
            return attempt

    def renew_and_end(self) -> None:
        """Renew the lease to its full length and end the attempt. The next verification resumes the hold.

        Nothing is sent if that was just done. Raises HoldLostError if the hold is lost, and the transport's error if it
        is not known to be renewed.
        """
        with self._guard:
            if self._renewed:
                return
            try:
                attempt = self._live()
                if attempt is None:
                    self._resumed()  # which renews
                else:
                    # Not handed over: that is silent about an ambiguous outcome.
                    attempt.heartbeat(lease_duration=self.lease_duration)
                self._renewed = True
            except HoldLostError:
                raise
            except LockLostError as error:
                raise self._lose(error) from error
            finally:
                self._abandon()

    def remaining(self) -> float:
        """Seconds for which the hold is known to be held without a renewal. 0 if this invocation has no attempt."""
        attempt = self._attempt
        return 0.0 if attempt is None else attempt.remaining

    def release(self) -> bool:
        """Release the hold, any number of times. Raises what LockClient.release raises.

        Nothing is sent if this invocation found it lost. By string, a newer attempt's hold would be released.
        """
        with self._guard:
            self._left = True
            try:
                if self._lost is not None:
                    return False
                if self._attempt is not None:
                    return self._attempt.release()
                return self.client.release(
                    key=self.key, owner=self.owner, fencing_token=self.token, permits=self.permits
                )
            finally:
                self._abandon()

    def leave(self) -> None:
        """End the attempt, without a request. Nothing is verified or resumed from here on."""
        with self._guard:
            self._left = True
            self._abandon()

    def _live(self) -> Lock | None:
        """Return the attempt if it is held. If only its validity ran out, end it: the hold can be resumed.

        Raises HoldLostError if a request was refused. Then another has the lock, or a newer attempt of this hold, which
        a resume here would refuse.
        """
        if self._lost is not None:
            raise self._lost
        attempt = self._attempt
        if attempt is None:
            return None
        try:
            attempt.raise_if_lost()
        except LockLostError as error:
            if error.holder is not None:
                raise self._lose(error) from error
            self._abandon()
            return None
        return attempt

    def _resumed(self) -> None:
        try:
            self._attempt = self.client.resume(key=self.key, owner=self.owner, fencing_token=self.token, **self._asked)
        except LockLostError as error:
            raise self._lose(error) from error

    def _lose(self, error: LockLostError) -> HoldLostError:
        """Note that the hold is lost, which is final."""
        self._lost = HoldLostError(str(error), key=error.key, holder=error.holder)
        return self._lost

    def _abandon(self) -> None:
        """End the attempt in this process, without a request. Its row stays, and the next resume goes on with it."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.__held__.abandon()


class Holds:
    """The holds of one block, in the order in which they are taken."""

    def __init__(self, holds: list[DurableHold]) -> None:
        self.all = holds
        self.taken: list[DurableHold] = []  # those whose acquire is checkpointed
        self.unreleased = holds  # as far as this process knows

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(hold.key for hold in self.all)

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing tokens by key, of those that were granted."""
        return {hold.key: hold.token for hold in self.all if hold.token >= 0}

    @property
    def lease_duration(self) -> float:
        """Seconds. All have the same."""
        return self.all[0].lease_duration

    def verified(self) -> list[Lock]:
        """Return the attempts of this invocation, which all hold their locks now. Raises as DurableHold.verified."""
        for hold in self.all:
            hold.verified()
        return [hold.verified() for hold in self.all]  # by the clocks: the requests for the others took time

    def renew_for(self, needed: float) -> None:
        """Renew each lease to its full length and end the attempts.

        Raises the error of one that is not renewed, if its lease is not known to last for another ``needed`` seconds.
        A lost one raises nothing here: the next verification does.
        """
        self._renew(self.all, needed)

    def suspend(self) -> None:
        """Renew what is taken to the full lease, and end all attempts. Errors are logged."""
        try:
            self._renew(self.taken, 0.0)
        finally:
            self.leave()

    def _renew(self, holds: list[DurableHold], needed: float) -> None:
        left = {hold: hold.remaining() for hold in holds}
        for hold, error in _tried(holds, lambda hold: hold.renew_and_end()):
            if error is None:
                continue
            is_lost = isinstance(error, LockLostError)
            if left[hold] < needed and not is_lost:
                raise error
            event = "lost" if is_lost else "renewal_failed"
            message = "lock %r was not renewed for the suspension of its execution: %s"
            package.tell(event, message, hold.key, error, key=hold.key, owner=hold.owner)

    def release(self) -> None:
        """Release what was granted, any number of times. Raises the first error, once each one was tried."""
        granted = [hold for hold in self.all if hold.token >= 0]
        failed = [(hold, error) for hold, error in _tried(granted, lambda hold: hold.release()) if error is not None]
        self.unreleased = [hold for hold, _ in failed]
        for _, error in failed:
            raise error

    def leave_to_lease(self, error: LockError) -> None:
        """Tell the error of a release that is not tried again. The leases end what is left."""
        for hold in self.unreleased:
            if hold.token >= 0:
                package.tell("release_failed", NOT_RELEASED, hold.key, error, key=hold.key, owner=hold.owner)

    def leave(self) -> None:
        """End the attempts, without a request."""
        for hold in self.all:
            hold.leave()


def _tried(
    holds: Iterable[DurableHold], act: Callable[[DurableHold], object]
) -> Iterator[tuple[DurableHold, LockError | None]]:
    """Act on each hold, the newest first, and yield it with its error.

    Once so many in a row get no answer, the rest is not tried, and has the last error. This bounds the time.
    """
    unanswered, error = 0, None
    for hold in reversed(list(holds)):
        if unanswered < OUTAGE:
            error = None
            try:
                act(hold)
            except LockError as failed:
                error = failed
            unanswered = unanswered + 1 if isinstance(error, TransportError) else 0
        yield hold, error
