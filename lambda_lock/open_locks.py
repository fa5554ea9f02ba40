"""What a client has taken and not given back yet: all that its close() has to release.

Every step is a single operation on a dict, so that signal handlers, finalizers and other threads may come in between.
"""

from __future__ import annotations

import os
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .core.protocol import Hold
    from .lock import Lock


class _Entry:
    __slots__ = ("handle", "pid")

    def __init__(self) -> None:
        self.handle: weakref.ref[Lock] | None = None
        self.pid = os.getpid()


class OpenLocks:
    """Holds, and their handles where there are any.

    Handles are held weakly: what the application forgets is not renewed for ever. Its hold stays, to be released.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[Hold, _Entry] = {}

    def add(self, hold: Hold) -> None:
        """A lock that was granted: from here on it is released by close(), if by nobody else."""
        self._entries[hold] = _Entry()

    def attach(self, hold: Hold, lock: Lock) -> None:
        """The handle of a hold; nothing where close() has given it back meanwhile."""
        entry = self._entries.get(hold)
        if entry is not None:
            entry.handle = weakref.ref(lock)

    def discard(self, hold: Hold) -> None:
        """It was given back, lost, or is another's to give back."""
        self._entries.pop(hold, None)

    def __contains__(self, hold: Hold) -> bool:
        return hold in self._entries

    def holds(self) -> frozenset[Hold]:
        return frozenset(self._entries)

    def locks(self) -> Iterator[Lock]:
        """The handles there are, those of a forked child's parent included."""
        for _, entry in self._found():
            lock = None if entry.handle is None else entry.handle()
            if lock is not None:
                yield lock

    def forgotten(self) -> Iterator[Hold]:
        """The holds of this process without a handle: it was collected, or an interrupt came before it was made."""
        for hold, entry in self._found():
            if entry.pid == os.getpid() and (entry.handle is None or entry.handle() is None):
                yield hold

    def _found(self) -> Iterator[tuple[Hold, _Entry]]:
        # The keys alone: a list of items makes tuples, at which the collector may run finalizers that change the dict.
        for hold in list(self._entries):
            entry = self._entries.get(hold)
            if entry is not None:
                yield hold, entry
