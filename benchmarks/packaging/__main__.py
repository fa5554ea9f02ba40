"""What the usual ways of packaging do to .pyc files: python -m benchmarks.packaging

Each way packages the wheel of this checkout for the Python that runs this. The package then goes where Lambda would
put it, and that Python says which of the .pyc files it accepts. The CPU time (user and system) is that of a process
up to its first lock's request, less that of a process that loads only the standard modules of every function. Ways
whose program (uv, sam) is not on the PATH are left out.

With --instructions, instructions are counted instead, once, with valgrind.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.instructions.count import instructions
from benchmarks.results import add_json, save
from rig.engine import ROOT, inherited_environment
from rig.packages import accepted, contents, unzip, zip_like_the_cdk

_LAYER = ROOT / "lambda_lock" / "cdk" / "layer_files.py"  # a program, so that Node is not needed
_EPOCH = {"SOURCE_DATE_EPOCH": "315532800"}
_COMPILE = ("-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")  # -f: also what pip has compiled
# What awslambdaric 4 loads before the function.
_RUNTIME = """
import contextlib, decimal, json, logging, os, sys, threading, traceback
"""
_FIRST_REQUEST = (
    _RUNTIME
    + """
sys.path.insert(0, sys.argv[1])
from lambda_lock import LockClient, with_lock
from lambda_lock.transport import HttpsTransport, choose

class Transport:
    def send(self, operation, request, *, timeout):
        os._exit(0)

@with_lock("order#{id}", client=LockClient("locks", transport=Transport()))
def handler(event):
    pass

handler({"id": "1"})
"""
)
_TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Resources:
  Function:
    Type: AWS::Serverless::Function
    Properties: {{CodeUri: code, Handler: app.handler, Runtime: {runtime}}}
"""


class Packages:
    """Packages of the wheel, each in a folder of its own below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", ROOT])
        (self._wheel,) = (folder / "dist").glob("*.whl")

    def pip(self, name: str, *options: str, **variables: str) -> Path:
        target = self._folder / name
        how = ["--quiet", "--no-index", "--disable-pip-version-check", "--root-user-action", "ignore", *options]
        _run([sys.executable, "-m", "pip", "install", *how, "--target", target, self._wheel], variables)
        return target

    def uv(self, name: str, *options: str, **variables: str) -> Path:
        target = self._folder / name
        how = ["--quiet", "--no-index", "--no-cache", "--python", sys.executable, *options]
        _run(["uv", "pip", "install", *how, "--target", target, self._wheel], variables)
        return target

    def sam(self, name: str) -> Path:
        project = self._folder / name
        (project / "code").mkdir(parents=True)
        (project / "code" / "app.py").write_text("from lambda_lock import with_lock\n")
        (project / "code" / "requirements.txt").write_text(f"{self._wheel}\n")
        runtime = f"python3.{sys.version_info.minor}"
        (project / "template.yaml").write_text(_TEMPLATE.format(runtime=runtime))
        _run(["sam", "build"], {"SAM_CLI_TELEMETRY": "0"}, project)
        return project / ".aws-sam" / "build" / "Function"

    def layer(self, name: str) -> Path:
        target = self._folder / name
        _run([sys.executable, "-I", _LAYER, target.with_suffix(".zip"), f"python3.{sys.version_info.minor}"])
        unzip(target.with_suffix(".zip"), target)
        return target

    def compiled(self, package: Path) -> Path:
        """The package with .pyc files that are valid whatever the sources' times are, as the page recommends."""
        _run([sys.executable, *_COMPILE, package])
        return package


def zipped(package: Path, folder: Path) -> None:
    archive = folder.with_suffix(".zip")
    zip_like_the_cdk(package, archive)
    unzip(archive, folder)


def zipped_with_times(package: Path, folder: Path) -> None:
    """As `zip -r` and shutil.make_archive do: the times are whole pairs of seconds."""
    archive = folder.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w") as file:
        for name in contents(package):
            file.write(package / name, name)
    unzip(archive, folder)


def in_an_image(package: Path, folder: Path) -> None:
    """As the layers of a container's image, which are archives of tar: the times are whole seconds."""
    archive = folder.with_suffix(".tar")
    with tarfile.open(archive, "w") as file:
        file.add(package, arcname=".")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")


