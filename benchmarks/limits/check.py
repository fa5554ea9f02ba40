"""Compares what was measured with benchmarks/limits.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    HELD = "held"
    LESS = "less"  # so much less that the limit should follow
    EXCEEDED = "EXCEEDED"
    NO_LIMIT = "NO LIMIT"
    SKIPPED = "skipped"

    @property
    def is_good(self) -> bool:
        return self not in (State.EXCEEDED, State.NO_LIMIT)


@dataclass(frozen=True)
class Limit:
    """measured: the figure when the limit was set. excess: the share by which it may be exceeded. python: the version
    that the limit is for; empty: all."""

    measured: float
    excess: float
    python: str = ""

    @property
    def most(self) -> float:
        return self.measured * (1 + self.excess)


@dataclass(frozen=True)
class Verdict:
    name: str
    state: State
    words: str


def read(text: str) -> dict[str, Limit]:
    """The limits by name. Raises TypeError for a key that no limit has, and tomllib's error for what is not TOML."""
    return {
        f"{group}: {name}": Limit(**limit, **({"python": table["python"]} if "python" in table else {}))
        for group, table in tomllib.loads(text).items()
        for name, limit in table.items()
        if name != "python"
    }


def compare(limits: Mapping[str, Limit], measured: Mapping[str, float], python: str) -> list[Verdict]:
    """measured: figures by the same names. python: the version that runs this, such as "3.11"."""
    found = []
    for name, limit in limits.items():
        if limit.python not in ("", python):
            found.append(Verdict(name, State.SKIPPED, f"its limit is for Python {limit.python}"))
        elif name not in measured:
            found.append(Verdict(name, State.SKIPPED, "not measured"))
        else:
            found.append(_judge(name, limit, measured[name]))
    return found + [
        Verdict(name, State.NO_LIMIT, f"measured {value:,.10g}: add it to limits.toml")
        for name, value in measured.items()
        if name not in limits
    ]


def _judge(name: str, limit: Limit, value: float) -> Verdict:
    words = f"{value:,.10g} of at most {limit.most:,.10g}"
    if value > limit.most:
        return Verdict(name, State.EXCEEDED, f"{words} ({limit.measured:,.10g} and {limit.excess:.0%})")
    if value < limit.measured * (1 - limit.excess):
        return Verdict(name, State.LESS, f"{words}: lower the limit with ARGS=--update")
    return Verdict(name, State.HELD, words)


def update(text: str, measured: Mapping[str, float], python: str) -> str:
    """The file with the new figures. Names, excesses and comments stay, and so do limits for other versions."""
    limits, group, lines = read(text), "", []
    for line in text.splitlines():
        if head := re.fullmatch(r"\[(.+)\]", line):
            group = head[1]
        entry = re.match(r'"(.+?)" = ', line)
        name = f"{group}: {entry[1]}" if entry else ""
        if name in measured and name in limits and limits[name].python in ("", python):
            line = re.sub(r"measured = [\d._]+", f"measured = {_number(measured[name])}", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{int(value):_}" if value == int(value) else f"{value:.3f}"
