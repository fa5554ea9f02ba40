"""What becomes of a function's package on its way to Lambda, and which of its ``.pyc`` files Python accepts there."""

from __future__ import annotations

import os
import re
import subprocess
import time
import zipfile
from pathlib import Path

_SECONDS = 120
_LOADING = """
import sys
from importlib.machinery import SourceFileLoader
for path in sys.argv[1:]:
    SourceFileLoader("module", path).get_code("module")
"""


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by their paths within it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def zip_like_the_cdk(folder: Path, archive: Path) -> None:
    """Zip a folder as the command lines of the CDK and SAM do: every file has the time 1980-01-01."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in sorted(contents(folder).items()):
            file.writestr(zipfile.ZipInfo(name), data)


def unzip(archive: Path, folder: Path) -> None:
    """Unzip files with their times, as Lambda does."""
    with zipfile.ZipFile(archive) as file:
        for entry in file.infolist():
            at = time.mktime((*entry.date_time, 0, 0, -1))
            os.utime(file.extract(entry, folder), (at, at))


def sources(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*.py")}


def accepted(python: str | Path, folder: Path) -> set[str]:
    """The sources in a folder whose ``.pyc`` files this Python says it accepts. Nothing is run or written."""
    paths = sources(folder)
    done = subprocess.run(
        [python, "-v", "-I", "-S", "-B", "-c", _LOADING, *sorted(paths)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{python} could not load {folder}:\n{done.stderr[-2000:]}")
    return paths & set(re.findall(r"^# .*\.pyc matches (.*)$", done.stderr, re.MULTILINE))
