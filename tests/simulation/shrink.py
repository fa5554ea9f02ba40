"""Shrinks a failing run to the least that still fails in the same way.

Every random draw is recorded under the place in the code that made it, the process that it was for, and how often that
had happened before. A replay gives the recorded draws again. One that was dropped, or that is new, gets a value with
which nothing happens: no fault, the first choice. First the settings are reduced (fewer clients and grants, one fault
after the other switched off), then draws are dropped: all of one place, all of one process there, and then ever smaller
parts of what is left. A reduction is kept if the run still fails in the same way, in no more steps.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from .mutations import broken
from .runs import FAULTS, simulate
from .schedule import BIASES, settings_for
from .world import Process, World

#: Which kind of failure is shrunk if a run fails in several ways.
_WORST = ("overlap", "robbed", "late write", "done again", "token")
_NOTHING = 0.999999  # a fault happens if a draw is below its probability
_NAME_BITS = 64  # draws of so many bits are names, which must differ
_DEPTH = 16  # frames between a draw and the task that it is for
_NEVER = (
    *FAULTS, "answered_twice", "dateless", "die", "give_up", "reheartbeat", "pair", "other_lease", "commit", "replace",
    "hand_over", "delete", "delete_all", "delete_some", "queue", "event", "forge", "forget", "hold_on", "adopt",
    "twice", "zombies", "fail_fast", "deadline", "late_release", "several", "front_ends", "extreme_rates")  # fmt: skip

Site = tuple[str, int, str]  # function, line and process
Draw = tuple[Site, int]  # ... and how often before
_LINE = re.compile(r" *([\d.]+)  (\S+) +(.*)")


class Step:
    """One line of a run's trace. holders: who holds a valid lock after it, in true time, by process."""

    def __init__(self, line: str, holders: frozenset[str]) -> None:
        found = _LINE.fullmatch(line)
        assert found is not None, line
        self.at = float(found.group(1))
        self.who = found.group(2)
        self.what = found.group(3)
        self.holders = holders


class _Over(BaseException):
    """The run has failed as it should."""


class Replay:
    """One run. kept: the draws that are given again; None: each is drawn, and recorded."""

    def __init__(self, recorded: dict[Draw, Any], kept: set[Draw] | None, kind: str | None) -> None:
        self.recorded = recorded
        self.steps: list[Step] = []
        self._kept = kept
        self._kind = kind
        self._counts: Counter[Site] = Counter()
        self._world: World | None = None
        self._over = False

    def run(self, seed: int, bias: str | None, changes: dict[str, Any]) -> dict[str, str]:
        """Returns the failures: those of the kind only, if there is one, and none after it."""
        try:
            failures = simulate(seed, bias, self.trace, lambda seed: _Draws(self, seed), changes, self.observe).failures
        except _Over:
            return {str(self._kind): ""}
        return failures if self._kind is None else {}

    def observe(self, world: World) -> None:
        self._world = world

    def trace(self, line: str) -> None:
        if self._over:
            return
        self.steps.append(Step(line, self._holders()))
        if self._kind is not None and f"  JUDGE      {self._kind}: " in line:
            self._over = True
            raise _Over

    def _holders(self) -> frozenset[str]:
        assert self._world is not None
        before = self.steps[-1].holders if self.steps else frozenset()
        found = set()
        for process in self._world.processes:
            holdings = [holding for holding in process.holdings if not holding.over]
            if process.frozen:  # reading clocks that stand would move them by a rounding error
                held = bool(holdings) and process.name in before
            else:
                held = any(holding.is_held(process.peek()) for holding in holdings)
            found |= {process.name} if held else set()
        return frozenset(found)

    def draw(self, value: Any, nothing: Any) -> Any:
        site = _site(sys._getframe(2))
        draw = site, self._counts[site]
        self._counts[site] += 1
        if self._kept is None:
            self.recorded[draw] = value
            return value
        return self.recorded[draw] if draw in self._kept else nothing


class _Draws(random.Random):
    def __new__(cls, replay: Replay, seed: int) -> _Draws:
        return super().__new__(cls)

    def __init__(self, replay: Replay, seed: int) -> None:
        super().__init__(seed)
        self._replay = replay

    def random(self) -> float:
        return float(self._replay.draw(super().random(), _NOTHING))

    def getrandbits(self, bits: int) -> int:
        value = super().getrandbits(bits)
        return value if bits >= _NAME_BITS else int(self._replay.draw(value, 0))


