"""Tells what happens to a client's locks: in its log, as metrics, as traces and to its hooks."""

from __future__ import annotations

import logging  # the Lambda runtime has these loaded before any handler
import os
import sys

from .log import LEVELS, extras, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..core.protocol import Hold
    from ..runtime.timeline import Timeline

_MOST_UNENDED = 100  # holds


class Observer:
    """Where one client tells its events: in its log, as metrics, and to its hooks.

    times: whether metrics of times are asked for. unended: holds whose handles were dropped, and when: their traces are
    due.
    """

    __slots__ = ("_hooks", "log", "timeline", "times", "unended")

    def __init__(self, log: logging.Logger, timeline: Timeline, hooks: Iterable[object]) -> None:
        self.log = log
        self.timeline = timeline
        self.unended: list[tuple[Hold, float]] = []
        # "1": metrics of times too, for clients that are made from then on.
        self.times = os.environ.get("LAMBDA_LOCK_METRICS_TIMES", "0") not in ("", "0")
        self._hooks = None
        if hooks != ():
            from .hooks import Hooks

            self._hooks = Hooks(hooks, log)

    def tell(
        self,
        event: str,
        subject: Callable[[], object] | None,
        table: str,
        message: str,
        *arguments: object,
        cause: BaseException | None = None,
        **about: object,
    ) -> None:
        """`tell` for a lock in ``table``.

        subject: gives the Lock or LockError for hooks, or None if it is gone. None: hooks are not told.
        """
        if self._hooks is not None and subject is not None and self._hooks.wants(event):
            self._hooks.put(event, subject())
        is_usual = LEVELS[event] < logging.INFO  # an uncontended lock has only such events, and they load no metrics
        if is_usual and not self.log.isEnabledFor(LEVELS[event]):
            return
        tell(self.log, event, message, *arguments, cause=cause, **about)
        if not is_usual:
            from .metrics import COUNTED, write

            if event in COUNTED:
                write(COUNTED[event], 1, "Count", table, self.timeline.clock.wall(), extras(event, about), self.log)

    def is_told(self, event: str) -> bool:
        """Whether anybody hears of such an event: a hook, the log or a metric. Otherwise `tell` does nothing."""
        level = LEVELS[event]
        return level >= logging.INFO or self.log.isEnabledFor(level) or self.wants(event)

    def wants(self, event: str) -> bool:
        """Whether any hook is told such an event."""
        return self._hooks is not None and self._hooks.wants(event)

    @property
    def measures(self) -> bool:
        """Whether times are asked for: by metrics, or because this process has loaded a tracer."""
        if self.times or not ("aws_xray_sdk.core" in sys.modules or "opentelemetry.trace" in sys.modules):
            return self.times
        return os.environ.get("LAMBDA_LOCK_TRACING", "").strip().lower() != "off"

    def note_unended(self, hold: Hold, now: float) -> None:
        """Note at ``now`` (elapsed seconds) that nobody will end this hold. For finalizers, so it calls no tracer."""
        if self.measures and len(self.unended) < _MOST_UNENDED:
            self.unended.append((hold, now))
