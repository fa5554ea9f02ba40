"""Many runs at once: what a process finds is reported, and a process that dies is not overlooked."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest

from tests.simulation.runs import run_chunks, run_slices

MIXED = "mixed"


def test_slices_report_what_their_runs_did() -> None:
    part = next(part for part in run_slices(0, 3600, [MIXED], 1) if part.counts["runs"])
    assert part.counts["grants"] > 0


def test_runs_whose_process_is_killed_fail() -> None:
    parts = run_chunks(0, 10_000, MIXED, 2, chunk=5)
    next(parts)
    victim = multiprocessing.active_children()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(BrokenProcessPool):
        list(parts)
