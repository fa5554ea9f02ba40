"""Has histories judged by the checker, a Go program around Porcupine (checker/)."""

import functools
import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.engine import ROOT
from tests.prove import bench

from .record import History

_SOURCES = Path(__file__).with_name("checker")
_PROGRAM = ROOT / "build" / "histories" / "checker"
_BUILD_SECONDS = 240  # the first time, Go compiles its standard library too, and fetches Porcupine


class CheckerMissingError(bench.CannotRunError):
    """The checker cannot be built. The message says what is missing, or what failed."""


@dataclass
class Judgement:
    """What the checker says of some histories.

    operations: how many entries were judged, with the looks at handles and the ends of validity.
    slowest: seconds that one history took.
    listed: for each history that is not legal its lock, result (illegal, undecided), trace and drawing.
    """

    histories: int
    operations: int
    legal: int
    illegal: int
    undecided: int
    slowest: float
    listed: list[dict[str, Any]]


@functools.cache
def checker() -> Path:
    """Build the checker, which is quick if it was built before. Go fetches Porcupine from its module proxy (GOPROXY).

    Raises CheckerMissingError where there is no Go or no module proxy, or where the checker cannot be built.
    """
    if shutil.which("go") is None:
        raise CheckerMissingError("Porcupine needs Go 1.22 or newer, and go is not on the PATH: install it")
    command = ["go", "build", "-buildvcs=false", "-o", str(_PROGRAM), "."]
    try:
        built = subprocess.run(command, cwd=_SOURCES, capture_output=True, text=True, timeout=_BUILD_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CheckerMissingError(f"go build did not end within {_BUILD_SECONDS} s; can it fetch Porcupine?") from error
    if built.returncode:
        raise CheckerMissingError(f"go build failed in {_SOURCES.relative_to(ROOT)}: {built.stderr[-2000:]}")
    return _PROGRAM


def judge(histories: Iterable[History], *, drawings: Path | None = None, seconds: float = 60.0) -> Judgement:
    """Judge histories, each by itself.

    drawings: a folder for pictures of what is illegal. None: neither pictures nor traces.
    seconds: the time for one history; one that takes longer is undecided.

    Raises CheckerMissingError where the checker cannot be built.
    """
    command = [str(checker()), "-timeout", f"{seconds}s", *(["-draw", str(drawings)] if drawings else [])]
    text = "".join(history.line() + "\n" for history in histories)
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"the checker ended with status {done.returncode}: {done.stderr[-2000:]}")
    return Judgement(**json.loads(done.stdout))
