"""Tells what happens to the locks of one client: in its log, as metrics, and to its hooks."""

from __future__ import annotations

import logging  # the Lambda runtime has it loaded
import sys

from .log import LEVELS, extras, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Observer:
    """Where one client tells its events."""

    __slots__ = ("_hooks", "_log", "_wall")

    def __init__(self, log: logging.Logger, wall: Callable[[], float], hooks: Iterable[object]) -> None:
        self._log = log
        self._wall = wall
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
        """`log.tell` for a lock in ``table``. Hooks get the ``subject``: a Lock or a LockError. None: it is gone."""
        if self._hooks is not None and subject is not None:
            self._hooks.put(event, subject)
        tell(self._log, event, message, *arguments, cause=cause, **about)
        if LEVELS[event] >= logging.INFO:  # events of an uncontended lock are below that, and load no metrics
            from .metrics import count

            count(event, table, self._wall(), extras(event, about), self._log)

    @property
    def traces(self) -> bool:
        """Whether a tracer is at work in this process: X-Ray's SDK or OpenTelemetry's API is loaded."""
        return "aws_xray_sdk.core" in sys.modules or "opentelemetry.trace" in sys.modules

    def trace(self, what: str, key: str, began_ago: float, ended_ago: float = 0.0, **about: object) -> None:
        """Write a trace of what has ended, as `tracing.record`. Ask `traces` before."""
        from .tracing import record

        record(what, key, began_ago, ended_ago, about, self._log)

    def wants(self, event: str) -> bool:
        """Whether any hook is told such an event."""
        return self._hooks is not None and self._hooks.wants(event)
