"""The end of a client: its locks are released, or left to their lease."""

from __future__ import annotations

import functools  # the Lambda runtime has it loaded

from ..errors import LockAlreadyReleasedError, LockError, TransportError
from .signals import leave_to_lease
from .taking import give_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..core.protocol import Hold
    from .held import HeldLock
    from .session import Session

_OUTAGE = 2  # after so many releases in a row without an answer, no more are sent. A single one may be due to its row


def close(session: Session, *, release: bool) -> None:
    """`LockClient.close`, on this thread."""
    session.closed.set()
    if release:
        _release_all(session)
    else:
        session.open_locks.abandon()
    session.end()


def _release_all(session: Session) -> None:
    unanswered = 0  # in a row
    for hold, release, abandon in _to_release(session):
        if unanswered == _OUTAGE:
            error = TransportError(False, "DynamoDB does not answer, nothing was sent")
            leave_to_lease(session, hold, error)
            abandon()
            continue
        try:
            release()
            unanswered = 0
        except LockAlreadyReleasedError:
            continue  # by its holder, a moment ago
        except LockError as error:
            leave_to_lease(session, hold, error)
            unanswered = unanswered + 1 if isinstance(error, TransportError) else 0


def _to_release(session: Session) -> Iterator[tuple[Hold, Callable[[], object], Callable[[], object]]]:
    """For each lock that is still open: its hold, what releases it, and what leaves it to its lease."""
    for held in _open(session):
        held.leave_all()
        if held.is_left() or not held.is_given:
            held.abandon()
            continue
        yield held.hold, functools.partial(_release, held), held.abandon
    for hold in session.open_locks.forgotten():
        leave = functools.partial(session.open_locks.discard, hold)
        resumable = hold.resumed and not hold.unclear  # the next attempt goes on, unless a release has begun
        if session.timeline.elapsed() < hold.valid_until and not resumable:
            yield hold, functools.partial(give_back, session, hold), leave  # its release may have been interrupted
        else:
            leave()


def _release(held: HeldLock) -> None:
    held.session.run(*held.release())


def _open(session: Session) -> Iterator[HeldLock]:
    for held in session.open_locks.handled():
        if held.is_open():
            yield held
