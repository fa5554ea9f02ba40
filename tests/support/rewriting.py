"""pytest rewrites the assertions of each test module once, before its workers would all do the same.

In a fresh clone that takes each process 7 s. What is rewritten is kept beside compiled modules, and later runs find it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

_FEW = 30  # files that are left to the workers: a process that starts costs as much
_SECONDS = 120
_KEPT = f"{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"


def rewrite_once(chosen: Sequence[str]) -> None:
    """Rewrite what is not there, or is older than its module. ``chosen``: what pytest was told to run."""
    files = [file for each in chosen for file in _files(Path(each.partition("::")[0])) if _is_stale(file)]
    if sys.dont_write_bytecode or len(files) < _FEW:
        return
    # A module that cannot be imported is reported by the workers.
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "no:xdist"]
    processes = os.cpu_count() or 1
    running = [
        subprocess.Popen([*collect, *map(str, files[first::processes])], stdout=subprocess.DEVNULL)
        for first in range(processes)
    ]
    end = time.monotonic() + _SECONDS
    for process in running:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:  # a busy machine: the workers rewrite the rest
            process.kill()
            process.wait()


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


def _is_stale(file: Path) -> bool:
    kept = file.parent / "__pycache__" / f"{file.stem}.{_KEPT}"
    return not kept.exists() or kept.stat().st_mtime < file.stat().st_mtime
