"""The parts of the proof: which programs run, for how long, and what each figure of theirs counts as."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rig.engine import ROOT

# The lines at the end, in this order. "mutants" is the second number of "mutants killed: N of N".
COUNTED = (
    "states explored",
    "mutants killed",
    "simulated grants",
    "histories checked",
    "real kills and freezes",
    "inputs fuzzed",
    "double holders",
)
_GIVING_WAY = ("nice", "-n", "10")


@dataclass(frozen=True)
class Part:
    """One program. It writes its figures as a JSON object, and ends with 0 if all is well.

    short, long: its arguments in `make prove` and in `make prove-long`.
    counts: for each line at the end (`COUNTED`, or "mutants"), the figures that are added to it; "a.b" is b within a.
    aside: whether it runs beside all others, and takes only the time of the processors that they leave.
    limits: the minutes that it may take in `make prove` and in `make prove-long`. Then it is ended, and has failed.
    """

    name: str
    module: str
    short: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    counts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aside: bool = False
    limits: tuple[float, float] = (20, 480)

    @property
    def is_missing(self) -> bool:
        return not Path(ROOT, *self.module.split("."), "__main__.py").exists()

    def arguments(self, long: bool) -> list[str]:
        """Its command line, as a reader would type it after ``python``."""
        return ["-m", self.module, *(self.long if long else self.short)]

    def command(self, long: bool, file: Path) -> list[str]:
        """The command that leaves the figures in the file."""
        return [*(_GIVING_WAY if self.aside else []), sys.executable, *self.arguments(long), "--json", str(file)]

    def limit(self, long: bool) -> float:
        """The seconds that it may take."""
        return 60 * self.limits[long]

    def count(self, figures: dict[str, Any]) -> dict[str, int]:
        """What the figures add to the lines at the end. Raises ValueError if one is not there, or is no count."""
        return {line: sum(_find(figures, name) for name in names) for line, names in self.counts.items()}


def objection(counted: Mapping[str, int]) -> str:
    """Why what a part counted is no proof, although the part ended well. Empty if it is one."""
    if counted.get("double holders"):
        return f"double holders: {counted['double holders']}"
    if counted.get("mutants killed") != counted.get("mutants"):
        return f"mutants killed: {counted.get('mutants killed')} of {counted.get('mutants')}"
    nothing = [line for line, number in counted.items() if not number and line != "double holders"]
    return f"{nothing[0]}: 0" if nothing else ""


def _find(figures: dict[str, Any], name: str) -> int:
    first, _, rest = name.partition(".")
    value: Any = figures.get(first)
    if rest and isinstance(value, dict):
        value = value.get(rest, 0)  # a table of counts leaves out what never happened
    if type(value) is not int or value < 0:
        raise ValueError(f"its figure {name} is {value!r:.100}, which is no count")
    return value


_NOBODY: dict[str, tuple[str, ...]] = {"double holders": ("double_holders",)}
_MUTANTS = {"mutants killed": ("killed",), "mutants": ("mutants",)}

PARTS = (
    Part(
        "exploration",
        "tests.exploration",
        ("--minutes", "4", "--processes", "2"),
        ("--minutes", "120", "--processes", "2"),
        {"states explored": ("states",)} | _MUTANTS | _NOBODY,
    ),
    Part(
        "simulation",
        "tests.simulation",
        ("--minutes", "29.3"),
        ("--minutes", "180"),
        {"simulated grants": ("grants",)} | _NOBODY,
        aside=True,
        limits=(45, 480),
    ),
    Part("simulation-mutants", "tests.simulation", ("--mutants",), ("--mutants",), _MUTANTS),
    Part(
        "histories",
        "tests.histories",
        ("--minutes", "2"),
        ("--operations", "1000000", "--seconds", "180", "--threads", "16"),
        _NOBODY | {"histories checked": ("histories",), "real kills and freezes": ("killed", "frozen")},
    ),
    Part(
        "histories-mutants",
        "tests.histories",
        ("--mutants", "--engine", "ministack", "--seconds", "20"),
        ("--mutants", "--engine", "ministack"),
        _MUTANTS,
    ),
    Part(
        "runtime-faults",
        "tests.runtime_faults",
        ("--minutes", "2.5"),
        ("--rounds", "600"),
        _NOBODY | {"real kills and freezes": ("happened.killed", "happened.frozen")},
    ),
    Part("runtime-faults-mutants", "tests.runtime_faults", ("--mutants",), ("--mutants",), _MUTANTS),
    Part("drivers", "tests.drivers", ("--minutes", "2"), counts=_NOBODY),
    Part(
        "races",
        "tests.races",
        ("--minutes", "1.5", "--engine", "ministack"),
        ("--every", "access", "--engine", "ministack"),
        _NOBODY,
    ),
    Part("races-mutants", "tests.races", ("--mutants",), ("--mutants",), _MUTANTS),
    Part(
        "fuzzing",
        "tests.fuzzing",
        ("--minutes", "2"),
        ("--minutes", "60"),
        {"inputs fuzzed": ("inputs",)} | _NOBODY,
    ),
    Part(
        "expressions",
        "tests.expressions",
        ("--minutes", "1.5"),
        ("--minutes", "30"),
        {"inputs fuzzed": ("inputs",)},
    ),
)
