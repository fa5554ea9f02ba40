"""Writes what happens to locks into the log. `Observer.tell` is the door to it for the rest of the package.

Here is every event of the package, with its level. Contention is logged at INFO, a lost lock at WARNING, a DynamoDB
that cannot be used at ERROR. The keys in ``extra`` begin with ``lock_``. docs/observing.md lists the events.
"""

from __future__ import annotations

import logging  # the Lambda runtime has these loaded before any handler
import os
import traceback

from ..core.outcome import expected
from ..errors import printable

logger = logging.getLogger("lambda_lock")
logger.addHandler(logging.NullHandler())

KEYS_VARIABLE = "LAMBDA_LOCK_LOG_KEYS"  # yes, hash or no: the keys of locks (keys.py). Unset or "": yes

LEVELS = {
    "granted": logging.DEBUG,
    "released": logging.DEBUG,
    "started": logging.DEBUG,
    "woken": logging.DEBUG,
    "not_granted": logging.INFO,
    "cancelled": logging.INFO,
    "too_late": logging.INFO,
    "duplicate": logging.INFO,
    "rate_limited": logging.INFO,
    "renewal_failed": logging.INFO,
    "records_returned": logging.INFO,
    "lost": logging.WARNING,
    "disabled": logging.WARNING,
    "unavailable": logging.WARNING,
    "switch_unreadable": logging.WARNING,
    "record_skipped": logging.WARNING,
    "visibility_failed": logging.WARNING,
    "waiters_unreadable": logging.WARNING,
    "rate_differs": logging.WARNING,
    "permits_differ": logging.WARNING,
    "validate_differs": logging.WARNING,
    "result_differs": logging.WARNING,
    "not_asleep": logging.WARNING,
    "finished_lost": logging.WARNING,
    "release_failed": logging.WARNING,
    "renewals_late": logging.WARNING,
    "forgotten": logging.WARNING,
    "not_completed": logging.WARNING,
    "result_not_stored": logging.WARNING,
    "result_missing": logging.WARNING,
    "result_not_judged": logging.WARNING,
    "tenant_not_named": logging.WARNING,
    "payload_mismatch": logging.WARNING,
    "answer_not_kept": logging.WARNING,
    "hook_dropped": logging.WARNING,
    "metric_failed": logging.WARNING,
    "trace_failed": logging.WARNING,
    "failed": logging.ERROR,
    "token_fell": logging.ERROR,
    "callback_failed": logging.ERROR,
    "hook_failed": logging.ERROR,
    "record_failed": logging.ERROR,
    "wake_failed": logging.ERROR,
    "heartbeat": logging.ERROR,
}

NOT_RELEASED = "lock %r was not released; its lease will run out by itself: %s"


def write_line(
    log: logging.Logger,
    event: str,
    message: str,
    *arguments: object,
    cause: BaseException | None = None,
    **about: object,
) -> None:
    """Log an event, with the traceback of its ``cause``. ``about`` (key=, owner=) goes into the extras."""
    if not log.isEnabledFor(LEVELS[event]):  # the usual case: prepare nothing for a line that will not be written
        return
    try:
        if asked := os.environ.get(KEYS_VARIABLE):
            from .keys import line_of

            message, cause = line_of(asked, message, arguments, cause, about.get("key"))
            message, arguments = "%s", (message,)
        log.log(LEVELS[event], message, *map(shown, arguments), exc_info=cause, extra=extras(event, about))
    except expected(Exception):
        if logging.raiseExceptions:  # as the standard handlers treat their own errors
            traceback.print_exc()


class _Shown:
    """An argument of a message that prints on one line."""

    __slots__ = ("_argument",)

    def __init__(self, argument: object) -> None:
        self._argument = argument

    def __str__(self) -> str:
        return printable(str(self._argument))

    def __repr__(self) -> str:
        return printable(repr(self._argument))


def shown(argument: object) -> object:
    """Return the argument of a message in a form that cannot break the line.

    The names of holders and the texts of events and errors are other people's data. The extras keep them unchanged.
    """
    if not isinstance(argument, (str, BaseException)):
        return argument
    text = str(argument)
    return argument if printable(text) == text else _Shown(argument)


def extras(event: str, about: dict[str, object]) -> dict[str, object]:
    """Return the keys of an event for a log record and for a metric's line, without those that are None."""
    if isinstance(key := about.get("key"), str) and (asked := os.environ.get(KEYS_VARIABLE)):
        from .keys import shown_key

        about = {**about, "key": shown_key(asked, key)}
    return {"lock_event": event} | {f"lock_{name}": value for name, value in about.items() if value is not None}
