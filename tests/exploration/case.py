"""A case: who takes part, what the table holds at the start, and the bounds of the exploration."""

from dataclasses import dataclass
from typing import Any

from lambda_lock.core.schema import JAVA

from .process import SECOND, Setup
from .table import APPLICATION

START = SECOND + SECOND // 4 - 8  # the last moment at which the slowest front end still shows the second before


@dataclass(eq=False)
class Case:
    """What is explored, and its bounds.

    name: as the command line has it.
    says: what is special about it, in one sentence.
    processes: their setups.
    faults, doubles, interrupts, freezes, deaths: how many of each may happen, at most 9: answers that do not come,
        requests that land a second time, exceptions thrown into an acquire, times for which the clocks of a process
        stop, and processes that die in the middle of a request.
    slow: how often a request, an answer or a process may take time: any time that matters. A slow network and a
        time-out are this, and a process that is frozen while its clocks run.
    losses: whether a request may also be lost for good. (One that is late may stay away, too; this is about what the
        sender can know.)
    flips: how often the application's row begins or ceases to let commits pass.
    conflicts: whether a commit may be refused because of another transaction. That is a fault, too.
    start, seconds: when it begins (in units of true time), and for how long moments matter.
    turns: which turns of the Dates are moments that matter: 0 for those at an expiry in the row, 1 for the first
        moment of each second, 2 also for the last one.
    row: the lock's row at the start. foreign: for how many seconds its holder, a foreign client, is valid.
    permits: N of a semaphore; 1 for a lock.
    """

    name: str
    says: str
    processes: tuple[Setup, ...]
    faults: int = 0
    doubles: int = 0
    interrupts: int = 0
    freezes: int = 0
    deaths: int = 0
    slow: int = 0
    losses: bool = False
    flips: int = 0
    conflicts: bool = False
    start: int = START
    seconds: float = 8.0
    turns: int = 0
    row: Any = None
    foreign: float = 0.0
    permits: int = 1
    is_open: bool = True

    def __post_init__(self) -> None:
        self.horizon = self.start + int(self.seconds * SECOND)
        self.foreign_until = self.start + int(self.foreign * SECOND)
        # Nobody reads the time to live. Only those who queue read for how long the lock was held.
        queues = any(setup.queue for setup in self.processes)
        self.ignored = frozenset() if queues else frozenset({JAVA.ttl, str(JAVA.held_ms)})
        commits = any("commit" in setup.acts for setup in self.processes)
        self.application = application_row(self.is_open) if commits else None

    def bounds(self) -> str:
        """What is bounded, in words. The moves of the application are bounded by the setups."""
        others = ("double", "interrupt", "freeze", "death", "flip")
        counts = {"fault": self.faults, "slow step": self.slow} | {name: getattr(self, f"{name}s") for name in others}
        said = [f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items() if count]
        turns = ("", " with turns", " with turns and the moments before them")[self.turns]
        return ", ".join([*(said or ["no fault"]), f"{self.seconds:g} s{turns}"])

    def flipped(self, item: Any) -> Any:
        return application_row(item["open"]["N"] == "0", item.get("writes"))


def application_row(is_open: bool, writes: Any = None) -> dict[str, Any]:
    row: dict[str, Any] = {"key": {"S": APPLICATION}, "open": {"N": "1" if is_open else "0"}}
    return row if writes is None else {**row, "writes": writes}
