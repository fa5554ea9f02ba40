"""Two things that `threading` has too, but without its locks: `Flag` (an Event) and `Turn` (a Lock that never blocks).

A signal handler runs in the middle of whatever the main thread does, a finalizer in the middle of whatever any thread
does, and a forked child begins with the locks of threads that it does not have. A lock that one of them waits for may
never be given back. So what they may call uses these, whose every step is a single operation of a built-in type.
"""

from __future__ import annotations

import threading  # the Lambda runtime has these loaded
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


class Turn:
    """One at a time. ``take`` before a ``try`` would leak a turn that is interrupted in between: take it inside.

    turn_of_mine = object()
    try:
        if turn.take(turn_of_mine):
            ...
    finally:
        turn.give_back(turn_of_mine)
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[None, object] = {}

    def take(self, who: object) -> bool:
        """Whether it is the turn of ``who`` now: nobody had it, or ``who`` has it already."""
        return self._taken.setdefault(None, who) is who

    def give_back(self, who: object) -> None:
        """End the turn of ``who``; nothing where it is another's."""
        if self._taken.get(None) is who:
            del self._taken[None]
