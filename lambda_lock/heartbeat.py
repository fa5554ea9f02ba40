"""The heartbeat: one daemon thread a process, started with the first lock that needs one, parked when none is held.

It knows only that a lock has a `tick()` that does what is due and says in how many seconds to come back. It holds locks
weakly: what the application forgets is not renewed for ever.
"""

from __future__ import annotations

import heapq
import os
import threading
import weakref

from .log import logger
from .timeline import elapsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Ticking(Protocol):
        def tick(self) -> float | None:
            """Do what is due now; the seconds until the next call, None for never again."""


_LOOK = 1.0  # seconds: sleep no longer than this while something is held, so that a thaw is noticed soon


class Heartbeat:
    """Calls ticks when they are due. Safe from any thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, weakref.ref[Ticking]]] = []
        self._live: dict[int, int] = {}  # id of a watched lock: the number of its newest entry in the heap
        self._count = 0
        self._thread: threading.Thread | None = None

    def watch(self, lock: Ticking, seconds: float) -> None:
        """Call ``lock.tick()`` in ``seconds``, and again as it says, until `forget`."""
        with self._condition:
            self._push(lock, elapsed() + seconds)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lambda_lock-heartbeat", daemon=True)
                self._thread.start()
            self._condition.notify()

    def forget(self, lock: Ticking) -> None:
        """No more ticks for ``lock``; one that runs at this moment ends by itself."""
        with self._condition:
            self._live.pop(id(lock), None)
            if not self._live and self._due:
                self._due.clear()
                self._condition.notify()

    def _push(self, lock: Ticking, due: float) -> None:
        self._count += 1
        number, identity = self._count, id(lock)
        self._live[identity] = number
        reference = weakref.ref(lock, lambda _: self._gone(identity, number))
        heapq.heappush(self._due, (due, number, reference))

    def _gone(self, identity: int, number: int) -> None:
        # Called by the garbage collector, perhaps on a thread that holds the condition: touch the dict only.
        if self._live.get(identity) == number:
            del self._live[identity]

    def _run(self) -> None:
        while True:
            lock, number = self._next()
            try:
                seconds = lock.tick()
            except Exception:  # noqa: BLE001 - a fault of ours must not end the renewals of all other locks
                logger.exception("the heartbeat of a lock failed; it is tried again", extra={"lock_event": "heartbeat"})
                seconds = _LOOK
            with self._condition:
                if self._live.get(id(lock)) != number:
                    pass  # released meanwhile, or watched anew
                elif seconds is None:
                    del self._live[id(lock)]
                else:
                    self._push(lock, elapsed() + seconds)
            del lock

    def _next(self) -> tuple[Ticking, int]:
        with self._condition:
            while True:
                if not self._live:
                    self._due.clear()
                    self._condition.wait()
                    continue
                due, number, reference = self._due[0]
                wait = due - elapsed()
                if wait > 0:
                    self._condition.wait(min(wait, _LOOK))
                    continue
                heapq.heappop(self._due)
                lock = reference()
                if lock is not None and self._live.get(id(lock)) == number:
                    return lock, number
                del lock  # a stale entry: the wait for the next one must not keep its lock alive


HEARTBEAT = Heartbeat()


def _in_child() -> None:
    # A forked child never renews its parent's locks; the parent's thread and its lock do not exist here.
    HEARTBEAT.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
