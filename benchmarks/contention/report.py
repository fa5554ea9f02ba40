"""Contention, as a section of docs/performance-contention.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from .rows import NAMES, SWEEP_HOLD

_HEAD = (
    "",
    "locks/s (least to most)",
    "wait, median",
    "p95",
    "longest",
    "writes",
    "reads",
    "passed",
    "most",
    "never granted",
)


def section(result: dict[str, Any]) -> str:
    """The section, in Markdown. result: as `benchmarks.contention` writes it."""
    versions = ", ".join(f"{name} {version}" for name, version in result["packages"].items())
    lines = [
        "## Contention",
        "",
        "![Locks a second and the longest wait over the number of workers](performance/contention.svg)",
        "",
        "`python -m benchmarks.contention`: processes take one lock, hold it, release it and pause for 20 ms, again "
        f"and again. Rounds in turns: {result['rounds']} (for the other libraries: 1); medians, and the longest wait "
        f"of all rounds. {result['machine']['cores']} cores, {result['machine']['processor']}; {result['engine']} "
        f"on the same machine, which answers {result['engine_requests_per_second']} requests a second at most; Python "
        f"{result['python']}; {versions}. {_disturbed(result)}",
        "",
        "Writes and reads are those of one grant. *Passed* is the share of grants for which somebody waited who had "
        "asked earlier, and *most* by how many of them one wait was passed. A longest wait after >, or with a hollow "
        "mark, had not ended when the run did.",
        "The Java client runs all its workers in one process.",
        "",
        f"| {' | '.join(_HEAD)} |",
        "|" + "---|" * len(_HEAD),
    ]
    for row in result["rows"]:
        lines.append(f"| **{row['title']}** |" + " |" * (len(_HEAD) - 1))
        lines += [_line(name, one) for name, one in row["contestants"].items()]
    lines += ["", "| what was to be reached | measured | |", "|---|---|---|"]
    lines += [
        f"| {one['what']} | {one['measured']} | {'held' if one['held'] else '**missed**'} |"
        for one in result["targets"]
    ]
    return "\n".join([*lines, ""])


def _disturbed(result: dict[str, Any]) -> str:
    """How busy the machine was with something else."""
    runs = [run for row in result["rows"] for one in row["contestants"].values() for run in one["runs"] if run["cpu"]]
    others = [run["cpu"]["others"] for run in runs]
    if not others or median(others) < 0.1:  # cores
        return ""
    return f"Other programs took {median(others):.1f} cores meanwhile (median of the runs; {max(others):.1f} at most)."


def _line(name: str, one: dict[str, Any]) -> str:
    rates = [run["per_second"] for run in one["runs"]]
    spread = f" ({min(rates):.1f} to {max(rates):.1f})" if len(rates) > 1 else ""
    cells = (
        NAMES[name],
        f"{one['per_second']:.1f}{spread}",
        _seconds(one["wait_median"]),
        _seconds(one["wait_p95"]),
        ("> " if one["open"] else "") + _seconds(one["longest"]),
        f"{one['writes']:.1f}",
        f"{one['reads']:.1f}",
        f"{one['passed']:.0%}",
        str(one["most_passed"]),
        str(one["starved"]),
    )
    return f"| {' | '.join(cells)} |"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def sweep(result: dict[str, Any]) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    """For each contestant, its results over the number of workers."""
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for row in result["rows"]:
        if row["hold"] == SWEEP_HOLD and not row["exponential"]:
            for name, one in row["contestants"].items():
                found.setdefault(name, []).append((row["workers"], one))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}
