"""The locks that a client has acquired and not released yet. Closing the client releases them.

Each step is a single operation on a dict, because signal handlers, finalizers and other threads may run in between.
"""

from __future__ import annotations

import os
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..core.protocol import Hold


class _Entry:
    __slots__ = ("handle", "pid")

    def __init__(self, pid: int) -> None:
        self.handle: weakref.ref[Any] | None = None
        self.pid = pid


class OpenLocks:
    """Holds, each with its handle (a HeldLock) once there is one.

    Handles are referenced weakly, so a lock that the application forgets is not renewed for ever. Its hold stays here
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

    def attach(self, hold: Hold, handle: Any) -> None:
        """Note the handle of a hold. This does nothing if close() has released the hold meanwhile."""
        entry = self._entries.get(hold)
        if entry is not None:
            entry.handle = weakref.ref(handle)

    def discard(self, hold: Hold) -> None:
        """Drop a hold that was released or lost, or that other code will release."""
        self._entries.pop(hold, None)

    def __contains__(self, hold: Hold) -> bool:
        return hold in self._entries

    def holds(self) -> frozenset[Hold]:
        return frozenset(self._entries)

    def has_owner(self, owner: str | None) -> bool:
        """Whether one of the holds has this owner."""
        return owner is not None and any(hold.owner == owner for hold in self.holds())

    def handled(self) -> Iterator[Any]:
        """The handles of the holds, including those that a forked child got from its parent."""
        for _, entry in self._found():
            handle = None if entry.handle is None else entry.handle()
            if handle is not None:
                yield handle

    def forgotten(self) -> Iterator[Hold]:
        """The holds of this process without a handle: it was collected, or an interrupt came before it was made."""
        for hold, entry in self._found():
            if entry.pid == os.getpid() and (entry.handle is None or entry.handle() is None):
                yield hold

    def abandon(self, *, but: frozenset[Hold] = frozenset()) -> None:
        """Leave all locks to their lease, except ``but``."""
        for handle in self.handled():
            if handle.hold not in but and handle.is_open():
                handle.abandon()
        for hold in self.forgotten():
            if hold not in but:
                self.discard(hold)

    def _found(self) -> Iterator[tuple[Hold, _Entry]]:
        # Only the keys are copied. A list of items would make tuples, and the garbage collector may run then: its
        # finalizers change the dict.
        for hold in list(self._entries):
            entry = self._entries.get(hold)
            if entry is not None:
                yield hold, entry
