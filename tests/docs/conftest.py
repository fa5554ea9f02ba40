"""A shell as a reader's: this checkout's wheel is what pip finds, and the engine of a first terminal."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.engine import ROOT, inherited_environment
from tests.support.installed import build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def shell(wheel: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that knows nothing about AWS. In it this Python is every Python."""
    programs, home = tmp_path / "bin", tmp_path / "home"
    programs.mkdir()
    home.mkdir()
    engine = os.environ.get("LAMBDA_LOCK_ENGINE_BIN") or ROOT / ".venv-engine" / "bin" / "ministack"
    pythons = dict.fromkeys(("python", "python3", "python3.13"), sys.executable)
    for name, program in {**pythons, "ministack": engine}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (programs / name).chmod(0o755)
    return inherited_environment() | {
        "HOME": str(home),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }


@contextlib.contextmanager
def first_terminal(command: str, shell: dict[str, str], folder: Path) -> Iterator[str]:
    """Run ``lambda-lock dev``. Gives what it says to paste into another terminal."""
    first = subprocess.Popen(
        ["sh", "-ec", command], env=shell, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        pasted = ""
        while "LAMBDA_LOCK_TABLE" not in pasted:
            line = first.stdout.readline()
            assert line, first.communicate()[1]
            pasted += line
        yield pasted
    finally:
        first.terminate()
        _, said = first.communicate(timeout=60)
    assert "Ctrl-C stops it" in said
    assert first.returncode == 0
