"""The times and traces of locks: from an acquire to its end, and from a last act to its end, with the hold before it.

Loaded only where they are asked for, or a tracer is at work (`Observer.measures`). All is written after the steps that
it tells of, so no request waits for a tracer.
"""

from __future__ import annotations

from ..errors import CommitRefusedError, DuplicateEventError, LockLostError, LockNotGrantedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol, TypeVar

    from ..core.lease import ClockReading
    from ..core.protocol import Steps
    from ..runtime.timeline import Timeline
    from .observer import Observer

    T = TypeVar("T")

    class Session(Protocol):
        """What times need of a client's session."""

        @property
        def observer(self) -> Observer: ...
        @property
        def timeline(self) -> Timeline: ...
        def tell_unended(self) -> None: ...


_SHOWN = 3  # keys of several locks


def taking(
    session: Session,
    table: str,
    keys: Sequence[str],
    reading: ClockReading,
    steps: Steps[T],
    token: Callable[[], int | None],
) -> Steps[T]:
    """The steps of an acquire, and then its trace and time. token: gives the fencing token after a grant."""
    outcome, given = "interrupted", None
    try:
        result = yield from steps
        outcome, given = "granted", token()
        return result
    except Exception as error:
        outcome = _outcome(error)
        raise
    finally:
        session.tell_unended()
        took = session.timeline.elapsed() - reading.elapsed
        session.observer.measured("acquire", table, _text(keys), took, outcome=outcome, fencing_token=given)


def ending(
    session: Session,
    table: str,
    keys: Sequence[str],
    reading: ClockReading,
    steps: Steps[T],
    ended: Callable[[T], str],
    token: int | None,
    since: float | None = None,
) -> Steps[T]:
    """The steps of a last act, and then the traces of it and of the hold that it ends, and the time held.

    ended: gives the outcome for the result of an act that raised no error. since: when the hold began, in elapsed
        seconds; None: that is not known here.
    """
    outcome = "interrupted"
    try:
        result = yield from steps
        outcome = ended(result)
        return result
    except CommitRefusedError:
        outcome = "released"  # the application's own conditions did not hold. The lock was given back
        raise
    except Exception as error:
        outcome = _outcome(error)
        raise
    finally:
        session.tell_unended()
        now, text = session.timeline.elapsed(), _text(keys)
        ago = now - reading.elapsed
        session.observer.measured("release", table, text, ago, outcome=outcome, fencing_token=token)
        if since is not None:
            session.observer.measured("hold", table, text, now - since, ago, outcome=outcome, fencing_token=token)


def _outcome(error: Exception) -> str:
    if isinstance(error, DuplicateEventError):
        return "duplicate"
    if isinstance(error, LockNotGrantedError):
        return "not_granted"
    return "lost" if isinstance(error, LockLostError) else "failed"


def _text(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
