"""State that signal handlers, finalizers and forks may meet at any moment: flags, turns, steps, and open locks.

A signal handler interrupts the main thread at any point, and a finalizer any thread. A forked child starts with the
locks of threads that it does not have. A lock that one of these waits for may never be released. So the code that they
may call uses these classes, and no locks. Each of their steps is a single operation of a built-in type.

What the package does about forks and interrupts:

- An acquire notes its process before its owner is drawn (`KeepOptions.pid`). No other process renews or releases the
  lock (`Holding.check_process`), and steps that are under way send nothing in a forked child (drive.py).
- A fork waits until no other thread imports a module for this library, or makes a shared object (first_use.py).
- An interrupt is thrown into the steps. They release what they may have taken, and then it propagates (drive.py). What
  a signal handler raises is an interrupt, whatever its class is (`is_interrupt` in core/outcome.py).
  `Taking.undo` does so from the grant until acquire returns. Closing the client releases what is left.
- A release follows a last act that was interrupted (`LastAct.undo`).
"""

from __future__ import annotations

import os
import sys
import threading  # the Lambda runtime has these loaded
import weakref

from ..core.outcome import expected, interrupt_within
from ..errors import ClientClosedError, LockAlreadyReleasedError, LockError, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..core.protocol import Hold, Send, Steps

_NOBODY = 0  # instead of a thread
_MOST_LEFT = 100  # steps that were left: a client that is never closed must not collect ever more of them
_HOW = "the client was closed in the midst of it, as by a signal handler"


def start(thread: threading.Thread) -> None:
    """Start a thread. Raises RuntimeError if none can be started, and an interrupt as it came.

    Thread.start turns one that is an Exception into a KeyError, if the thread runs by then.
    """
    handled = sys.exception()
    try:
        thread.start()
    except BaseException as error:
        interrupt = interrupt_within(error, handled)
        if interrupt is not None and interrupt is not error:
            raise interrupt from None
        raise


