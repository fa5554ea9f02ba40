"""Formats the outcomes as a table or as JSON, and one case as a timeline."""

from __future__ import annotations

from .cases import CASES
from .contestants import CONTESTANTS
from .measure import Cpu, Played

Results = dict[str, dict[str, Played]]  # by case, then by contestant

_HEAD = ("", "requests", "CPU ms", "effects", "outcome")


def table(results: Results, cpu: Cpu) -> str:
    """A table with the requests on the wire, the CPU time and the outcome of each case.

    If work is lost or repeated in a case, the table says how to see it happen.
    """
    lines = [_row(*_HEAD)]
    for case, played in results.items():
        lines += ["", CASES[case].title]
        lines += [_line(case, name, one, cpu.get(case, {}).get(name)) for name, one in played.items()]
        if any(one.outcome.fault for one in played.values()):
            lines.append(f"    see it happen: python -m benchmarks.idempotency --case {case}")
    return "\n".join(lines)


def as_json(results: Results, cpu: Cpu) -> dict[str, object]:
    return {
        "cases": {
            case: {
                "title": CASES[case].title,
                "effects_expected": CASES[case].effects,
                **{name: _entry(one, cpu.get(case, {}).get(name)) for name, one in played.items()},
            }
            for case, played in results.items()
        }
    }


def timeline(case: str, name: str, played: Played) -> str:
    lines = [f"{CONTESTANTS[name].title}: {CASES[case].title}"]
    lines += [f"  {seconds:6.2f} s  {who:<14}{what}" for seconds, who, what in played.timeline]
    lines.append(f"  requests: {', '.join(played.requests)}")
    lines.append(f"  effects: {played.effects}, expected: {CASES[case].effects}")
    lines.append(f"  outcome: {_words(played)}")
    return "\n".join(lines)


def _entry(played: Played, cpu: float | None) -> dict[str, object]:
    return {
        "requests": played.requests,
        "cpu_ms": None if cpu is None else round(cpu * 1000, 2),
        "effects": played.effects,
        "outcome": played.outcome.got,
        "fault": played.outcome.fault or None,
    }


def _line(case: str, name: str, played: Played, cpu: float | None) -> str:
    return _row(
        f"  {CONTESTANTS[name].title}",
        str(len(played.requests)),
        "" if cpu is None else f"{cpu * 1000:.2f}",
        f"{played.effects} of {CASES[case].effects}",
        _words(played),
    )


def _words(played: Played) -> str:
    return played.outcome.got + (f"  !! {played.outcome.fault}" if played.outcome.fault else "")


def _row(name: str, requests: str, cpu: str, effects: str, outcome: str) -> str:
    return f"{name:<14}{requests:>9}{cpu:>9}{effects:>10}  {outcome}".rstrip()