def ways(packages: Packages) -> dict[str, tuple[Callable[[], Path], Callable[[Path, Path], None]]]:
    """How each package is made, and how it gets to Lambda."""
    found: dict[str, tuple[Callable[[], Path], Callable[[Path, Path], None]]] = {
        "no .pyc files (pip install --no-compile)": (lambda: packages.pip("bare", "--no-compile"), zipped),
        "pip install --target, zipped by CDK or SAM": (lambda: packages.pip("pip"), zipped),
        "the same, zipped with the files' times": (lambda: packages.pip("times"), zipped_with_times),
        "the same, in an image": (lambda: packages.pip("image"), in_an_image),
        "pip install --target, SOURCE_DATE_EPOCH": (lambda: packages.pip("pip_epoch", **_EPOCH), zipped),
        "pip install --target, compileall unchecked-hash": (
            lambda: packages.compiled(packages.pip("pip_hash")),
            zipped,
        ),
        "LockLayer, make layer": (lambda: packages.layer("layer"), zipped),
    }
    if shutil.which("uv"):
        compiling = "--compile-bytecode"
        found |= {
            "uv pip install --target": (lambda: packages.uv("uv"), zipped),
            f"uv pip install --target {compiling}": (lambda: packages.uv("uv_compile", compiling), zipped),
            "the same, SOURCE_DATE_EPOCH": (lambda: packages.uv("uv_epoch", compiling, **_EPOCH), zipped),
        }
    if shutil.which("sam"):
        found |= {
            "sam build": (lambda: packages.sam("sam"), zipped),
            "sam build, compileall unchecked-hash": (lambda: packages.compiled(packages.sam("sam_hash")), zipped),
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packaging", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often to start each package (default: 20)")
    parser.add_argument("--instructions", action="store_true", help="count instructions, which needs valgrind")
    add_json(parser)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds={arguments.rounds} is out of range: give 1 or more")
    measure, rounds = (_millions, 1) if arguments.instructions else (_cpu_ms, arguments.rounds)
    what, unit = ("instructions", "M") if arguments.instructions else ("CPU, median", "ms")
    with tempfile.TemporaryDirectory(prefix="lambda-lock-bench-") as name:
        folder = Path(name)
        rows: dict[str, tuple[str, Path]] = {}
        packages = Packages(folder)
        for number, (way, (make, deliver)) in enumerate(ways(packages).items()):
            _progress(way)
            delivered = folder / f"delivered{number}"
            deliver(make(), delivered)
            found = [path for path in delivered.rglob("*.pyc") if "lambda_lock" in path.parts]
            library = next(delivered.rglob("lambda_lock"))
            count = f"{len(accepted(sys.executable, library))} of {len(found)}" if found else "there are none"
            rows[way] = (count, library.parent)
        taken: dict[str, list[float]] = {way: [] for way in rows}
        for number in range(rounds):
            _progress(f"round {number + 1} of {rounds}")
            for way, (_, path) in rows.items():
                taken[way].append(measure(_FIRST_REQUEST, path) - measure(_RUNTIME, path))
        _progress("")
    field = "instructions_m" if arguments.instructions else "cpu_ms"
    ways_as_json = {
        way: {"pyc_accepted": count, field: round(statistics.median(taken[way]), 1)} for way, (count, _) in rows.items()
    }
    about = {"python": sys.version.split()[0], "rounds": rounds}
    if save(arguments.json, about | {"ways": ways_as_json}):
        return 0
    print(f"| way | .pyc files accepted | {what} |\n|---|---|---|")
    for way, (count, _) in rows.items():
        print(f"| {way} | {count} | {statistics.median(taken[way]):.0f} {unit} |")
    print(f"\nPython {sys.version.split()[0]}, {rounds} rounds")
    return 0


def _command(program: str, package: Path) -> list[str]:
    """Runs a program in a new process without other packages."""
    return [sys.executable, "-I", "-S", "-B", "-c", program, str(package)]


def _millions(program: str, package: Path) -> float:
    """Run a program. Returns its instructions in millions."""
    return instructions(_command(program, package), {"PATH": os.environ["PATH"]}) / 1e6


def _cpu_ms(program: str, package: Path) -> float:
    """Run a program. Returns its CPU time in milliseconds."""
    process = subprocess.Popen(_command(program, package), stdin=subprocess.DEVNULL, env={})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{package}: exit status {process.returncode}")
    return float(usage.ru_utime + usage.ru_stime) * 1000


def _run(command: list[str | Path], variables: dict[str, str] | None = None, folder: Path | None = None) -> None:
    environment = inherited_environment() | (variables or {})
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
