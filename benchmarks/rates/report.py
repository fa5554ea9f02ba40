"""The figures as a table, and the picture of docs/rate-limits.md."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rig.engine import ROOT

from .contestants import LIMIT
from .world import CALLERS, SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = ROOT / "docs" / "rate-limits.md"
PICTURE = ROOT / "docs" / "rate-limits.svg"
BEGIN, END = "<!-- rates: begin -->\n", "<!-- rates: end -->\n"
FROM, TO, STEP = 60.0, 180.0, 0.1  # seconds of a run that are drawn
_WIDTH, _PANEL, _LEFT, _TOP = 960, 120, 56, 64
_MOST = 22  # starts at the upper edge of a panel


def table(result: Mapping[str, Any]) -> str:
    """The figures of a run as lines of Markdown."""
    heads = [
        f"{wanted:g} wanted a second: most in a second, longest wait, requests a start" for wanted in result["wanted"]
    ]
    lines = [f"|  | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name, runs in result["limiters"].items():
        cells = [f"{run['most']}, {run['longest']:.1f} s, {run['requests']:.1f}" for run in runs]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"`python -m benchmarks.rates`: {CALLERS} callers, a limit of {LIMIT} a second, {SECONDS:g} s of virtual time,",
        "requests that take 4 to 12 ms, and right clocks. All wait until they may start. The bucket and the windows",
        "are ours; the sliding window is the algorithm that @upstash/ratelimit publishes, on DynamoDB.",
    ]
    return "\n".join(lines) + "\n"


def in_last_second(starts: list[float]) -> list[tuple[float, int]]:
    """How many started in the second before each moment that is drawn."""
    moments = [FROM + STEP * number for number in range(round((TO - FROM) / STEP) + 1)]
    return [(at, sum(at - 1 < start <= at for start in starts)) for at in moments]


def picture(starts: Mapping[str, list[float]], wanted: float) -> str:
    """The starts of each limiter as an SVG."""
    height = _TOP + _PANEL * len(starts) + 24
    title = (
        f"{CALLERS} callers want {wanted:g} starts a second, of a limit of {LIMIT}: how many started in the last second"
    )
    told = "; ".join(
        f"{name}: at most {max(count for _, count in in_last_second(found))}" for name, found in starts.items()
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title description">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape(told)}.</desc>',
        "<style>text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}"
        ".name{font-size:13px;font-weight:600}.end{text-anchor:end}.faint{fill:#59636e}.card{fill:#fff;stroke:#d0d7de}"
        ".grid{stroke:#d0d7de}.good{fill:#2563eb;fill-opacity:.3;stroke:#2563eb}.over{fill:#d1242f;fill-opacity:.8}"
        ".limit{stroke:#1f2328;stroke-dasharray:5 4}"
        "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}"
        ".card{fill:#0d1117;stroke:#30363d}.grid{stroke:#30363d}.good{fill:#539bf5;stroke:#539bf5}.over{fill:#ff7b72}"
        ".limit{stroke:#e6edf3}}</style>",
        f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="10"/>',
        f'<text class="title" x="24" y="34">{escape(title)}</text>',
    ]
    for number, (name, found) in enumerate(starts.items()):
        lines += _panel(name, in_last_second(found), _TOP + _PANEL * number)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(name: str, counts: list[tuple[float, int]], top: float) -> list[str]:
    scale, bottom = (_PANEL - 34) / _MOST, top + _PANEL - 14
    across = (_WIDTH - _LEFT - 24) / (TO - FROM)
    step = STEP * across

    def bars(kind: str, low: int, high: int) -> str:
        parts = []
        for count, same in groupby(counts, key=lambda one: min(one[1], high)):
            times = [at for at, _ in same]
            if count > low:
                start, wide = f"M{_LEFT + (times[0] - FROM) * across:.1f} {bottom - low * scale:.1f}", len(times) * step
                parts.append(f"{start}h{wide:.1f}v{(low - count) * scale:.1f}h{-wide:.1f}z")
        return f'<path class="{kind}" stroke-width="0" d="{"".join(parts)}"/>'

    most = max(count for _, count in counts)
    limit = bottom - LIMIT * scale
    return [
        f'<text class="name" x="{_LEFT}" y="{top + 10:.0f}">{escape(name)}</text>',
        f'<text class="faint end" x="{_WIDTH - 24}" y="{top + 10:.0f}">at most {most} in a second</text>',
        bars("good", 0, LIMIT),
        bars("over", LIMIT, _MOST),
        f'<path class="grid" d="M{_LEFT} {bottom:.1f}H{_WIDTH - 24}"/>',
        f'<path class="limit" d="M{_LEFT} {limit:.1f}H{_WIDTH - 24}"/>',
        f'<text class="faint end" x="{_LEFT - 8}" y="{limit + 4:.1f}">{LIMIT}</text>',
    ]


def write(result: Mapping[str, Any], drawn: str) -> None:
    """Write the table and the picture into docs/."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table(result)}{END}{rest.partition(END)[2]}")
    PICTURE.write_text(drawn)
