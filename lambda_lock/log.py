"""What is told: every event of the package goes into the log here, and on to metrics and hooks where it has any.

Contention is INFO, a lost lock WARNING; ``extra`` keys begin with ``lock_``. docs/observing.md lists the events.
"""

from __future__ import annotations

import logging  # the Lambda runtime has it loaded before any handler

from .errors import LockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .lock import Lock
    from .timeline import Clock

logger = logging.getLogger("lambda_lock")
logger.addHandler(logging.NullHandler())

LEVELS = {
    "granted": logging.DEBUG,
    "released": logging.DEBUG,
    "not_granted": logging.INFO,
    "cancelled": logging.INFO,
    "too_late": logging.INFO,
    "duplicate": logging.INFO,
    "renewal_failed": logging.INFO,
    "records_returned": logging.INFO,
    "lost": logging.WARNING,
    "finished_lost": logging.WARNING,
    "release_failed": logging.WARNING,
    "not_completed": logging.WARNING,
    "hook_dropped": logging.WARNING,
    "metric_failed": logging.WARNING,
    "callback_failed": logging.ERROR,
    "hook_failed": logging.ERROR,
    "record_failed": logging.ERROR,
}

NOT_RELEASED = "lock %r was not released, its lease ends by itself: %s"


def tell(
    log: logging.Logger,
    event: str,
    message: str,
    *arguments: object,
    cause: BaseException | None = None,
    **about: object,
) -> None:
    """Log an event, with the traceback of its ``cause``; what it is ``about`` (key=, owner=) goes into the extras."""
    log.log(LEVELS[event], message, *arguments, exc_info=cause, extra=extras(event, about))


def extras(event: str, about: dict[str, object]) -> dict[str, object]:
    """The keys of an event, in a record of the log and in a metric's line; without those that are None."""
    return {"lock_event": event} | {f"lock_{name}": value for name, value in about.items() if value is not None}


def tell_not_released(
    log: logging.Logger, error: Exception, *, key: str, message: str = NOT_RELEASED, **about: object
) -> None:
    """A release that nobody is there to raise its ``error`` to."""
    cause = None if isinstance(error, LockError) else error
    tell(log, "release_failed", message, key, error, cause=cause, key=key, **about)


class Observer:
    """Tells what happens to the locks of one client: in its log, as metrics, and to its hooks."""

    __slots__ = ("_clock", "_hooks", "_log")

    def __init__(self, log: logging.Logger, clock: Clock, hooks: Iterable[object]) -> None:
        self._log = log
        self._clock = clock
        self._hooks = None
        if hooks != ():
            from .hooks import Hooks

            self._hooks = Hooks(hooks, log)

    def tell(
        self,
        event: str,
        subject: Lock | LockError,
        table: str,
        message: str,
        *arguments: object,
        cause: BaseException | None = None,
        **about: object,
    ) -> None:
        """As `tell`, of a lock in ``table``. Hooks get the ``subject``."""
        tell(self._log, event, message, *arguments, cause=cause, **about)
        if LEVELS[event] > logging.DEBUG:  # what is worth no line is no metric: an uncontended lock loads nothing more
            from .observe import count

            count(event, table, self._clock.wall(), extras(event, about), self._log)
        if self._hooks is not None:
            self._hooks.put(event, subject)

    def wants(self, event: str) -> bool:
        """Whether a hook is to be told such an event."""
        return self._hooks is not None and self._hooks.wants(event)
