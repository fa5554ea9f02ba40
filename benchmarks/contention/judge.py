"""What the workers' reports say: throughput, waits, requests, order, and whether two ever held the lock at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

_TIE = 0.05  # seconds by which the answers to two requests for a ticket may come in another order


@dataclass(frozen=True)
class Run:
    """One run of one contestant. Times are in seconds.

    longest: the longest wait, also of those that had not ended. open: whether that one had not.
    starved: workers that never got the lock.
    idle: mean time in which nobody held the lock, from one grant's end to the next.
    passed: share of the grants for which somebody waited who had asked earlier. most_passed: by how many of them one
        wait was passed at most.
    out_of_line: grants that passed a waiter whose ticket was older by _TIE or more.
    removed: tickets that vanished although their waiter lived.
    faults: double holders, and tokens that did not rise.
    cpu: of the engine, of the contestant and of everything else on the machine, in cores; None: not known.
    """

    grants: int
    per_second: float
    wait_median: float
    wait_p95: float
    longest: float
    open: bool
    starved: int
    idle: float
    writes: float
    reads: float
    passed: float
    most_passed: int
    out_of_line: int
    removed: int
    faults: list[str]
    errors: list[str]
    cpu: dict[str, float] | None

    def as_json(self) -> dict[str, Any]:
        return {name: round(value, 5) if isinstance(value, float) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Wait:
    """asked: when it began. placed: when its ticket was seen. granted, ended: when the hold began and ended."""

    asked: float
    placed: float | None
    granted: float | None
    ended: float | None
    token: int | None


def judge(report: dict[str, Any], cpu: dict[str, float] | None = None) -> Run:
    """The figures of a report from its "start" on. Whether holds overlap is judged of all of them."""
    start, end, workers = report["start"], report["end"], report["workers"]
    waits = [Wait(*wait) for worker in workers for wait in worker["waits"]]
    all_grants = sorted((wait for wait in waits if wait.granted is not None), key=_granted)
    grants = [wait for wait in all_grants if _granted(wait) >= start]
    took = sorted(_granted(wait) - wait.asked for wait in grants)
    unfinished = [end - wait.asked for wait in waits if wait.granted is None]
    passed = [_passed(grant, waits) for grant in grants]
    by: dict[int, int] = {}  # how often each wait was passed
    for waiting in passed:
        for one in waiting:
            by[id(one)] = by.get(id(one), 0) + 1
    count = len(grants) or 1
    pairs = list(pairwise(grants))
    return Run(
        grants=len(grants),
        per_second=len(grants) / (end - start),
        wait_median=median(took) if took else 0.0,
        wait_p95=took[int(0.95 * (len(took) - 1))] if took else 0.0,
        longest=max([*took, *unfinished], default=0.0),
        open=max(unfinished, default=0.0) > max(took, default=0.0),
        starved=sum(bool(worker["waits"]) and worker["waits"][0][2] is None for worker in workers),
        idle=sum(_granted(after) - (before.ended or end) for before, after in pairs) / (len(pairs) or 1),
        writes=sum(worker["writes"] for worker in workers) / count,
        reads=sum(worker["reads"] for worker in workers) / count,
        passed=sum(bool(waiting) for waiting in passed) / count,
        most_passed=max(by.values(), default=0),
        out_of_line=sum(_is_out_of_line(grant, waits) for grant in grants),
        removed=sum(worker["removed"] for worker in workers),
        faults=_faults(all_grants),
        errors=[error for worker in workers for error in worker["errors"]],
        cpu=cpu,
    )


def _granted(wait: Wait) -> float:
    assert wait.granted is not None
    return wait.granted


def _passed(grant: Wait, waits: list[Wait]) -> list[Wait]:
    """The waits that began before this one, and still went on when it was granted the lock."""
    at = _granted(grant)
    return [wait for wait in waits if wait.asked < grant.asked and (wait.granted is None or wait.granted > at)]


def _is_out_of_line(grant: Wait, waits: list[Wait]) -> bool:
    at, since = _granted(grant), grant.placed or _granted(grant)
    return any(
        wait.placed is not None and wait.placed + _TIE < since and (wait.granted is None or wait.granted > at)
        for wait in waits
        if grant.token is not None and wait is not grant
    )


def _faults(grants: list[Wait]) -> list[str]:
    faults = []
    for before, after in pairwise(grants):
        if before.ended is None or _granted(after) < before.ended:
            faults.append(f"two held the lock at {_granted(after):.6f} s")
        if before.token is not None and after.token is not None and after.token <= before.token:
            faults.append(f"token {after.token} came after {before.token}")
    return faults
