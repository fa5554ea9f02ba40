"""Runs all proofs of exclusion, and reports their figures: ``python -m tests.prove``.

    python -m tests.prove                        # `make prove`: half an hour on two cores
    python -m tests.prove --long                 # `make prove-long`: hours
    python -m tests.prove --only histories       # the parts whose names contain this; docs/ stays as it is
    python -m tests.prove races --minutes 1      # one proof with its own options, as `python -m tests.races`
    python -m tests.prove races --help

The figures are left in build/prove.json, and those of each part in build/prove/. docs/safety-figures.md shows them, and
docs/safety-evidence.md the totals. The exit status is 0 if each part is there and passed.
"""

import argparse
import fcntl
import importlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rig.engine import ROOT

from . import bench
from .parts import PARTS, Part, objection
from .programs import Programs
from .report import Result, lines, page, passed, quoted, totals

BUILD = ROOT / "build"
PAGE = ROOT / "docs" / "safety-figures.md"
PROOFS = {part.module.rpartition(".")[2] for part in PARTS}


def run(part: Part, long: bool, folder: Path, programs: Programs) -> Result:
    """Run a part. It leaves its figures in the folder, and its output too if it runs beside the others."""
    file, log = folder / f"{part.name}.json", folder / f"{part.name}.log"
    started = time.monotonic()
    command, limit = part.command(long, file), part.limit(long)
    try:
        file.unlink(missing_ok=True)  # of an earlier run
        if part.aside:
            with log.open("wb") as output:
                why = programs.run(command, limit, output)
        else:
            why = programs.run(command, limit)
    except OSError as error:
        why = str(error)
    seconds = time.monotonic() - started
    figures, counted, objected = judge(part, file)
    why = why or objected
    status = "failed" if why else "passed"
    said = f": {why}, see {log}" if why and part.aside else f": {why}" if why else ""
    bench.say(f"    {part.name}: {status} in {seconds / 60:.1f} min{said}")
    return Result(part, status, why, seconds, figures, counted)


def judge(part: Part, file: Path) -> tuple[dict[str, Any], dict[str, int], str]:
    """The figures of a part, what they count, and what is wrong with them."""
    figures: dict[str, Any] = {}
    try:
        figures |= json.loads(file.read_text())
        counted = part.count(figures)
    except FileNotFoundError:
        return {}, {}, "it wrote no figures"
    except (OSError, TypeError, ValueError) as error:
        return figures, {}, f"its figures cannot be used: {error}"
    return figures, counted, objection(counted)


def run_all(parts: Sequence[Part], long: bool, folder: Path) -> Generator[Result, None, None]:
    """Run the parts one after the other, and beside them those that are `aside`. Closing this ends what still runs."""
    folder.mkdir(parents=True, exist_ok=True)
    there = [part for part in parts if not part.is_missing]
    aside = [part for part in there if part.aside]
    for part in parts:
        if part.is_missing:
            bench.say(f"==> {part.name}: missing")
            yield Result(part, "missing", f"there is no {part.module}")
    with ThreadPoolExecutor(max(len(aside), 1)) as beside, Programs() as programs:
        for part in aside:
            bench.say(f"==> {part.name}, beside the others: python {' '.join(part.arguments(long))}")
        running = {part.name: beside.submit(run, part, long, folder, programs) for part in aside}
        for part in there:
            if not part.aside:
                bench.say(f"==> {part.name}: python {' '.join(part.arguments(long))}")
                yield run(part, long, folder, programs)
        for name, future in running.items():
            if not future.done():
                bench.say(f"==> {name} goes on: {folder / name}.log")
            yield future.result()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Exit if another run is there: two would mix up their figures, and take each other's time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another proof runs in {folder}")
        yield


def write(results: list[Result], chosen: Sequence[Part], long: bool, file: Path) -> None:
    """Write what is known so far, so that a stopped run leaves its figures. It passes only once all have ended."""
    ended = len(results) == len(chosen)
    parts = {
        each.part.name: {
            "command": ["python", *each.part.arguments(long)],
            "status": each.status,
            "why": each.why,
            "seconds": round(each.seconds, 1),
            "figures": each.figures,
        }
        for each in results
    }
    bench.write(file, {"long": long, "totals": totals(results), "passed": ended and passed(results), "parts": parts})


def commit() -> str:
    """The commit that is checked out, in words for the page."""
    asked = ["git", "describe", "--always", "--dirty=, with changes"]
    try:
        said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "on an unknown commit"
    return f"on commit {said.stdout.strip()}" if said.returncode == 0 else "on an unknown commit"


def prove(chosen: Sequence[Part], long: bool, build: Path, report: Path | None) -> bool:
    """Run parts, and write their figures. Returns whether all passed. report: the page to write; None for none."""
    quoting = report.with_name("safety-evidence.md") if report else None
    if quoting:
        quoted(quoting.read_text(), [])  # raises now, and not after half an hour
    results: list[Result] = []
    proved = commit()  # before docs/ changes
    with alone(build / "prove"), closing(run_all(chosen, long, build / "prove")) as running:
        write(results, chosen, long, build / "prove.json")
        for result in running:
            results.append(result)
            write(results, chosen, long, build / "prove.json")
        results.sort(key=lambda result: chosen.index(result.part))
    written = True
    try:
        if report and quoting:
            bench.save(report, page(results, long, proved))
            bench.save(quoting, quoted(quoting.read_text(), results))
    except OSError as error:
        bench.say(f"docs/ could not be written: {error}")
        written = False
    bench.say("\n".join(lines(results)))
    return written and passed(results)


def main(arguments: list[str], parts: Sequence[Part] = PARTS, build: Path = BUILD, report: Path = PAGE) -> int:
    if arguments and arguments[0] in PROOFS:
        status: int = importlib.import_module(f"tests.{arguments[0]}.__main__").main(arguments[1:])
        return status
    parser = argparse.ArgumentParser(
        prog="python -m tests.prove",
        description=__doc__,
        epilog=f"one proof with its own options: {', '.join(sorted(PROOFS))}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--long", action="store_true", help="for hours")
    parser.add_argument("--only", metavar="PART", help="run the parts whose names contain this; docs/ stays as it is")
    options = parser.parse_args(arguments)
    chosen = [part for part in parts if options.only is None or options.only in part.name]
    if not chosen:
        parser.error(f"no part's name contains {options.only!r}; there are {', '.join(part.name for part in parts)}")
    try:
        return int(not prove(chosen, options.long, build, report if options.only is None else None))
    except KeyboardInterrupt:
        bench.say(
            f"interrupted: {build / 'prove.json'} has the figures of the parts that had ended; docs/ stays as it was"
        )
        return 130
    except OSError as error:
        bench.say(f"stopped: {error}")
        return 1


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
