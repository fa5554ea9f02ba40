"""The Dates of the front ends. The library's margins rest on them: core/lease.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ..account import Account
from ..report import BROKEN, HOLDS, NOT_CHECKED, Report

SPREAD = 0.5  # seconds; what core/lease.py allows between two front ends
_CONNECTIONS = 16  # each leads to one front end, and several to different ones
_LOOKS = 8
_TRUNCATED = 0.25  # seconds; rounding would move the change by half a second


class Offset(NamedTuple):
    """The least and the most, in seconds, by which a front end's clock can be ahead of this machine's."""

    low: float
    high: float


def check(account: Account, report: Report, long: bool) -> None:
    try:
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            offsets = list(pool.map(lambda _: _of_a_connection(account), range(_CONNECTIONS)))
        note_truncation(report, offsets)
        note_spread(report, offsets)
    finally:
        _note_presence(account, report)


def _note_presence(account: Account, report: Report) -> None:
    """All answers of the run count, those of the other checks as well."""
    kinds, without = account.answers.kinds, account.answers.without_date
    report.expect("dates.present", not without, f"{_counted(kinds)}; without a Date: {_counted(without)}")


def offset(
    ask: Callable[[], int], clock: Callable[[], float], sleep: Callable[[float], None], looks: int = _LOOKS
) -> Offset:
    """How far one front end's clock is ahead. Each look is made when the Date is about to change: it halves the range.

    ask: sends a request, and returns the Date of its answer.
    """
    low, high, trip = float("-inf"), float("inf"), 0.0
    for reading in range(looks):
        if reading:
            sleep(-(clock() + trip / 2 + (low + high) / 2) % 1.0)
        sent = clock()
        date = ask()
        received = clock()
        # When the answer was made, between these two readings, the front end's clock was in [date, date + 1).
        low, high, trip = max(low, date - received), min(high, date + 1 - sent), received - sent
    return Offset(low, high)


def spread(offsets: Sequence[Offset]) -> tuple[float, float]:
    """By how much two of the clocks differ, at least and at most."""
    lowest, highest = min(each.high for each in offsets), max(each.low for each in offsets)
    return max(0.0, highest - lowest), max(each.high for each in offsets) - min(each.low for each in offsets)


def note_spread(report: Report, offsets: Sequence[Offset]) -> None:
    least, most = spread(offsets)
    result = BROKEN if least > SPREAD else HOLDS if most <= SPREAD else NOT_CHECKED
    found = f"{len(offsets)} connections: the clocks differ by {least:.3f} s at least, {most:.3f} s at most"
    report.note("dates.spread", result, found)


def note_truncation(report: Report, offsets: Sequence[Offset]) -> None:
    """A Date that is rounded, or a wrong clock of this machine, would show as an offset."""
    middles = sorted((each.low + each.high) / 2 for each in offsets)
    middle = middles[len(middles) // 2]
    if abs(middle) <= _TRUNCATED:
        report.note("dates.truncated", HOLDS, f"it changes {-middle:+.3f} s after this machine's full second")
        return
    found = f"it changes {-middle:+.3f} s after this machine's full second: Dates are rounded, or this clock is wrong"
    report.note("dates.truncated", NOT_CHECKED, found)


def _of_a_connection(account: Account) -> Offset:
    transport = account.https()
    began = time.time() - time.monotonic()  # a step of the wall clock meanwhile changes nothing

    def ask() -> int:
        request = {"TableName": account.run, "Key": {"key": {"S": "date"}}, "ConsistentRead": True}
        date = transport.send("GetItem", request, timeout=3.0).date
        if date is None:
            raise LookupError("an answer has no Date")
        return date

    return offset(ask, lambda: began + time.monotonic(), time.sleep)


def _counted(kinds: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
