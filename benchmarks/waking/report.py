"""The loads, their figures as a table, and the picture of docs/waiting-asleep.md."""

from __future__ import annotations

from html import escape
from statistics import median
from typing import TYPE_CHECKING, Any

from rig.engine import ROOT

from .world import Run, World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .world import Load

PAGE = ROOT / "docs" / "waiting-asleep.md"
PICTURE = ROOT / "docs" / "waiting-asleep.svg"
BEGIN, END = "<!-- waking: begin -->\n", "<!-- waking: end -->\n"
SEEDS = (1, 2, 3)
WAYS = {"asleep": True, "polling": False}
# Dollars for a million, us-east-1. Sources: https://aws.amazon.com/lambda/pricing/ (durable operations, requests, and
# GB-seconds of x86, as of September 2026), https://aws.amazon.com/dynamodb/pricing/on-demand/ (units, on demand) and
# https://aws.amazon.com/sqs/pricing/ (requests; a message is sent, received and deleted). Reads of a stream by Lambda
# are free.
OPERATION, INVOCATION, GB_SECOND, WRITE, READ, MESSAGE = 8.0, 0.20, 16.6667, 0.625, 0.125, 3 * 0.40
MEMORY = 0.25  # GB of the functions
DRAWN = ("50 executions of 5 s", "50 executions of 1 s, and 5 callers without a pause")
_WIDTH, _PANEL, _LEFT, _TOP = 960, 190, 64, 84


def measure(loads: Sequence[Load]) -> tuple[dict[str, Any], dict[str, dict[str, Run]]]:
    """The figures of each load and way, of all seeds together, and the runs with the first seed."""
    figures: dict[str, Any] = {}
    first: dict[str, dict[str, Run]] = {}
    for load in loads:
        figures[load.title], first[load.title] = {}, {}
        for way, asleep in WAYS.items():
            runs = [World(load, asleep=asleep, seed=seed).run() for seed in SEEDS]
            first[load.title][way] = runs[0]
            figures[load.title][way] = judge(load, runs)
    return {"seeds": len(SEEDS), "loads": figures}, first


def judge(load: Load, runs: Sequence[Run]) -> dict[str, Any]:
    idle = sorted(one for run in runs for one in run.idle)
    grants = len(idle)
    totals = {name: sum(vars(run.counts)[name] for run in runs) for name in vars(runs[0].counts)}
    dollars = (
        totals["operations"] * OPERATION
        + (totals["invocations"] + totals["looks"]) * INVOCATION
        + totals["seconds"] * MEMORY * GB_SECOND
        + totals["reads"] * READ
        + totals["writes"] * WRITE
        + totals["messages"] * MESSAGE
    ) / 1e6
    ended = [run.done for run in runs if run.done is not None]
    return {
        "executions": load.executions * len(runs),
        "grants": grants,
        "done": sum(ended) / len(ended) if len(ended) == len(runs) else None,
        "until": load.longest,
        "idle_median": median(idle),
        "idle_p90": idle[int(0.9 * grants)],
        "idle_most": idle[-1],
        "passed": sum(run.passed for run in runs) / grants,
        "calls": sum(run.calls for run in runs) / sum(run.done or load.longest for run in runs),
        "overlaps": sum(overlaps(run, load.permits or 1) for run in runs),
        "dollars": dollars / grants,
        **{name: total / grants for name, total in totals.items()},
    }


def overlaps(run: Run, permits: int) -> int:
    """How often more than ``permits`` held the lock at a time."""
    moments = sorted(moment for begin, end, _ in run.spans for moment in ((end, -1), (begin, 1)))
    inside = found = 0
    for _, change in moments:
        inside += change
        found += inside > permits
    return found


