"""The results for the screen, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from .rows import NAMES
from .targets import Results, verdicts

_HEAD = ("grants/s", "wait s: median", "p95", "longest", "writes", "reads", "passed", "most", "removed", "engine")


def show(console: Console, results: Results, about: dict[str, Any]) -> None:
    console.print(f"{'':<42}" + "".join(f"{head:>{max(len(head) + 2, 9)}}" for head in _HEAD))
    for row, medians in results.items():
        console.print(f"\n{row.title}, {row.pause * 1000:g} ms between")
        for name, one in medians.items():
            cells = (
                f"{one.per_second:.1f}",
                f"{one.wait_median:.3f}",
                f"{one.wait_p95:.3f}",
                f"{'>' if one.open else ''}{one.longest:.3f}",
                f"{one.writes:.1f}",
                f"{one.reads:.1f}",
                f"{one.passed:.0%}",
                str(one.most_passed),
                str(one.removed) if name == "queue" else "",
                "" if one.cpu is None else f"{one.cpu['engine']:.0%}",
            )
            line = "".join(f"{cell:>{max(len(head) + 2, 9)}}" for cell, head in zip(cells, _HEAD, strict=True))
            console.print(f"  {NAMES[name]:<40}{line}")
            for error in one.errors[:3]:
                console.print(f"    {error}")
    console.print(
        "\nWrites and reads are those of a grant. Passed: grants for which somebody waited who had asked earlier; most:"
        "\nby how many of them one wait was passed. Removed: places that vanished although their waiter lived. Engine:"
        f"\nits share of a core; it answers {about['engine_requests_per_second']} requests a second at most.\n"
    )
    for verdict in verdicts(results):
        console.print(f"{'held  ' if verdict.held else 'MISSED'}  {verdict.what}: {verdict.measured}")
    console.print(f"\n{', '.join(' '.join(pair) for pair in about['packages'].items())}; Python {about['python']}")


def as_json(results: Results) -> dict[str, Any]:
    return {
        "rows": [
            {
                "title": row.title,
                "workers": row.workers,
                "hold": row.hold,
                "pause": row.pause,
                "exponential": row.exponential,
                "seconds": row.seconds,
                "contestants": {name: one.as_json() for name, one in medians.items()},
            }
            for row, medians in results.items()
        ],
        "targets": [vars(verdict) for verdict in verdicts(results)],
    }
