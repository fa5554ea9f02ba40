"""How a lock is kept while it is held: the options of acquire that are not stored in the row."""

from __future__ import annotations

import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Terms:
    """How one lock is kept.

    full_lease: seconds, as asked for. The lease in the row may be shorter: it ends with the invocation.
    heartbeat_period: seconds, None: planned from validity, 0: no renewals. safe_time: seconds, None: no danger signal.
    on_danger, on_lost: called with the Lock. line: the line of execution, the only one that may enter a re-entrant lock
    again. pid: the only process that may have the lock. This is noted before the owner is drawn, so that two processes
    never have a lock under one owner, whenever a signal handler forks.
    """

    __slots__ = ("full_lease", "heartbeat_period", "line", "on_danger", "on_lost", "pid", "safe_time")

    def __init__(
        self,
        full_lease: float,
        heartbeat_period: float | None,
        safe_time: float | None,
        on_danger: Callable[[Any], object] | None,
        on_lost: Callable[[Any], object] | None,
    ) -> None:
        self.full_lease = full_lease
        self.heartbeat_period = heartbeat_period
        self.safe_time = safe_time
        self.on_danger = on_danger
        self.on_lost = on_lost
        self.line = line_of_execution()
        self.pid = os.getpid()


def line_of_execution() -> tuple[object, object]:
    """This thread, and this task if asyncio runs one."""
    asyncio = sys.modules.get("asyncio")
    task = None
    if asyncio is not None and asyncio._get_running_loop() is not None:
        task = asyncio.current_task()
    return threading.current_thread(), task  # not its number, because numbers of ended threads are reused
