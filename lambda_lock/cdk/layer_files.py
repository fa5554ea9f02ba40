"""The files of a Lambda layer: what functions use of the library, compiled for their versions of Python.

It is a program too, which needs neither the CDK nor Node: python layer_files.py lambda-lock.zip [python3.13 …]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
_RUNTIMES = ("python3.11", "python3.12", "python3.13", "python3.14")
_NOT_IN_FUNCTIONS = frozenset({"cdk", "cli", "testing"})  # the parts of the library that never run in a function
_NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc")
_MOUNTED_AT = "/opt"  # where Lambda puts layers
_FILE, _FOLDER = 0o644, 0o755  # modes; the user that runs a function does not own its files
_SECONDS = 120  # for one interpreter, which takes half a second
# It fails unless the interpreter is a release that writes files for this version. A preview's files are of no use to
# the release, and other implementations have files of their own.
_PROBE = (
    "import sys; sys.exit(sys.version_info < (3, {minor}, 0, 'candidate') "
    "or sys.implementation.cache_tag != 'cpython-3{minor}' or print(sys.executable))"
)


def find_interpreter(runtime: str) -> str | None:
    """The program that compiles for a runtime: this Python, or one with the runtime's name on the PATH.

    runtime: such as ``python3.13``. Returns None if there is no such program.
    """
    version = runtime.removeprefix("python")
    probe = _PROBE.format(minor=version.removeprefix("3."))
    # A pyenv that has the version runs it only when told so.
    environment = os.environ | {"PYENV_VERSION": version}
    named = [shutil.which(runtime, path=folder) for folder in os.get_exec_path()]
    for program in filter(None, [sys.executable, *named]):
        try:
            done = _run([program, "-c", probe], environment)
        except (OSError, subprocess.TimeoutExpired):
            continue  # for example, the program is for another kind of machine
        if done.returncode == 0 and (found := done.stdout.strip()):
            return found
    return None


def missing(runtime: str) -> str:
    """What it means that there is no interpreter for a runtime, and what to do."""
    return (
        f"{runtime} is not on the PATH, so the layer has no .pyc files for it, and its functions compile the library "
        f"at each cold start. Install it here, for example with: uv python install {runtime.removeprefix('python')}"
    )


def write(folder: Path, interpreters: Iterable[str]) -> None:
    """Write the layer into an empty folder, with ``.pyc`` files from each of these programs.

    Every run writes the same bytes, so that the same library is the same layer. Python accepts the ``.pyc`` files
    whatever times the sources have, because packaging changes the times.
    """
    folder = folder.resolve()

    def left_out(source: str, names: list[str]) -> set[str]:
        return _NOT_SOURCE(source, names) | (_NOT_IN_FUNCTIONS if source == str(PACKAGE) else set())

    packages = folder / "python"
    shutil.copytree(PACKAGE, packages / PACKAGE.name, ignore=left_out)
    _set_modes(folder)  # where the library is installed, it may be read-only
    how = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", _MOUNTED_AT]
    for interpreter in interpreters:
        done = _run([interpreter, *how, str(packages)], os.environ)
        if done.returncode:
            raise RuntimeError(f"{interpreter} could not compile the layer:\n{done.stdout}{done.stderr}")
    _set_modes(folder)  # of what was compiled; the user's umask does not count


def _set_modes(folder: Path) -> None:
    for path in folder.rglob("*"):
        path.chmod(_FOLDER if path.is_dir() else _FILE)


def _run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    # A .pyc file depends on what else the interpreter has loaded and on its settings. So it runs isolated: -I, -S.
    program, *arguments = command
    return subprocess.run(
        [program, "-I", "-S", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def main(arguments: list[str]) -> int:
    """Write the layer as a zip file. Every run writes the same bytes."""
    if not arguments or arguments[0].startswith("-"):
        sys.stderr.write("usage: python layer_files.py ARCHIVE [RUNTIME …]\n")
        return 2
    archive, *runtimes = arguments
    found = {runtime: find_interpreter(runtime) for runtime in runtimes or _RUNTIMES}
    Path(archive).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(archive, "w") as file:
        folder = Path(name)
        write(folder, filter(None, found.values()))
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())  # its time is 1980-01-01
            entry.external_attr = _FILE << 16
            file.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    for runtime, interpreter in found.items():
        sys.stdout.write(f"{runtime}: .pyc files from {interpreter}\n" if interpreter else f"{missing(runtime)}\n")
    sys.stdout.write(f"{archive}: {Path(archive).stat().st_size // 1024} KiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
