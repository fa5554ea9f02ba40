"""The results as a table for people, and as JSON."""

from __future__ import annotations

from .measure import Result

# The contestants, by the names of their scripts.
NAMES = {
    "bare": "Python alone",
    "runtime": "Python, standard modules of the runtime",
    "locks": "lambda_lock, @with_lock",
    "dynamodb_lock": "python-dynamodb-lock",
    "powertools": "Powertools idempotency",
}
CONDITIONS = {
    "https": "HTTPS, as with DynamoDB itself",
    "https_uncompiled": "HTTPS, installed packages without .pyc files",
    "http": "HTTP, as with local engines",
    "none": "without any request",
}
_OWN = "locks"
_HEAD = ("", "CPU ms", "lowest to highest", "wall ms", "peak MB", "modules", "lambda_lock needs")

Results = dict[str, dict[str, Result]]  # by condition, then by script


def table(results: Results, requests: dict[str, list[str]]) -> str:
    """The results as a table.

    CPU time, wall time and memory are from the start of a process to its first lock. Requests are those of a cycle.
    """
    lines = [_row(*_HEAD)]
    for condition, rows in results.items():
        lines += ["", CONDITIONS[condition]]
        lines += [_result(name, result, rows.get(_OWN)) for name, result in rows.items()]
    lines += ["", "Requests to acquire a lock and release it, counted on the wire"]
    lines += [f"  {NAMES[name]:<43}{len(sent)}   {', '.join(sent)}" for name, sent in requests.items()]
    return "\n".join(lines)


def as_json(results: Results, requests: dict[str, list[str]]) -> dict[str, object]:
    return {
        "results": {
            condition: {name: result.as_json() for name, result in rows.items()} for condition, rows in results.items()
        },
        "requests": requests,
    }


def _result(name: str, result: Result, own: Result | None) -> str:
    share = f"{own.cpu / result.cpu:.0%}" if own and own is not result else ""
    return _row(
        f"  {NAMES[name]}",
        f"{result.cpu * 1000:.0f}",
        f"{result.fastest * 1000:.0f} to {result.slowest * 1000:.0f}",
        f"{result.wall * 1000:.0f}",
        f"{result.peak / 1024:.0f}",
        str(result.modules),
        share,
    )


def _row(name: str, *cells: str) -> str:
    widths = (8, 19, 9, 9, 9, 19)
    return (f"{name:<43}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))).rstrip()
