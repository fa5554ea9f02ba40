"""Which job comes next, and how much of the time it gets.

All mutants come first, and take as long as they need. Then the time of the cases begins. The case is next that needs
the least time, as far as is known: each gets the same time at first, which is a quarter of an equal share; more if it
was not enough; and for wider bounds a multiple of what the narrower ones took. A case that has completed no bounds yet
counts as one that needs less than that. So no case waits for another one to end, and what one does not need is left to
the others.
"""

import time
from collections import deque
from typing import Any, NamedTuple

from .cases import CASES

MOST = 6_000_000  # states of one exploration: they are kept in memory, about 500 bytes each
FIRST = 4  # the first time of a case, as a part of an equal share
URGENT = 4  # a case that has completed no bounds is next even if it needs so many times as long as the others
MORE = 3  # times as long, for one that was not complete, and for the next bounds of one that was


class Job(NamedTuple):
    """An exploration of the case ``name`` within the bounds of one of its widths, or a trial of the mutant ``name``.

    seconds: how long it may take. deadline: of all, by time.monotonic.
    """

    kind: str
    name: str
    width: int = 0
    seconds: float = float("inf")
    deadline: float = float("inf")

    def until(self) -> float:
        return min(time.monotonic() + self.seconds, self.deadline)


class Try(NamedTuple):
    """The next try of a case.

    spent: the seconds of the last one within the same bounds, which was not enough. likely: what this one may need. A
        case that was never begun is always next.
    """

    width: int
    spent: float
    likely: float

    def rank(self) -> float:
        """The lowest is next."""
        return self.likely if self.width else self.likely / URGENT


class Plan:
    """The jobs of a run.

    seconds: for the cases, from the first job that is not a mutant. Then only cases that were never begun are begun.
    processes: how many jobs run at once.
    """

    def __init__(self, mutants: list[str], cases: list[str], seconds: float, processes: int) -> None:
        self.seconds, self.processes = seconds, processes
        self.deadline: float | None = None  # of the cases, by time.monotonic
        self._mutants = deque(mutants)
        self._next = {name: Try(0, -float("inf"), 0.0) for name in cases}
        self._first = seconds * processes / max(len(cases), 1) / FIRST  # seconds that each case gets at first

    def take(self) -> Job | None:
        """The next job. None if there is none, or none before one that runs is done."""
        if self._mutants:
            return Job("mutant", self._mutants.popleft())
        if self.deadline is None:
            self.deadline = time.monotonic() + self.seconds
        left = self.deadline - time.monotonic()
        worth = [name for name, one in self._next.items() if one.spent < left]
        if not worth:
            return None
        name = min(worth, key=lambda name: self._next[name].rank())
        one = self._next.pop(name)
        return Job("case", name, one.width, max(one.likely, self._first), self.deadline)

    def note(self, result: dict[str, Any]) -> None:
        """A job is done. Its case comes again, unless it failed, is complete, or is too large."""
        if result["kind"] == "mutant" or result["failure"]:
            return
        name, width, seconds = result["name"], result["width"], result["seconds"]
        if not result["complete"] and result["states"] < MOST:
            self._next[name] = Try(width, seconds, MORE * seconds)
        elif result["complete"] and width + 1 < len(CASES[name]):
            self._next[name] = Try(width + 1, 0.0, MORE * seconds)
