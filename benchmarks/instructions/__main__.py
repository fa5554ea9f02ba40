"""Count the instructions of a lock: python -m benchmarks.instructions

Counts of callgrind hardly change from run to run, also on a busy machine, so that a change of one part in a hundred
shows. They leave out the kernel's instructions. They are not times: some instructions take longer than others.

Needs valgrind.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cold_start.tls import TlsTerminator
from benchmarks.results import add_json, save
from rig.engine import ROOT, Ministack, client_environment
from rig.lambda_runtime import FunctionError, LambdaEnvironment

from .count import CALLGRIND, HERE, TABLES, warm

TYPE = "AWS_LAMBDA_INITIALIZATION_TYPE"
TYPES = {"not at INIT": "", "on-demand": "on-demand", "snap-start": "snap-start"}  # "": as outside Lambda
PATH = f"{HERE / 'function'}{os.pathsep}{ROOT}"
_SECONDS = 10.0  # of an invocation
_PATIENCE = 60.0  # seconds; callgrind is fifty times slower


def invocations(environment: Mapping[str, str], folder: Path) -> dict[str, int]:
    """Instructions of INIT (with Python itself and awslambdaric), and of the first and the third invocation."""
    python = _counting(folder)
    _count_invocations(python, environment, 1)  # writes the .pyc files
    init, first, second, third = (_count_invocations(python, environment, n) for n in range(4))
    return {"INIT": init, "first": first - init, "third": third - second}


def init(environment: Mapping[str, str], folder: Path) -> int:
    """Instructions of INIT alone, with Python itself and awslambdaric."""
    python = _counting(folder)
    _count_invocations(python, environment, 0)  # writes the .pyc files
    return _count_invocations(python, environment, 0)


def _counting(folder: Path) -> str:
    """A Python that counts its instructions."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {" ".join(CALLGRIND)} {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def _count_invocations(python: str, environment: Mapping[str, str], locks: int) -> int:
    with _function(environment, python) as function:
        for _ in range(locks):
            function.invoke({"id": "1"}, _SECONDS).result()
        try:
            function.invoke({"end": True}, _SECONDS).result()
        except FunctionError:
            return int(function.wait_for_line("Collected : ").rpartition(" ")[2])
    raise AssertionError("the function did not end")


def cpu(environments: Mapping[str, Mapping[str, str]], rounds: int) -> dict[str, dict[str, float]]:
    """CPU milliseconds of the same, medians. The environments take turns."""
    taken: dict[str, list[list[list[float]]]] = {name: [] for name in environments}
    for _ in range(rounds):
        for name, environment in environments.items():
            with _function(environment, sys.executable) as function:
                taken[name].append([function.invoke({"id": "1"}, _SECONDS).result() for _ in range(3)])
    return {name: _medians(times) for name, times in taken.items()}


def _medians(taken: list[list[list[float]]]) -> dict[str, float]:
    columns = {
        "INIT": [times[0][0] for times in taken],
        "first": [times[0][1] - times[0][0] for times in taken],
        "third": [times[2][1] - times[2][0] for times in taken],
        "INIT and first": [times[0][1] for times in taken],
    }
    return {name: round(statistics.median(column) * 1000, 1) for name, column in columns.items()}


@contextmanager
def _function(environment: Mapping[str, str], python: str) -> Iterator[LambdaEnvironment]:
    with LambdaEnvironment(
        "orders.handler",
        HERE / "function",
        environment=environment,
        memory_mb=1769,
        python=python,
        init_seconds=_PATIENCE,
    ) as function:
        yield function


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument(
        "what", nargs="*", default=["warm", "lambda", "cpu"], help="warm: a cycle; lambda, cpu: INIT and invocations"
    )
    parser.add_argument("--rounds", type=int, default=20, help="processes for each median of CPU time (default: 20)")
    add_json(parser)
    parser.add_argument("--compare", type=Path, help="a Python that has python-dynamodb-lock")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    result: dict[str, Any] = {"python": sys.version.split()[0], "warm": {}, "instructions": {}, "cpu_ms": {}}
    say = functools.partial(print, file=sys.stderr if arguments.json == "-" else sys.stdout, flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="lambda-lock-bench-") as name,
        Ministack() as engine,
        TlsTerminator(engine.port, Path(name)) as terminator,
    ):
        folder = Path(name)
        for table, keys in TABLES.items():
            engine.create_table(table, *keys)
        urls = {"HTTP": client_environment(engine.url), "HTTPS": terminator.environment()}
        base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "HOME": name}
        base["LAMBDA_LOCK_TABLE"] = "lambda_lock"
        if "warm" in arguments.what:
            for scheme, variables in urls.items():
                environment = base | variables | {"BENCHMARK_TABLE": "lambda_lock"}
                result["warm"][scheme] = round(warm(Path(sys.executable), "lambda_lock", environment))
                say(f"warm, {scheme}: {result['warm'][scheme]:,}")
            if arguments.compare:
                environment = base | urls["HTTP"] | {"BENCHMARK_TABLE": "dynamodb_lock"}
                result["warm"]["python-dynamodb-lock"] = round(warm(arguments.compare, "dynamodb_lock", environment))
                say(f"warm, python-dynamodb-lock: {result['warm']['python-dynamodb-lock']:,}")
        environments = {
            f"{scheme}, {name}": base | variables | {"PYTHONPATH": PATH, TYPE: value}
            for scheme, variables in urls.items()
            for name, value in TYPES.items()
        }
        if "lambda" in arguments.what:
            for title, environment in environments.items():
                result["instructions"][title] = invocations(environment, folder)
                say(f"instructions, {title}: {json.dumps(result['instructions'][title])}")
        if "cpu" in arguments.what:
            result["cpu_ms"] = cpu(environments, arguments.rounds)
            for title, medians in result["cpu_ms"].items():
                say(f"CPU ms, {title}: {json.dumps(medians)}")
    save(arguments.json, result)


if __name__ == "__main__":
    main()
