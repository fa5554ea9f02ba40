"""Tells what happens to a client's locks: in its log, as metrics, as traces and to its hooks."""

from __future__ import annotations

import logging  # the Lambda runtime has these loaded before any handler
import os
import sys

from .log import LEVELS, extras, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.protocol import Hold
    from ..runtime.timeline import Timeline

_MOST_UNENDED = 100  # holds


class Observer:
    """Where one client tells its events: in its log, as metrics, and to its hooks."""

    __slots__ = ("_hooks", "_log", "_times", "_unended", "timeline")

    def __init__(self, log: logging.Logger, timeline: Timeline, hooks: Iterable[object]) -> None:
        self._log = log
        self.timeline = timeline
        self._unended: list[tuple[Hold, float]] = []  # holds whose handles were dropped, and when: their traces are due
        # "1": metrics of times too, for clients that are made from then on.
        self._times = os.environ.get("LAMBDA_LOCK_METRICS_TIMES", "0") not in ("", "0")
        self._hooks = None
        if hooks != ():
            from .hooks import Hooks

            self._hooks = Hooks(hooks, log)

    def tell(
        self,
        event: str,
        subject: object,
        table: str,
        message: str,
        *arguments: object,
        cause: BaseException | None = None,
        **about: object,
    ) -> None:
        """`tell` for a lock in ``table``. Hooks get the ``subject``: a Lock or a LockError. None: it is gone."""
        if self._hooks is not None and subject is not None:
            self._hooks.put(event, subject)
        is_usual = LEVELS[event] < logging.INFO  # an uncontended lock has only such events, and they load no metrics
        if is_usual and not self._log.isEnabledFor(LEVELS[event]):
            return
        tell(self._log, event, message, *arguments, cause=cause, **about)
        if not is_usual:
            from .metrics import COUNTED, write

            if event in COUNTED:
                now = self.timeline.clock.wall()
                write(COUNTED[event], 1, "Count", table, now, extras(event, about), self._log)

    def wants(self, event: str) -> bool:
        """Whether any hook is told such an event."""
        return self._hooks is not None and self._hooks.wants(event)

    @property
    def measures(self) -> bool:
        """Whether times are asked for: by metrics, or since a tracer is at work in this process."""
        if self._times or not ("aws_xray_sdk.core" in sys.modules or "opentelemetry.trace" in sys.modules):
            return self._times
        return os.environ.get("LAMBDA_LOCK_TRACING", "").strip().lower() != "off"

    def measured(
        self, what: str, table: str, key: str, began_ago: float, ended_ago: float = 0.0, **about: object
    ) -> None:
        """Write a trace of what has ended, as `timing.record`, and metrics of its time. Ask `measures` before."""
        from .timing import record

        record(what, key, began_ago, ended_ago, about, self._log)
        if self._times and (what == "hold" or (what == "acquire" and about["outcome"] in ("granted", "not_granted"))):
            from .metrics import HELD, WAITED, write

            metric, milliseconds = HELD if what == "hold" else WAITED, round((began_ago - ended_ago) * 1000, 3)
            properties, now = extras(str(about["outcome"]), {"key": key}), self.timeline.clock.wall()
            write(metric, milliseconds, "Milliseconds", table, now, properties, self._log)

    def note_unended(self, hold: Hold, now: float) -> None:
        """Note at ``now`` (elapsed seconds) that nobody will end this hold. A finalizer calls it, and no tracer."""
        if self.measures and len(self._unended) < _MOST_UNENDED:
            self._unended.append((hold, now))

    def tell_unended(self) -> None:
        """Write the traces and times of holds whose handles were dropped: up to then, or to their validity's end."""
        while self._unended:
            try:
                hold, dropped = self._unended.pop()
            except IndexError:  # another thread writes them too
                return
            lost = hold.lost or dropped >= hold.valid_until
            now, end = self.timeline.elapsed(), min(dropped, hold.valid_until) if lost else dropped
            about = {"outcome": "lost" if lost else "forgotten", "fencing_token": hold.token}
            self.measured("hold", hold.place.table, hold.place.key, now - hold.since, now - end, **about)
