"""Modules that are loaded late, and forks.

Many modules are imported at their first use, so that unused code does not slow a cold start. But if a process forks
while another thread is importing, that module stays locked in the child for ever, and importing it there hangs. So such
imports are made within `Late`, and a fork waits for them.
"""

from __future__ import annotations

import os
import threading  # the Lambda runtime has it loaded, through logging

_PATIENCE = 5.0  # seconds
_lock = threading.RLock()
_forking: dict[int, Late] = {}  # by thread


class Late:
    """A context for first uses: only one thread at a time is in it, and no fork happens meanwhile. It can be used once.

    It only serves to avoid repeated work and hangs. So a thread that has waited too long continues without it: a signal
    handler may have interrupted the very import that the thread inside is waiting for.
    """

    __slots__ = ("_lock", "_taken")

    def __enter__(self) -> None:
        self._lock = _lock
        self._taken = self._lock.acquire(timeout=_PATIENCE)

    def __exit__(self, *_: object) -> None:
        if self._taken:
            self._lock.release()


def _before_fork() -> None:
    entered = Late()
    entered.__enter__()
    _forking[threading.get_ident()] = entered


def _in_parent() -> None:
    entered = _forking.pop(threading.get_ident(), None)
    if entered is not None:
        entered.__exit__()


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()  # the thread that held the old one may not exist in the child
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
