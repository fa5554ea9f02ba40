"""The state of a lock that this process was granted: held, lost or ended, and for how long."""

from __future__ import annotations

import os
import sys
import warnings
import weakref

from ..errors import (
    LockAlreadyReleasedError,
    LockConfigurationError,
    LockLostError,
    OwnerMismatchError,
    SessionMonitorNotSetError,
)
from ..observe.log import tell
from .record import row_data
from .signals import about
from .upkeep import Upkeep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.protocol import Hold
    from .session import Session
    from .signals import Subject
    from .terms import Terms


class Standing:
    """A hold, what keeps it, and its state.

    make_face: makes the Lock that callbacks and hooks are given, and a plain client returns.
    """

    def __init__(self, session: Session, hold: Hold, terms: Terms, make_face: Callable[[Any], Any]) -> None:
        self.session = session
        self.hold = hold
        self.terms = terms
        self.pid = terms.pid
        self.data = row_data(hold.item, hold.place)
        self.released = False  # or handed over, or left to its lease: there is nothing more to end
        self._make_face = make_face
        self._face: weakref.ref[Any] | None = None
        self.upkeep = Upkeep(session, hold, terms, _weakly(self))

    def face(self) -> Any:
        """The Lock that the application has, or a new one if it has none."""
        face = None if self._face is None else self._face()
        if face is None:
            face = self._make_face(self)
            self._face = weakref.ref(face)
        return face

    # -- its state --------------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        return self.hold.place.key

    @property
    def ended(self) -> bool:
        """Whether a last act was begun: release, commit or hand_over."""
        return self.hold.ended

    @property
    def completed(self) -> bool:
        """Whether the event is completed for certain: DynamoDB has confirmed the commit or release that did it."""
        return self.hold.completed

    @property
    def lease_duration(self) -> float:
        return self.hold.lease_ms / 1000

    def is_held(self) -> bool:
        return self._is_live(self.elapsed())

    def remaining(self) -> float:
        now = self.elapsed()
        return max(0.0, self.hold.valid_until - now) if self._is_live(now) else 0.0

    def is_almost_expired(self) -> bool:
        if self.terms.safe_time is None:
            raise SessionMonitorNotSetError(
                f"lock {self.key!r} has no safe_time: pass safe_time=seconds to acquire, or to the client", key=self.key
            )
        return self.remaining() <= self.terms.safe_time

    def is_lost(self) -> bool:
        if not self.is_in_this_process():
            return True
        self.upkeep.notice()
        return self.hold.lost

    def is_open(self) -> bool:
        """Whether it is still to be released: held, held on through an outage, or its release was interrupted."""
        return self.is_in_this_process() and not self.is_lost() and not self.released

    def is_left(self) -> bool:
        """Whether it is left to the next attempt: it was resumed, and an interrupt ended its handing over."""
        return self.hold.resumed and self.hold.handed_over and not self.hold.unclear

    def is_in_this_process(self) -> bool:
        return self.pid == os.getpid()

    def raise_if_lost(self) -> None:
        self.upkeep.notice()
        if self.is_held():
            return
        holder = self.hold.holder
        state = "was released" if self.hold.ended and not self.hold.lost else "is lost"
        raise LockLostError(
            f"lock {self.key!r} {state}{f'; {holder} has it now' if holder else ''}. Stop here: its new holder may "
            "be doing the same work",
            key=self.key,
            holder=holder,
        )

    def seconds_to_look(self, end: float | None) -> float | None:
        """How long wait_lost may sleep until it looks again. None: the lock was released, or ``end`` has come."""
        now = self.elapsed()
        if self.hold.ended or (end is not None and now >= end):
            return None
        moments = [now + 1.0]  # at least one look a second, because of freezes
        moments += [moment for moment in (end, self.hold.valid_until) if moment is not None and moment > now]
        return max(min(moments) - now, 0.001)

    def wait_over(self, seconds: float) -> None:
        """Sleep until the lock is lost or ended, at most ``seconds``."""
        self.upkeep.over.wait(seconds)

    def elapsed(self) -> float:
        return self.session.timeline.elapsed()

    def state(self) -> str:
        """For people: the state of the lock now."""
        if self.is_held():
            return f"held for {self.remaining():.1f} s"
        if self.hold.lost or not self.hold.ended:
            return "lost"
        if self.hold.handed_over:
            return "handed over"
        return "released" if self.released else "given up, release not confirmed"

    def _is_live(self, now: float) -> bool:
        return self.hold.is_held(now) and self.is_in_this_process()

    # -- checks -----------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise LockAlreadyReleasedError after a last act was begun, and OwnerMismatchError in another process."""
        self.check_process()
        if self.hold.ended:
            raise LockAlreadyReleasedError(
                f"lock {self.key!r} was released, committed or handed over: acquire it again", key=self.key
            )

    def check_process(self) -> None:
        if not self.is_in_this_process():
            raise OwnerMismatchError(
                f"lock {self.key!r} was acquired by process {self.pid}: a forked child neither renews nor releases "
                "its parent's locks. Acquire it here, or leave it to the parent",
                key=self.key,
            )

    def check_kept(self) -> None:
        """Raise LockConfigurationError if the row is deleted on release."""
        if self.hold.delete_on_release:
            raise LockConfigurationError(
                f"lock {self.key!r} deletes its row on release, so it cannot guard a transaction or be handed over: "
                "a late copy of its claim could bring the same owner and token back. Acquire it without "
                "delete_on_release, and not in the schema PYTHON",
                key=self.key,
            )

    def check_renewable(self) -> None:
        self.check_open()
        if self.is_lost():
            self.raise_if_lost()

    def check_not_released(self) -> None:
        if self.released:
            raise LockAlreadyReleasedError(
                f"lock {self.key!r} was released before: a handle is released once", key=self.key
            )

    # -- telling ----------------------------------------------------------------------------------------------------

    def tell(self, event: str, message: str) -> None:
        """Tell an event of this lock: in the log and to the hooks."""
        self.upkeep.signals.tell(event, message)

    def __del__(self) -> None:
        hold = getattr(self, "hold", None)  # None: an interrupt came while this was made
        if hold is None or sys.is_finalizing():
            return
        now = self.elapsed()
        if not hold.ended and self.is_in_this_process():
            self.session.note_unended(hold, now)
        if hold not in self.session.open_locks:
            return
        if self._is_live(now):
            self._tell_forgotten()
        elif now >= hold.valid_until:
            self.session.open_locks.discard(hold)  # its lease has freed it

    def _tell_forgotten(self) -> None:
        if self.hold.resumed:
            remedy, end = "or hand it over", "the next attempt goes on with it"
        else:
            remedy, end = "(`with client.acquire(...) as lock:`)", "when the client is closed"
        message = (
            f"the handle of lock {self.key!r} was dropped while the lock is held: keep it, and release it {remedy}. It "
            f"is no longer renewed. It ends with its lease, or {end}"
        )
        tell(self.session.log, "forgotten", "%s", message, **about(self.hold))
        warnings.warn(message, ResourceWarning, stacklevel=3)


def _weakly(held: Standing) -> Subject:
    """The face of ``held``, for what must not keep it alive."""
    reference = weakref.ref(held)

    def subject() -> Any:
        held = reference()
        return None if held is None else held.face()

    return subject
