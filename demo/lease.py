"""A lease over time: python -m demo.lease (docs/lease.svg)

All moments are computed by lambda_lock/core/lease.py: how long a holder counts on its grant, which expiry it writes,
and from when on others may take over.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from lambda_lock.core import lease
from rig.engine import ROOT

from .svg import STYLE, length_of, text_at

LEASE = 10.0  # seconds
APART = 0.25  # seconds that a front end's clock may be off, so that two differ by 0.5 s
WAY = 0.1  # seconds from a request to its reply
FROZEN, WAKES = 4.0, 14.5


@dataclass(frozen=True)
class Grant:
    """A claim that is granted, and what follows from it. Times are true seconds since it was sent.

    phase: the fraction of a second, by true time, at which it was sent.
    slow: seconds that the holder's wall clock is behind.
    late_front_end: whether the Date of the reply is from a front end whose clock is behind.
    """

    phase: float
    slow: float
    late_front_end: bool

    @property
    def date(self) -> int:
        """The whole seconds that the reply's Date shows, on a calendar on which the claim is sent at ``phase``."""
        return math.floor(self.phase - (APART if self.late_front_end else 0.0))

    @property
    def expiry_ms(self) -> int:
        return lease.expiry_ms(self.phase - self.slow, round(LEASE * 1000))

    @property
    def expiry(self) -> float:
        return self.expiry_ms / 1000 - self.phase

    @property
    def valid_until(self) -> float:
        return lease.validity(round(LEASE * 1000), self.expiry_ms, self.date)

    @property
    def taken_over(self) -> float:
        """When a front end first shows a Date that has reached the expiry: an early one, if unlucky."""
        return math.ceil(self.expiry_ms / 1000) - (APART if self.late_front_end else 0.0) - self.phase

    @property
    def unchanged(self) -> float:
        """When a waiter may take over without any Date: it has seen the version unchanged since the reply."""
        seen = lease.Observation("version", round(LEASE * 1000), WAY, None)
        return WAY + seen.seconds_left(WAY)


ORDINARY = Grant(phase=0.5, slow=0.0, late_front_end=False)
# All that MARGIN is for comes together: the Date is cut by almost a second, its front end is late, and the expiry,
# which a slow clock has written, is reached at the first moment of a second, by a front end that is early.
UNLUCKY = Grant(phase=1.2, slow=3.2, late_front_end=True)

_WIDTH, _MARGIN, _LEFT = 960, 24, 134
_RIGHT = _WIDTH - _MARGIN
_FIRST, _LAST = -1.5, 17.0  # seconds on the axis
_BAR, _LANE = 22, 36
_A, _B = "#2563eb", "#0f766e"
_STYLE = STYLE + (
    ".row{fill:#8c959f;fill-opacity:.30}.grace{fill:#8c959f;fill-opacity:.14}"
    ".limit{stroke:#d1242f;stroke-width:1.6;stroke-dasharray:6 4;fill:none}\n"
    "@media (prefers-color-scheme:dark){.limit{stroke:#ff7b72}}\n"
)
_TITLE = "The life of a lease: a holder's validity ends before anybody may take over"


def draw() -> str:
    """The picture, as the text of an SVG file."""
    return "\n".join(_picture()) + "\n"


def _picture() -> Iterator[str]:
    height = 506
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title description">'
    )
    yield f'<title id="title">{escape(_TITLE)}</title>'
    yield f'<desc id="description">{escape(in_words())}</desc>'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="10"/>'
    yield text_at(_MARGIN, 36, _TITLE, "title")
    said = "Time is true time, in seconds since A's claim was sent. No client can see it."
    yield text_at(_MARGIN, 58, f"The lease L is {LEASE:g} s. {said}")
    yield from _ordinary(98)
    yield from _unlucky(324)
    yield "</svg>"


def _x(at: float) -> float:
    return round(_LEFT + (at - _FIRST) * (_RIGHT - _LEFT) / (_LAST - _FIRST), 1)


def _axis(top: float, bottom: float) -> Iterator[str]:
    for second in range(0, int(_LAST) + 1, 2):
        yield f'<path class="grid" d="M{_x(second)} {top}V{bottom}"/>'
        yield text_at(_x(second), bottom + 15, f"{second} s", "faint middle")


def _bar(y: float, start: float, end: float, how: str, said: str = "", style: str = "on") -> Iterator[str]:
    x, width = _x(start), _x(end) - _x(start)
    yield f'<rect {how} x="{x}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3"/>'
    if said:
        assert length_of(said) < width, f"{said!r} does not fit"
        stroke = how.replace("fill=", " stroke=", 1) if style == "on" else ""
        yield text_at(x + 7, y + 15.5, said, style, stroke)


def _lane(y: float, name: str) -> str:
    return text_at(_LEFT - 14, y + 15.5, name, "lane")


def _limit(at: float, top: float, bottom: float) -> str:
    return f'<path class="limit" d="M{_x(at)} {top}V{bottom}"/>'


