"""The end of a client: its locks are released, or left to their lease."""

from __future__ import annotations

import time

from ..core.outcome import expected, may_pass
from ..core.protocol import DECISION, OUTAGE, SEND, Send
from ..errors import LockError
from ..runtime.drive import drive
from ..runtime.timeline import SYSTEM
from .taking import release_each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..core.protocol import Hold, Steps
    from .held import HeldLock
    from .session import Session

_PATIENCE = SEND + DECISION  # seconds: a request that is under way, and the release of what it took


class _Ended(BaseException):
    """Thrown into steps that no other code will resume."""


def close(session: Session, *, release: bool) -> None:
    """`LockClient.close`, on this thread."""
    session.closed.set()
    if release:
        _settle(session)
        release_each(session, _to_release(session))
    else:
        session.open_locks.abandon()
    session.disconnect()


def _settle(session: Session) -> None:
    """Let all acquires and last acts end, in bounded time. The process may be gone right after close().

    Other threads end theirs. The steps that this thread cannot resume until close() returns are ended here: they give
    back what they have taken, and their tickets.
    """
    under_way, end = session.under_way, time.monotonic() + _PATIENCE
    under_way.leave_mine()  # first, so that these send nothing more
    while under_way.elsewhere():
        if session.timeline is not SYSTEM:  # a test's clock may stand still, and the other threads with it
            return
        left = end - time.monotonic()
        if left <= 0:
            break
        under_way.wait(left)
    unanswered = 0  # in a row
    for steps in under_way.left():
        if unanswered == OUTAGE:
            steps.close()
            continue
        try:
            ending = _ending(steps, under_way.endings.setdefault(steps, []))
            answered = drive(ending, session.transport, session.timeline, session.timeline.clock.sleep)
            unanswered = 0 if answered else unanswered + 1
        except expected(LockError):
            pass  # without an answer, the lease ends what was taken


def _ending(steps: Steps[Any], sent: list[Send]) -> Steps[bool]:
    """Let steps that were left in their midst end, as an interrupt does. Returns whether the last request was answered.

    sent: all requests are added to it.
    """
    answered = True
    try:
        step = steps.throw(_Ended())
        while True:
            if isinstance(step, Send):
                sent.append(step)
            event = yield step
            if event.outcome is not None:
                answered = not may_pass(event.outcome)
            step = steps.send(event)
    except (StopIteration, _Ended):
        return answered


def _to_release(session: Session) -> Iterator[tuple[Hold, HeldLock | None]]:
    """The locks that are still open. None: its HeldLock was dropped, or an interrupt came before it was made."""
    for held in session.open_locks.handled():
        if not held.is_open():
            continue
        held.leave_all()
        if held.is_left() or not held.is_given:
            held.abandon()
        else:
            yield held.hold, held
    for hold in session.open_locks.forgotten():
        resumable = hold.resumed and not hold.unclear  # the next attempt goes on, unless a release has begun
        if session.timeline.elapsed() < hold.valid_until and not resumable:
            yield hold, None
        else:
            session.open_locks.discard(hold)
