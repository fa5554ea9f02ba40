"""Runs all proofs of exclusion, and reports their figures: ``python -m tests.prove``.

    python -m tests.prove                        # `make prove`: half an hour on two cores
    python -m tests.prove --long                 # `make prove-long`: hours
    python -m tests.prove --only histories       # the parts whose names contain this; docs/ stays as it is

The figures are left in build/prove.json, and those of each part in build/prove/. docs/safety-figures.md shows them, and
docs/safety.md their end. The exit status is 0 if each part is there and passed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rig.engine import ROOT

from .parts import PARTS, Part
from .report import Result, lines, page, passed, quoted, totals

BUILD = ROOT / "build"
PAGE = ROOT / "docs" / "safety-figures.md"


def run(part: Part, long: bool, folder: Path) -> Result:
    """Run a part. Its figures are left in the folder. It shows its own progress, or leaves it there too."""
    if part.is_missing:
        print(f"==> {part.name}: missing, there is no {part.module}", flush=True)
        return Result(part, "missing")
    beside = ", beside the others" if part.aside else ""
    print(f"==> {part.name}{beside}: python {' '.join(part.arguments(long))}", flush=True)
    file, log = folder / f"{part.name}.json", folder / f"{part.name}.log"
    file.unlink(missing_ok=True)  # of a run before
    started = time.monotonic()
    command = part.command(long, file)
    if part.aside:
        with log.open("wb") as output:
            status = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output).returncode
    else:
        status = subprocess.run(command, cwd=ROOT).returncode
    seconds = time.monotonic() - started
    try:
        figures = json.loads(file.read_text())
    except (OSError, ValueError):
        figures = {}
    outcome = "failed" if status or not figures else "passed"
    where = f", see {log}" if part.aside and outcome == "failed" else ""
    print(f"    {part.name}: {outcome} in {seconds / 60:.1f} min{where}", flush=True)
    return Result(part, outcome, seconds, figures)


def run_all(parts: Sequence[Part], long: bool, folder: Path) -> Iterator[Result]:
    """Run the parts one after the other, beside those that give way to them."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = [part for part in parts if part.aside]
    with ThreadPoolExecutor(max(len(aside), 1)) as beside:
        running = [beside.submit(run, part, long, folder) for part in aside]
        for part in parts:
            if not part.aside:
                yield run(part, long, folder)
        for future in running:
            yield future.result()


def write(results: list[Result], long: bool, file: Path) -> None:
    """Write what is known so far, so that a run that is stopped leaves its figures."""
    parts = {
        each.part.name: {
            "command": ["python", *each.part.arguments(long)],
            "status": each.status,
            "seconds": round(each.seconds, 1),
            "figures": each.figures,
        }
        for each in results
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"long": long, "totals": totals(results), "passed": passed(results), "parts": parts}, indent=2)
    file.write_text(text + "\n")


def main(arguments: list[str], parts: Sequence[Part] = PARTS, build: Path = BUILD, report: Path = PAGE) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description="Run all proofs of exclusion.")
    parser.add_argument("--long", action="store_true", help="for hours")
    parser.add_argument("--only", metavar="PART", help="run the parts whose names contain this; docs/ stays as it is")
    options = parser.parse_args(arguments)
    chosen = [part for part in parts if options.only is None or options.only in part.name]
    if not chosen:
        parser.error(f"no part's name contains {options.only!r}; there are {', '.join(part.name for part in parts)}")
    results: list[Result] = []
    for result in run_all(chosen, options.long, build / "prove"):
        results.append(result)
        write(results, options.long, build / "prove.json")
    if options.only is None:
        report.write_text(page(results, options.long))
        quoting = report.with_name("safety.md")
        quoting.write_text(quoted(quoting.read_text(), results))
    print("\n".join(lines(results)))
    return int(not passed(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
