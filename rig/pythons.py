"""The versions of Python that the project claims, and the tests on each of them that is not the one of ``.venv``.

``python -m rig.pythons`` is `make test-pythons`. It runs the tests that need few packages, in an environment of its own
for each version: ``.venv-pythons/3.13``, with the packages of requirements/pythons.txt. With ``--install`` it only
makes these.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from . import environment
from .engine import ROOT, inherited_environment

_CLASSIFIER = "Programming Language :: Python :: 3."
_PINS = ROOT / "requirements" / "pythons.txt"
_UNPACKED = ROOT / "build" / "python" / "org" / "bytedeco" / "cpython" / "linux-x86_64" / "bin"  # by make
_NOTHING_TO_RUN = 5  # pytest's exit code, as with --last-failed where only another version had failures
_SECONDS = 60  # for an interpreter that only says what it is
#: Tests that run on the newest version: what depends on Python itself. On the others: the core, transport and keys.
#: tests/runtime/test_ending.py runs on every version, too: `make test` and `make test-slow`.
NEWEST = ("core", "transport", "with_lock", "deduplicate", "batch", "handover", "observe", "greenlets", "stopping")
OTHERS = (
    "core",
    "transport",
    "with_lock/test_keys.py",
    "with_lock/test_parameters.py",
    "deduplicate/test_payload_hash.py",
)

CLAIMED = tuple(
    f"3.{line.removeprefix(_CLASSIFIER)}"
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    if line.startswith(_CLASSIFIER)
)


@functools.cache
def find(version: str) -> str | None:
    """The program of a version such as ``3.13``: this Python, one of the PATH, or the one that make has unpacked."""
    name = f"python{version}"
    named = [shutil.which(name, path=folder) for folder in os.get_exec_path()]
    for program in filter(None, [sys.executable, *named, shutil.which(name, path=_UNPACKED)]):
        found = _says_that_it_is(program, version)
        if found:
            return found
    return None


def _says_that_it_is(program: str, version: str) -> str | None:
    probe = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    # A pyenv that has the version runs it only when told so.
    environment = inherited_environment() | {"PYENV_VERSION": version}
    try:
        done = subprocess.run(
            [program, "-I", "-c", probe], env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):  # as one that is built for another kind of machine
        return None
    said, _, path = done.stdout.strip().partition(" ")
    return path if done.returncode == 0 and said == version else None


def missing(version: str) -> str:
    return (
        f"Python {version} is not on the PATH: install it, for example with uv python install {version}. On Linux on "
        "x86_64, make unpacks the newest from Maven's packages if mvn is there"
    )


def install(version: str, program: str) -> Path:
    """The Python of the version's environment. Installs the pinned packages if the pins have changed."""
    folder = ROOT / ".venv-pythons" / version
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if not stamp.exists() or stamp.read_bytes() != _PINS.read_bytes():
        environment.install(folder, _PINS, program)
        # As in .venv: a process can import this folder from anywhere.
        (folder / "lib" / f"python{version}" / "site-packages" / "lambda_lock.pth").write_text(f"{ROOT}\n")
        stamp.write_bytes(_PINS.read_bytes())
    return python


def main(arguments: list[str]) -> int:
    """Run the tests on each version, with pytest's ``arguments``. In CI, a version that is not there is a failure."""
    only_install = arguments == ["--install"]
    failed = 0
    for version in CLAIMED:
        program = find(version)
        if program == sys.executable:
            continue  # `make test` runs all tests on it
        if program is None:
            failed += bool(os.environ.get("CI"))
            sys.stdout.write(f"{missing(version)}\n")
            continue
        python = install(version, program)
        if only_install:
            continue
        sys.stdout.write(f"Python {version}:\n")
        sys.stdout.flush()
        options = ["--quiet", "-o", f"cache_dir=.pytest_cache/{version}"]
        tests = [f"tests/{name}" for name in (NEWEST if version == CLAIMED[-1] else OTHERS)]
        command = [str(python), "-m", "pytest", *options, *tests, *arguments]
        failed += subprocess.run(command, cwd=ROOT, check=False).returncode not in (0, _NOTHING_TO_RUN)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
