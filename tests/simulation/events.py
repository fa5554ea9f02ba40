"""Events: what is delivered again and again, and by rights handled once for each window.

A client's turn is a delivery. What was not told "done" (a handler that failed, died, or was too late) comes again; what
was may come again too, and duplicates come at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .world import World


class Events:
    """The events of a run, or its locks. keys: those that clients draw from, shared with them."""

    def __init__(self, world: World, keys: list[str]) -> None:
        self.world = world
        self.keys = keys
        self.all = list(keys)
        self._windows: dict[str, int] = {}

    def window(self, key: str) -> int:
        """Of the event of that key: what makes the wish for a lock one for the event."""
        if key not in self._windows:
            rng, scale = self.world.rng, self.world.scale
            windows = {"short": (1, 2, 1 + int(scale * rng.uniform(0, 1.5))), "hour": (3600,)}
            self._windows[key] = rng.choice(windows[rng.choice(self.world.settings.windows)])
        return self._windows[key]

    def told_done(self, key: str) -> None:
        """A delivery was answered "done": perhaps a new event comes in its place, perhaps it comes once more."""
        if key in self.keys and self.world.rng.random() < self.world.settings.next_event:
            new = f"{key[0]}{len(self.all)}"
            self.keys[self.keys.index(key)] = new
            self.all.append(new)
