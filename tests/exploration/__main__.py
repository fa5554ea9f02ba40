"""Explore the cases and try the mutants. Results go to the standard output, progress to the standard error.

The mutants come first, then the cases, within narrow and then wider and wider bounds until the time is over (plan.py
says which is next). The results say which bounds of each case are complete.

Examples:

    python -m tests.exploration                        # all cases and all mutants, in about 10 minutes
    python -m tests.exploration --long                 # until the widest bounds are reached, for hours
    python -m tests.exploration --cases "by the Date"  # the cases whose names contain this
    python -m tests.exploration --mutants drift        # the mutants whose names contain this
    python -m tests.exploration --json figures.json
"""

import argparse
import itertools
import signal
import sys
import time
from typing import Any

from tests.prove import bench

from .cases import CASES
from .mutants import MUTANTS
from .page import README, text, write_tables
from .plan import Plan
from .trials import run_jobs


def parser() -> argparse.ArgumentParser:
    made = bench.parser("tests.exploration", __doc__, minutes=6.0, processes=2, mutants=None)
    made.add_argument("--cases", metavar="PART", nargs="?", const="", help="only cases (whose name contains PART)")
    made.add_argument("--long", action="store_true", help="until the widest bounds are reached, for hours")
    made.add_argument("--write", action="store_true", help=f"write the tables into {README.name}")
    return made


def run(options: argparse.Namespace) -> bench.Figures:
    names = [name for name in CASES if _is_chosen(options.cases, options.mutants, name)]
    in_turn = sorted(MUTANTS, key=lambda mutant: bool(mutant.redundant))  # mutants that live take the longest
    mutants = [mutant.name for mutant in in_turn if _is_chosen(options.mutants, options.cases, mutant.name)]
    if not names and not mutants:
        raise bench.CannotRunError("no case and no mutant has such a name")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workers end, too
    started = time.monotonic()
    seconds = float("inf") if options.long else 60 * options.minutes
    results = run_jobs(Plan(mutants, names, seconds, options.processes), options.processes)
    summary = summarize(results, mutants) | {"seconds": time.monotonic() - started}
    print(text(summary))
    if options.write:
        write_tables(README, summary)
    return summary


def _is_chosen(part: str | None, other: str | None, name: str) -> bool:
    """``part`` chooses among these names. If only the ``other`` kind is asked for, none of these is."""
    return part in name if part is not None else other is None


def summarize(results: list[dict[str, Any]], mutants: list[str]) -> bench.Figures:
    """The figures of all results. States of a case within narrower bounds are not counted twice."""
    cases = [_merged(list(of)) for _, of in itertools.groupby(_by_case(results), key=lambda one: one["name"])]
    tried = {result["name"]: result for result in results if result["kind"] == "mutant"}
    needed = [mutant for mutant in MUTANTS if mutant.name in mutants and not mutant.redundant]
    killed = {name for name, result in tried.items() if result["killed_by"]}
    explored = {mutant.name for mutant in needed if mutant.case}
    simulated = {mutant.name for mutant in needed if not mutant.case}
    survivors = [mutant.name for mutant in needed if mutant.name not in killed]
    failures = [case["name"] for case in cases if case["failure"]]
    return {
        "states explored": sum(case["states"] for case in cases),
        "transitions": sum(case["transitions"] for case in cases),
        "bounds complete": sum(len(case["completed"]) for case in cases),
        "bounds": sum(case["of"] for case in cases),
        "cases with complete bounds": sum(bool(case["completed"]) for case in cases),
        bench.KILLED: len(killed & explored),
        bench.MUTANTS: len(explored),
        "mutants left to the simulator": {"killed": len(killed & simulated), "of": len(simulated)},
        bench.DOUBLE_HOLDERS: sum((case["failure"] or [""])[0] in ("overlap", "robbed") for case in cases),
        "survivors": survivors,
        "failures": failures,
        "cases": cases,
        "trials": [tried[mutant.name] for mutant in MUTANTS if mutant.name in tried],
        "good": not (failures or survivors),
    }


def _by_case(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = list(CASES)
    cases = [result for result in results if result["kind"] == "case"]
    return sorted(cases, key=lambda one: (order.index(one["name"]), one["width"]))


def _merged(widths: list[dict[str, Any]]) -> dict[str, Any]:
    """One case: what was reached within the widest bounds that are complete, and what the widest exploration saw."""
    name = widths[0]["name"]
    complete = [one for one in widths if one["complete"]]
    failed = next((one for one in widths if one["failure"]), None)
    most = max(widths, key=lambda one: one["states"])
    return {
        "name": name,
        "says": CASES[name][0].says,
        "clients": len(CASES[name][0].processes),
        "complete": complete[-1]["bounds"] if complete else "",
        "complete_states": complete[-1]["states"] if complete else 0,
        "begun": "" if widths[-1]["complete"] else widths[-1]["bounds"],
        "completed": [one["bounds"] for one in complete],
        "of": len(CASES[name]),
        **{name: most[name] for name in ("states", "transitions", "newcomers")},
        "failure": failed and failed["failure"],
        "steps": failed["steps"] if failed else [],
        "widths": widths,
    }


def main(arguments: list[str]) -> int:
    return bench.conduct(parser(), run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
