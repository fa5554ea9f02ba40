"""DynamoDB's time to live: it deletes a row some time after the row's ttl, up to days late, and never early.

DynamoDB says "within a few days" (Developer Guide, "Time to Live"). Tests see it after seconds. So both are tried. A
row that was renewed or taken meanwhile has a later ttl, and stays.
"""

from lambda_lock.core.schema import JAVA

from .clocks import EPOCH
from .world import World

DAY = 86_400.0


class Reaper:
    def __init__(self, world: World) -> None:
        self.world = world
        self._planned: set[tuple[str, float]] = set()

    def wrote(self, key: str) -> None:
        """A row was written: plan its end, if nobody writes it again."""
        end, rng = self._end(key), self.world.rng
        if end is None or (key, end) in self._planned:
            return
        self._planned.add((key, end))
        for _ in range(2):
            late = 10 ** rng.uniform(-2, 2) if rng.random() < 0.7 else rng.uniform(0, 2 * DAY)
            self.world.at(max(end, self.world.now) + late, self.delete, key)

    def delete(self, key: str) -> None:
        """Delete the row, if its time is over now by DynamoDB's clock, which may be a little fast."""
        world, end = self.world, self._end(key)
        if end is None or end > world.now + world.settings.front_ends:
            return
        before = world.table.get(key)
        assert before is not None
        world.table.store(world.table.key(before, False), None)
        world.counts["rows reaped"] += 1
        world.trace("DynamoDB", f"deletes {key}, whose time to live is over")
        world.judge.reaped(key, before)

    def _end(self, key: str) -> float | None:
        """The true time at which the row may go."""
        row = self.world.table.get(key)
        return None if row is None or JAVA.ttl not in row else int(row[JAVA.ttl]["N"]) - EPOCH
