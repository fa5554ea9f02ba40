"""The handle of a lock that was granted."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress  # the Lambda runtime has it loaded

from . import checks
from .core import keep, lease, protocol, requests
from .core.outcome import ServiceError
from .errors import (
    CommitRefusedError,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockConfigurationError,
    LockError,
    LockLostError,
    OwnerMismatchError,
    SessionMonitorNotSetError,
    TransportError,
)
from .late import Late
from .log import tell_not_released
from .record import row_attributes, row_data
from .signalsafe import Flag, Ticket, Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self, TypeAlias, TypeVar

    from .client import LockClient
    from .core.lease import Look
    from .core.protocol import Steps
    from .heartbeat import Heartbeat

    T = TypeVar("T")
    Callback: TypeAlias = Callable[["Lock"], object]


_TURN_PAUSE = 0.01  # seconds between two looks whether another thread's renewal of the same lock is over
_AFTER_FAULT = 1.0  # seconds until a renewal that could not even be sent is tried again


class Lock:
    """A held lock. Made by `LockClient.acquire`; a context manager that releases on leaving.

    It is safe to use from several threads of the process that acquired it. In a forked child it is not held, and it is
    neither renewed nor released there.
    """

    def __init__(
        self,
        client: LockClient,
        hold: protocol.Hold,
        *,
        heartbeat_period: float | None,
        safe_time: float | None,
        on_danger: Callback | None,
        on_lost: Callback | None,
        line: object,
        full_lease: float,
    ) -> None:
        self._client = client
        self._hold = hold
        self._pid = os.getpid()
        self._period = heartbeat_period
        self._safe_time = safe_time
        self._on_danger = on_danger
        self._on_lost = on_lost
        self._full_lease = full_lease  # seconds, as asked for: a lease may be cut to the invocation
        self._line = line  # of execution: what may enter again
        self._entered = 1
        self._released = False
        self._untold = {"danger": True, "lost": True}
        self._over = Flag()  # lost or released: wakes wait_lost
        self._last_act = Turn()  # release, commit and hand_over: one of them at a time
        self._renewing = Turn()  # renewals of one handle are sent one after the other
        self._dispatched = False  # a renewal waits to be sent, or is being sent
        self._failures = 0
        self._slot: float | None = None
        self._heartbeat: Heartbeat | None = None
        self._data = row_data(hold.item, hold.place)
        self._next_renewal = self._first_renewal()
        self._watch()

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        return self._hold.place.key

    @property
    def sort_key(self) -> str | None:
        return self._hold.place.sort_key

    @property
    def owner(self) -> str:
        """``prefix#nonce``, unique for this acquisition."""
        return self._hold.owner

    @property
    def fencing_token(self) -> int:
        """Rises with every grant of this key as long as its row is kept: for whatever must refuse late writers."""
        return self._hold.token

    @property
    def version(self) -> str:
        """The newest version sent for this lock."""
        return self._hold.version

    @property
    def data(self) -> bytes | None:
        """The application's bytes in the row, as of the grant or of the newest `heartbeat` with data."""
        return self._data

    @property
    def attributes(self) -> dict[str, Any]:
        """The application's additional attributes in the row, as of the grant."""
        return row_attributes(self._hold.item, self._hold.place)

    @property
    def lease_duration(self) -> float:
        """Seconds. Shorter than asked for where the invocation's deadline comes first."""
        return self._hold.lease_ms / 1000

    # -- how it stands ----------------------------------------------------------------------------------------------

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is still ours without another renewal; 0 once it is lost or released."""
        now = self._elapsed()
        return max(0.0, self._hold.valid_until - now) if self._hold_is_live(now) else 0.0

    @property
    def is_held(self) -> bool:
        """Whether the lock is ours now. Looks at the clocks: a freeze longer than the lease is noticed."""
        return self._hold_is_live(self._elapsed())

    @property
    def is_expired(self) -> bool:
        """Whether the lock counts no longer: its validity ended, it was lost, or it was released."""
        return not self.is_held

    @property
    def is_almost_expired(self) -> bool:
        """Whether ``safe_time`` or less is left. Raises SessionMonitorNotSetError for a lock without ``safe_time``."""
        if self._safe_time is None:
            raise SessionMonitorNotSetError(
                f"lock {self.key!r} has no safe_time: give safe_time=seconds to acquire, or to the client", key=self.key
            )
        return self.remaining <= self._safe_time

    @property
    def lost(self) -> bool:
        """Whether it was lost while held: a write was refused, or validity ended. Final."""
        if not self._in_this_process():
            return True
        self._notice()
        return self._hold.lost

    def raise_if_lost(self) -> None:
        """Raise LockLostError if the lock is not held now: before each step that must not be done twice.

        So it is once the lock is lost, once it was released (by another thread, say), and with ``hold_on_unavailable``
        while an outage lasts longer than its validity.
        """
        self._notice()
        if self.is_held:
            return
        holder = self._hold.holder
        state = "was released" if self._hold.ended and not self._hold.lost else "is lost"
        raise LockLostError(
            f"lock {self.key!r} {state}{f'; {holder} has it now' if holder else ''}. Stop here: whoever has it now may "
            "be doing the same work",
            key=self.key,
            holder=holder,
        )

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Block until the lock is lost (True), or released or ``timeout`` seconds passed (False)."""
        end = None if timeout is None else self._elapsed() + timeout
        while not self.lost:
            now = self._elapsed()
            if self._hold.ended or (end is not None and now >= end):
                return False
            moments = [now + 1.0]  # at least a look a second: freezes
            moments += [moment for moment in (end, self._hold.valid_until) if moment is not None and moment > now]
            self._over.wait(max(min(moments) - now, 0.001))
        return True

    # -- what it can do ---------------------------------------------------------------------------------------------

    def heartbeat(
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        """Renew now, with new data or another lease (seconds, from then on) where given.

        Raises LockLostError where it is lost, LockAlreadyReleasedError after release, TransportError where nobody knows
        (the lock is then still held until its validity ends), and LockArgumentError or TypeError for bad input.
        """
        steps = self._begin_heartbeat(data, delete_data, lease_duration)
        turn = Ticket()
        try:
            self._await_turn(turn)
            self._run(steps)
        finally:  # also where it failed: a shorter lease has cut validity before it was sent
            self._end_turn(turn)

    def ensure(self, seconds: float) -> None:
        """Make sure that the lock is held for ``seconds`` more: where less is left, renew with a lease that is enough.

        Raises what `heartbeat` raises, and LockArgumentError where the invocation ends before.
        """
        lease_duration = self._lease_to_ensure(seconds)
        if lease_duration is not None:
            self.heartbeat(lease_duration=lease_duration)
            self._check_ensured(seconds)

    def release(self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False) -> bool:
        """Release the lock; with ``data`` stored in its row, or with the row deleted.

        Returns True where it was released, False where it was lost before. Raises LockAlreadyReleasedError the second
        time, OwnerMismatchError in another process, TransportError(ambiguous=True) where the outcome is unknown (the
        lease ends by itself), and TransportError or LockConfigurationError where DynamoDB refused. After an error
        release may be called again. ``best_effort`` logs such errors instead, and returns False.
        """
        steps = self._begin_release(data, delete)
        if steps is None:
            return True
        try:
            return self._run(steps)
        except LockError as error:
            return self._release_failed(error, best_effort)

    def commit(self, items: Sequence[Mapping[str, Any]], *, data: bytes | None = None, result: object = None) -> None:
        """Write ``items`` and release the lock, in one transaction: they are written only while the lock is held.

        items: 1 to 99 entries of TransactWriteItems (low-level DynamoDB JSON, as boto3's client takes them), of this
        account and Region. data: bytes to leave in the lock's row. It is the lock's last act. The event of
        @deduplicate is completed in the same transaction, with ``result`` (of JSON's types) for its duplicates.

        Raises CommitRefusedError where a condition of the items did not hold (the lock is released then), LockLostError
        where the lock was not ours any more (nothing is written then), TransportError(ambiguous=True) where the outcome
        is unknown, LockAlreadyReleasedError and OwnerMismatchError as `release` does, and LockConfigurationError for a
        lock that deletes its row or for items that DynamoDB cannot take.
        """
        self._run(self._begin_commit(items, data, result))

    def transact_item(self) -> dict[str, Any]:
        """An Update for a transaction of your own, which then happens only while this lock is held.

        A renewal at the same moment may cancel the transaction with TransactionConflict: send it again then. Raises
        what `commit` raises before it sends.
        """
        self._check_open()
        self._check_kept()
        return requests.transact_item(self._hold.place, owner=self.owner, token=self.fencing_token)

    def hand_over(self, *, lease_duration: float | None = None) -> str:
        """End this handle and give a string with which another process goes on: `LockClient.adopt`.

        The lock is renewed to the full lease (or to ``lease_duration``, seconds), not cut to this invocation, so that
        there is time to adopt it. From here on this handle is neither held nor renewed. Raises LockLostError where the
        lock was not ours any more, LockFormatError where its row is damaged, and LockAlreadyReleasedError,
        OwnerMismatchError or LockConfigurationError as `release` does. LockConfigurationError too, and the lock stays
        held, for the event of @deduplicate (who adopts a lock could not complete it) and for a lock that deletes its
        row.
        """
        return self._run(self._begin_hand_over(lease_duration))

    # -- the same for threads and asyncio: what comes before and after the steps -----------------------------------

    def _begin_heartbeat(
        self, data: bytes | None, delete_data: bool, lease_duration: float | None
    ) -> Callable[[Look], Steps[None]]:
        encoded = self._checked_data(data)
        if data is not None and delete_data:
            raise LockArgumentError("heartbeat takes data= or delete_data=True, not both", key=self.key)
        lease_ms = None
        if lease_duration is not None:
            lease_ms = int(checks.lease_duration(lease_duration) * 1000)
            checks.heartbeat_period(self._period, lease_duration)
        self._check_open()

        def steps(look: Look) -> Steps[None]:
            yield from self._renew_until_known(look, lease_ms=lease_ms, data=encoded, delete_data=delete_data)
            if delete_data or data is not None:
                self._data = data
                self._hold.note_data(encoded or "")

        return steps

    def _renew_until_known(self, look: Look, **changes: Any) -> Steps[None]:
        """Renew, again while nobody knows what came of it, at most for the time of a decision."""
        client, until, tries = self._client, look.elapsed + protocol.DECISION, 0
        while True:
            renewal = yield from keep.renew(self._hold, client._memory, client._chance, look, **changes)
            if renewal.renewed:
                return
            self._check_open()
            if self.lost:
                self.raise_if_lost()
            pause = lease.backoff(tries, 1.0, client._chance.jitter())
            tries += 1
            if renewal.error is None or not protocol.may_pass(renewal.error) or self._elapsed() + pause >= until:
                raise self._not_renewed(renewal.error)
            look = (yield protocol.Wait(pause)).look

    def _lease_to_ensure(self, seconds: float) -> float | None:
        """The lease that leaves ``seconds`` after a renewal, None where that much is left."""
        checks.seconds("seconds", seconds, least=0.0)
        self._check_open()
        if self.lost:
            self.raise_if_lost()
        if self.remaining >= seconds:
            return None
        end, needed = self._hold.lease_end, seconds * (1 + 2 * lease.DRIFT)
        if end is not None and end - self._elapsed() < needed:
            raise self._cannot_ensure(seconds, end)
        # A renewal is worth its lease less drift and the time that its reply takes.
        return max(self.lease_duration, needed + protocol.DECISION)

    def _check_ensured(self, seconds: float) -> None:
        """After the renewal: its lease is cut to the invocation, and the reply took time."""
        end = self._hold.lease_end
        if end is not None and self.remaining < seconds:
            raise self._cannot_ensure(seconds, end)

    def _cannot_ensure(self, seconds: float, end: float) -> LockArgumentError:
        return LockArgumentError(
            f"ensure({seconds:g}): the invocation ends in {end - self._elapsed():.1f} s, and the lease of "
            f"{self.key!r} with it",
            key=self.key,
        )

    def _complete(self, result: str | None) -> bool:
        """Release, and complete the event in the same request, with the ``result`` to store. As `release`."""
        steps = self._begin_release(None, None, complete=True, result=result)
        return True if steps is None else self._run(steps)

    @property
    def _ended(self) -> bool:
        """Whether a last act was begun: release, commit or hand_over."""
        return self._hold.ended

    @property
    def _completed(self) -> bool:
        """Whether a commit has completed the event."""
        return self._hold.completed

    def _begin_release(
        self, data: bytes | None, delete: bool | None, **completion: Any
    ) -> Callable[[Look], Steps[bool]] | None:
        """None: an inner release of a re-entrant lock, nothing is sent."""
        encoded = self._checked_data(data)
        self._check_process()
        if self._entered > 1:
            self._entered -= 1
            return None
        self._check_not_released()
        return self._last(
            self._check_not_released, lambda look: self._release(look, data=encoded, delete=delete, **completion)
        )

    def _release(self, look: Look, **options: Any) -> Steps[bool]:
        client = self._client
        done = yield from keep.release(self._hold, client._memory, client._chance, look, **options)
        return self._end_release(done)

    def _plain_release(self) -> Callable[[Look], Steps[bool]]:
        """The steps that follow a last act of which nobody can say what came of it."""
        return self._last(self._check_not_released, self._release)

    def _last(self, check: Callable[[], None], steps: Callable[[Look], Steps[T]]) -> Callable[[Look], Steps[T]]:
        """The steps of a last act, while no other one is under way. From here on the lock is neither held nor renewed.

        check: raises where a last act that was under way until now leaves nothing to be done.
        """

        def alone(look: Look) -> Steps[T]:
            turn = Ticket()
            try:
                if not self._last_act.take(turn):
                    raise LockAlreadyReleasedError(
                        f"lock {self.key!r} is being released, committed or handed over at this moment, by another "
                        "thread or the code that a signal handler interrupted",
                        key=self.key,
                    )
                check()
                self._end()
                return (yield from steps(look))
            finally:
                self._last_act.give_back(turn)

        return alone

    def _end_release(self, done: bool) -> bool:
        self._released = True
        if done:
            self._client._open.discard(self._hold)
            self._tell("released", "lock %r was released")
        else:
            self._lose("lock %r was lost before its release")
        return done

    def _release_failed(self, error: LockError, best_effort: bool) -> bool:
        if not best_effort or isinstance(error, LockAlreadyReleasedError):
            raise error
        self._client._open.discard(self._hold)
        tell_not_released(self._client._log, error, **self._about())
        return False

    def _begin_commit(
        self, items: Sequence[Mapping[str, Any]], data: bytes | None, result: object
    ) -> Callable[[Look], Steps[None]]:
        from .core.transaction import commit

        checked, encoded = checks.transact_items(items), self._checked_data(data)
        text = self._checked_result(result, encoded)
        self._check_open()
        self._check_kept()
        client = self._client

        def steps(look: Look) -> Steps[None]:
            try:
                yield from commit(self._hold, checked, client._memory, client._chance, look, data=encoded, result=text)
            except LockLostError:
                self._released = True
                self._lose("lock %r was lost before its commit")
                raise
            except CommitRefusedError:
                self._end_release(True)
                raise
            self._end_release(True)

        return self._last(self._check_open, steps)

    def _begin_hand_over(self, lease_duration: float | None) -> Callable[[Look], Steps[str]]:
        from .core.handover import hand_over

        duration = self._full_lease if lease_duration is None else checks.lease_duration(lease_duration)
        self._check_open()
        self._check_kept()
        if self._hold.window is not None:
            raise LockConfigurationError(
                f"event {self.key!r} cannot be handed over: who adopts it could not complete it. Hand over a lock of "
                "@with_lock, or let the function that finishes the event deduplicate it",
                key=self.key,
            )
        client = self._client

        def steps(look: Look) -> Steps[str]:
            try:
                string = yield from hand_over(
                    self._hold, client._memory, client._chance, look, lease_ms=int(duration * 1000)
                )
            except LockLostError:
                self._lose("lock %r was lost before it was handed over")
                raise
            self._released = True
            client._open.discard(self._hold)
            return string

        return self._last(self._check_open, steps)

    def _run(self, steps: Callable[[Look], Steps[T]]) -> T:
        return self._client._run(steps, self._hold.place)

    def _end(self) -> None:
        """Neither held nor renewed from here on: before the first send of a last act."""
        self._hold.end()
        self._stop()

    def _check_open(self) -> None:
        self._check_process()
        if self._hold.ended:
            raise LockAlreadyReleasedError(
                f"lock {self.key!r} was released, committed or handed over: acquire it anew", key=self.key
            )

    def _check_not_released(self) -> None:
        if self._released:
            raise LockAlreadyReleasedError(
                f"lock {self.key!r} was released before: a handle is released once", key=self.key
            )

    def _check_kept(self) -> None:
        if self._hold.delete_on_release:
            raise LockConfigurationError(
                f"lock {self.key!r} deletes its row on release, so neither a transaction nor a handing over can rely "
                "on it: a late copy of its claim could bring the same owner and token back. Acquire it without "
                "delete_on_release, and not in the schema PYTHON",
                key=self.key,
            )

    def _is_open(self) -> bool:
        """Whether it is to be given back: held, held on through an outage, or after a release that was interrupted."""
        return self._in_this_process() and not self.lost and not self._released

    def _enter_again(self, *, event: bool = False) -> Lock:
        if event and self._hold.window is None:
            raise LockConfigurationError(
                f"lock {self.key!r} is held already, but not by @deduplicate: it could not complete the event. Give "
                "one of the two another key",
                key=self.key,
            )
        self._entered += 1
        return self

    def _abandon(self) -> None:
        """Neither held nor renewed from now on; the row is left to its lease."""
        self._end()
        self._released = True
        self._client._open.discard(self._hold)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._released or not self._in_this_process():
            return
        try:
            self.release(best_effort=True)
        except LockAlreadyReleasedError:  # another thread releases it at this moment
            return

    def __del__(self) -> None:
        hold = getattr(self, "_hold", None)  # None: an interrupt came while it was made
        if hold is None or sys.is_finalizing() or hold not in self._client._open:
            return
        now = self._elapsed()
        if self._hold_is_live(now):
            self._client._tell_forgotten(self)
        elif now >= hold.valid_until:
            self._client._open.discard(hold)  # its lease has freed it

    def __repr__(self) -> str:
        return f"<Lock {self.key!r} {self._state()}, token {self.fencing_token}>"

    def _state(self) -> str:
        if self.is_held:
            return f"held for {self.remaining:.1f} s"
        if self._hold.lost or not self._hold.ended:
            return "lost"
        if self._hold.handed_over:
            return "handed over"
        return "released" if self._released else "given up, release not confirmed"

    # -- heartbeat --------------------------------------------------------------------------------------------------

    def tick(self) -> float | None:
        """For the heartbeat: do what is due, say in how many seconds to come back (None: not before `_watch`)."""
        if self._hold.ended:
            return None
        self._notice(apart=True)
        if self._hold.lost:
            return None
        if self._is_due() and not self._awaits_its_slot():
            self._dispatched = True
            self._client._renewals.put(self._send_renewal)
        return self._seconds_to_next_tick(sending=self._dispatched)

    def _is_due(self) -> bool:
        return self._next_renewal is not None and not self._dispatched and self._elapsed() >= self._next_renewal

    def _send_renewal(self) -> None:
        """Send the renewal that `tick` found due."""
        self._next_renewal = self._elapsed() + _AFTER_FAULT  # where it fails otherwise than by an answer
        try:
            self._renew_if_idle()
            self._notice()
        finally:
            self._dispatched = False
            self._watch()

    def _renew_if_idle(self) -> None:
        turn = Ticket()
        try:
            if not self._renewing.take(turn):  # the application renews at this moment; it plans the next one
                self._next_renewal = self._elapsed() + lease.MIN_PERIOD
                return
            renewal = self._renew()
        finally:
            self._renewing.give_back(turn)
        if renewal.renewed:
            self._failures = 0
            self._next_renewal = self._later_renewal()
            return
        if renewal.error is None:
            return
        pause = lease.backoff(self._failures, 1.0, self._client._chance.jitter())
        self._failures += 1
        self._next_renewal = self._elapsed() + pause
        self._tell("renewal_failed", "renewal of lock %r failed, trying again: %s", renewal.error)

    def _await_turn(self, turn: Ticket) -> None:
        """Wait until no other renewal of this lock is being sent; raise where it takes longer than one may."""
        for _ in range(int(protocol.DECISION / _TURN_PAUSE)):
            if self._renewing.take(turn):
                return
            self._over.wait(_TURN_PAUSE)
            self._check_renewable()
        raise self._not_renewed(None)

    def _check_renewable(self) -> None:
        self._check_open()
        if self.lost:
            self.raise_if_lost()

    def _end_turn(self, turn: Ticket) -> None:
        self._renewing.give_back(turn)
        self._reschedule()

    def _awaits_its_slot(self) -> bool:
        """Whether ``heartbeat_rate`` puts this renewal off; then it comes with the slot that it was given."""
        if self._slot is None:
            now = self._elapsed()
            self._slot = self._client._heartbeat_slot(now)
            if self._slot > now:
                self._next_renewal = self._slot
                return True
        self._slot = None
        return False

    def _renew(self) -> keep.Renewal:
        client = self._client
        return self._run(lambda look: keep.renew(self._hold, client._memory, client._chance, look))

    def _first_renewal(self) -> float | None:
        return self._plan(lease.first_heartbeat(self._elapsed(), self._hold.valid_until, self._hold.lease_ms))

    def _later_renewal(self) -> float | None:
        return self._plan(lease.next_heartbeat(self._elapsed(), self._hold.valid_until))

    def _plan(self, planned: float) -> float | None:
        """When to renew: as planned from validity, or by the period that the user set; never past the deadline."""
        hold = self._hold
        if self._period is not None:
            if not self._period:
                return None
            # Where a slow clock cut validity short, the period would come too late: then as planned from validity.
            by_period = self._elapsed() + self._period
            planned = by_period if by_period < hold.valid_until else planned
            return planned if hold.lease_end is None or planned < hold.lease_end else None
        return planned if lease.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms) else None

    def _seconds_to_next_tick(self, *, sending: bool = False) -> float | None:
        """sending: a renewal is under way, which will plan the next one itself."""
        hold = self._hold
        if self._next_renewal is None and not self._is_monitored():
            return None
        now, moments = self._elapsed(), [hold.valid_until]
        if self._safe_time is not None and "danger" in self._untold:
            moments.append(hold.valid_until - self._safe_time)
        if hold.hold_on_unavailable and hold.unavailable and now >= hold.valid_until:
            moments.clear()  # held on through an outage: only a renewal can change a thing
        if self._next_renewal is not None and not sending:
            moments.append(self._next_renewal)
        return max(min(moments) - now, 0.0) if moments else None

    def _is_monitored(self) -> bool:
        """Whether somebody wants to be told, and validity ends before the invocation does."""
        hold = self._hold
        if self._safe_time is not None:
            return True
        wanted = self._on_lost is not None or self._client._observer.wants("lost")
        return wanted and lease.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms)

    def _watch(self) -> None:
        """Have the heartbeat look after it, where there is anything to do. Raises LockError where that cannot be."""
        seconds = self._seconds_to_next_tick()
        if self._hold.is_over() or seconds is None:
            return
        with Late():
            from .heartbeat import HEARTBEAT  # starts a thread: only where one is needed

        self._heartbeat = HEARTBEAT
        try:
            HEARTBEAT.watch(self, seconds)
        except RuntimeError as error:
            raise LockError(
                f"lock {self.key!r} cannot be kept, its heartbeat thread does not start: {error}. Let the process have "
                "fewer threads or more memory; a lock with heartbeat_period=0, and no callbacks, needs no thread",
                key=self.key,
            ) from error

    def _reschedule(self) -> None:
        if self._hold.is_over():
            return
        self._failures = 0
        self._slot = None
        self._next_renewal = self._later_renewal()
        self._watch()

    def _stop(self) -> None:
        self._over.set()
        if self._heartbeat is not None:
            self._heartbeat.forget(self)

    # -- signals ----------------------------------------------------------------------------------------------------

    def _notice(self, *, apart: bool = False) -> None:
        """Look at the clocks, and tell once what they show: danger, lost. apart: as for `_lose`."""
        hold = self._hold
        now = self._elapsed()
        lost = hold.expire(now)
        if hold.ended:
            return
        in_danger = self._safe_time is not None and (lost or hold.valid_until - now <= self._safe_time)
        if in_danger and self._is_first_to_tell("danger"):
            self._call(self._on_danger)
        if lost:
            self._lose("lock %r is lost", apart=apart)

    def _lose(self, message: str, *, apart: bool = False) -> None:
        """Lost for good; told once, whatever shows it.

        apart: on a thread of its own, since a logging handler of the application's may take its time.
        """
        self._hold.lose()
        self._client._open.discard(self._hold)
        if not self._is_first_to_tell("lost"):
            return
        self._stop()
        if apart:
            self._start_thread(lambda: self._tell_lost(message))
        else:
            self._tell_lost(message)

    def _tell_lost(self, message: str) -> None:
        try:
            self._tell("lost", message)
        finally:  # also where a logging handler raised SystemExit
            self._call(self._on_lost)

    def _is_first_to_tell(self, signal: str) -> bool:
        """Threads may notice at once; taking the entry out is one step, which one of them makes."""
        return self._untold.pop(signal, False)

    def _call(self, callback: Callback | None) -> None:
        if callback is None:
            return

        def run() -> None:
            try:
                callback(self)
            except Exception as error:  # noqa: BLE001 - the application's, on a thread of its own: logged, nobody is there to raise to
                self._tell("callback_failed", "a callback of lock %r failed", cause=error)

        error = self._start_thread(run, or_run=False)
        if error is not None:
            self._tell("callback_failed", "a callback of lock %r was not called: %s", error)

    def _start_thread(self, function: Callable[[], None], *, or_run: bool = True) -> RuntimeError | None:
        """Run it on a thread of its own. Where there is none to be had (too many, or the interpreter ends) run it here,
        if ``or_run``, or return the error: that is no reason for a release to fail."""

        def run() -> None:
            with suppress(SystemExit):  # of a logging handler
                function()

        try:
            threading.Thread(target=run, name="lambda_lock-callback", daemon=True).start()
        except RuntimeError as error:
            if not or_run:
                return error
            function()
        return None

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _elapsed(self) -> float:
        return self._client._timeline.elapsed()

    def _hold_is_live(self, now: float) -> bool:
        return self._hold.is_held(now) and self._in_this_process()

    def _in_this_process(self) -> bool:
        return self._pid == os.getpid()

    def _check_process(self) -> None:
        if not self._in_this_process():
            raise OwnerMismatchError(
                f"lock {self.key!r} was acquired by process {self._pid}: a forked child neither renews nor releases "
                "its parent's locks. Acquire it here, or leave it to the parent",
                key=self.key,
            )

    def _checked_data(self, data: bytes | None) -> str | None:
        checked = checks.data(data)
        if checked is None:
            return None
        encoded = requests.encode_data(checked)
        item = {**self._hold.item, self._hold.place.schema.data: {"B": encoded}}
        checks.size(item, self.key)
        return encoded

    def _checked_result(self, result: object, data: str | None = None) -> str | None:
        """The text to store, beside the ``data`` that is stored with it."""
        if result is None:
            return None
        if self._hold.window is None:
            raise LockArgumentError(
                f"result= is stored for an event's duplicates, and lock {self.key!r} is no event's: use data=",
                key=self.key,
            )
        from .result import encode

        return encode(result, self._hold, data)

    def _not_renewed(self, error: Exception | None) -> LockError:
        if isinstance(error, ServiceError):
            from .explain import explain

            explained = explain(error, self._hold.place)
            explained.__cause__ = error
            return explained
        unknown = TransportError(
            True,
            f"whether lock {self.key!r} was renewed is unknown; it is held for {self.remaining:.1f} s more, try again",
            key=self.key,
        )
        unknown.__cause__ = error
        return unknown

    def _tell(self, event: str, message: str, *arguments: object, cause: BaseException | None = None) -> None:
        about, table = self._about(), self._hold.place.table
        self._client._observer.tell(event, self, table, message, self.key, *arguments, cause=cause, **about)

    def _about(self) -> dict[str, Any]:
        return {"key": self.key, "owner": self.owner, "fencing_token": self.fencing_token}