def _ordinary(top: float) -> Iterator[str]:
    grant, rows = ORDINARY, [top + 20 + _LANE * number for number in range(4)]
    bottom = rows[-1] + _BAR + 12
    yield text_at(
        _MARGIN, top, "Every clock is right. A is frozen after its last check, and wakes when B has the lock.", "strong"
    )
    yield from _axis(top + 12, bottom)
    a, row, b, c = rows
    yield _lane(a, "A, the holder")
    yield from _bar(a, 0, FROZEN, f'fill="{_A}"', "valid: it works")
    yield from _bar(a, FROZEN, WAKES, 'class="card bare"')
    yield from _bar(a, FROZEN, grant.valid_until, 'class="ice"', "frozen, but still valid", "faint")
    yield from _bar(a, grant.valid_until, WAKES, 'class="ice"', "frozen, not valid", "faint")
    x, middle = _x(WAKES) + 9, a + _BAR / 2
    yield f'<path class="cross" d="M{x - 5} {middle - 5}l10 10m0 -10l-10 10"/>'
    yield text_at(x + 9, a + 15.5, "writes late", "red strong")
    yield _lane(row, "the row")
    yield from _bar(row, 0, LEASE, 'class="row"', f"the lease L, {LEASE:g} s", "faint")
    yield from _bar(row, LEASE, grant.expiry, 'class="grace"', f"GRACE {lease.GRACE:g} s", "faint")
    yield text_at(_x(grant.expiry) + 24, row + 15.5, "E, the stored expiry", "faint")
    yield _lane(b, "B, by Dates")
    yield from _bar(b, 1, grant.taken_over, 'class="card bare"')
    yield from _bar(
        b, 1, grant.taken_over, f'class="wait" fill="{_B}" stroke="{_B}"', "waits until a Date has reached E", "faint"
    )
    yield from _bar(b, grant.taken_over, _LAST, f'fill="{_B}"', "valid, a higher token")
    yield _lane(c, "C, by its clock")
    yield from _bar(c, WAY, grant.unchanged, 'class="card bare"')
    yield from _bar(
        c,
        WAY,
        grant.unchanged,
        f'class="wait" fill="{_B}" stroke="{_B}"',
        "sees the version unchanged for L and DRIFT",
        "faint",
    )
    yield text_at(_x(grant.unchanged) + 24, c + 15.5, "may take over, by the older rule", "faint")
    yield _limit(grant.valid_until, top + 12, bottom)


def _unlucky(top: float) -> Iterator[str]:
    grant, rows = UNLUCKY, [top + 36 + _LANE * number for number in range(3)]
    bottom = rows[-1] + _BAR + 12
    said = f"A's clock is {grant.slow:g} s slow, and all that MARGIN is for comes together."
    yield text_at(_MARGIN, top, said, "strong")
    yield from _axis(top + 28, bottom)
    a, row, b = rows
    date = grant.date - grant.phase
    yield _lane(a, "A, the holder")
    yield from _bar(a, 0, grant.valid_until, f'fill="{_A}"', "valid for E − D − MARGIN, less DRIFT")
    yield _lane(row, "the row")
    yield from _bar(
        row, 0, grant.expiry, 'class="row"', "the expiry E is too early, because A's clock is slow", "faint"
    )
    yield _lane(b, "B, by Dates")
    yield from _bar(b, 1, grant.taken_over, 'class="card bare"')
    yield from _bar(
        b, 1, grant.taken_over, f'class="wait" fill="{_B}" stroke="{_B}"', "waits until a Date has reached E", "faint"
    )
    yield from _bar(b, grant.taken_over, _LAST, f'fill="{_B}"', "valid: a front end that is early said E")
    yield _limit(date, top + 28, bottom)
    yield text_at(
        _x(date) + 6,
        top + 24,
        f"D, the reply's Date: {-date:.1f} s early, by truncation and a late front end",
        "red strong",
    )
    yield _limit(grant.valid_until, top + 28, bottom)
    gap = grant.taken_over - grant.valid_until
    yield text_at(
        _x(grant.taken_over) + 8, a + 15.5, f"{gap:.2f} s are left of MARGIN's {lease.MARGIN:g} s", "red strong"
    )


def in_words() -> str:
    """What the picture shows, for those who cannot see it."""
    usual, unlucky = ORDINARY, UNLUCKY
    return (
        f"A takes a lock for {LEASE:g} s. Its validity ends at {usual.valid_until:.2f} s. "
        f"C, who has seen the version unchanged, may take over at {usual.unchanged:.2f} s. "
        f"The stored expiry is at {usual.expiry:.2f} s, and B, who goes by Dates, takes over at "
        f"{usual.taken_over:.2f} s. "
        f"A was frozen at {FROZEN:.2f} s, wakes at {WAKES:.2f} s and writes late. "
        f"With a clock that is {unlucky.slow:.2f} s slow, and the worst Dates, A's validity ends at "
        f"{unlucky.valid_until:.2f} s, the stored expiry is at {unlucky.expiry:.2f} s, and B takes over at "
        f"{unlucky.taken_over:.2f} s."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m demo.lease", description=__doc__)
    parser.add_argument("--svg", type=Path, default=ROOT / "build" / "lease.svg", metavar="PATH", help="the file")
    options = parser.parse_args(arguments)
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(draw())
    print(f"{options.svg}: {in_words()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
