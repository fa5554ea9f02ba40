"""A lock that is held by this process: its state, and the steps of its operations.

`Lock` and `AsyncLock` are two faces of a HeldLock: one runs its steps on the calling thread, the other awaits them.
"""

from __future__ import annotations

from ..core import keep, lease, protocol, requests
from ..core.row import is_attempt
from ..errors import (
    CommitRefusedError,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockConfigurationError,
    LockError,
    LockLostError,
)
from ..runtime.import_guard import ImportGuard
from ..runtime.signalsafe import Ticket, Turn
from ..runtime.under_way import released
from . import checks
from .session import Explained
from .signals import leave_to_lease
from .standing import Standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    from ..core.lease import ClockReading
    from ..core.protocol import Hold, Steps
    from .result import Storing
    from .session import Operation, Session
    from .terms import Terms

    T = TypeVar("T")
    #: The steps of an operation, which begin with a reading of the clocks.
    Begin: TypeAlias = Callable[[ClockReading], Steps[T]]


class HeldLock(Standing):
    """A lock that was granted, and the operations that renew and end it. It may be used from any thread."""

    is_timed = True  # its end is. False for one of several locks: theirs is

    def __init__(self, session: Session, hold: Hold, terms: Terms, make_face: Callable[[HeldLock], Any]) -> None:
        self._entered = 1
        self._storing: Storing | None = None
        self._last_act = Turn()  # release, commit and hand_over: one of them at a time
        self.is_given = not hold.resumed  # to the caller: until then close() leaves what is resumed to the next attempt
        super().__init__(session, hold, terms, make_face)

    # -- renewing ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self, data: bytes | None = None, delete_data: bool = False, lease_duration: float | None = None
    ) -> Operation[None]:
        """The operation of `Lock.heartbeat`."""
        encoded = self._checked_data(data)
        if data is not None and delete_data:
            raise LockArgumentError("heartbeat takes data= or delete_data=True, not both", key=self.key)
        lease_ms = None
        if lease_duration is not None:
            lease_ms = int(checks.lease_duration(lease_duration) * 1000)
            if self.hold.place.permits is not None:
                checks.permit_lease(lease_duration, self.key)
            checks.heartbeat_period(self.terms.heartbeat_period, lease_duration)
        self.check_open()

        def steps(reading: ClockReading) -> Steps[None]:
            yield from self.upkeep.now(
                reading, self.check_renewable, lease_ms=lease_ms, data=encoded, delete_data=delete_data
            )
            if delete_data or data is not None:
                self.data = data
                self.hold.note_data(encoded or "")

        return self.hold.place, steps

    def ensure(self, seconds: float) -> Operation[None]:
        """The operation of `Lock.ensure`."""
        lease_duration = self._lease_to_ensure(seconds)

        def steps(reading: ClockReading) -> Steps[None]:
            if lease_duration is not None:
                yield from self.heartbeat(lease_duration=lease_duration)[1](reading)
                self._check_ensured(seconds)

        return self.hold.place, steps

    def _lease_to_ensure(self, seconds: float) -> float | None:
        """The lease that leaves ``seconds`` after a renewal. None: that much is left already."""
        checks.seconds("seconds", seconds, least=0.0)
        self.check_renewable()
        if self.remaining() >= seconds:
            return None
        end, needed = self.hold.lease_end, seconds * (1 + 2 * lease.DRIFT)
        if end is not None and end - self.elapsed() < needed:
            raise self._cannot_ensure(seconds, end)
        # A renewal is worth its lease, less the drift and the time that its reply takes.
        return max(self.lease_duration, needed + protocol.DECISION)

    def _check_ensured(self, seconds: float) -> None:
        """After the renewal: its lease ends with the invocation, and the reply took time."""
        end = self.hold.lease_end
        if end is not None and self.remaining() < seconds:
            raise self._cannot_ensure(seconds, end)

    def _cannot_ensure(self, seconds: float, end: float) -> LockArgumentError:
        return LockArgumentError(
            f"ensure({seconds:g}): the invocation ends in {end - self.elapsed():.1f} s, and the lease of "
            f"{self.key!r} with it",
            key=self.key,
        )

    # -- the last act: release, commit, hand_over -------------------------------------------------------------------

    def release(
        self, data: bytes | None = None, delete: bool | None = None, best_effort: bool = False
    ) -> Operation[bool]:
        """The operation of `Lock.release`."""
        return self._releasing(data, best_effort, delete=delete)

    def complete(self, result: str | None) -> Operation[bool]:
        """As `release`. The same request completes the event, and stores the text ``result`` with it."""
        return self._releasing(None, False, complete=True, result=result)

    def commit(self, items: Sequence[Mapping[str, Any]], data: bytes | None, result: object) -> Operation[None]:
        """The operation of `Lock.commit`."""
        from ..core.transaction import commit

        checked, encoded = checks.transact_items(items), self._checked_data(data)
        text = self.checked_result(result, encoded)
        self.check_open()
        self.check_kept()
        memory, entropy = self.session.memory, self.session.entropy

        def steps(reading: ClockReading) -> Steps[None]:
            try:
                yield from commit(self.hold, checked, memory, entropy, reading, data=encoded, result=text)
            except LockLostError:
                self.released = True
                self.upkeep.lose("lock %r was lost before its commit")
                raise
            except CommitRefusedError:
                self.end_release(not self.hold.lost)
                raise
            self.end_release(True)

        return self.hold.place, self._last(self.check_open, steps)

    def hand_over(self, lease_duration: float | None) -> Operation[str]:
        """The operation of `Lock.hand_over`."""
        from ..core.handover import hand_over

        duration = self.terms.full_lease if lease_duration is None else checks.lease_duration(lease_duration)
        self.check_open()
        self.check_kept()
        if self.hold.window is not None:
            raise LockConfigurationError(
                f"event {self.key!r} cannot be handed over: the process that adopts it could not complete it. Hand "
                "over a lock of @with_lock, or let the function that finishes the event deduplicate it",
                key=self.key,
            )
        if self.hold.place.permits is not None:
            raise LockConfigurationError(
                f"a permit of semaphore {self.key!r} cannot be handed over. Release it, and acquire one where the work "
                "goes on; or hand over a lock",
                key=self.key,
            )
        memory, entropy = self.session.memory, self.session.entropy

        def steps(reading: ClockReading) -> Steps[str]:
            try:
                string = yield from hand_over(self.hold, memory, entropy, reading, lease_ms=int(duration * 1000))
            except LockLostError:
                self.upkeep.lose("lock %r was lost before it was handed over")
                raise
            self.released = True
            self.session.open_locks.discard(self.hold)
            return string

        return self.hold.place, self._last(self.check_open, steps)

    def give_up(self, last_act: Begin[bool] | None = None) -> None:
        """Release on this thread after a last act was interrupted, with any outcome. Errors are logged.

        last_act: what is sent instead of a plain release: the release that was interrupted, again; or `stop_handing`.
        """
        if not self.is_in_this_process():  # a child leaves that was forked meanwhile: the lock is its parent's
            return
        try:
            begin = last_act or self._last(self.check_not_released, self._release)
            self.session.run(self.hold.place, begin, ends=released)
        except LockAlreadyReleasedError:
            return
        except LockError as error:
            self.tell_not_released(error)

    def stop_handing(self, reading: ClockReading) -> Steps[bool]:
        """Release after `hand_over` was interrupted, whose string is lost with that.

        A resumed lock is not released but left to the next attempt: an earlier string of its hold is still good.
        """

        def steps(reading: ClockReading) -> Steps[bool]:
            if not self.hold.resumed or self.hold.unclear:
                return (yield from self._release(reading))
            self.hold.hand_over()  # the interrupt may have come before
            self.abandon()
            return False

        return self._last(self.check_not_released, steps)(reading)

    def ends_with_block(self) -> bool:
        """Whether leaving its block releases it. What is left to the next attempt is not held from here on."""
        if not self.is_in_this_process():
            return False
        if self.is_left():
            self.abandon()
        return not self.released

    def abandon(self) -> None:
        """Neither held nor renewed from now on. The row is left to its lease."""
        self.end()
        self.released = True
        self.session.open_locks.discard(self.hold)

    def tell_not_released(self, error: LockError) -> None:
        """Log a release that failed. The lease ends the lock."""
        leave_to_lease(self.session, self.hold, error)

    def _releasing(self, data: bytes | None, best_effort: bool, **options: Any) -> Operation[bool]:
        encoded = self._checked_data(data)
        if options.get("delete") and self.hold.place.permits is not None:
            raise LockArgumentError(
                f"release(delete=True) is not possible for a permit: the row of semaphore {self.key!r} belongs to all "
                "its holders. Leave delete out",
                key=self.key,
            )
        if options.get("delete") and is_attempt(self.hold.owner):
            raise LockArgumentError(
                f"release(delete=True) is not possible for {self.key!r}, which was resumed or adopted: a late copy of "
                "its claim could bring the same owner and token back. Leave delete out",
                key=self.key,
            )
        self.check_process()
        if self._entered > 1:  # an inner release of a re-entrant lock: nothing is sent
            self._entered -= 1
            return self.hold.place, _done
        self.check_not_released()
        alone = self._last(self.check_not_released, lambda reading: self._release(reading, data=encoded, **options))

        if not best_effort:
            return self.hold.place, alone

        def steps(reading: ClockReading) -> Steps[bool]:
            try:
                with Explained(self.hold.place):
                    return (yield from alone(reading))
            except LockAlreadyReleasedError:
                raise
            except LockError as error:
                self.tell_not_released(error)
                return False

        return self.hold.place, steps

    def _release(self, reading: ClockReading, **options: Any) -> Steps[bool]:
        done = yield from keep.release(self.hold, self.session.memory, self.session.entropy, reading, **options)
        return self.end_release(done)

    def _timed(self, reading: ClockReading, steps: Steps[T]) -> Steps[T]:
        with ImportGuard():
            from .timed import ending

        hold = self.hold
        return ending(
            self.session, hold.place.table, (self.key,), reading, steps, self._ended_how, hold.token, since=hold.since
        )

    def _ended_how(self, _: object) -> str:
        return "lost" if self.hold.lost else "handed_over" if self.hold.handed_over else "released"

    def _last(self, check: Callable[[], None], steps: Begin[T]) -> Begin[T]:
        """The steps of a last act, while no other one is under way. From here on the lock is neither held nor renewed.

        check: raises if a last act that has just ended leaves nothing to do.
        """

        def alone(reading: ClockReading) -> Steps[T]:
            self.check_process()  # here: drive() has noted the process, and sees a fork from now on
            turn = Ticket()
            try:
                if not self._last_act.take(turn):
                    raise LockAlreadyReleasedError(
                        f"lock {self.key!r} is being released, committed or handed over at this moment, by another "
                        "thread or by the code that a signal handler interrupted",
                        key=self.key,
                    )
                check()
                self.end()
                acting = steps(reading)
                if self.is_timed and self.session.observer.measures:
                    acting = self._timed(reading, acting)
                return (yield from acting)
            finally:
                self._last_act.give_back(turn)

        return alone

    def end(self) -> None:
        """Neither held nor renewed from here on: before the first send of a last act."""
        self.hold.end()
        self.upkeep.stop()

    def end_release(self, done: bool) -> bool:
        """Note how a release ended: done, or found to be lost before."""
        self.released = True
        if done:
            self.session.open_locks.discard(self.hold)
            self.tell("released", "lock %r was released")
        else:
            self.upkeep.lose("lock %r was lost before its release")
        return done

    # -- re-entrance ------------------------------------------------------------------------------------------------

    def enter_again(self, *, event: bool) -> None:
        """Count up. One release more is needed then. event: it is entered for an event, so it must be one's lock."""
        if event and self.hold.window is None:
            raise LockConfigurationError(
                f"lock {self.key!r} is held already, but not by @deduplicate: it could not complete the event. Give "
                "one of the two a different key",
                key=self.key,
            )
        self._entered += 1

    def leave_all(self) -> None:
        """The next release is the outermost one."""
        self._entered = 1

    # -- what is stored ---------------------------------------------------------------------------------------------

    def store_by(self, storing: Storing) -> None:
        """Store the event's result in this way. For a re-entrant lock, the outermost call says how."""
        self._storing = self._storing or storing

    def checked_result(self, result: object, data: str | None = None) -> str | None:
        """The text to store for an event's duplicates. It fits into the row along with ``data``."""
        if result is None and self._storing is None:
            return None
        if self.hold.window is None:
            raise LockArgumentError(
                f"result= is for the duplicates of an event, but lock {self.key!r} does not belong to one: use data=",
                key=self.key,
            )
        from .result import encode

        return encode(result, self.hold, data, self._storing)

    def _checked_data(self, data: bytes | None) -> str | None:
        checked = checks.data(data)
        if checked is None:
            return None
        encoded = requests.encode_data(checked)
        item = {**self.hold.item, self.hold.place.schema.data: {"B": encoded}}
        checks.size(item, self.key)
        return encoded


def _done(reading: ClockReading) -> Steps[bool]:
    """An operation that has nothing to send."""
    yield from ()
    return True