def table(result: Mapping[str, Any]) -> str:
    """The figures as lines of Markdown."""
    lines = [
        "|  |  | all done after | idle before a grant: median, p90 | passed | invocations: own + waker | requests "
        "| operations | a thousand grants |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for title, ways in result["loads"].items():
        for way, run in ways.items():
            through, all_of = (run[name] / result["seeds"] for name in ("grants", "executions"))
            done = f"{through:.0f} of {all_of:.0f} in {run['until']:,.0f} s"
            if run["done"] is not None:
                done = f"{run['done']:,.0f} s"
            cells = (
                title if way == "asleep" else "",
                way,
                done,
                f"{run['idle_median']:.1f}, {run['idle_p90']:.1f} s",
                f"{run['passed']:.0%}",
                f"{run['invocations']:.0f} + {run['looks']:.0f}",
                f"{run['requests']:.0f}",
                f"{run['operations']:.0f}",
                f"${1000 * run['dollars']:.3f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"`python -m benchmarks.waking`: virtual time, {result['seeds']} runs of each. All figures but the first are",
        "of one grant to an execution. Passed: grants while an execution waited that had come earlier. Requests: of",
        "the executions and the waker to DynamoDB. Operations: of durable functions. A request takes 2 to 6 ms, a",
        "record of the stream 0.1 to 1 s to the waker, an execution 0.15 to 2.5 s from the call, or from the end of a",
        "pause, to its acquire; holds differ by a fifth. Dollars: list prices of us-east-1, 256 MB, without starts.",
    ]
    return "\n".join(lines) + "\n"


def picture(runs: Mapping[str, Mapping[str, Run]]) -> str:
    """How many executions are through, over time, as an SVG."""
    height = _TOP + _PANEL * len(DRAWN) + 12
    title = "50 executions want one lock: how many have had it"
    told = []
    for name in DRAWN:
        for way, run in runs[name].items():
            told.append(f"{name}, {way}: {len(run.grants)} after {run.grants[-1]:.0f} s")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title description">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape("; ".join(told))}.</desc>',
        "<style>text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}"
        ".name{font-size:13px;font-weight:600}.end{text-anchor:end}.faint{fill:#59636e}.card{fill:#fff;stroke:#d0d7de}"
        ".grid{stroke:#d0d7de;fill:none}.asleep,.polling{fill:none;stroke-width:2}.asleep{stroke:#2563eb}"
        ".polling{stroke:#d1242f;stroke-dasharray:6 3}"
        "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}"
        ".card{fill:#0d1117;stroke:#30363d}.grid{stroke:#30363d}.asleep{stroke:#539bf5}.polling{stroke:#ff7b72}"
        "}</style>",
        f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="10"/>',
        f'<text class="title" x="24" y="34">{escape(title)}</text>',
        f'<path class="asleep" d="M{_LEFT} 56h28"/><text x="{_LEFT + 36}" y="60">asleep</text>',
        f'<path class="polling" d="M{_LEFT + 110} 56h28"/><text x="{_LEFT + 146}" y="60">polling</text>',
    ]
    for number, name in enumerate(DRAWN):
        lines += _panel(name, runs[name], _TOP + _PANEL * number)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(name: str, runs: Mapping[str, Run], top: float) -> list[str]:
    bottom, right = top + _PANEL - 40, _WIDTH - 40
    most = max(run.grants[-1] for run in runs.values())
    count = max(len(run.grants) for run in runs.values())
    across, up = (right - _LEFT) / most, (bottom - top - 20) / count
    lines = [
        f'<text class="name" x="{_LEFT}" y="{top + 8:.0f}">{escape(name)}</text>',
        f'<path class="grid" d="M{_LEFT} {bottom - count * up:.1f}V{bottom:.1f}H{right}"/>',
        f'<text class="faint end" x="{_LEFT - 8}" y="{bottom - count * up + 4:.1f}">{count}</text>',
        f'<text class="faint end" x="{_LEFT - 8}" y="{bottom + 4:.1f}">0</text>',
        f'<text class="faint end" x="{right}" y="{bottom + 18:.1f}">{most:,.0f} s</text>',
    ]
    for way, run in runs.items():
        path = "".join(f"H{_LEFT + at * across:.1f}v{-up:.2f}" for at in run.grants)
        lines.append(f'<path class="{way}" d="M{_LEFT} {bottom:.1f}{path}"/>')
    return lines


def write(result: Mapping[str, Any], drawn: str) -> None:
    PICTURE.write_text(drawn)
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table(result)}{END}{after}")
