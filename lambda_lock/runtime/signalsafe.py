"""Two counterparts of `threading` classes that use no locks: `Flag` (an Event) and `Turn` (a Lock that never blocks).

A signal handler interrupts the main thread at any point, and a finalizer any thread. A forked child starts with the
locks of threads that it does not have. A lock that one of these waits for may never be released. So the code that they
may call uses these classes. Each of their steps is a single operation of a built-in type.

What the package does about forks and interrupts:

- Whoever takes a lock notes the process before the owner is drawn (`KeepOptions.pid`). No other process renews or
  releases it (`LastActs.check_process`), and steps that are under way send nothing in a forked child (drive.py).
- A fork waits until no other thread imports a module for this library, or makes what is shared (first_use.py).
- What interrupts steps is thrown into them. They release what they may have taken, and then it propagates (drive.py).
  `Fresh.give_back` does so from the grant until acquire returns. Closing the client releases what is left.
- A release follows a last act that was interrupted (`LastActs.give_up`).
"""

from __future__ import annotations

import threading  # the Lambda runtime has these loaded
import weakref
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType


class Flag:
    """A flag that is set once. Any thread can wait for it."""

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
            with suppress(ValueError):  # it was already taken out and opened
                self._gates.remove(gate)
        return self.is_set


class Caller:
    """Identifies a call that takes a turn."""

    __slots__ = ("__weakref__",)


class Turn:
    """One call at a time has the turn. It lasts until it is given back, or until its Caller no longer exists.

    A call that takes a turn keeps its Caller in a local variable. So the turn ends with the call, even if an interrupt
    prevents the call from giving the turn back.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[None, weakref.ref[Caller]] = {}

    def take(self, caller: Caller) -> bool:
        """Take the turn if it is free. Return whether ``caller`` has it, also if it had it before."""
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
