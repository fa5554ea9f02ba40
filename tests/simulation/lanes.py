"""Draws a run as lanes: a line for each step, a column for each process that acts, and one for the table.

The text of a step is in its column. If the columns do not fit, they show marks only, and the text follows the last.
"""

import re
from collections.abc import Iterator

from .shrink import Step

WIDTH = 120
LEGEND = "█ holds a valid lock in true time   │ does not"
_TIME = 10  # columns
_GAP = 3  # columns between two texts, with the mark
_JUDGE, _TABLE = "JUDGE", "table"

_BEGINS = re.compile(r"begins, its clock is (\S+ s) off")
_HOLDING = re.compile(r"([\w.]+)#[0-9a-f]{8,}(?:/\d+)? \(token (\d+)\)")
_LONG_HEX = re.compile(r"\b[0-9a-f]{28}([0-9a-f]{4})\b")
_LONG_NUMBER = re.compile(r"\b\d{9,}(\d{4})\b")
_ACT = re.compile(r"(\S+)'s ([\w-]+)[^:]*(?:\[.*\])?: (done before|done|refused)[^;]*; (.*); Date .*")


def draw(steps: list[Step], width: int = WIDTH) -> Iterator[str]:
    """The lines, with a heading and a legend. None is longer than ``width``, except for a verdict."""
    names = list(dict.fromkeys(step.who for step in steps if not _BEGINS.fullmatch(step.what)))
    lanes = [*(name for name in names if name not in (_JUDGE, _TABLE)), _TABLE]
    steps = [step for step in steps if step.who in names]
    texts = [(step.who, brief(step.what)) for step in steps if step.who != _JUDGE]
    widths = {lane: max(len(text) for who, text in [(lane, lane), *texts] if who == lane) + _GAP for lane in lanes}
    fits = _TIME + sum(widths.values()) <= width
    if not fits:
        room = max((width - _TIME) // 2 // len(lanes), 2)
        widths = {lane: min(len(lane) + 2, room) for lane in lanes}
    yield _row("seconds", {}, {lane: lane for lane in lanes}, widths)
    for step, holders in zip(steps, _holders(steps), strict=True):
        marks = {lane: "█" if lane in holders else " " if lane == _TABLE else "│" for lane in lanes}
        time, text = f"{step.at:.3f}", brief(step.what)
        if step.who == _JUDGE:
            yield _row(time, marks, {}, widths)
            yield f"{'':{_TIME}}!! {text}"
        elif fits:
            yield _row(time, marks, {step.who: text}, widths)
        else:
            row = _row(time, marks, {step.who: "*"}, widths)
            yield _cut(f"{row:<{_TIME + sum(widths.values())}}{step.who}: {text}", width)
    yield f"{'':{_TIME}}{LEGEND}"


def _holders(steps: list[Step]) -> Iterator[frozenset[str]]:
    """Who holds at each step. The trace has a grant before its holding is noted."""
    granted: frozenset[str] = frozenset()
    at = -1.0
    for step in steps:
        if step.at != at:
            granted, at = frozenset(), step.at
        if step.what.startswith("GRANTED"):
            granted |= {step.who}
        yield step.holders | granted


def _row(time: str, marks: dict[str, str], texts: dict[str, str], widths: dict[str, int]) -> str:
    cells = []
    for lane, width in widths.items():
        gap = 2 if marks and width > 2 else 1
        cells.append(f"{marks.get(lane, ' ')}{' ' * (gap - 1)}{_cut(texts.get(lane, ''), width - gap):<{width - gap}}")
    return f"{time:>8}  {''.join(cells)}".rstrip()


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def brief(what: str) -> str:
    """What happened in few words: without the values of a request, and with the ends of long numbers."""
    act = _ACT.fullmatch(what)
    if act is not None:
        who, request, outcome, row = act.groups()
        return f"{who}'s {request}: {outcome}; {_row_of(row)}"
    if what.startswith("sends "):
        return what.partition(" [")[0]
    what = _HOLDING.sub(r"\1 (\2)", _BEGINS.sub(r"clock \1", what))
    return _LONG_NUMBER.sub(r"…\1", _LONG_HEX.sub(r"…\1", what))


def _row_of(row: str) -> str:
    found = dict(re.findall(r"(\w+)=(\S+)", row))
    owner = found.get("ownerName")
    if owner is None:
        return row
    if owner == "semaphore":
        return f"permits: {row.count('L1:')}"
    token = found.get("fencingToken", "")[-4:]
    return f"row of {owner.partition('#')[0]} (…{token})" + (", released" if "isReleased" in found else "")
