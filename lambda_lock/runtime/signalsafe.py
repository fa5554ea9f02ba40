"""Two things that `threading` has too, but without its locks: `Flag` (an Event) and `Turn` (a Lock that never blocks).

A signal handler runs in the middle of whatever the main thread does, a finalizer in the middle of whatever any thread
does, and a forked child begins with the locks of threads that it does not have. A lock that one of them waits for may
never be given back. So what they may call uses these, whose every step is a single operation of a built-in type.
"""

from __future__ import annotations

import threading  # the Lambda runtime has these loaded
import weakref
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType


class Flag:
    """Set once, and waited for from any thread."""

    __slots__ = ("_gates", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._gates: list[LockType] = []  # one for each thread that waits; whoever takes one out opens it

    def set(self) -> None:
        """Set it and wake all who wait."""
        self.is_set = True
        while self._gates:
            try:
                self._gates.pop().release()
            except IndexError:  # another thread sets it as well, or the last one to wait has gone
                return

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most ``seconds``; returns whether it is."""
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        try:
            if not self.is_set:  # looked at after the gate is there to be opened
                gate.acquire(timeout=max(seconds, 0.0))
        finally:
            with suppress(ValueError):  # it was taken out and opened
                self._gates.remove(gate)
        return self.is_set


class Ticket:
    """Who may have a turn: an object of the call that takes it."""

    __slots__ = ("__weakref__",)


class Turn:
    """One at a time: a turn lasts until its ticket is given back, or is no more.

    Whoever takes a turn keeps the ticket in a local variable. So the turn ends with the call also where an interrupt
    keeps it from giving the turn back.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[None, weakref.ref[Ticket]] = {}

    def take(self, ticket: Ticket) -> bool:
        """Whether it is the turn of ``ticket`` now: nobody had it, or this one has it already."""
        return self._taken.setdefault(None, weakref.ref(ticket, self._end))() is ticket

    def give_back(self, ticket: Ticket) -> None:
        """End the turn of ``ticket``; nothing where it is another's."""
        taken = self._taken.get(None)
        if taken is not None and taken() is ticket:
            self._taken.pop(None, None)

    def _end(self, ended: weakref.ref[Ticket]) -> None:
        if self._taken.get(None) is ended:
            self._taken.pop(None, None)
