"""First uses, modules that are loaded late, and forks.

Many modules are imported at their first use, so that unused code does not slow a cold start. But if a process forks
while another thread is importing, that module stays locked in the child for ever, and importing it there hangs. So a
fork waits until no other thread is in the midst of an import that this library makes. Import statements need no guard
for that. Only one that begins between the last look and the fork, some microseconds later, is not seen.

Objects that two threads must not make at once, such as a client of boto3, are made within `FirstUse`. A fork waits for
that too.
"""

from __future__ import annotations

import logging  # the Lambda runtime has it loaded
import os
import sys
import threading  # the Lambda runtime has it loaded, through logging
import time

from .signalsafe import Caller, Turn

_PATIENCE = 5.0  # seconds
_LOOK = 0.005  # seconds between two checks whether another thread is done
_LIBRARY = __name__.partition(".")[0]
_IMPORTING = ("importlib", "_frozen_importlib")  # whose functions import a module
_turn = Turn()
_forking: dict[int, FirstUse] = {}  # by thread


class FirstUse(Caller):
    """A context for first uses: only one thread at a time is in it, and no fork happens meanwhile. It can be used once.

    It only serves to avoid repeated work. So a thread that has waited for _PATIENCE continues without it: the thread
    inside may wait for code that a signal handler has interrupted.

    An interrupt may come before the ``with`` block is entered, or where it is left. A lock of `threading` would then
    stay taken, and every other thread would wait for _PATIENCE at each use.
    """

    __slots__ = ("_thread",)

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        end = time.monotonic() + _PATIENCE
        try:
            while not _turn.take(self):
                holder = _turn.holder()
                if isinstance(holder, FirstUse) and holder._thread == self._thread:
                    return  # entered again, or by a signal handler
                if time.monotonic() >= end:
                    return
                time.sleep(_LOOK)
        except BaseException:
            _turn.give_back(self)
            raise

    def __exit__(self, *_: object) -> None:
        _turn.give_back(self)


def _before_fork() -> None:
    entered = FirstUse()
    entered.__enter__()
    _forking[threading.get_ident()] = entered
    end = time.monotonic() + _PATIENCE
    while True:
        # The hook of logging runs after this one, and waits for its lock. An import could begin meanwhile. So this
        # waits for the same lock before it looks.
        logging.getLogger(_LIBRARY)
        if not _loads_elsewhere() or time.monotonic() >= end:
            return
        time.sleep(_LOOK)


def _loads_elsewhere() -> bool:
    """Return whether another thread is in the midst of an import that this library makes."""
    import gc  # built in: nothing is read

    mine, collects = threading.get_ident(), gc.isenabled()
    gc.disable()  # a collection within the call may wait for what the call holds (CPython's issue 106883)
    try:
        frames = sys._current_frames()
    finally:
        if collects:
            gc.enable()
    for thread, frame in frames.items():
        at, inner = None if thread == mine else frame, ""
        while at is not None:  # from the innermost frame on
            package = str(at.f_globals.get("__name__")).partition(".")[0]
            if package == _LIBRARY and inner in _IMPORTING:
                return True
            at, inner = at.f_back, package
    return False


def _in_parent() -> None:
    entered = _forking.pop(threading.get_ident(), None)
    if entered is not None:
        entered.__exit__()


def _in_child() -> None:
    global _turn
    _turn = Turn()  # the thread that had the old one may not exist in the child
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
