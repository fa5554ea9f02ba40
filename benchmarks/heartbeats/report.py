"""What held locks take, as a section of docs/performance.md."""

from __future__ import annotations

from typing import Any

_MANY = 10  # locks: the memory of fewer is lost among the pages of the process


def section(result: dict[str, Any]) -> str:
    """The section, in Markdown. result: as `benchmarks.heartbeats` writes it."""
    first, engine = result["held"][0], result["engine"]
    lines = [
        "## Held locks",
        "",
        f"`python -m benchmarks.heartbeats`: one process holds so many locks on a lease of {first['lease']:.0f} s for "
        f"{first['seconds']:.0f} s, against one engine over HTTP on loopback. CPU is that of the holder alone.",
        "",
        "| locks | lapsed | least time left, s | threads | renewals a second | failed | CPU of a core | "
        "CPU per lock and minute | memory per lock |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(held) for held in result["held"]]
    lines += [
        "",
        f"The engine itself answers at most {engine['per_second']} requests a second here (8 threads that lock and "
        "release); DynamoDB answers any number, spread over its partitions.",
        "",
    ]
    return "\n".join(lines)


def _row(held: dict[str, Any]) -> str:
    locks, seconds, cpu = held["locks"], held["seconds"], held["cpu_seconds"]
    cells = [
        f"{locks:,}",
        str(held["lapsed"]),
        f"{held['least_left']:.1f}",
        str(held["threads"]),
        f"{held['renewals'] / seconds:,.1f}",
        str(held["failed"]),
        f"{cpu / seconds:.1%}",
        f"{cpu / seconds / locks * 60_000:.1f} ms",
        f"{held['bytes'] / locks / 1024:.1f} KB" if locks >= _MANY else "",
    ]
    return f"| {' | '.join(cells)} |"
