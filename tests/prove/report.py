"""What the parts of the proof said: as lines, as docs/safety-figures.md, and quoted in docs/safety-evidence.md."""

import platform
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from . import bench
from .parts import COUNTED, Part

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


@dataclass(frozen=True)
class Result:
    """The result of a part.

    status: "passed", "failed" or "missing".
    why: why it did not pass.
    figures: what it wrote; empty if nothing.
    counted: those that the lines at the end add up.
    """

    part: Part
    status: str
    why: str = ""
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)


def passed(results: list[Result]) -> bool:
    return all(result.status == "passed" for result in results)


def totals(results: list[Result]) -> Counter[str]:
    """The sums of all that was counted. A part that is missing adds nothing."""
    sums: Counter[str] = Counter()
    for result in results:
        sums.update(result.counted)
    return sums


def lines(results: list[Result]) -> list[str]:
    """The end of the report: what failed or is missing, and the figures."""
    sums = totals(results)
    said = [f"{result.part.name}: {result.status} ({result.why})" for result in results if result.status != "passed"]
    of = {bench.KILLED: f" of {sums[bench.MUTANTS]}"}
    return [*said, *(f"{name}: {sums[name]}{of.get(name, '')}" for name in COUNTED)]


def page(results: list[Result], long: bool, commit: str) -> str:
    """The page for docs/. commit: what was proved."""
    target = "make prove-long" if long else "make prove"
    text = [
        "# Figures of the latest proof",
        "",
        f"`{target}` writes this page. It ran {commit}, with Python {platform.python_version()} on "
        f"{platform.system()}. "
        "Each part can be run by itself with the command that is given.",
        "",
        "| part | command | result | minutes |",
        "|---|---|---|---|",
    ]
    for result in results:
        command = f"`python {' '.join(result.part.arguments(long))}`"
        text.append(f"| {result.part.name} | {command} | {result.status} | {result.seconds / 60:.1f} |")
    text += ["", "```", *lines(results), "```"]
    for result in results:
        if result.figures:
            text += ["", f"## {result.part.name}", "", *(f"- {line}" for line in bench.lines(result.figures))]
    return "\n".join(text) + "\n"


def quoted(text: str, results: list[Result]) -> str:
    """docs/safety-evidence.md, with the end of the report between its pair of comments."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"there is no {BEGIN} and {END}")
    return "".join([before, begin, "\n\n```\n", "\n".join(lines(results)), "\n```\n\n", end, after])
