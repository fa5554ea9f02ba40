"""The first lock of a process in parts, as a section of docs/performance.md."""

from __future__ import annotations

from typing import Any

from .report import CONDITIONS, NAMES

LIBRARIES = ("locks", "dynamodb_lock", "powertools")
SHOWN = ("https", "https_uncompiled")


def section(result: dict[str, Any]) -> str:
    """The section, in Markdown. result: as `benchmarks.cold_start` writes it."""
    versions = ", ".join(f"{name} {version}" for name, version in result["packages"].items())
    lines = [
        "## Cold start",
        "",
        "![CPU time from the start of a process to its first lock, in parts](performance/cold-start.svg)",
        "",
        "`python -m benchmarks.cold_start`: CPU time (user and system) from the start of a process to its first lock. "
        f"Medians of {result['rounds']} rounds in turns (least to most); without `.pyc` files fewer. Python "
        f"{result['python']}; {versions}. [Cold start](cold-start.md) says what is loaded, what INIT takes, and which "
        "ways of packaging keep the `.pyc` files.",
        "",
        "| CPU ms | " + " | ".join(CONDITIONS[condition] for condition in SHOWN) + " |",
        "|---|" + "---|" * len(SHOWN),
    ]
    for name in LIBRARIES:
        cells = [_cell(result["results"][condition][name]) for condition in SHOWN]
        lines.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(one: dict[str, float]) -> str:
    return f"{one['cpu_ms']:.0f} ({one['cpu_ms_fastest']:.0f} to {one['cpu_ms_slowest']:.0f})"


def parts(result: dict[str, Any], condition: str, name: str) -> tuple[float, float, float]:
    """CPU ms of Python alone, of the runtime's standard modules, and of the library up to its first lock."""
    bare, runtime = (result["results"]["none"][one]["cpu_ms"] for one in ("bare", "runtime"))
    whole = result["results"][condition][name]["cpu_ms"]
    return bare, runtime - bare, whole - runtime
