"""The costs as tables, for the terminal and for three pages of docs/."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.place import place
from benchmarks.scale.prices import DATE, WRITE
from rig.engine import ROOT, Engine

from .measure import HOLDERS, KEYS, OWNER, READERS, Cost, Costs, bench, lock, readers, semaphore, several

SEMAPHORES, SEVERAL, SHARED = (ROOT / "docs" / f"{name}.md" for name in ("semaphores", "several-keys", "shared-locks"))
UNITS_A_SECOND = 1000  # that DynamoDB gives one row: "Burst and adaptive capacity" in its Developer Guide
COMMAND = "python -m benchmarks.costs"

_HELD = {
    "first": "the very first of a new key",
    "free": "a free permit is taken",
    "renewal": "a renewal",
    "release": "a release",
    "refused": "refused with `wait=0`; the error names the holders",
    "dead": "taken from a holder that is dead",
    "correction": "taken with a clock that is a minute fast",
    "waiter": "waiting for one, and its release",
}
_SEVERAL = {
    "take": "all are taken",
    "release": "all are released",
    "renewal": "all are renewed",
    "commit": "a commit of 2 items, instead of the release",
    "refused": "refused at the last key, with what was taken before released",
}


class Report:
    """What was measured. bytes: of a row with all permits held, by the number of holders; 0: a lock's row.
    inside: by the number of readers that are inside, what one of them costs, and the bytes of the row."""

    def __init__(
        self,
        held: dict[int, Costs],
        size: dict[int, int],
        together: dict[int, Costs],
        inside: dict[int, tuple[Costs, int]],
    ) -> None:
        self.held, self.bytes, self.together, self.inside = held, size, together, inside

    def as_json(self) -> dict[str, Any]:
        def plain(found: dict[int, Costs]) -> dict[str, Any]:
            return {str(count): {name: asdict(cost) for name, cost in costs.items()} for count, costs in found.items()}

        inside = {count: costs for count, (costs, _) in self.inside.items()}
        together = {"keys": plain(self.together), "readers": plain(inside)}
        return {"permits": plain(self.held), "bytes": self.bytes, **together}

    def semaphores(self) -> str:
        """What permits cost, beside a lock."""
        units = {name: [_units(self.held[count][name]) for count in (0, *HOLDERS)] for name in _HELD}
        pairs = [found["free"].write_units + found["release"].write_units for found in self.held.values()]
        kilobytes = (f"*{_size(self.bytes[count])}*" for count in self.held)
        return _table(
            ("", "requests", "units: a lock", "1 permit", *(f"{count} permits" for count in HOLDERS[1:])),
            [
                *((title, self._requests(name), *units[name]) for name, title in _HELD.items()),
                ("*the row, with all permits held*", "", *kilobytes),
                ("*a million times taken and released*", "", *(f"*${WRITE * pair:.2f}*" for pair in pairs)),
            ],
        )

    def several(self) -> str:
        """What several keys cost."""
        rows = [(title, *(_both(self.together[count][name]) for count in KEYS)) for name, title in _SEVERAL.items()]
        return _table(("requests, write units", *(f"{count} keys" for count in KEYS)), rows)

    def readers(self) -> str:
        """What a reader costs, and how many of them a row lets in and out each second."""
        pairs = {count: [costs["free"], costs["release"]] for count, (costs, _) in self.inside.items()}
        units = {count: sum(one.write_units for one in pair) for count, pair in pairs.items()}
        rates = {count: UNITS_A_SECOND / units[count] for count in units}
        return _table(
            ("readers inside at once", *map(str, READERS)),
            [
                ("the row", *(_size(full) for _, full in self.inside.values())),
                ("units of one reader, in and out", *(f"{each:g}" for each in units.values())),
                ("**readers a second, at most**", *(f"**{int(rate)}**" for rate in rates.values())),
                ("if each stays for", *(f"{count / rate:.3g} s" for count, rate in rates.items())),
            ],
        )

    def _requests(self, name: str) -> str:
        plain, *others = (_requests(self.held[count][name]) for count in (0, *HOLDERS))
        assert len(set(others)) == 1, f"the requests of {name!r} depend on the number of holders: {others}"
        return others[0] if plain == others[0] else f"{others[0]} (a lock: {plain})"


def measure(engine: Engine, table: str) -> Report:
    """Measure everything. table: empty."""
    with bench(engine, table) as on:
        held, size = {}, {}
        held[0], size[0] = lock(on)
        for holders in HOLDERS:
            held[holders], size[holders] = semaphore(on, holders)
        together = {keys: several(on, keys) for keys in KEYS}
        inside = {count: readers(on, count) for count in READERS}
        return Report(held, size, together, inside)


def pages(report: Report) -> dict[Path, str]:
    """The three pages with the tables in their places."""
    semaphores = (
        f"`{COMMAND}` counts them at the wire. Units are write units, as the engine reports them. For a refused write "
        "they follow from the size of the row, by DynamoDB's rules, and so do the read units of a waiter's look. "
        f"Owners are as long as Lambda's: `{OWNER[:14]}`, a request id and a nonce. "
        f"Dollars: on demand, us-east-1, {DATE}."
    )
    several = f"`{COMMAND}` counts them at the wire. Nothing is read. The items of the commit are charged like locks."
    shared = (
        f"`{COMMAND}` counts the units at the wire, of a reader that comes when the others are inside. DynamoDB gives "
        f"one row {UNITS_A_SECOND:,} write units a second, and the rest follows. Where readers wait, fewer get in: "
        "each of them writes a ticket, too."
    )
    return {
        SHARED: place(SHARED.read_text(), "readers", f"{report.readers()}\n\n{shared}\n"),
        SEMAPHORES: place(SEMAPHORES.read_text(), "costs", f"{report.semaphores()}\n\n{semaphores}\n"),
        SEVERAL: place(SEVERAL.read_text(), "costs", f"{report.several()}\n\n{several}\n"),
    }


def _size(row: int) -> str:
    """The size of a row of so many bytes, coarse enough to be the same in each run: numbers vary by some digits."""
    return f"{row / 1024:.{0 if row >= 512 else 1}f} KB"


def _requests(cost: Cost) -> str:
    return f"{cost.writes} and the looks" if cost.reads else str(cost.writes)


def _units(cost: Cost) -> str:
    return f"{cost.write_units:g}" + (f", {cost.read_units:g} a look" if cost.reads else "")


def _both(cost: Cost) -> str:
    return f"{cost.writes}, {cost.write_units:g}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)
