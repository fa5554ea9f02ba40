"""The handle of a lock that was granted."""

from __future__ import annotations

import os
import threading

from . import checks
from .core import lease, protocol
from .core.outcome import ServiceError
from .core.requests import encode_data
from .errors import (
    LockAlreadyReleasedError,
    LockArgumentError,
    LockError,
    LockLostError,
    OwnerMismatchError,
    SessionMonitorNotSetError,
    TransportError,
)
from .record import row_attributes, row_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self, TypeAlias

    from .client import LockClient
    from .heartbeat import Heartbeat

    Callback: TypeAlias = Callable[["Lock"], object]


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
    ) -> None:
        self._client = client
        self._hold = hold
        self._pid = os.getpid()
        self._period = heartbeat_period
        self._safe_time = safe_time
        self._on_danger = on_danger
        self._on_lost = on_lost
        self._line = line  # of execution: what may enter again
        self._entered = 1
        self._released = False
        self._untold = {"danger": True, "lost": True}
        self._ended = threading.Event()  # lost or released: wakes wait_lost
        self._renewing = threading.Lock()  # renewals of one handle are sent one after the other
        self._failures = 0
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
        """Raise LockLostError if the lock is not ours any more: before each step that must not be done twice.

        That is so once it is lost, and once it was released (by another thread, say).
        """
        lost = self.lost
        if not lost and not self._hold.ended:
            return
        if not lost:
            raise LockLostError(
                f"lock {self.key!r} was released: whoever has it now may be doing the same work", key=self.key
            )
        by = f"; {self._hold.holder} has it now" if self._hold.holder else ""
        raise LockLostError(
            f"lock {self.key!r} is lost{by}. Stop here: whoever has it now may be doing the same work",
            key=self.key,
            holder=self._hold.holder,
        )

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Block until the lock is lost (True), or released or ``timeout`` seconds passed (False)."""
        end = None if timeout is None else self._elapsed() + timeout
        while not self.lost:
            now = self._elapsed()
            if self._hold.ended or (end is not None and now >= end):
                return False
            until = self._hold.valid_until if end is None else min(end, self._hold.valid_until)
            self._ended.wait(min(max(until - now, 0.001), 1.0))  # at least a look a second: freezes
        return True

    # -- what it can do ---------------------------------------------------------------------------------------------

    def heartbeat(
        self, *, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> None:
        """Renew now, with new data or another lease (seconds, from then on) where given.

        Raises LockLostError where it is lost, LockAlreadyReleasedError after release, TransportError where nobody knows
        (the lock is then still held until its validity ends), and LockArgumentError or TypeError for bad input.
        """
        encoded = self._checked_data(data)
        if data is not None and delete_data:
            raise LockArgumentError("heartbeat takes data= or delete_data=True, not both", key=self.key)
        lease_ms = None
        if lease_duration is not None:
            lease_ms = int(checks.lease_duration(lease_duration) * 1000)
            checks.heartbeat_period(self._period, lease_duration)
        self._check_process()
        if self._hold.ended:
            raise LockAlreadyReleasedError(f"lock {self.key!r} was released: it cannot be renewed", key=self.key)
        until = self._elapsed() + protocol.DECISION
        tries = 0
        with self._renewing:
            while not (renewal := self._renew(lease_ms=lease_ms, data=encoded, delete_data=delete_data)).renewed:
                self._notice()
                if self._hold.ended:
                    raise LockAlreadyReleasedError(f"lock {self.key!r} was released meanwhile", key=self.key)
                self.raise_if_lost()
                pause = lease.backoff(tries, 1.0, self._client._chance.jitter())
                tries += 1
                if renewal.error is None or not protocol.may_pass(renewal.error) or self._elapsed() + pause >= until:
                    raise self._not_renewed(renewal.error)
                self._client._timeline.clock.sleep(pause)
            if delete_data or data is not None:
                self._data = data
        self._reschedule()

    def release(self, *, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False) -> bool:
        """Release the lock; with ``data`` stored in its row, or with the row deleted.

        Returns True where it was released, False where it was lost before. Raises LockAlreadyReleasedError the second
        time, OwnerMismatchError in another process, TransportError(ambiguous=True) where the outcome is unknown (the
        lease ends by itself), and TransportError or LockConfigurationError where DynamoDB refused. After an error
        release may be called again. ``best_effort`` logs such errors instead, and returns False.
        """
        encoded = self._checked_data(data)
        self._check_process()
        if self._entered > 1:
            self._entered -= 1
            return True
        if self._released:
            raise LockAlreadyReleasedError(
                f"lock {self.key!r} was released before: a handle is released once", key=self.key
            )
        self._hold.ended = True  # before anything else: neither held nor renewed from here on
        self._stop()
        self._client._forget(self)
        try:
            done = self._client._run(
                lambda look: protocol.release(
                    self._hold, self._client._memory, self._client._chance, look, data=encoded, delete=delete
                ),
                self._hold.place,
            )
        except LockError as error:
            if not best_effort:
                raise
            self._client._log.warning(
                "lock %r was not released, its lease ends by itself: %s",
                self.key,
                error,
                extra=self._extra("release_failed"),
            )
            return False
        self._released = True
        if not done:
            self._hold.lost = True
            self._client._log.warning("lock %r was lost before its release", self.key, extra=self._extra("lost"))
        return done

    def _abandon(self) -> None:
        """Neither held nor renewed from now on; the row is left to its lease."""
        self._hold.ended = True
        self._released = True
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._released and self._in_this_process():
            self.release(best_effort=True)

    def __repr__(self) -> str:
        state = f"held for {self.remaining:.1f} s" if self.is_held else "lost"
        if self._hold.ended:
            state = "released"
        return f"<Lock {self.key!r} {state}, token {self.fencing_token}>"

    # -- heartbeat --------------------------------------------------------------------------------------------------

    def tick(self) -> float | None:
        """For the heartbeat: do what is due, say in how many seconds to come back (None: never)."""
        if self._hold.ended:
            return None
        self._notice()
        if self._hold.lost:
            return None
        if self._next_renewal is not None and self._elapsed() >= self._next_renewal:
            self._renew_if_idle()
            self._notice()
        return self._seconds_to_next_tick()

    def _renew_if_idle(self) -> None:
        if not self._renewing.acquire(blocking=False):
            return  # the application renews at this moment; it plans the next one
        try:
            renewal = self._renew()
        finally:
            self._renewing.release()
        if renewal.renewed:
            self._failures = 0
            self._next_renewal = self._later_renewal()
            return
        if renewal.error is None:
            return
        self._client._log.info(
            "renewal of lock %r failed, trying again: %s", self.key, renewal.error, extra=self._extra("renewal_failed")
        )
        pause = lease.backoff(self._failures, 1.0, self._client._chance.jitter())
        self._failures += 1
        self._next_renewal = self._elapsed() + pause

    def _renew(
        self, *, lease_ms: int | None = None, data: str | None = None, delete_data: bool = False
    ) -> protocol.Renewal:
        client = self._client
        return client._run(
            lambda look: protocol.renew(
                self._hold, client._memory, client._chance, look, lease_ms=lease_ms, data=data, delete_data=delete_data
            ),
            self._hold.place,
        )

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

    def _seconds_to_next_tick(self) -> float | None:
        hold = self._hold
        if self._next_renewal is None and not self._is_monitored():
            return None
        moments = [hold.valid_until]
        if self._next_renewal is not None:
            moments.append(self._next_renewal)
        if self._safe_time is not None and "danger" in self._untold:
            moments.append(hold.valid_until - self._safe_time)
        return max(min(moments) - self._elapsed(), 0.0)

    def _is_monitored(self) -> bool:
        """Whether somebody wants to be told, and validity ends before the invocation does."""
        hold = self._hold
        if self._safe_time is not None:
            return True
        return self._on_lost is not None and lease.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms)

    def _watch(self) -> None:
        seconds = self._seconds_to_next_tick()
        if seconds is None:
            return
        from .heartbeat import HEARTBEAT  # starts a thread: only where one is needed

        self._heartbeat = HEARTBEAT
        HEARTBEAT.watch(self, seconds)

    def _reschedule(self) -> None:
        self._failures = 0
        self._next_renewal = self._later_renewal()
        self._watch()

    def _stop(self) -> None:
        self._ended.set()
        if self._heartbeat is not None:
            self._heartbeat.forget(self)

    # -- signals ----------------------------------------------------------------------------------------------------

    def _notice(self) -> None:
        """Look at the clocks, and tell once what they show: danger, lost."""
        hold = self._hold
        now = self._elapsed()
        lost = hold.expire(now)
        if hold.ended:
            return
        in_danger = self._safe_time is not None and (lost or hold.valid_until - now <= self._safe_time)
        if in_danger and self._is_first_to_tell("danger"):
            self._call(self._on_danger)
        if lost and self._is_first_to_tell("lost"):
            self._client._log.warning("lock %r is lost", self.key, extra=self._extra("lost"))
            self._stop()
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
            except Exception:  # noqa: BLE001 - the application's, on a thread of its own: logged, nobody is there to raise to
                self._client._log.exception(
                    "a callback of lock %r failed", self.key, extra=self._extra("callback_failed")
                )

        threading.Thread(target=run, name="lambda_lock-callback", daemon=True).start()

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
        encoded = encode_data(checked)
        item = {**self._hold.item, self._hold.place.schema.data: {"B": encoded}}
        checks.size(item, self.key)
        return encoded

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

    def _extra(self, event: str) -> dict[str, object]:
        return {
            "lock_event": event,
            "lock_key": self.key,
            "lock_owner": self.owner,
            "lock_fencing_token": self.fencing_token,
        }
