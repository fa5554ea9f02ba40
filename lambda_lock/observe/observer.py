"""Tells what happens to locks: in the log, as metrics, as traces and to hooks. `Observer.tell` is the only door."""

from __future__ import annotations

import logging  # the Lambda runtime has these loaded before any handler
import os
import sys
import time

from .log import KEYS_VARIABLE, LEVELS, extras, logger, write_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..core.protocol import Hold
    from ..core.requests import Place

_MOST_UNENDED = 100  # holds
_MOST_ONCE = 100  # of what one event is told once


class Observer:
    """Where one client tells its events: in its log, as metrics, and to its hooks.

    wall, elapsed: give the time in epoch seconds, and in seconds on the client's timeline. times: whether metrics of
    times are asked for. unended: holds whose handles were dropped, and when: their traces are due.
    """

    __slots__ = ("_hooks", "_told", "elapsed", "log", "times", "unended", "wall")

    def __init__(
        self,
        log: logging.Logger,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        hooks: Iterable[object] = (),
    ) -> None:
        self.log = log
        self.wall = wall
        self.elapsed = elapsed
        self.unended: list[tuple[Hold, float]] = []
        # "1": metrics of times too, for clients that are made from then on.
        self.times = os.environ.get("LAMBDA_LOCK_METRICS_TIMES", "0") not in ("", "0")
        self._told: dict[str, set[object]] = {}  # by event, so that one leaves room for the others
        self._hooks = None
        if asked := os.environ.get(KEYS_VARIABLE):
            from .keys import mode_of  # now: a finalizer that logs loads nothing

            if mode_of(asked) is None:
                message = "%s=%r is not yes, hash or no, so keys are hidden: write one of these"
                self.tell("switch_unreadable", message, KEYS_VARIABLE, asked)
        if hooks != ():
            from .hooks import Hooks

            self._hooks = Hooks(hooks, log)

    def tell(
        self,
        event: str,
        message: str,
        *arguments: object,
        place: Place | None = None,
        hold: Hold | None = None,
        subject: Callable[[], object] | None = None,
        once: object = None,
        cause: BaseException | None = None,
        **about: object,
    ) -> None:
        """Tell an event, which is one of `LEVELS`. Nothing is prepared for an event that nobody hears.

        message, arguments: its line in the log, with the traceback of ``cause``.
        place: of the lock that it is about. Its key is told, and what it takes if that is more than 1. Metrics count
            the event by its table. None: none do.
        hold: instead of ``place``, a hold of it. Its owner and fencing token are told, too.
        subject: gives the Lock or LockError for hooks, or None if it is gone. None: hooks are not told.
        once: what the event is told of once; later ones are not told. None: each one is.
        about: what else is told: key=, owner=.
        """
        if subject is not None and self._hooks is not None and self._hooks.wants(event):
            self._hooks.put(event, subject())
        is_usual = LEVELS[event] < logging.INFO  # an uncontended lock has only such events, and they load no metrics
        if is_usual and not self.log.isEnabledFor(LEVELS[event]):
            return
        if once is not None and not self._is_first(event, once):
            return
        if hold is not None:
            place, about = hold.place, {"owner": hold.owner, "fencing_token": hold.token, **about}
        if place is not None:
            take = (hold or place).take
            about = {"key": place.key, "take": take if take > 1 else None, **about}
        write_line(self.log, event, message, *arguments, cause=cause, **about)
        if not is_usual and place is not None:
            from .metrics import COUNTED, write

            if event in COUNTED:
                write(COUNTED[event], 1, "Count", place.table, self.wall(), extras(event, about), self.log)

    def _is_first(self, event: str, of: object) -> bool:
        """Note that an event is told of something. False: it was before, or so many others were."""
        told = self._told.setdefault(event, set())
        if of in told or len(told) >= _MOST_ONCE:
            return False
        told.add(of)
        return True

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


#: Tells what concerns no client of its own, such as a decorator's call, in the log of the package.
package = Observer(logger)
