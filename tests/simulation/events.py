"""Events: they are delivered again and again, and should be handled once in each window.

A client's turn is a delivery. An event that was not answered "done" (its handler failed, died, or was too late) comes
again. One that was may come again, too. Duplicates may come at the same time.
"""

from .world import World


class Events:
    """The events of a run, or its locks. keys: the keys that clients draw from; the list is shared with them."""

    def __init__(self, world: World, keys: list[str]) -> None:
        self.world = world
        self.keys = keys
        self.all = list(keys)
        self._windows: dict[str, int] = {}

    def window(self, key: str) -> int:
        """Return for how many seconds the event of that key counts as done."""
        if key not in self._windows:
            rng, scale = self.world.rng, self.world.scale
            windows = {"short": (1, 2, 1 + int(scale * rng.uniform(0, 1.5))), "hour": (3600,), "day": (86_400,)}
            self._windows[key] = rng.choice(windows[rng.choice(self.world.settings.windows)])
        return self._windows[key]

    def told_done(self, key: str) -> None:
        """A delivery was answered "done". A new event may take its place, or the same one may come again."""
        if key in self.keys and self.world.rng.random() < self.world.settings.next_event:
            new = f"{key[0]}{len(self.all)}"
            self.keys[self.keys.index(key)] = new
            self.all.append(new)