def _site(frame: FrameType | None) -> Site:
    """Where a draw is made, and for which process."""
    while frame is not None and frame.f_code.co_filename in (random.__file__, __file__):
        frame = frame.f_back
    assert frame is not None
    function, line = frame.f_code.co_name, frame.f_lineno
    for _ in range(_DEPTH):
        if frame is None:
            break
        for owner in (frame.f_locals.get("task"), frame.f_locals.get("self")):
            process = getattr(owner, "process", owner)
            if isinstance(process, Process):
                return function, line, process.name
        frame = frame.f_back
    return function, line, ""


class Shrinker:
    """Looks for the least failing run. steps: until the failure. runs: how many were tried."""

    def __init__(self, seed: int, bias: str | None, kind: str, most: int, tell: Callable[[str], None]) -> None:
        self.seed = seed
        self.bias = bias
        self.kind = kind
        self.most = most
        self.tell = tell
        self.runs = 0
        self.recorded: dict[Draw, Any] = {}
        first = Replay(self.recorded, None, kind)
        if not first.run(seed, bias, {}):
            raise AssertionError(f"the recorded run has no {kind}")
        self.steps = first.steps
        self.changes: dict[str, Any] = {}
        self.kept = set(self.recorded)

    def try_(self, changes: dict[str, Any], kept: set[Draw]) -> bool:
        """Keep the reduction if the run still fails in the same way, in no more steps."""
        if self.runs >= self.most:
            return False
        self.runs += 1
        replay = Replay(self.recorded, kept, self.kind)
        if not replay.run(self.seed, self.bias, changes) or len(replay.steps) > len(self.steps):
            return False
        self.changes, self.kept, self.steps = changes, kept, replay.steps
        self.tell(f"{self.runs} runs: {len(self.steps)} steps")
        return True

    def shrink(self) -> None:
        before = None
        while before != (len(self.steps), len(self.kept)) and self.runs < self.most:
            before = len(self.steps), len(self.kept)
            self.settings()
            self.groups(lambda draw: draw[0][:2])
            self.groups(lambda draw: draw[0])
            self.parts()

    def settings(self) -> None:
        fewer: list[tuple[str, tuple[Any, ...]]] = [("grants", (1, 2, 3, 4, 6)), ("clients", tuple(zip(range(5))))]
        fewer += [(name, (0.0,)) for name in _NEVER if self.changes.get(name) != 0]
        for name, values in [*fewer, ("keys", ((1,),))]:
            any(self.try_({**self.changes, name: value}, self.kept) for value in values)

    def groups(self, by: Callable[[Draw], Any]) -> None:
        groups: dict[Any, set[Draw]] = {}
        for draw in self.recorded:
            if draw in self.kept:
                groups.setdefault(by(draw), set()).add(draw)
        for group in groups.values():
            self.try_(self.changes, self.kept - group)

    def parts(self) -> None:
        """Drop ever smaller parts of the draws that are left, in the order in which they were made."""
        left = [draw for draw in self.recorded if draw in self.kept]
        size = len(left) // 2
        while size and self.runs < self.most:
            for start in range(0, len(left), size):
                self.try_(self.changes, self.kept - set(left[start : start + size]))
            left = [draw for draw in left if draw in self.kept]
            size //= 2


def kind_of(failures: Iterable[str]) -> str:
    """The kind of failure that is shrunk."""
    found = list(failures)
    return next((kind for kind in _WORST if kind in found), found[0])


def shrink(
    seed: int, bias: str | None, rule: str | None = None, most: int = 600, tell: Callable[[str], None] = lambda _: None
) -> Shrinker | None:
    """Shrink a run in at most so many more runs. None if it does not fail. If a rule is named, it is broken.

    tell: is given the progress.
    """
    with broken(rule):
        failures = simulate(seed, bias).failures
        if not failures:
            return None
        shrinker = Shrinker(seed, bias, kind_of(failures), most, tell)
        shrinker.shrink()
    return shrinker


assert all(hasattr(settings_for(bias), name) for bias in list(BIASES)[:1] for name in _NEVER)
