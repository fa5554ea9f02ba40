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
    """

    name: str
    module: str
    short: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    counts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aside: bool = False

    @property
    def is_missing(self) -> bool:
        return not Path(ROOT, *self.module.split("."), "__main__.py").exists()

    def arguments(self, long: bool) -> list[str]:
        """Its command line, as a reader would type it after ``python``."""
        return ["-m", self.module, *(self.long if long else self.short)]

    def command(self, long: bool, file: Path) -> list[str]:
        """The command that leaves the figures in the file."""
        return [*(_GIVING_WAY if self.aside else []), sys.executable, *self.arguments(long), "--json", str(file)]

    def count(self, figures: dict[str, Any]) -> dict[str, int]:
        """What the figures add to the lines at the end."""
        return {line: sum(_find(figures, name) for name in names) for line, names in self.counts.items()}


def _find(figures: dict[str, Any], name: str) -> int:
    value: Any = figures
    for key in name.split("."):
        value = value.get(key, 0) if isinstance(value, dict) else 0
    return int(value)


_NOBODY: dict[str, tuple[str, ...]] = {"double holders": ("double_holders",)}
_MUTANTS = {"mutants killed": ("killed",), "mutants": ("mutants",)}

PARTS = (
    Part(
        "exploration",
        "tests.exploration",
        ("--minutes", "6", "--processes", "2"),
        ("--minutes", "120", "--processes", "2"),
        {"states explored": ("states",)} | _MUTANTS | _NOBODY,
    ),
    Part(
        "simulation",
        "tests.simulation",
        ("--minutes", "27"),
        ("--minutes", "180"),
        {"simulated grants": ("grants",)} | _NOBODY,
        aside=True,
    ),
    Part("simulation-mutants", "tests.simulation", ("--mutants", "--most-runs", "400"), ("--mutants",), _MUTANTS),
    Part(
        "histories",
        "tests.histories",
        ("--minutes", "4"),
        ("--operations", "1000000", "--seconds", "180"),
        _NOBODY | {"histories checked": ("histories",), "real kills and freezes": ("killed", "frozen")},
    ),
    Part(
        "histories-mutants",
        "tests.histories",
        ("--mutants", "--engine", "ministack", "--seconds", "25"),
        ("--mutants", "--engine", "ministack"),
        _MUTANTS,
    ),
    Part(
        "runtime-faults",
        "tests.runtime_faults",
        ("--minutes", "4"),
        ("--rounds", "600"),
        _NOBODY | {"real kills and freezes": ("happened.killed", "happened.frozen")},
    ),
    Part("runtime-faults-mutants", "tests.runtime_faults", ("--mutants",), ("--mutants",), _MUTANTS),
    Part("drivers", "tests.drivers", ("--minutes", "2"), counts=_NOBODY),
    Part(
        "races",
        "tests.races",
        ("--minutes", "2", "--engine", "ministack"),
        ("--every", "access", "--engine", "ministack"),
        _NOBODY,
    ),
    Part("races-mutants", "tests.races", ("--mutants",), ("--mutants",), _MUTANTS),
    Part(
        "fuzzing",
        "tests.fuzzing",
        ("--minutes", "3"),
        ("--minutes", "60"),
        {"inputs fuzzed": ("inputs",)} | _NOBODY,
    ),
    Part(
        "expressions",
        "tests.expressions",
        ("--minutes", "2"),
        ("--minutes", "30"),
        {"inputs fuzzed": ("inputs",)},
    ),
)
