"""The story on a terminal, as wide as it is: for each environment a lane of blocks and a line of notes."""

from __future__ import annotations

from .timeline import Happening, Mark, Span, State, Story, short
from .verify import Check

_RENEWED = "▐"  # a notch in the bar
_WAITING = "┄"
_FILL: dict[State, str] = {"waiting": _WAITING, "holding": "█", "frozen": "░"}
_SIGN: dict[Happening, str] = {
    "renewed": _RENEWED,
    "killed": "✕",
    "skipped": "⊘",
    "returned": "↵",
    "lost": "◇",
    "duplicate": "≡",
}
_LEGEND = (
    (_WAITING * 2, "waiting"),
    ("██", "holding"),
    (f"█{_RENEWED}", "renewed"),
    ("✕", "killed"),
    ("⊘", "skipped"),
    ("↵", "back to the queue"),
    ("≡", "duplicate"),
    ("░░", "frozen"),
)

_NAMES = 12  # columns for the lanes' names
_LEAST, _MOST = 60, 160  # columns in all
_KEY_COLOURS = (34, 36, 35, 33)  # blue, cyan, magenta, yellow
_GREY, _RED, _GREEN = 90, 31, 32


class Paint:
    """Colours, where they are wanted."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def __call__(self, text: str, colour: int | None) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.wanted and colour else text


class _Line:
    """A row of cells, each with a colour; later writing covers earlier."""

    def __init__(self, columns: int) -> None:
        self._cells = [" "] * columns
        self._colours: list[int | None] = [None] * columns

    def put(self, column: int, text: str, colour: int | None = None) -> None:
        for place, cell in enumerate(text, column):
            if 0 <= place < len(self._cells):
                self._cells[place], self._colours[place] = cell, colour

    def is_free(self, column: int, width: int) -> bool:
        """Whether text fits there with a blank around it."""
        return (
            column + width <= len(self._cells)
            and not "".join(self._cells[max(column - 1, 0) : column + width + 1]).strip()
        )

    def text(self, paint: Paint) -> str:
        runs: list[tuple[int | None, str]] = []
        for cell, colour in zip(self._cells, self._colours, strict=True):
            if runs and runs[-1][0] == colour:
                runs[-1] = (colour, runs[-1][1] + cell)
            else:
                runs.append((colour, cell))
        return "".join(paint(text, colour) for colour, text in runs).rstrip()


def draw(story: Story, width: int, colour: bool) -> str:
    """The timeline as text, at most ``width`` columns wide (60 to 160)."""
    paint = Paint(colour)
    columns = min(max(width, _LEAST), _MOST) - _NAMES
    scale = (columns - 1) / story.seconds
    lines: list[str] = []
    for before, lane in zip(("", *story.lanes), story.lanes, strict=False):
        if before and before.partition(" ")[0] != lane.partition(" ")[0]:
            lines.append("")
        bar, *notes = _lane(story, lane, columns, scale)
        lines.append(f"{lane:<{_NAMES}}{bar.text(paint)}".rstrip())
        lines += [f"{'':<{_NAMES}}{note.text(paint)}" for note in notes]
    return "\n".join([*lines, "", *_axis(story, columns, scale, paint), "", *_legend(story, columns + _NAMES, paint)])


def _lane(story: Story, lane: str, columns: int, scale: float) -> list[_Line]:
    bar = _Line(columns)
    colours = dict(zip(story.keys, _KEY_COLOURS * len(story.keys), strict=False))
    for span in story.spans:
        if span.lane == lane:
            _put_span(bar, span, scale, colours[span.key])
    marks = [mark for mark in story.marks if mark.lane == lane]
    for mark in marks:
        if mark.happening == "renewed":
            renewed = [span.key for span in story.spans if span.lane == lane and span.start <= mark.at][-1:]
            bar.put(int(mark.at * scale), _RENEWED, *(colours[key] for key in renewed))
    for span in story.spans:
        if span.lane == lane:
            _put_label(bar, span, scale, colours[span.key])
    for mark in marks:
        if mark.happening not in ("renewed", "taken over"):
            bar.put(int(mark.at * scale), _SIGN[mark.happening], _RED if mark.happening == "killed" else None)
    return [bar, *_notes(marks, columns, scale)]


def _put_span(bar: _Line, span: Span, scale: float, colour: int) -> None:
    start, end = int(span.start * scale), int(span.end * scale)
    bar.put(start, _FILL[span.state] * max(end - start, 1), _GREY if span.state == "frozen" else colour)


def _put_label(bar: _Line, span: Span, scale: float, colour: int) -> None:
    start, end = int(span.start * scale), int(span.end * scale)
    label = {"holding": short(span.key), "frozen": "frozen", "waiting": ""}[span.state]
    if label and end - start >= len(label) + 2:
        bar.put(start + 1, label, _GREY if span.state == "frozen" else colour)


def _notes(marks: list[Mark], columns: int, scale: float) -> list[_Line]:
    """What the marks say, each text once, below its mark; as many lines as that takes."""
    lines: list[_Line] = []
    said: set[str] = set()
    for mark in marks:
        if not mark.note or mark.note in said:
            continue
        said.add(mark.note)
        colour = _RED if mark.happening == "killed" else _GREEN if mark.happening == "taken over" else _GREY
        column, text = int(mark.at * scale), f"└ {mark.note}"
        if column + len(text) > columns:
            column, text = max(column - len(text) + 1, 0), f"{mark.note} ┘"
        line = next((line for line in lines if line.is_free(column, len(text))), None)
        if line is None:
            line = _Line(columns)
            lines.append(line)
        line.put(column, text, colour)
    return lines


def _axis(story: Story, columns: int, scale: float, paint: Paint) -> list[str]:
    every = next(step for step in (1, 2, 5, 10, 60) if step * scale >= 5 or step == 60)
    rule, figures = _Line(columns), _Line(columns)
    rule.put(0, "─" * columns, _GREY)
    for second in range(0, story.seconds + 1, every):
        column = int(second * scale)
        rule.put(column, "┴", _GREY)
        text = f"{second} s" if second == 0 else str(second)
        figures.put(min(column, columns - len(text)), text, _GREY)
    return [" " * _NAMES + rule.text(paint), " " * _NAMES + figures.text(paint)]


def _legend(story: Story, width: int, paint: Paint) -> list[str]:
    entries = [(f"{sign} {text}", f"{sign} {text}") for sign, text in _LEGEND]
    if paint.wanted:
        keys = zip(story.keys, _KEY_COLOURS * len(story.keys), strict=False)
        entries += [(f"██ {key}", paint("██", colour) + f" {key}") for key, colour in keys]
    lines, used = [""], 0
    for plain, painted in entries:
        if used and used + 3 + len(plain) > width:
            lines.append("")
            used = 0
        lines[-1] += ("   " if used else "") + painted
        used += len(plain) + (3 if used else 0)
    return lines


def verdict(checks: list[Check], colour: bool) -> str:
    """What was verified, a line for each check, with what is wrong below it."""
    paint = Paint(colour)
    lines = ["Verified from the engine's own data:"]
    for check in checks:
        lines.append(f"  {paint('✓', _GREEN) if check.holds else paint('✕', _RED)} {check.claim}")
        lines += [f"      {paint(text, _RED)}" for text in check.wrong]
    return "\n".join(lines)
