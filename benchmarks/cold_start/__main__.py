"""Compare cold starts: python -m benchmarks.cold_start (make bench)

The contestants take turns. Each runs in fresh processes of the same interpreter, against the same engine. The CPU time
is that of the whole process, user and system, from its start to the body of its first lock.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import add_json, save
from lambda_lock import __version__
from rig.engine import REGION, ROOT, Ministack
from rig.wire import Wire

from .measure import ContestantFailed, Result, Sample, run_cycle, sample
from .report import Results, as_json, table
from .tls import TlsTerminator

SCRIPTS = Path(__file__).parent / "contestants"
PYTHON = ROOT / ".venv-bench" / "bin" / "python"
PACKAGES = ("lambda-lock", "python-dynamodb-lock", "aws-lambda-powertools", "boto3")
LOCKS = ("locks", "dynamodb_lock", "powertools")
# The key attributes that each contestant expects by default.
TABLES = {"locks": ("key", None), "dynamodb_lock": ("lock_key", "sort_key"), "powertools": ("id", None)}
# What .venv-bench has for the pictures of docs/performance.md, which no contestant needs.
PICTURES = ("PIL", "contourpy", "fontTools", "kiwisolver", "matplotlib", "mpl_toolkits", "numpy", "pillow", "pyparsing")
UNCOMPILED_ROUNDS = 3  # only a few, because each compiles boto3, which takes a second


class Bench:
    """The engine with a table for each contestant, TLS in front of it, and the packages again without .pyc files."""

    def __init__(self, engine: Ministack, terminator: TlsTerminator, folder: Path) -> None:
        self._folder = folder
        self._engine = engine
        self._terminator = terminator
        installed = next((ROOT / ".venv-bench" / "lib").glob("python*/site-packages"))
        self._bundle = terminator.bundle  # for all contestants
        self._uncompiled = folder / "packages"
        _copy_sources(installed, self._uncompiled)
        for name, (partition_key, sort_key) in TABLES.items():
            engine.create_table(name, partition_key, sort_key)

    def sample(self, condition: str, name: str) -> Sample:
        root = self._uncompiled if condition == "https_uncompiled" else ROOT
        environment = self._environment(name, self._engine.url, root)
        if condition.startswith("https"):
            # By default lambda_lock reads the system's file and boto3 its own. These variables name another one.
            trust = "SSL_CERT_FILE" if name == "locks" else "AWS_CA_BUNDLE"
            environment |= {"AWS_ENDPOINT_URL": self._terminator.url, trust: str(self._bundle)}
        if root is not ROOT:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        return sample(PYTHON, SCRIPTS / f"{name}.py", environment)

    def requests(self, name: str) -> list[str]:
        """The operations of one cycle: acquire the lock and release it."""
        with Wire(self._engine.url) as wire:
            run_cycle(PYTHON, SCRIPTS / f"{name}.py", self._environment(name, wire.url, ROOT))
            return wire.operations

    def _environment(self, name: str, url: str, root: Path) -> dict[str, str]:
        """A contestant's whole environment. This process's own is not inherited: it may set proxies and profiles."""
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        return kept | {
            "HOME": str(self._folder),
            "PYTHONPATH": str(root),
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "LAMBDA_LOCK_TABLE": name,
            "BENCHMARK_TABLE": name,
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold_start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how often to run each contestant (default: 10)")
    add_json(parser)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds={arguments.rounds} is out of range: give 1 or more")
    if not PYTHON.exists():
        parser.error(f"{PYTHON} does not exist: run 'make bench', which installs it")
    try:
        with _bench() as bench:
            results = _measure(bench, arguments.rounds)
            requests = {name: bench.requests(name) for name in LOCKS}
    except ContestantFailed as error:
        print(error, file=sys.stderr)
        return 1
    about = {"python": sys.version.split()[0], "packages": _versions(), "rounds": arguments.rounds}
    if save(arguments.json, about | as_json(results, requests)):
        return 0
    versions = ", ".join(f"{name} {version}" for name, version in _versions().items())
    print("From the start of a process to its first lock held: CPU time (user and system), median\n")
    print(table(results, requests))
    rounds = f"{arguments.rounds} rounds, {min(arguments.rounds, UNCOMPILED_ROUNDS)} without .pyc files"
    print(f"\n{versions}; Python {sys.version.split()[0]}; {rounds}")
    return 0


@contextlib.contextmanager
def _bench() -> Iterator[Bench]:
    with (
        tempfile.TemporaryDirectory(prefix="lambda-lock-bench-") as folder,
        Ministack() as engine,
        TlsTerminator(engine.port, Path(folder)) as terminator,
    ):
        yield Bench(engine, terminator, Path(folder))


def _measure(bench: Bench, rounds: int) -> Results:
    plan = {
        "https": LOCKS,
        "https_uncompiled": LOCKS,
        "http": LOCKS,
        "none": ("bare", "runtime"),
    }
    samples: dict[str, dict[str, list[Sample]]] = {
        condition: {name: [] for name in names} for condition, names in plan.items()
    }
    for names in plan.values():
        for name in names:
            bench.sample("http", name)  # writes the .pyc files, and loads the files into the page cache
    for number in range(rounds):
        _progress(f"round {number + 1} of {rounds}")
        for condition, names in plan.items():
            if condition == "https_uncompiled" and number >= UNCOMPILED_ROUNDS:
                continue
            for name in names:
                samples[condition][name].append(bench.sample(condition, name))
    _progress("")
    return {condition: {name: Result(taken) for name, taken in row.items()} for condition, row in samples.items()}


def _copy_sources(installed: Path, target: Path) -> None:
    """Copy lambda_lock and the installed packages, as in a deployment package without .pyc files."""
    for source in (ROOT / "lambda_lock", ROOT / "benchmarks", *sorted(installed.iterdir())):
        if source.name.startswith(PICTURES):
            continue
        if source.is_dir():
            # botocore's descriptions of all services have 30 MB, so they are linked instead.
            shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__", "data"))
        elif source.suffix == ".py":
            shutil.copy(source, target)
    for name in ("boto3", "botocore"):
        (target / name / "data").symlink_to(installed / name / "data")


def _versions() -> dict[str, str]:
    code = "import importlib.metadata, sys; print(*(importlib.metadata.version(name) for name in sys.argv[1:]))"
    others = PACKAGES[1:]
    found = subprocess.run([PYTHON, "-c", code, *others], check=True, capture_output=True, text=True).stdout.split()
    return {PACKAGES[0]: __version__} | dict(zip(others, found, strict=True))


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
