"""The parts of the proof: which programs run, for how long, and what each figure of theirs counts as."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.engine import ROOT

from .bench import DOUBLE_HOLDERS, KILLED, MUTANTS

_STATES, _GRANTS, _HISTORIES = "states explored", "simulated grants", "histories checked"
_KILLS, _INPUTS = "real kills and freezes", "inputs fuzzed"
# The lines at the end, in this order. Parts name their figures like this. `MUTANTS` is the second number of `KILLED`.
COUNTED = (_STATES, KILLED, _GRANTS, _HISTORIES, _KILLS, _INPUTS, DOUBLE_HOLDERS)
_GIVING_WAY = ("nice", "-n", "10")


@dataclass(frozen=True)
class Part:
    """One program. It writes its figures as a JSON object, and ends with 0 if all is well.

    short, long: its arguments in `make prove` and in `make prove-long`.
    counts: those of its figures that are added up at the end (`COUNTED`, and `MUTANTS`).
    aside: whether it runs beside all others, and takes only the time of the processors that they leave.
    limits: the minutes that it may take in `make prove` and in `make prove-long`. Then it is ended, and has failed.
    """

    name: str
    module: str
    short: str = ""
    long: str = ""
    counts: tuple[str, ...] = ()
    aside: bool = False
    limits: tuple[float, float] = (20, 480)

    @property
    def is_missing(self) -> bool:
        return not Path(ROOT, *self.module.split("."), "__main__.py").exists()

    def arguments(self, long: bool) -> list[str]:
        """Its command line, as a reader would type it after ``python``."""
        return ["-m", self.module, *(self.long if long else self.short).split()]

    def command(self, long: bool, file: Path) -> list[str]:
        """The command that leaves the figures in the file."""
        return [*(_GIVING_WAY if self.aside else []), sys.executable, *self.arguments(long), "--json", str(file)]

    def limit(self, long: bool) -> float:
        """The seconds that it may take."""
        return 60 * self.limits[long]

    def count(self, figures: dict[str, Any]) -> dict[str, int]:
        """What the figures add to the lines at the end. Raises ValueError if one is not there, or is no count."""
        for name in self.counts:
            value = figures.get(name)
            if type(value) is not int or value < 0:
                raise ValueError(f"its figure {name} is {value!r:.100}, which is no count")
        return {name: figures[name] for name in self.counts}


def objection(counted: Mapping[str, int]) -> str:
    """Why these counts are not a proof, although their part ended well. Empty if they are one."""
    if counted.get(DOUBLE_HOLDERS):
        return f"{DOUBLE_HOLDERS}: {counted[DOUBLE_HOLDERS]}"
    if counted.get(KILLED) != counted.get(MUTANTS):
        return f"{KILLED}: {counted.get(KILLED)} of {counted.get(MUTANTS)}"
    nothing = [name for name, number in counted.items() if not number and name != DOUBLE_HOLDERS]
    return f"{nothing[0]}: 0" if nothing else ""


def _mutants(name: str, module: str, options: str = "", longer: str = "") -> Part:
    """The part that plants the mistakes of a proof. Each must be noticed."""
    return Part(f"{name}-mutants", module, f"--mutants {options}", f"--mutants {longer}", (KILLED, MUTANTS))


_EXPLORED, _GRANTED = (_STATES, KILLED, MUTANTS, DOUBLE_HOLDERS), (_GRANTS, DOUBLE_HOLDERS)
_PLAYED, _ENDED = (_HISTORIES, _KILLS, DOUBLE_HOLDERS), (_HISTORIES, DOUBLE_HOLDERS)
_LONG_HISTORIES = "--only callers --operations 1000000 --seconds 180 --threads 16"
_HISTORIES_OF_MUTANTS = "--only callers --engine ministack"
_AT_ONCE = "--only runtime --at-once 3"

PARTS = (
    Part("exploration", "tests.exploration", "--minutes 4 --processes 2", "--minutes 120 --processes 2", _EXPLORED),
    Part("simulation", "tests.simulation", "--minutes 29.3", "--minutes 180", _GRANTED, aside=True, limits=(45, 480)),
    Part("waking", "tests.simulation.waking", "--minutes 1", "--minutes 30", _GRANTED),
    _mutants("waking", "tests.simulation.waking"),
    _mutants("simulation", "tests.simulation"),
    Part("histories", "tests.histories", "--only callers --minutes 2", _LONG_HISTORIES, _PLAYED),
    _mutants("histories", "tests.histories", f"{_HISTORIES_OF_MUTANTS} --seconds 20", _HISTORIES_OF_MUTANTS),
    Part("runtime-faults", "tests.histories", f"{_AT_ONCE} --minutes 2.5", f"{_AT_ONCE} --rounds 600", _PLAYED),
    _mutants("runtime-faults", "tests.histories", _AT_ONCE, _AT_ONCE),
    Part("stopping", "tests.histories", "--only stopping --minutes 1", "--only stopping --minutes 30", _ENDED),
    Part("drivers", "tests.drivers", "--minutes 2", counts=(DOUBLE_HOLDERS,)),
    Part(
        "races",
        "tests.races",
        "--minutes 1.5 --engine ministack",
        "--every access --engine ministack",
        (DOUBLE_HOLDERS,),
    ),
    _mutants("races", "tests.races"),
    Part("fuzzing", "tests.fuzzing", "--minutes 2", "--minutes 60", (_INPUTS, DOUBLE_HOLDERS)),
    Part("expressions", "tests.expressions", "--minutes 1.5", "--minutes 30", (_INPUTS,)),
)
