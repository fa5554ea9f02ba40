"""Modules that are loaded late, and forks.

What a function does not touch does not slow its cold start, so much is imported at its first use. A process that forks
while another thread imports has a child in which that module stays locked for ever: whoever imports it there hangs. So
such imports are made within `Late`, and a fork waits for them.
"""

from __future__ import annotations

import os
import threading  # the Lambda runtime has it loaded, through logging

_PATIENCE = 5.0  # seconds
_lock = threading.RLock()
_forking: dict[int, Late] = {}  # by thread


class Late:
    """A context for first uses: of one thread at a time, and not at the moment of a fork. Usable once.

    It saves work and hangs, and no more than that. So nobody waits for it for ever, but goes on without it: a signal
    handler may have interrupted the very import that the thread within it waits for.
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
    _lock = threading.RLock()  # whoever had it may not exist here
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
