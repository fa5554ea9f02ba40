"""The results as text, and as the tables of README.md."""

from pathlib import Path
from typing import Any

from .mutants import SPARED

README = Path(__file__).with_name("README.md")


def text(summary: dict[str, Any]) -> str:
    lines: list[str] = []
    if summary["cases"]:
        lines += [f"{'case':<30} {'states':>10} {'newcomers':>10}  complete within"]
    for case in summary["cases"]:
        lines.append(f"{case['name']:<30} {case['states']:>10,} {case['newcomers']:>10,}  {_reached(case)}")
        if case["failure"]:
            lines += [f"  FAILURE: {': '.join(case['failure'])}", *[f"    {step}" for step in case["steps"]]]
    if summary["trials"]:
        lines += ["", f"{'rule':<16} {'mutant':<70} killed by"]
    lines += [f"{one['rule']:<16} {one['name']:<70} {_killer(one)}" for one in summary["trials"]]
    untried = set(summary["survivors"]) - {one["name"] for one in summary["trials"]}
    if untried:
        lines += ["", f"no time was left for: {', '.join(sorted(untried))}"]
    return "\n".join([*lines, ""])


def _reached(case: dict[str, Any]) -> str:
    """How many of its bounds are complete, the widest of them, and what was begun besides."""
    done = f"{len(case['completed'])} of {case['of']}: {case['complete'] or 'nothing'}"
    return done + (f"; begun: {case['begun']}" if case["begun"] else "")


def _killer(mutant: dict[str, Any]) -> str:
    return mutant["killed_by"] or ("nobody, as expected" if mutant["redundant"] else "NOBODY")


def write_tables(page: Path, summary: dict[str, Any]) -> None:
    """Replace the tables between their pairs of comments. A kind that was not asked for stays as it is."""
    content = page.read_text()
    if summary["cases"]:
        content = _between(content, "cases", _cases(summary))
    if summary["trials"]:
        content = _between(content, "mutants", _mutants(summary))
    page.write_text(content)


def _between(content: str, name: str, table: list[str]) -> str:
    before, begin, rest = content.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    assert begin, f"the page has no comment for {name}"
    assert end, f"the page has no end of {name}"
    return "".join([before, begin, "\n", *[f"{line}\n" for line in table], "\n", end, after])


def _cases(summary: dict[str, Any]) -> list[str]:
    rows = [
        f"| {case['name']} | {case['says']} | {case['clients']} | {case['complete']} | {case['complete_states']:,} |"
        for case in summary["cases"]
    ]
    written = f"Of a run of {round(summary['seconds'] / 60)} minutes: {summary['states explored']:,} states in all."
    return [
        written,
        "",
        "| case | what is special | clients | complete within | states |",
        "|---|---|---|---|---:|",
        *rows,
    ]


def _mutants(summary: dict[str, Any]) -> list[str]:
    rows = [
        f"| {one['rule']} | {one['name']} | {_killer(one)}{': ' + one['redundant'] if one['redundant'] else ''} |"
        for one in summary["trials"]
    ]
    rows += [f"| {rule} | none | {reason} |" for rule, reason in SPARED.items()]
    return ["| rule | mutant | killed by |", "|---|---|---|", *rows]
