"""What a warm acquire and release takes, as a section of docs/performance.md."""

from __future__ import annotations

from typing import Any

_NAMES = {
    "lambda_lock": "lambda_lock, `@with_lock` in a function",
    "lambda_lock_kept": "lambda_lock, with its heartbeat",
    "dynamodb_lock": "python-dynamodb-lock",
}
_OTHER = "dynamodb_lock"


def section(result: dict[str, Any]) -> str:
    """The section, in Markdown. result: as `benchmarks.instructions.compare` writes it."""
    cpu, counts = result["cpu_ms"], result["instructions"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(result["versions"].items()))
    lines = [
        "## A warm acquire and release",
        "",
        "`python -m benchmarks.instructions.compare`: CPU time with the kernel's, the median of "
        f"{result['rounds']} processes of {result['cycles']} cycles that take turns (least to most); instructions by "
        f"callgrind, without the kernel's. One engine on loopback, HTTP, Python {result['python']}, {versions}.",
        "",
        "| | CPU ms | of python-dynamodb-lock's | million instructions | of python-dynamodb-lock's |",
        "|---|---|---|---|---|",
    ]
    for name, title in _NAMES.items():
        one = cpu[name]
        row = [f"{one['median']:.2f} ({one['least']:.2f} to {one['most']:.2f})", _part(one, cpu[_OTHER])]
        if name in counts:
            row += [f"{counts[name] / 1e6:.2f}", f"1/{counts[_OTHER] / counts[name]:.1f}" if name != _OTHER else ""]
        else:
            row += ["", ""]
        lines.append(f"| {title} | {' | '.join(row)} |")
    lines += [
        "",
        "dynamolock (Go) was not run here. Elsewhere it took 0.6 ms where python-dynamodb-lock took 2.3 ms, which is "
        "1/3.8; half of that is 1/7.7.",
        "",
    ]
    return "\n".join(lines)


def _part(one: dict[str, float], other: dict[str, float]) -> str:
    return "" if one is other else f"1/{other['median'] / one['median']:.1f}"
