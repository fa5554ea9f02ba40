"""The story as an SVG that stands alone: for a README, light or dark, read aloud as well as seen."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .timeline import Happening, Mark, Span, State, Story, TakeOver, short
from .verify import Check

_TITLE = "A handler is killed at its timeout. The next one takes over its lock."
_SUBTITLE = "Lambda environments share one lock table: invoices from EventBridge, orders from SQS, a scheduled report."
_COLOUR = "One colour is one lock: never two bars of it at once."

_WIDTH = 960
_MARGIN = 24
_LEFT, _RIGHT = 118, _WIDTH - _MARGIN  # of the time axis
_TOP = 84  # of the first lane
_BAR, _LANE, _NOTE, _GROUP = 22, 30, 15, 10  # heights: a bar, its lane, a note below it, the gap between functions
_CHARACTER = 0.54  # of the font size: a generous guess at the mean width

_COLOURS = ("#2563eb", "#0f766e", "#7c3aed", "#b45309")  # of locks; white text is readable on each

_LEGEND: tuple[tuple[State | Happening, str], ...] = (
    ("waiting", "waiting"),
    ("holding", "holds"),
    ("renewed", "renewed"),
    ("killed", "killed"),
    ("taken over", "taken over"),
    ("skipped", "skipped"),
    ("returned", "back to the queue"),
    ("duplicate", "duplicate"),
    ("frozen", "frozen"),
)

# The colours of light and dark; bars, white text on them and red are the same in both.
STYLE = """
text{font:12px ui-sans-serif,system-ui,-apple-system,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:19px;font-weight:600}
.lane{font-size:13px;font-weight:600;text-anchor:end}
.faint{fill:#59636e}.middle{text-anchor:middle}.end{text-anchor:end}.strong{font-weight:600}
.red{fill:#d1242f}.on{fill:#fff;font-size:11.5px;font-weight:600}
.on,.note{paint-order:stroke;stroke-width:5;stroke-linejoin:round}.note{stroke:#fff}
.card{fill:#fff;stroke:#d0d7de}
.grid{stroke:#e4e8ec}.track{stroke:#d0d7de}
.notch{stroke:#fff;stroke-width:2.5}
.card.bare{stroke:none}.wait{fill-opacity:.14;stroke-dasharray:3 3}
.line{fill:none;stroke:#1f2328;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}
.dashed{stroke-dasharray:1 4.5;stroke-width:2.2}.tip{fill:#1f2328}
.halo{fill:none;stroke:#fff;stroke-width:9;stroke-linecap:round}
.cross{fill:none;stroke:#d1242f;stroke-width:4;stroke-linecap:round}
.good{fill:none;stroke:#1a7f37;stroke-width:2.2;stroke-linecap:round;stroke-linejoin:round}
.ice{fill:#8c959f;fill-opacity:.16;stroke:#8c959f;stroke-dasharray:3 3}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.faint{fill:#9198a1}.red{fill:#ff7b72}.on{fill:#fff}
.card{fill:#0d1117;stroke:#30363d}.grid{stroke:#21262d}.track{stroke:#30363d}
.line{stroke:#e6edf3}.tip{fill:#e6edf3}.halo,.note{stroke:#0d1117}.cross{stroke:#ff6a5f}.good{stroke:#3fb950}
}
"""


def draw(story: Story, checks: list[Check]) -> str:
    """The picture, as the text of an SVG file."""
    return "\n".join(_Picture(story).draw(checks)) + "\n"


class _Picture:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.colours = dict(zip(story.keys, _COLOURS * len(story.keys), strict=False))
        self.tops, self.bottom = self._layout()

    def draw(self, checks: list[Check]) -> Iterator[str]:
        legend = self.bottom + 58
        height = legend + 92 + 20 * -(-len(checks) // 2)
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img" aria-labelledby="title description">'
        )
        yield f'<title id="title">{escape(_TITLE)}</title>'
        yield f'<desc id="description">{escape(_in_words(self.story, checks))}</desc>'
        yield f"<style>{STYLE}</style>"
        yield f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="10"/>'
        yield text_at(_MARGIN, 36, _TITLE, "title")
        yield text_at(_MARGIN, 58, _SUBTITLE)
        yield from self._axis()
        for lane in self.story.lanes:
            yield text_at(_LEFT - 14, self._middle(lane) + 4.5, lane, "lane")
        for takeover in self.story.takeovers:
            yield from self._arrow(takeover)
        for span in self.story.spans:
            yield from self._span(span)
        for mark in self.story.marks:
            yield from _sign(mark.happening, self._x(mark.at), self._middle(mark.lane))
        for span in self.story.spans:
            yield self._label(span)
        yield from self._notes()
        yield from self._legend(legend)
        yield from _verdict(legend + 74, checks)
        yield "</svg>"

    # Where things are

    def _layout(self) -> tuple[dict[str, float], float]:
        """The top of each lane's bar, and of the axis. A lane with a note below its bar is higher."""
        tops: dict[str, float] = {}
        top = float(_TOP)
        function = ""
        for lane in self.story.lanes:
            if function and function != lane.partition(" ")[0]:
                top += _GROUP
            function = lane.partition(" ")[0]
            tops[lane] = top
            below = any(mark.lane == lane and mark.note and not self._fits_beside(mark) for mark in self.story.marks)
            top += _LANE + (_NOTE if below else 0)
        return tops, top + 2

    def _x(self, seconds: float) -> float:
        return round(_LEFT + seconds * (_RIGHT - _LEFT) / self.story.seconds, 1)

    def _middle(self, lane: str) -> float:
        return self.tops[lane] + _BAR / 2

    def _fits_beside(self, mark: Mark) -> bool:
        """Whether its note finds a place to the right of the mark, in the bar's row."""
        if mark.happening not in ("skipped", "lost", "duplicate"):
            return False
        end = self._x(mark.at) + 14 + length_of(mark.note)
        starts = [span.start for span in self.story.spans if span.lane == mark.lane and span.start > mark.at]
        return end < self._x(min(starts, default=self.story.seconds))

    # What is drawn

    def _axis(self) -> Iterator[str]:
        for second in range(self.story.seconds + 1):
            x = self._x(second)
            yield f'<path class="grid" d="M{x} {_TOP - 8}V{self.bottom}"/>'
            yield text_at(x, self.bottom + 16, f"{second} s", "faint middle")
        for lane in self.story.lanes:
            yield f'<path class="track" d="M{_LEFT} {self._middle(lane)}H{_RIGHT}"/>'

    def _span(self, span: Span) -> Iterator[str]:
        x, y, width = self._x(span.start), self.tops[span.lane], max(self._x(span.end) - self._x(span.start), 3)
        colour = self.colours[span.key]
        box = f'x="{x}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3"'
        what = f"{span.lane} {span.state} {span.key} {span.work}".strip()
        hint = f"<title>{escape(what)}, {span.start:.1f} s to {span.end:.1f} s</title>"
        if span.state == "holding":
            yield f'<rect {box} fill="{colour}">{hint}</rect>'
            return
        yield f'<rect class="card bare" {box}/>'  # hides the lane's line
        if span.state == "frozen":
            yield f'<rect class="ice" {box}>{hint}</rect>'
        else:
            yield f'<rect class="wait" {box} fill="{colour}" stroke="{colour}">{hint}</rect>'

    def _label(self, span: Span) -> str:
        """What fits into the bar; the colour says the lock, so its name is what is left out first."""
        x, y, width = self._x(span.start), self.tops[span.lane] + 15.5, self._x(span.end) - self._x(span.start)
        key = short(span.key)
        if span.state == "holding":
            label = _fitting(width, f"{key} · {span.work}", span.work, key)
            return text_at(x + 7, y, label, "on", f' stroke="{self.colours[span.key]}"')
        label = _fitting(width, "frozen") if span.state == "frozen" else _fitting(width, f"waits for {key}", "waits")
        return text_at(x + width / 2, y, label, "faint middle" if span.state == "frozen" else "middle")

    def _arrow(self, takeover: TakeOver) -> Iterator[str]:
        """From the one that was stopped, along its lane, to the start of the bar of the one that took over."""
        x, start = self._x(takeover.at) + 1.5, self._middle(takeover.from_lane)
        down = self.tops[takeover.lane] > start
        end = self.tops[takeover.lane] - 3 if down else self.tops[takeover.lane] + _BAR + 3
        tip = end - 6 if down else end + 6
        yield f'<path class="line dashed" d="M{self._x(takeover.from_at)} {start}H{x}V{tip}"/>'
        yield f'<path class="tip" d="M{x} {end}l-5 {tip - end:.0f}h10z"/>'

    def _notes(self) -> Iterator[str]:
        """The marks in words: beside the mark where there is room, otherwise below its bar; no text over another."""
        free: dict[str, float] = {}  # for each lane: up to where the row below the bar is written
        for mark in self.story.marks:
            if not mark.note:
                continue
            x, y = self._x(mark.at), self.tops[mark.lane]
            style = "note " + {"killed": "red strong", "taken over": "strong"}.get(mark.happening, "faint")
            if self._fits_beside(mark):
                yield text_at(x + 14, y + 15.5, mark.note, style)
                continue
            x = min(x + (8 if mark.happening == "taken over" else -6), _RIGHT - length_of(mark.note))
            if x < free.get(mark.lane, 0):
                continue
            free[mark.lane] = x + length_of(mark.note) + 8
            yield text_at(x, y + _BAR + 14, mark.note, style)

    def _legend(self, y: float) -> Iterator[str]:
        yield f'<path class="grid" d="M{_MARGIN} {y - 22}H{_RIGHT}"/>'
        x = float(_MARGIN)
        for sign, text in _LEGEND:
            yield from _swatch(sign, x, y)
            yield text_at(x + 34, y + 4, text, "faint")
            x += 34 + length_of(text) + 16
        x = float(_MARGIN)
        for key in self.story.keys:
            yield f'<rect x="{x}" y="{y + 20}" width="26" height="16" rx="3" fill="{self.colours[key]}"/>'
            yield text_at(x + 34, y + 32, key, "faint")
            x += 34 + length_of(key) + 24
        yield text_at(_RIGHT, y + 32, _COLOUR, "faint end")


def _swatch(sign: State | Happening, x: float, y: float) -> Iterator[str]:
    box = f'x="{x}" y="{y - 8}" width="26" height="16" rx="3"'
    if sign == "waiting":
        yield f'<rect class="wait" {box} fill="{_COLOURS[0]}" stroke="{_COLOURS[0]}"/>'
    elif sign == "frozen":
        yield f'<rect class="ice" {box}/>'
    elif sign == "taken over":
        yield f'<path class="line dashed" d="M{x} {y}h20"/><path class="tip" d="M{x + 27} {y}l-6 -5v10z"/>'
    elif sign in ("holding", "renewed"):
        yield f'<rect {box} fill="{_COLOURS[0]}"/>'
    if sign == "renewed":
        yield f'<path class="notch" d="M{x + 13} {y - 8}v16"/>'
    elif sign in ("killed", "skipped", "lost", "duplicate"):
        yield from _sign(sign, x + 14, y)
    elif sign == "returned":
        yield from _sign(sign, x + 24, y)


def _verdict(y: float, checks: list[Check]) -> Iterator[str]:
    good = all(check.holds for check in checks)
    yield f'<path class="grid" d="M{_MARGIN} {y - 24}H{_RIGHT}"/>'
    yield text_at(_MARGIN, y, "Verified from the engine's own data" if good else "This does not hold", "strong")
    for number, check in enumerate(checks):
        x, line = _MARGIN + (number % 2) * 460, y + 22 + number // 2 * 20
        yield (
            f'<path class="good" d="M{x + 1} {line - 4}l4 4l7 -9"/>'
            if check.holds
            else f'<path class="cross" d="M{x + 2} {line - 8}l8 8m0 -8l-8 8"/>'
        )
        yield text_at(x + 20, line, check.claim, "claim")


def _sign(happening: Happening, x: float, y: float) -> Iterator[str]:
    if happening == "renewed":
        yield f'<path class="notch" d="M{x} {y - _BAR / 2}v{_BAR}"/>'
    elif happening == "killed":
        arms = f"M{x - 7} {y - 7}l14 14m0 -14l-14 14"
        yield f'<path class="halo" d="{arms}"/><path class="cross" d="{arms}"/>'
    elif happening == "skipped":
        yield f'<circle class="card bare" cx="{x}" cy="{y}" r="9"/>'
        yield f'<path class="line" d="M{x - 7} {y}a7 7 0 1 0 14 0a7 7 0 1 0 -14 0M{x - 5} {y + 5}l10 -10"/>'
    elif happening == "returned":
        x -= 11  # to the left of its moment: the handler may go on with the next message at once
        yield f'<circle class="card bare" cx="{x}" cy="{y}" r="10"/>'
        yield f'<path class="line" d="M{x + 6} {y - 6}v4a4 4 0 0 1 -4 4h-8m4 -4l-4 4l4 4"/>'
    elif happening == "duplicate":
        yield f'<circle class="card bare" cx="{x}" cy="{y}" r="9"/>'
        yield f'<path class="line" d="M{x - 6} {y - 5}h12m-12 5h12m-12 5h12"/>'
    elif happening == "lost":
        yield f'<path class="line card" d="M{x} {y - 7}l7 7l-7 7l-7 -7z"/>'


def text_at(x: float, y: float, text: str, style: str = "faint", more: str = "") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>' if text else ""


def length_of(text: str) -> float:
    return len(text) * 12 * _CHARACTER


def _fitting(width: float, *texts: str) -> str:
    return next((text for text in texts if length_of(text) + 10 <= width), "")


def _in_words(story: Story, checks: list[Check]) -> str:
    notes = "; ".join(f"at {mark.at:.1f} s {mark.lane}: {mark.note}" for mark in story.marks if mark.note)
    held = "; ".join(check.claim for check in checks if check.holds)
    lanes = ", ".join(story.lanes)
    return f"A timeline of the Lambda environments {lanes}. What happens: {notes}. Verified: {held}."
