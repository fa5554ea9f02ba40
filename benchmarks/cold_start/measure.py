"""Runs a contestant in a fresh process, and measures the CPU time, wall time and memory that it used."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

#: A client outside Lambda loads at once what it needs later.
_IN_LAMBDA = {"AWS_LAMBDA_FUNCTION_NAME": "benchmark"}
_SECONDS = 60.0
_keys = itertools.count(1)


class ContestantFailed(Exception):
    """A contestant did not get its lock. The message is its output."""


class Sample:
    """One process, from its start to the first lock.

    cpu: seconds of CPU time, user and system. wall: seconds of wall time. peak: KiB of memory.
    modules: how many were loaded.
    """

    __slots__ = ("cpu", "modules", "peak", "wall")

    def __init__(self, cpu: float, wall: float, peak: int, modules: int) -> None:
        self.cpu = cpu
        self.wall = wall
        self.peak = peak
        self.modules = modules


class Result:
    """The samples of one contestant under one condition."""

    def __init__(self, samples: list[Sample]) -> None:
        cpu = [sample.cpu for sample in samples]
        self.cpu = statistics.median(cpu)
        self.fastest, self.slowest = min(cpu), max(cpu)
        self.wall = statistics.median(sample.wall for sample in samples)
        self.peak = max(sample.peak for sample in samples)
        self.modules = samples[0].modules

    def as_json(self) -> dict[str, float]:
        return {
            "cpu_ms": round(self.cpu * 1000, 1),
            "cpu_ms_fastest": round(self.fastest * 1000, 1),
            "cpu_ms_slowest": round(self.slowest * 1000, 1),
            "wall_ms": round(self.wall * 1000, 1),
            "peak_rss_kib": self.peak,
            "modules": self.modules,
        }


def sample(python: Path, script: Path, environment: Mapping[str, str]) -> Sample:
    """Start a contestant, and wait for its first lock. Raises ContestantFailed if it does not get that far."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [python, script, f"{os.getpid()}-{next(_keys)}"],
        env=dict(environment) | _IN_LAMBDA,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    patience = threading.Timer(_SECONDS, process.kill)
    patience.start()
    with process.stdout, process.stderr:
        said = process.stdout.read()
        complaint = process.stderr.read()
    patience.cancel()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or not said:
        raise ContestantFailed(f"{script.name}: exit status {process.returncode}\n{complaint.decode(errors='replace')}")
    peak, modules = (int(word) for word in said.split())
    return Sample(usage.ru_utime + usage.ru_stime, wall, peak, modules)


def run_cycle(python: Path, script: Path, environment: Mapping[str, str]) -> None:
    """Run a contestant to its end: it acquires a lock and releases it."""
    done = subprocess.run(
        [python, script, f"{os.getpid()}-{next(_keys)}"],
        env=dict(environment) | _IN_LAMBDA | {"BENCHMARK_CYCLE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise ContestantFailed(f"{script.name}: exit status {done.returncode}\n{done.stderr}")
