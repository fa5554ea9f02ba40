"""Runs the tests that plant mistakes (marked `planted`), where they may come out otherwise: `make test-planted`.

    python -m tests.prove.planted            # the folders whose files have changed since their mistakes were noticed
    python -m tests.prove.planted --all      # all of them
    python -m tests.prove.planted -k waker   # those that these options of pytest select: nothing is noted
    python -m tests.prove.planted -- -n 4    # options of pytest that select nothing

A folder judges what is in JUDGED. Once all its mistakes are noticed, the digest of these files is noted in
tests/prove/planted.json, which belongs into the commit. Where the digest is still the same, nothing has to run. What
only the short form has noticed (SCHEDULES=1500) is noted apart, for the short form.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rig.engine import ROOT
from tests.support.short import SHORT

from .bench import save, say

NOTED = Path(__file__).with_name("planted.json")
_CORE = ("lambda_lock/core", "lambda_lock/waker", "lambda_lock/errors.py", "tests/prove/mistakes.py")
_DRIVERS = (
    *_CORE,
    *("lambda_lock/runtime", "lambda_lock/client", "lambda_lock/transport"),
    *("tests/prove/operations.py", "tests/support/instants.py"),
)
#: The folders of tests/ that plant mistakes, and what decides whether these are noticed, besides the folder itself.
JUDGED = {
    "simulation": _CORE,
    "drivers": _DRIVERS,
    "stopping": (*_DRIVERS, "lambda_lock/decorators", "lambda_lock/stopping.py", "tests/histories"),
}
_SHORT_FORM = ", in the short form"  # which leaves some of them out
_TIMEOUT = ("-o", "timeout=900")


def digest(names: Iterable[str], root: Path = ROOT) -> str:
    """A digest of Python files, with their names: of these files, and of all in these folders."""
    found = hashlib.sha256()
    for name in names:
        path = root / name
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            found.update(
                f"{file.relative_to(root).as_posix()}\n{len(file.read_bytes())}\n".encode() + file.read_bytes()
            )
    return found.hexdigest()


def main(arguments: list[str], judged: dict[str, tuple[str, ...]] = JUDGED, noted: Path = NOTED) -> int:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    made = argparse.ArgumentParser(prog="python -m tests.prove.planted", description=__doc__, allow_abbrev=False)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--all", action="store_true", help="also where nothing has changed")
    options, selecting = made.parse_known_args(arguments[:end])
    known: dict[str, str] = json.loads(noted.read_text()) if noted.exists() else {}
    digests = {folder: digest([*parts, f"tests/{folder}"]) for folder, parts in judged.items()}
    forms = ("", _SHORT_FORM) if SHORT else ("",)  # that are enough
    chosen = [
        folder
        for folder, now in digests.items()
        if options.all or now not in [known.get(folder + form) for form in forms]
    ]
    for folder in sorted(digests.keys() - chosen):
        say(f"tests/{folder}: its mistakes were noticed in the same files")
    if not chosen:
        return 0
    command = [sys.executable, "-m", "pytest", "--quiet", "-m", "planted", *_TIMEOUT, *arguments[end + 1 :], *selecting]
    status = subprocess.run([*command, *(f"tests/{folder}" for folder in chosen)], cwd=ROOT, check=False).returncode
    if status == 0 and not selecting:
        now = known | {folder + forms[-1]: digests[folder] for folder in chosen}
        names = [folder + form for folder in judged for form in ("", _SHORT_FORM)]
        save(noted, json.dumps({name: now[name] for name in names if name in now}, indent=2) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