class Flag:
    """A flag that is set once. Any thread can wait for it: an Event of `threading` without a lock."""

    __slots__ = ("_gates", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._gates: list[LockType] = []  # one for each waiting thread; the thread that takes one out opens it

    def set(self) -> None:
        """Set the flag and wake all waiting threads."""
        self.is_set = True
        while self._gates:
            try:
                self._gates.pop().release()
            except IndexError:  # another thread is setting it too, or the last waiting thread has gone
                return

    def wait(self, seconds: float) -> bool:
        """Wait until the flag is set, for at most ``seconds``. Return whether it is set."""
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        try:
            if not self.is_set:  # checked after the gate was added, so that `set` cannot miss it
                gate.acquire(timeout=max(seconds, 0.0))
        finally:
            try:
                self._gates.remove(gate)
            except expected(ValueError):  # it was already taken out and opened
                pass
        return self.is_set


class Caller:
    """Identifies a call that takes a turn."""

    __slots__ = ("__weakref__",)


class Turn:
    """One call at a time has the turn, without blocking. It lasts until it is given back, or its Caller is gone.

    A call that takes a turn keeps its Caller in a local variable. So the turn ends with the call, even if an interrupt
    prevents the call from giving the turn back.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[None, weakref.ref[Caller]] = {}

    def take(self, caller: Caller) -> bool:
        """Take the turn if it is free. Return whether ``caller`` has it, also if it had it before."""
        # setdefault() is one step: it enters this caller, or gives the one that has the turn. () asks who that is.
        return self._taken.setdefault(None, weakref.ref(caller, self._end))() is caller

    def holder(self) -> Caller | None:
        """The Caller that has the turn. None: nobody has it."""
        taken = self._taken.get(None)
        return None if taken is None else taken()

    def give_back(self, caller: Caller) -> None:
        """End the turn of ``caller``. If another has the turn, do nothing."""
        taken = self._taken.get(None)
        if taken is not None and taken() is caller:
            self._taken.pop(None, None)

    def _end(self, ended: weakref.ref[Caller]) -> None:
        if self._taken.get(None) is ended:
            self._taken.pop(None, None)


class UnderWay:
    """Steps of operations, and requests on other threads: each with the process and thread that runs it."""

    __slots__ = ("_by", "_waiting", "endings")

    def __init__(self) -> None:
        self._by: dict[object, tuple[int, int]] = {}
        self.endings: dict[object, list[Send]] = {}  # the requests by which closing the client ended steps
        self._waiting: list[Flag] = []  # set when the next one ends

    def begin(self, what: object) -> None:
        """Note that this thread runs it."""
        self._by[what] = os.getpid(), threading.get_ident()

    def end(self, what: object) -> bool:
        """Note that it has ended. Return whether a thread ran it until now: False after `leave`."""
        thread = self._by.pop(what, (0, _NOBODY))[1]
        if self._waiting:  # seldom: only closing the client waits
            self._wake()
        return thread != _NOBODY

    def leave(self, what: object) -> None:
        """Note that no thread runs it, until it is taken from `left`. Of too many, the oldest is left to its lease."""
        self._by[what] = os.getpid(), _NOBODY
        left = [what for what, (_, thread) in list(self._by.items()) if thread == _NOBODY]
        if len(left) > _MOST_LEFT:
            self._by.pop(left[0], None)
        self._wake()

    def may_send(self, steps: Steps[Any]) -> bool:
        """Whether a request of these steps may be sent: they were not left, and have not ended."""
        return self._by.get(steps, (0, 1))[1] != _NOBODY and steps.gi_frame is not None  # type: ignore[attr-defined]

    def leave_mine(self) -> None:
        """Leave the steps that this thread cannot resume before its present call returns: those that a signal handler
        has interrupted, and those that coroutines of its loop wait in. Steps that run at this instant are not left.
        """
        here = os.getpid(), threading.get_ident()
        for what in list(self._by):
            if self._by.get(what) == here and getattr(what, "gi_suspended", False):
                self.leave(what)

    def is_interrupted(self) -> bool:
        """Whether this thread runs any: then the caller is a signal handler that has interrupted them."""
        here = os.getpid(), threading.get_ident()
        return here in list(self._by.values())

    def elsewhere(self) -> bool:
        """Whether another thread of this process runs any."""
        pid, mine = os.getpid(), (_NOBODY, threading.get_ident())
        return any(of == pid and thread not in mine for of, thread in list(self._by.values()))

    def wait(self, seconds: float) -> None:
        """Wait until one ends, at most ``seconds``. Return at once if no other thread runs any."""
        ended = Flag()
        self._waiting.append(ended)
        try:
            if self.elsewhere():  # asked after the flag was added, so that `_wake` cannot miss it
                ended.wait(seconds)
        finally:
            self._waiting.remove(ended)

    def _wake(self) -> None:
        for ended in list(self._waiting):
            ended.set()

    def left(self) -> Iterator[Steps[Any]]:
        """The steps that were left, each of them once."""
        nobody = os.getpid(), _NOBODY
        for what in list(self._by):
            if self._by.get(what) == nobody and self._by.pop(what, None) is not None:
                steps: Any = what
                yield steps


def given_back() -> LockError:
    """The error of an acquire that closing the client has ended."""
    return ClientClosedError(_HOW)


def released() -> LockError:
    """The error of a release that closing the client has ended."""
    return LockAlreadyReleasedError(f"{_HOW}: the lock is released")


def unclear() -> LockError:
    """The error of another last act that closing the client has ended. Its request may have been carried out."""
    return TransportError(True, f"{_HOW}: it is unknown whether it was carried out. The lock is released")


class _Entry:
    """pid: of the process that was granted the hold. held: gives its HeldLock, or None."""

    __slots__ = ("held", "pid")

    def __init__(self, pid: int) -> None:
        self.held: Callable[[], Any] = _none
        self.pid = pid


def _none() -> None:
    return None


#: The holds of all clients, by process and owner: an acquire that is refused tells its caller if one is in its way. Not
#: a WeakValueDictionary: Python ignores a KeyboardInterrupt that comes in the callback of one.
HELD_HERE: dict[tuple[int, str | None], weakref.ref[Hold]] = {}
_MOST_HERE = 10_000  # entries: a client that is dropped without close() leaves its own behind


class OpenLocks:
    """The locks that a client has acquired and not released yet: holds, each with its HeldLock once there is one.

    Closing the client releases them. Each step is a single operation on a dict, because signal handlers, finalizers and
    other threads may run in between.

    HeldLocks are referenced weakly, so a lock that the application forgets is not renewed for ever. Its hold stays here
    until it is released.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[Hold, _Entry] = {}

    def add(self, hold: Hold, pid: int) -> None:
        """Note a lock that process ``pid`` was granted. From here on close() there releases it, unless it is released
        before.
        """
        self._entries[hold] = _Entry(pid)
        if len(HELD_HERE) >= _MOST_HERE:
            HELD_HERE.clear()
        HELD_HERE[pid, hold.owner] = weakref.ref(hold)

    def attach(self, hold: Hold, held: Any) -> None:
        """Note the HeldLock of a hold. This does nothing if close() has released the hold meanwhile."""
        entry = self._entries.get(hold)
        if entry is not None:
            entry.held = weakref.ref(held)

    def discard(self, hold: Hold) -> None:
        """Drop a hold that was released or lost, or that other code will release."""
        entry = self._entries.pop(hold, None)
        if entry is not None:
            HELD_HERE.pop((entry.pid, hold.owner), None)

    def __contains__(self, hold: Hold) -> bool:
        return hold in self._entries

    def holds(self) -> frozenset[Hold]:
        return frozenset(self._entries)

    def handled(self) -> Iterator[Any]:
        """The HeldLocks, including those that a forked child got from its parent."""
        return (held for _, _, held in self._each() if held is not None)

    def forgotten(self) -> Iterator[Hold]:
        """The holds of this process without a HeldLock: it was collected, or an interrupt came before it was made."""
        return (hold for hold, pid, held in self._each() if held is None and pid == os.getpid())

    def abandon(self, *, but: frozenset[Hold] = frozenset()) -> None:
        """Leave all locks to their lease, except ``but``."""
        for held in self.handled():
            if held.hold not in but and held.is_open():
                held.abandon()
        for hold in self.forgotten():
            if hold not in but:
                self.discard(hold)

    def _each(self) -> Iterator[tuple[Hold, int, Any]]:
        # Only the keys are copied. A list of items would make tuples, and the garbage collector may run then: its
        # finalizers change the dict.
        for hold in list(self._entries):
            entry = self._entries.get(hold)
            if entry is not None:
                yield hold, entry.pid, entry.held()
