"""Runs the tests of minutes where they may come out otherwise: `make test-planted` and `make test-slow`.

    python -m tests.prove.noted planted            # the folders whose files have changed since these tests passed
    python -m tests.prove.noted planted --all      # all folders
    python -m tests.prove.noted planted -k waker   # what these options of pytest select: nothing is noted
    python -m tests.prove.noted slow -- -n 4       # options of pytest that select nothing

Once all tests of a folder have passed, the digest of the files that they depend on is noted in tests/prove/noted.json,
which belongs into the commit. Where the digest is still the same, nothing has to run. What has passed in the short form
only (SCHEDULES=1500) is noted apart, for the short form. Without CI=true nothing is noted, because tests whose programs
are missing are skipped then.
"""

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rig.engine import ROOT
from tests.support.short import SHORT

from .bench import save, say

NOTED = Path(__file__).with_name("noted.json")
_CORE = ("lambda_lock/core", "lambda_lock/waker", "lambda_lock/errors.py")
_DRIVERS = (*_CORE, "lambda_lock/runtime", "lambda_lock/client", "lambda_lock/transport")
_SERVERS = ("rig", "requirements", "tests/conftest.py")  # the engines, and what is installed
#: What decides how tests end, besides their folder and what it names of tests/: by the marker, and by folder.
PLANTED = {
    "simulation": _CORE,
    "drivers": _DRIVERS,
    "stopping": (*_DRIVERS, "lambda_lock/decorators", "lambda_lock/stopping.py"),
}
# What stands around the library depends on much else, so tests of it always run.
AROUND = (
    *("benchmarks", "demo", "docs", "durable", "event_sources", "examples", "infra", "prove", "recipes", "rig"),
    "step_functions",
)
_LIBRARY = ("lambda_lock", *_SERVERS)
SLOW = dict.fromkeys(
    sorted({path.name for path in (ROOT / "tests").glob("[a-z]*/")} - {*AROUND, "support"}), _LIBRARY
) | {
    "simulation": _CORE,
    "exploration": _CORE,
    "expressions": _SERVERS,
    "cdk": (*_LIBRARY, "infra", "cdk.json", "package-lock.json", "docs/deploy", "docs/templates"),
}


class Kind(NamedTuple):
    marked: str  # pytest's expression
    judged: Mapping[str, tuple[str, ...]]
    always: tuple[str, ...] = ()  # the folders that run in any case


KINDS = {
    "planted": Kind("planted", PLANTED),
    "slow": Kind("(slow or long) and not planted and not prove", SLOW, AROUND),
}
_IMPORT = re.compile(r"^ *from (?=\.|tests\b)(\.*)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_PROGRAM = re.compile(r"""["'](tests(?:\.\w+)+)["']""")
_SHORT_FORM = ", in the short form"  # which leaves some of them out
_TIMEOUT = ("-o", "timeout=900")


def digest(names: Iterable[str], root: Path = ROOT) -> str:
    """A digest of files, with their names: of these, of all in these folders, and of those of tests/ that they name."""
    found = hashlib.sha256()
    for file in sorted(_with_what_they_name({file for name in names for file in _files(root / name)}, root)):
        content = file.read_bytes()
        found.update(f"{file.relative_to(root).as_posix()}\n{len(content)}\n".encode() + content)
    return found.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    """The file, or all files of the folder that decide something."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file() and file.suffix not in (".md", ".pyc"):
            yield file


def _with_what_they_name(files: set[Path], root: Path) -> set[Path]:
    known: set[Path] = set()
    while files:
        known |= files
        modules = [file for file in files if file.suffix == ".py" and file.is_relative_to(root / "tests")]
        files = {named for file in modules for path in _named(file, root) for named in path} - known
    return known


def _named(file: Path, root: Path) -> Iterator[Iterable[Path]]:
    """The modules of tests/ that a module imports, and the programs that it starts (as ``"tests.simulation"``)."""
    imports, programs = _mentioned(file.read_text())
    for dots, module, names in imports:
        base = (file.parents[len(dots) - 1] if dots else root).joinpath(*module.split("."))
        found = (base, *(base / name for name in re.findall(r"\w+", names)))
        yield filter(Path.is_file, (path.with_suffix(".py") for path in found))
    for program in programs:
        path = root.joinpath(*program.split("."))
        yield _files(path if path.is_dir() else path.with_suffix(".py"))


@functools.cache  # most folders name the same files
def _mentioned(source: str) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Each import from tests/, as its dots, its module and its names, and the programs."""
    return _IMPORT.findall(source), _PROGRAM.findall(source)


def main(arguments: list[str], kinds: Mapping[str, Kind] = KINDS, noted: Path = NOTED) -> int:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    made = argparse.ArgumentParser(prog="python -m tests.prove.noted", description=__doc__, allow_abbrev=False)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("kind", choices=sorted(kinds))
    made.add_argument("--all", action="store_true", help="also where nothing has changed")
    options, selecting = made.parse_known_args(arguments[:end])
    kind = kinds[options.kind]
    known: dict[str, dict[str, str]] = json.loads(noted.read_text()) if noted.exists() else {}
    passed = known.get(options.kind, {})
    digests = {folder: digest([*parts, f"tests/{folder}"]) for folder, parts in kind.judged.items()}
    forms = ("", _SHORT_FORM) if SHORT else ("",)  # that are enough
    changed = [
        folder
        for folder, now in digests.items()
        if options.all or now not in [passed.get(folder + form) for form in forms]
    ]
    unchanged = sorted(digests.keys() - changed)
    if unchanged:
        say(f"These tests passed on the same files: {', '.join(unchanged)}")
    folders = [f"tests/{folder}" for folder in (*changed, *kind.always)]
    if not folders:
        return 0
    chosen = selecting if any(option.startswith("tests/") for option in selecting) else [*selecting, *folders]
    command = [sys.executable, "-m", "pytest", "--quiet", "-m", kind.marked, *_TIMEOUT, *arguments[end + 1 :], *chosen]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status == 0 and not selecting and "CI" in os.environ:
        now = passed | {folder + forms[-1]: digests[folder] for folder in changed}
        names = [folder + form for folder in kind.judged for form in ("", _SHORT_FORM)]
        known[options.kind] = {name: now[name] for name in names if name in now}
        save(noted, json.dumps(known, indent=2) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
