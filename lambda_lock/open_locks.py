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
    __slots__ = ("handle", "hold", "pid")

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.handle: weakref.ref[Lock] | None = None
        self.pid = os.getpid()


class OpenLocks:
    """Holds by their owner, and their handles where there are any.

    Handles are held weakly: what the application forgets is not renewed for ever. Its hold stays, to be released.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add(self, hold: Hold) -> None:
        """A lock that was granted: from here on it is released by close(), if by nobody else."""
        self._entries[hold.owner] = _Entry(hold)

    def attach(self, lock: Lock, hold: Hold) -> None:
        """The handle of a hold."""
        entry = _Entry(hold)
        entry.handle = weakref.ref(lock)
        self._entries[hold.owner] = entry

    def discard(self, owner: str) -> None:
        """It was given back, lost, or is another's to give back."""
        self._entries.pop(owner, None)

    def hold(self, owner: str) -> Hold | None:
        entry = self._entries.get(owner)
        return None if entry is None else entry.hold

    def owners(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def locks(self) -> Iterator[Lock]:
        """The handles there are, those of a forked child's parent included."""
        for entry in list(self._entries.values()):
            lock = None if entry.handle is None else entry.handle()
            if lock is not None:
                yield lock

    def forgotten(self) -> Iterator[Hold]:
        """The holds of this process without a handle: it was collected, or an interrupt came before it was made."""
        for entry in list(self._entries.values()):
            if entry.pid == os.getpid() and (entry.handle is None or entry.handle() is None):
                yield entry.hold
