"""Keeps one lock: plans its renewals, sends them, notices danger and loss, and tells the application of them.

The heartbeat's thread calls `tick`, which sends nothing (heartbeat.py). Renewals are sent on the session's threads for
them, and by the application's own `heartbeat()`, one after the other.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress  # the Lambda runtime has it loaded

from ..core import keep, lease, protocol
from ..core.outcome import ServiceError, expected, may_pass
from ..errors import LockError, TransportError
from ..observe.log import NOT_RELEASED
from ..runtime.drive import Pause
from ..runtime.signalsafe import Caller, Flag, Turn
from .session import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable
    from typing import Any

    from ..core.protocol import Conversation, Hold, Steps
    from ..runtime.heartbeat import Heartbeat
    from .session import Session


_TURN_PAUSE = 0.01  # seconds between two checks whether another renewal of the same lock is over
_MOST_CHANGES = 10  # of a plan by other threads, while one thread plans
_AFTER_FAULT = 1.0  # seconds until a renewal that could not even be sent is tried again


class KeepOptions:
    """How a lock is kept while it is held: the options of acquire that are not stored in the row.

    full_lease: seconds, as asked for. The lease in the row may be shorter: it ends with the invocation.
    heartbeat_period: seconds, None: planned from validity, 0: no renewals. safe_time: seconds, None: no danger signal.
    on_danger, on_lost: called with the Lock. line: the line of execution, the only one that may enter a re-entrant lock
    again. pid: the only process that may have the lock. This is noted before the owner is drawn, so that two processes
    never have a lock under one owner, even if a signal handler forks.
    """

    __slots__ = ("full_lease", "heartbeat_period", "line", "on_danger", "on_lost", "pid", "safe_time")

    def __init__(
        self,
        full_lease: float,
        heartbeat_period: float | None,
        safe_time: float | None,
        on_danger: Callable[[Any], object] | None,
        on_lost: Callable[[Any], object] | None,
    ) -> None:
        self.full_lease = full_lease
        self.heartbeat_period = heartbeat_period
        self.safe_time = safe_time
        self.on_danger = on_danger
        self.on_lost = on_lost
        self.line = line_of_execution()
        self.pid = os.getpid()

    def for_one(
        self, on_danger: Callable[[Any], object] | None, on_lost: Callable[[Any], object] | None
    ) -> KeepOptions:
        """The same for one of several locks, with other callbacks."""
        made = KeepOptions(self.full_lease, self.heartbeat_period, self.safe_time, on_danger, on_lost)
        made.line, made.pid = self.line, self.pid
        return made


def line_of_execution() -> tuple[object, object]:
    """This thread, and this task if asyncio runs one."""
    asyncio = sys.modules.get("asyncio")
    task = None
    if asyncio is not None and asyncio._get_running_loop() is not None:
        task = asyncio.current_task()
    return threading.current_thread(), task  # not the thread's number, which is reused once it ends


class Renewer:
    """Renews one hold, from `start` on, as long as it is neither lost nor ended, and tells what happens to it.

    Any thread may notice that the lock is in danger or lost; one of them tells it.

    over: set when it is lost or ended, which wakes wait_lost. quiet: tell nothing yet, because the application does
    not have the lock.
    """

    def __init__(self, session: Session, hold: Hold, options: KeepOptions, held: weakref.ref[Any]) -> None:
        self._session = session
        self._hold = hold
        self._options = options
        self._held = held  # weak: the renewals of a lock must not keep it from being dropped
        self._elapsed = session.timeline.elapsed
        self._period = options.heartbeat_period
        self._turn = Turn()  # renewals of one lock are sent one after the other
        self._dispatched = False  # a renewal waits to be sent, or is being sent
        self._since = 0.0  # when it was given to a thread
        self._failures = 0
        self._slot: float | None = None  # given by ``heartbeat_rate`` to a renewal that it has postponed
        self._heartbeat: Heartbeat | None = None
        self._next: float | None = None  # when to renew
        self._untold = {"danger": True, "lost": True}
        self.over = Flag()
        self.quiet = False

    def start(self, now: float) -> None:
        """Plan the first renewal, and let the heartbeat look after the lock. Raises LockError if it cannot start.

        now: the time, as it was read after the grant.
        """
        hold = self._hold
        self._next = self._planned(now, keep.first_heartbeat(now, hold.valid_until, hold.lease_ms))
        self.watch(now)

    # -- for the heartbeat ------------------------------------------------------------------------------------------

    def tick(self) -> float | None:
        """Do what is due. Returns the seconds until the next tick. None: there is none until the next `watch`."""
        if self._hold.ended or self.notice(apart=True):
            return None
        planned = self._next  # read once: another thread may plan at this moment
        if planned is not None and not self._dispatched and (now := self._elapsed()) >= planned:
            slot = now if self._slot is not None else self._session.heartbeat_slot(now)
            if slot > now:  # ``heartbeat_rate`` postpones it: it is due again when this slot comes
                self._slot = self._next = slot
            else:
                self._slot = None
                self._dispatched, self._since = True, now
                self._session.renewals.put(self, self._hold.valid_until - now)
        return self._seconds_to_next_tick(self._elapsed(), sending=self._dispatched)

    def renew(self) -> bool:
        """Send the renewal that `tick` found due, unless the application renews at this moment.

        Returns whether it was sent.
        """
        now = self._elapsed()
        self._next = now + _AFTER_FAULT  # if this raises, try again then
        turn, renewal, is_sent = Caller(), None, False
        try:
            try:
                if self._turn.take(turn):
                    is_sent = not self._hold.is_over() and now < self._hold.valid_until
                    self._tell_late(now)
                    renewal = self._session.run(Operation(self._hold.place, self._once))
                else:
                    self._next = self._elapsed() + keep.MIN_PERIOD  # the application plans the next renewal
            finally:
                self._turn.give_back(turn)
            if renewal is not None and renewal.renewed:
                self._failures = 0
                self._plan()
            elif renewal is not None and renewal.error is not None:
                pause = lease.backoff(self._failures, 1.0, self._session.entropy.jitter())
                self._failures += 1
                self._next = self._elapsed() + pause
                self.tell("renewal_failed", "renewal of lock %r failed, trying again: %s", renewal.error)
            self.notice()
            return is_sent
        finally:
            self._dispatched = False
            self.watch()

    def _tell_late(self, now: float) -> None:
        """Warn, at most once an hour, if the renewal has waited for a thread for longer than validity lasts."""
        waited, left = now - self._since, self._hold.valid_until - now
        if waited > left > 0 and not self._hold.is_over():
            message = (
                "the renewal of lock %r waited %.1f s for a thread, and its lease ends in %.1f s: this client holds "
                "almost as many locks as it can keep, or more. Hold fewer of them, with longer leases, or wait for "
                "DynamoDB to answer sooner"
            )
            self.tell("renewals_late", message, round(waited, 1), round(left, 1), once=int(now // 3600))

    def _once(self, talk: Conversation, **changes: Any) -> Steps[keep.Renewal]:
        return keep.renew(self._hold, talk, **changes)

    # -- for the application ----------------------------------------------------------------------------------------

    def now(self, talk: Conversation, check: Callable[[], None], **changes: Any) -> Steps[None]:
        """The steps of a renewal that the application asks for. It first waits for one that is under way, at most for
        the time of a decision. It is sent again while its outcome is unknown: none begins later than the time of a
        decision after the first, and each may take STEPS sends (docs/safety-bounds.md).

        check: raises if the lock must not be renewed any longer. changes: what the renewal changes, as in keep.renew.
        """
        turn, tries = Caller(), 0
        try:
            yield from self._await_turn(turn, talk, check)
            until = talk.elapsed + protocol.DECISION
            while True:
                renewal = yield from self._once(talk, **changes)
                if renewal.renewed:
                    return
                check()
                pause = lease.backoff(tries, 1.0, self._session.entropy.jitter())
                tries += 1
                error = renewal.error
                if error is None or not may_pass(error) or self._elapsed() + pause >= until:
                    raise self._unknown(error)
                yield from talk.wait(pause)
        finally:  # also after an error: a shorter lease cuts validity before it is sent
            self._turn.give_back(turn)
            self._reschedule()

    def keep_period(self, period: float | None) -> None:
        """Renew by the user's period from here on: the caller has the lock now."""
        self._period = period
        self._reschedule()

    def once(self, talk: Conversation) -> Steps[None]:
        """The steps of one renewal, after another one that is under way. The hold says whether it is lost."""
        turn = Caller()
        try:
            yield from self._await_turn(turn, talk)
            yield from self._once(talk)  # sends nothing for a lock that was lost
        except TransportError:  # the other renewal still has no answer
            return
        finally:
            self._turn.give_back(turn)
            self._reschedule()

    def _await_turn(self, turn: Caller, talk: Conversation, check: Callable[[], None] | None = None) -> Steps[None]:
        for _ in range(int(protocol.DECISION / _TURN_PAUSE)):
            if self._turn.take(turn):
                return
            yield from talk.wait(_TURN_PAUSE, Pause)
            if check is not None:
                check()
        raise self._unknown(None)

    def _unknown(self, error: Exception | None) -> Exception:
        """The error to raise if a renewal failed. The session explains a refusal by DynamoDB."""
        if isinstance(error, ServiceError):
            return error
        key, left = self._hold.place.key, self._hold.valid_until - self._elapsed()
        unknown = TransportError(
            True,
            f"it is unknown whether lock {key!r} was renewed. It is held for another {max(left, 0.0):.1f} s: try again",
            key=key,
        )
        unknown.__cause__ = error
        return unknown

    def _reschedule(self) -> None:
        if self._hold.is_over():
            return
        self._failures = 0
        self._slot = None
        self._plan()
        self.watch()

    # -- when ---------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Plan the next renewal. The plan that stays is made from the newest validity.

        Another thread may renew with a shorter lease, and plan, while this one plans from what it has read before. Then
        this one plans once more.
        """
        for _ in range(_MOST_CHANGES):
            now, valid_until = self._elapsed(), self._hold.valid_until
            self._next = self._planned(now, keep.next_heartbeat(now, valid_until))
            if self._hold.valid_until == valid_until:
                return

    def _planned(self, now: float, planned: float) -> float | None:
        """When to renew: as planned from validity, or by the period that the user set. Never past the deadline."""
        hold = self._hold
        if self._period is None:
            return planned if keep.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms) else None
        if not self._period:
            return None
        # Where a slow clock cut validity short, the period would come too late. Then the plan from validity counts.
        by_period = now + self._period
        planned = by_period if by_period < hold.valid_until else planned
        return planned if hold.lease_end is None or planned < hold.lease_end else None

    def _danger_at(self) -> float | None:
        """When to tell the danger (elapsed seconds). None: never, not yet, or it was told before."""
        safe_time = self._options.safe_time
        if safe_time is None or self.quiet or "danger" not in self._untold:
            return None
        return self._hold.valid_until - safe_time

    def _seconds_to_next_tick(self, now: float, *, sending: bool = False) -> float | None:
        """None: no tick is needed. sending: a renewal is under way, and will plan the next one itself."""
        hold, options, planned = self._hold, self._options, self._next
        if planned is None and options.safe_time is None:  # a tick could only notice the loss: is that wanted?
            wanted = options.on_lost is not None or self._session.observer.wants("lost")
            if not wanted or not keep.needs_heartbeat(hold.valid_until, hold.lease_end, hold.lease_ms):
                return None
        danger_at = None if options.safe_time is None else self._danger_at()
        moments = [hold.valid_until] if danger_at is None else [hold.valid_until, danger_at]
        if hold.unavailable and now >= hold.valid_until:
            moments.clear()  # held on through an outage: only a renewal can change that
        if planned is not None and not sending:
            moments.append(planned)
        return max(min(moments) - now, 0.0) if moments else None

    def watch(self, now: float | None = None) -> None:
        """Let the heartbeat look after the lock if there is anything to do. Raises LockError if it cannot start.

        now: the time, if it was just read. Another thread may plan a sooner tick, which this call would replace by a
        later one. Then it watches once more.
        """
        hold = self._hold
        for _ in range(_MOST_CHANGES):
            planned, valid_until = self._next, hold.valid_until
            seconds = self._seconds_to_next_tick(self._elapsed() if now is None else now)
            if seconds is None or hold.lost or hold.ended or self._options.pid != os.getpid():
                return  # a child that was forked in the middle of a renewal keeps nothing of its parent's
            from ..runtime.heartbeat import HEARTBEAT  # not before a lock needs it

            self._heartbeat = HEARTBEAT
            try:
                HEARTBEAT.watch(self, seconds)
            except expected(RuntimeError) as error:
                key = hold.place.key
                raise LockError(
                    f"lock {key!r} cannot be kept, because its heartbeat thread does not start: {error}. Give the "
                    "process fewer threads or more memory. A lock with heartbeat_period=0 and no callbacks needs no "
                    "thread",
                    key=key,
                ) from error
            if self._next == planned and hold.valid_until == valid_until:
                return
            now = None

    # -- danger, loss, and its end ------------------------------------------------------------------------------------

    def notice(self, *, apart: bool = False) -> bool:
        """Look at the clocks, and tell once what they show: danger, loss. Returns whether the lock is lost.

        apart: as for `lose`.
        """
        hold, now = self._hold, self._elapsed()
        lost = hold.expire(now)
        if hold.ended:
            return lost
        danger_at = None if self._options.safe_time is None else self._danger_at()
        if danger_at is not None and (lost or now >= danger_at) and self._is_first("danger"):
            self._call(self._options.on_danger)
        if lost:
            self.lose("lock %r is lost", apart=apart)
        return lost

    def lose(self, message: str, *, apart: bool = False) -> None:
        """Note that the lock is lost for good. The first time, tell the log, the hooks and ``on_lost``.

        apart: on a thread of its own, since a logging handler of the application may take long.
        """
        self._hold.lose()
        self._session.open_locks.discard(self._hold)
        if not self.over.is_set:
            self.stop()
        if self.quiet or not self._is_first("lost"):
            return

        def tell() -> None:
            try:
                self.tell("lost", message)
            finally:  # also where a logging handler raised SystemExit
                self._call(self._options.on_lost)

        if not apart or _on_thread(tell) is not None:
            tell()

    def stop(self) -> None:
        """End the ticks, and every wait for the loss."""
        self.over.set()
        if self._heartbeat is not None:
            self._heartbeat.forget(self)

    def tell(
        self, event: str, message: str, *arguments: object, cause: BaseException | None = None, once: object = None
    ) -> None:
        """Tell an event of this lock. The key is the first argument of ``message``."""
        if self.quiet and event != "renewal_failed":  # which concerns the table, not only this lock
            return
        hold, tell = self._hold, self._session.observer.tell
        tell(event, message, hold.place.key, *arguments, hold=hold, subject=self._handle, cause=cause, once=once)

    def _handle(self) -> Any:
        """The lock, as the application sees it. None: the application has dropped it, and it was collected."""
        held = self._held()
        return None if held is None else held.handle()

    def _is_first(self, signal: str) -> bool:
        """Whether this thread is the first to tell it. Taking the entry out is one step, which succeeds only once."""
        return self._untold.pop(signal, False)

    def _call(self, callback: Callable[[Any], object] | None) -> None:
        handle = None if callback is None else self._handle()
        if callback is None or handle is None:
            return

        def run() -> None:
            try:
                callback(handle)
            except Exception as error:  # noqa: BLE001 - the application's, on a thread of its own: it can only be logged
                self.tell("callback_failed", "a callback of lock %r failed", cause=error)

        error = _on_thread(run)
        if error is not None:
            self.tell("callback_failed", "a callback of lock %r was not called: %s", error)


def leave_to_lease(session: Session, hold: Hold, error: LockError) -> None:
    """Tell that a release failed. The lease ends the lock."""
    session.observer.tell("release_failed", NOT_RELEASED, hold.place.key, error, hold=hold)
    session.open_locks.discard(hold)


def _on_thread(function: Callable[[], None]) -> RuntimeError | None:
    """Run ``function`` on a thread of its own. If none can be started (there are too many, or the interpreter ends),
    the error is returned: a release must not fail because of it.
    """

    def run() -> None:
        with suppress(SystemExit):  # a logging handler may raise it
            function()

    try:
        threading.Thread(target=run, name="lambda_lock-callback", daemon=True).start()
    except expected(RuntimeError) as error:
        return error
    return None
