"""What waiting in order is to reach, and whether it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .rows import SWEEP_HOLD, Row
from .summary import Median

Results = Mapping[Row, Mapping[str, Median]]

_LONGEST = 1.4  # times (workers - 1) holds
_THROUGHPUT = 0.95  # of the same code with queue=False
_GROWTH = 4 / 3  # of the requests of a grant, from 16 to 64 workers


@dataclass(frozen=True)
class Verdict:
    """One target: what is asked, what was measured, and whether that holds."""

    what: str
    measured: str
    held: bool


def verdicts(results: Results) -> list[Verdict]:
    found: list[Verdict] = []
    for row, medians in results.items():
        ours = medians.get("queue")
        if ours is None:
            continue
        for what, value, limit, at_least in _of_row(row, ours):
            held = value >= limit if at_least else value <= limit
            found.append(Verdict(f"{row.title}: {what}", f"{value:.3g}", held))
        poll = medians.get("poll")
        if poll is not None:
            share = poll.cycle(row.hold) / ours.cycle(row.hold)
            what = f"{row.title}: at least {_THROUGHPUT} of the throughput with queue=False"
            found.append(Verdict(what, f"{share:.3f}", share >= _THROUGHPUT))
        found.append(Verdict(f"{row.title}: no living waiter is removed", str(ours.removed), not ours.removed))
    by_workers = {
        row.workers: medians["queue"]
        for row, medians in results.items()
        if "queue" in medians and row.hold == SWEEP_HOLD and not row.exponential
    }
    if {16, 64} <= by_workers.keys():
        growth = by_workers[64].requests / by_workers[16].requests
        what = "requests of a grant grow by at most a third from 16 to 64 workers"
        found.append(Verdict(what, f"{growth:.2f} times", growth <= _GROWTH))
    faults = [fault for medians in results.values() for median in medians.values() for fault in median.faults]
    found.append(Verdict("no two hold the lock at once, and tokens rise", faults[0] if faults else "0", not faults))
    return found


def _of_row(row: Row, ours: Median) -> list[tuple[str, float, float, bool]]:
    if row.exponential:
        return []
    longest = _LONGEST * (row.workers - 1) * row.hold
    holds = ours.longest / ((row.workers - 1) * row.hold)
    many: dict[tuple[int, float], Callable[[], list[tuple[str, float, float, bool]]]] = {
        (8, 0.02): lambda: [
            ("at least 30 locks a second", ours.per_second, 30, True),
            ("the longest wait is 0.4 s or less", ours.longest, 0.4, False),
            ("at most 4.3 writes a grant", ours.writes, 4.3, False),
            ("at most 5 reads a grant", ours.reads, 5, False),
        ],
        (8, 0.3): lambda: [
            (f"the longest wait is at most {_LONGEST} (N - 1) holds, {longest:.2f} s", holds, _LONGEST, False),
            ("at most 11 requests a grant", ours.requests, 11, False),
        ],
        (32, 0.2): lambda: [
            (f"the longest wait is at most {_LONGEST} (N - 1) holds, {longest:.2f} s", holds, _LONGEST, False),
            ("at most 13 requests a grant", ours.requests, 13, False),
        ],
    }
    return many.get((row.workers, row.hold), list)()
