"""What every proof shares: its options, its progress, its planted mistakes, and its report.

A proof is a function that takes its options and returns its figures: by name a number, a table of numbers, or texts.
"good" says whether it passed. What `make prove` adds up (`COUNTED` in parts.py) has the same name everywhere.
"""

import argparse
import json
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rig.engine import DynamoDBLocal, Engine, EngineError, Ministack

Figures: TypeAlias = dict[str, Any]
ENGINES: dict[str, type[Engine]] = {"ministack": Ministack, "dynamodb-local": DynamoDBLocal}
DOUBLE_HOLDERS, KILLED, MUTANTS = "double holders", "mutants killed", "mutants"  # names of figures
_MOST_TOLD = 5  # texts of one kind
_LINES = 40  # of one text
_WIDTH = 118  # of what is printed

_OPTIONS: dict[str, dict[str, Any]] = {
    "minutes": {"type": float, "metavar": "N", "help": "how long to go on"},
    "seed": {"type": int, "metavar": "N", "help": "the first seed"},
    "processes": {"type": int, "metavar": "N", "help": "how many processes work at once"},
    "attempts": {"type": int, "metavar": "N", "help": "rounds in which a mutant must be noticed"},
    "only": {"metavar": "PART", "help": "only those whose names contain this"},
    "engine": {"choices": [*ENGINES], "help": "the engine"},
    "mutants": {
        "metavar": "PART",
        "nargs": "?",
        "const": "",
        "help": "plant mistakes instead (those with PART in their names), one at a time: each must be noticed",
    },
}


class CannotRunError(Exception):
    """The proof needs something that is not there. The message says what."""


def parser(module: str, doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """A parser with --json, and with those options that proofs share (_OPTIONS) which get a default here."""
    made = argparse.ArgumentParser(
        prog=f"python -m {module}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    for name, default in defaults.items():
        option = dict(_OPTIONS[name])
        option["help"] += "" if default is None else f" (default: {default})"
        made.add_argument(f"--{name}", default=default, **option)
    return made


def conduct(made: argparse.ArgumentParser, run: Callable[[argparse.Namespace], Figures], arguments: list[str]) -> int:
    """Run a proof, and report. Returns the exit status: 0 if all is well, 1 if not, 2 if it could not run."""
    options, started = made.parse_args(arguments), time.monotonic()
    try:
        figures = run(options)
    except (CannotRunError, EngineError) as error:
        print(error, file=sys.stderr)
        return 2
    figures["seconds"] = round(time.monotonic() - started, 1)
    for line in lines(figures):
        say(textwrap.fill(line, _WIDTH, subsequent_indent="    "))
    write(options.json, figures)
    return int(not figures["good"])


def chosen(part: str | None, names: Iterable[str]) -> list[str]:
    """The names that contain ``part``. Raises CannotRunError if none does."""
    found = [name for name in names if (part or "") in name]
    if not found:
        raise CannotRunError(f"no name contains {part!r}")
    return found


def planted(tried: Iterable[tuple[str, str]]) -> Figures:
    """The figures of planted mistakes. tried: the name of each, and what has shown it ("" if nothing has)."""
    count, survivors = 0, []
    for name, shown in tried:
        say(f"  {name}: {f'noticed: {shown}' if shown else 'NOT NOTICED'}")
        count += 1
        survivors += [] if shown else [name]
    figures = {KILLED: count - len(survivors), MUTANTS: count, "survivors": sorted(survivors)}
    return figures | {"good": count > 0 and not survivors}


def say(line: str) -> None:
    """Print a line at once and in one piece, because other threads and processes print, too."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def progress(text: str) -> None:
    """Show the progress if there is a terminal. The next text replaces it; "" clears it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:_WIDTH]}", end="", file=sys.stderr, flush=True)


def complain(wrong: Mapping[str, list[str]]) -> None:
    """Print what is wrong with a round: the first texts of each kind."""
    for kind, texts in wrong.items():
        for text in texts[:_MOST_TOLD]:
            say(f"      {kind.upper()} " + "\n        ".join(text.splitlines()[-_LINES:]))


def add(totals: Figures, more: Mapping[str, Any]) -> None:
    """Add a round's figures, numbers and tables of numbers, to the totals. Of a figure "most …" the largest stays."""
    for name, value in more.items():
        is_table = isinstance(value, Mapping)
        before, new = (totals.get(name, Counter()), Counter(value)) if is_table else (totals.get(name, 0), value)
        if not name.startswith("most "):
            totals[name] = before + new
        else:
            totals[name] = before | new if is_table else max(before, new)


def lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """A line for each number and for each table of numbers. Other figures are only in the file."""
    for name, value in figures.items():
        if name == KILLED:
            yield f"{name}: {value} of {figures.get(MUTANTS)}"
        elif name == MUTANTS:
            continue
        elif isinstance(value, dict) and all(isinstance(each, int) for each in value.values()):
            yield f"{name}: {counted(value) or 'none'}"
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value:,.1f}"


def counted(counts: Mapping[str, int]) -> str:
    """A table of counts on one line, the most first."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda each: -each[1]))


def write(path: Path | None, figures: Figures) -> None:
    """Write figures to a file, if there is to be one."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, json.dumps(figures, indent=2) + "\n")


def save(path: Path, text: str) -> None:
    """Write a file whole or not at all: a full disk leaves what was there."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_text(text)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
