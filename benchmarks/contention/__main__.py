"""Contend for one lock: python -m benchmarks.contention (make bench)

Worker processes acquire one lock, hold it, release it and pause, again and again. Each contestant runs in turns with
the others, against the same engine, in several rounds. LAMBDA_LOCK_ENGINE=dynamodb-local takes Amazon's engine.

While it runs, tokens must rise and holds must not overlap.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.results import add_json, machine, save
from lambda_lock import __version__
from rig.engine import ROOT, DynamoDBLocal, Engine, Ministack, client_environment, inherited_environment, stop

from .judge import Run, judge
from .machine import Meter
from .rows import NAMES, OURS, Row, rows, short_rows
from .screen import as_json, show
from .summary import Median
from .targets import Results

PYTHON = ROOT / ".venv-bench" / "bin" / "python"
JARS = ROOT / "build" / "interop" / "java"
ENGINES: dict[str, type[Engine]] = {"ministack": Ministack, "dynamodb-local": DynamoDBLocal}
TABLES = {name: "python" if name.startswith("dynamodb_lock") else "locks" for name in NAMES}
_OTHERS = 0.4  # cores that other programs may use during a run; above that it is repeated
_REPEATS = 15  # in all; none with --short
_ROUNDS_OF_OTHERS = 1  # for contestants that are not ours
_CEILING = Row(4, 0.0, 2.0, ("poll",), pause=0.0)
_keys = itertools.count(1)


class Crowd:
    """The process of a contestant, whose workers it starts. A context manager."""

    def __init__(self, name: str, engine: Engine, *, table: str, python: Path = PYTHON) -> None:
        """python: an interpreter that has the contestant's library."""
        self.name = name
        self._table = table
        if name == "java":
            command = ["java", "-XX:+UseSerialGC", "-Xmx512m", "-cp", str(JARS / "lib" / "*")]
            command.append(str(Path(__file__).parent / "Contend.java"))
        else:
            command = [str(python), "-m", "benchmarks.contention.crowd", name]
        environment = inherited_environment() | client_environment(engine.url) | {"PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{NAMES[self.name]}: its process ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, row: Row, number: int, *, apart: bool = False) -> dict[str, Any]:
        """apart: each worker has a lock of its own."""
        order = {
            "table": self._table,
            "key": f"lock-{next(_keys)}",
            "workers": row.workers,
            "hold": row.hold,
            "pause": row.pause,
            "exponential": row.exponential,
            "seconds": row.seconds,
            "seed": str(number),
            "apart": apart,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self.answer()


class Bench:
    """The engine and the crowds, and the time they need. repeats: how many runs may be repeated."""

    def __init__(self, engine: Engine, crowds: dict[str, Crowd], rounds: int, repeats: int = _REPEATS) -> None:
        self._engine = engine
        self._crowds = crowds
        self._rounds = rounds
        self._repeats = repeats

    def ceiling(self) -> float:
        """Requests a second that the engine answers to four workers that do nothing else, each with its own lock."""
        report = self._crowds["poll"].run(_CEILING, 0, apart=True)
        return float(sum(w["writes"] + w["reads"] for w in report["workers"]) / _CEILING.seconds)

    def plan(self, chosen: list[Row]) -> list[tuple[int, Row, tuple[str, ...]]]:
        """Each round's runs: the contestants that run at the same time in it."""
        runs = []
        for number in range(self._rounds):
            for row in chosen:
                names = [n for n in row.contestants if n in self._crowds and (n in OURS or number < _ROUNDS_OF_OTHERS)]
                if number % 2:
                    names.reverse()  # the first contestant finds the machine as the row before left it
                groups = [tuple(names)] if row.together else [(name,) for name in names]
                runs += [(number, row, group) for group in groups]
        return runs

    def run(self, number: int, row: Row, names: tuple[str, ...], again: Progress) -> dict[str, Run]:
        while True:
            pids = {name: self._crowds[name].pid for name in names}
            meter = Meter(engine=self._engine.pid, **pids)
            with ThreadPoolExecutor() as pool:
                reports = dict(
                    zip(names, pool.map(lambda name: self._crowds[name].run(row, number), names), strict=True)
                )
            cores = meter.cores()
            if cores is None or cores["others"] <= _OTHERS or not self._repeats:
                break
            self._repeats -= 1
            again.console.print(f"once more: other programs used {cores['others']:.1f} cores", style="dim")
        return {name: judge(report, _own(cores, name)) for name, report in reports.items()}


def _own(cores: dict[str, float] | None, name: str) -> dict[str, float] | None:
    return cores and {"engine": cores["engine"], "clients": cores[name], "others": cores["others"]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contention", description=__doc__)
    parser.add_argument("--short", action="store_true", help="four rows and one round, in less than a minute")
    parser.add_argument("--rounds", type=int, help="how often each of our rows runs (default: 3; with --short: 1)")
    parser.add_argument("--only", default="", help="only rows whose title contains this, such as '8 workers, 20 ms'")
    add_json(parser)
    arguments = parser.parse_args()
    rounds = arguments.rounds or (1 if arguments.short else 3)
    if rounds < 1:
        parser.error(f"--rounds={rounds} is out of range: give 1 or more")
    chosen = [row for row in (short_rows() if arguments.short else rows()) if arguments.only in row.title]
    if not chosen:
        parser.error(f"--only={arguments.only!r} selects no row")
    if not PYTHON.exists():
        parser.error(f"{PYTHON} does not exist: run 'make bench', which installs it")
    console = Console(highlight=False, soft_wrap=True)
    name = os.environ.get("LAMBDA_LOCK_ENGINE") or "ministack"
    with ENGINES[name]() as engine:
        engine.create_table("locks")
        engine.create_table("python", "lock_key", "sort_key")
        with _crowds(chosen, engine, console) as crowds:
            bench = Bench(engine, crowds, rounds, 0 if arguments.short else _REPEATS)
            ceiling = bench.ceiling()
            results = _measure(bench, chosen)
    about = {
        "python": _python(),
        "packages": {"lambda-lock": __version__} | _versions(),
        "engine": name,
        "engine_requests_per_second": round(ceiling),
        "machine": machine(),
        "rounds": rounds,
    }
    if not save(arguments.json, about | as_json(results)):
        show(console, results, about)
    return 0


@contextlib.contextmanager
def _crowds(chosen: list[Row], engine: Engine, console: Console) -> Iterator[dict[str, Crowd]]:
    wanted = {name for row in chosen for name in row.contestants} | {"poll"}
    if "java" in wanted and not (shutil.which("java") and (JARS / ".built").exists()):
        console.print("The Java client is left out: run 'make peers', which needs Java and Maven.")
        wanted.remove("java")
    with contextlib.ExitStack() as stack:
        crowds = {
            name: stack.enter_context(Crowd(name, engine, table=TABLES[name])) for name in NAMES if name in wanted
        }
        for crowd in crowds.values():
            crowd.answer()
        yield crowds


def _measure(bench: Bench, chosen: list[Row]) -> Results:
    runs: dict[Row, dict[str, list[Run]]] = {row: {} for row in chosen}
    plan = bench.plan(chosen)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=sum(row.seconds for _, row, _ in plan))
        for number, row, names in plan:
            who = ", ".join(NAMES[name] for name in names) if len(names) == 1 else f"{len(names)} at once"
            progress.update(task, description=f"round {number + 1}: {row.title}: {who}")
            for name, run in bench.run(number, row, names, progress).items():
                runs[row].setdefault(name, []).append(run)
            progress.advance(task, row.seconds)
    return {
        row: {name: Median(found[name]) for name in row.contestants if name in found} for row, found in runs.items()
    }


def _python() -> str:
    return subprocess.run([PYTHON, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]


def _versions() -> dict[str, str]:
    names = ("python-dynamodb-lock", "boto3")
    code = "import importlib.metadata, sys; print(*(importlib.metadata.version(name) for name in sys.argv[1:]))"
    found = subprocess.run([PYTHON, "-c", code, *names], check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(names, found, strict=True))


if __name__ == "__main__":
    sys.exit(main())
