"""Hooks: objects of the application that are told what happens to a client's locks, on a thread of their own.

The thread runs while there is something to tell, so nothing waits between invocations. A lock never waits for it.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import deque

from ..core.outcome import expected
from .log import write_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable
    from typing import Any

EVENTS = ("granted", "lost", "released", "not_granted", "duplicate", "rate_limited")
_MOST = 1000  # events that wait for a hook. A hook that hangs must not keep all locks in memory, and so renewed
_COROUTINE = 0x80  # flag of a code object, as inspect names it


class Hooks:
    """The hooks of one client. They are called one after the other, in the order of the events.

    Raises TypeError for an object that is not a hook.
    """

    def __init__(self, hooks: Iterable[object], log: logging.Logger) -> None:
        self._methods: dict[str, list[Callable[[Any], object]]] = {event: [] for event in EVENTS}
        self._log = log
        try:
            objects = tuple(hooks)
        except TypeError:
            raise TypeError(
                f"hooks must be a tuple or list of hooks, not {type(hooks).__name__}: write hooks=(hook,)"
            ) from None
        for hook in objects:
            methods = {event: getattr(hook, f"on_{event}") for event in EVENTS if hasattr(hook, f"on_{event}")}
            if isinstance(hook, type) or not methods:
                names = ", ".join(f"on_{event}" for event in EVENTS)
                raise TypeError(f"a hook is an object with any of the methods {names}, not {hook!r}")
            for event, method in methods.items():
                code = getattr(method, "__code__", None)  # a bound method has its function's
                if not callable(method) or (code is not None and code.co_flags & _COROUTINE):
                    raise TypeError(f"on_{event} of {hook!r} must be a plain method, because nothing would await it")
                self._methods[event].append(method)
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changing = threading.RLock()  # a signal handler may take a lock, and come here in the middle of a put
        self._waiting: deque[tuple[str, Any]] = deque()
        self._thread: threading.Thread | None = None

    def wants(self, event: str) -> bool:
        """Whether any hook is told such an event."""
        return bool(self._methods.get(event))

    def put(self, event: str, subject: Any) -> None:
        """Let the hooks be told of a Lock or error. None: the Lock is gone, nothing is told. Never waits or raises."""
        if subject is None:
            return
        if self._pid != os.getpid():
            self._begin()  # a forked child: the thread, and the events that wait for it, are the parent's
        if isinstance(subject, Exception):
            subject = copy.copy(subject)  # as it is now, and without its traceback, which keeps the call's values alive
        is_full = False
        try:
            with self._changing:
                is_full = len(self._waiting) >= _MOST
                if not is_full:
                    self._waiting.append((event, subject))
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="lambda_lock-hooks", daemon=True)
                    thread.start()
                    self._thread = thread
        except expected(RuntimeError) as error:  # too many threads, or the interpreter ends. The next event tries again
            write_line(self._log, "hook_failed", "no thread could be started for hooks: %s", error)
        if is_full:
            write_line(self._log, "hook_dropped", "hooks are behind by %d events: on_%s is not called", _MOST, event)

    def _run(self) -> None:
        while True:
            with self._changing:
                if not self._waiting:
                    self._thread = None
                    return
                event, subject = self._waiting.popleft()
            for method in self._methods[event]:
                try:
                    method(subject)
                except BaseException as error:  # noqa: BLE001 - the application's. It can only be logged
                    message = "a hook failed in on_%s: %r"
                    write_line(self._log, "hook_failed", message, event, error, cause=error, key=subject.key)
