"""The figures that have limits. None of them depends on how busy the machine is: CPU time is compared within a run."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.cold_start.measure import run_cycle, sample
from benchmarks.cold_start.tls import TlsTerminator
from benchmarks.contention.rows import Row
from benchmarks.contention.virtual import LONGER_WORK, MANY, World, long_holds, longer_work
from benchmarks.instructions.__main__ import PATH, TYPE, init, invocations
from benchmarks.instructions.count import TABLES, warm
from benchmarks.size.lines import by_package
from benchmarks.yardstick import count as yardstick
from rig.engine import ROOT, Ministack, client_environment
from rig.wire import Wire

_SCRIPT = ROOT / "benchmarks" / "cold_start" / "contestants" / "locks.py"
_PYTHON = Path(sys.executable)
_CONTENTION = (Row(8, 0.02, 0, ()), Row(8, 0.3, 0, ()), Row(32, 0.2, 0, ()), Row(8, 0.3, 0, (), exponential=True))
#: OpenSSL picks its code for SHA-256 by the maker of the processor: 2% of all instructions more on AMD than on Intel.
_ANY_PROCESSOR = {"OPENSSL_ia32cap": "0"}
_TOKEN = 800  # characters of a session token, as a function's role has it

Say = Callable[[str], None]


def measure(say: Say) -> dict[str, float]:
    """The figures by their names in limits.toml. say: is told what is measured, and what is left out."""
    say("lines of code")
    lines = by_package()
    found: dict[str, float] = {f"lines: of {name}": count for name, count in lines.items()}
    found["lines: of lambda_lock"] = sum(lines.values())
    with (
        tempfile.TemporaryDirectory(prefix="lambda-lock-limits-") as name,
        Ministack() as engine,
        TlsTerminator(engine.port, Path(name)) as terminator,
    ):
        for table, keys in TABLES.items():
            engine.create_table(table, *keys)
        kept = {one: os.environ[one] for one in ("PATH", "LD_LIBRARY_PATH") if one in os.environ}
        base = kept | {"HOME": name, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
        base |= {"LAMBDA_LOCK_TABLE": "lambda_lock", "BENCHMARK_TABLE": "lambda_lock"}
        plain = base | client_environment(engine.url)
        tls = base | terminator.environment()
        say("requests")
        with Wire(engine.url) as wire:
            run_cycle(_PYTHON, _SCRIPT, base | client_environment(wire.url))
            found["requests: of an acquire and release"] = wire.count()
        say("modules")
        found["modules: at the first lock, over HTTP"] = sample(_PYTHON, _SCRIPT, plain).modules
        found["modules: at the first lock, over HTTPS"] = sample(_PYTHON, _SCRIPT, tls).modules
        if shutil.which("valgrind") is None:
            say("instructions are left out: valgrind is not installed")
        else:
            say("instructions")
            counted = plain | _ANY_PROCESSOR
            found["instructions: of an acquire and release"] = round(warm(_PYTHON, "lambda_lock", counted))
            in_lambda = {"PYTHONPATH": PATH, TYPE: "on-demand"}
            found["instructions: of INIT over HTTPS"] = init(tls | _ANY_PROCESSOR | in_lambda, Path(name))
            counts = invocations(counted | in_lambda, Path(name))
            found["instructions: of INIT with the first invocation"] = counts["INIT"] + counts["first"]
            found["instructions: of the first invocation"] = counts["first"]
    found |= _to_the_thinnest(say)
    say("waiting in order, in virtual time")
    for row in _CONTENTION:
        found |= _contention(row)
    many = World(MANY, queue=True).run()
    found[f"contention: {MANY.title}: requests of a grant"] = round(many.writes + many.reads, 3)
    requests, _ = longer_work()
    found[f"contention: {LONGER_WORK}: requests of a grant"] = round(requests, 3)
    unknown, expected = long_holds(1, queue=True)
    found["contention: 1 waits out a minute: requests a second"] = round(unknown, 3)
    found["contention: 1 waits out an expected minute: requests a second"] = round(expected, 3)
    return found


def _to_the_thinnest(say: Say) -> dict[str, float]:
    """Our warm cycle as a ratio to the thinnest honest clients'."""
    with tempfile.TemporaryDirectory(prefix="lambda-lock-limits-") as name, yardstick.served() as url:
        kept = {one: os.environ[one] for one in ("PATH", "LD_LIBRARY_PATH") if one in os.environ}
        environment = kept | {"HOME": name, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"} | client_environment(url)
        environment |= {"BENCHMARK_TABLE": "lambda_lock", "AWS_SESSION_TOKEN": "t" * _TOKEN} | _ANY_PROCESSOR
        say("CPU time beside the thinnest clients")
        figures = {"CPU": yardstick.cpu(environment)}
        if shutil.which("valgrind") is not None:
            say("instructions beside the thinnest clients")
            figures["instructions"] = yardstick.instructions(environment, Path(name))
    others = {"CPU": ("http.client",), "instructions": ("raw socket", "http.client")}
    return {
        f"yardstick: {what} of an acquire and release, to 1 of {other}": round(taken["lambda_lock"] / taken[other], 3)
        for what, taken in figures.items()
        for other in others[what]
    }


def _contention(row: Row) -> dict[str, float]:
    ours, poll = World(row, queue=True).run(), World(row, queue=False).run()
    figures = {
        "requests of a grant": ours.writes + ours.reads,
        "longest wait in (N - 1) holds": ours.longest / (row.hold * (row.workers - 1)),
        "seconds of a cycle, to 1 with queue=False": (row.hold + ours.idle) / (row.hold + poll.idle),
    }
    return {f"contention: {row.title}: {name}": round(value, 3) for name, value in figures.items()}
