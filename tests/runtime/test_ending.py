"""A process ends, whatever the library's threads do when its interpreter ends: on each Python that is claimed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig import pythons
from rig.engine import ROOT

PROGRAM = Path(__file__).with_name("ending.py")
RUNS = 6  # of the process with five clients; `frozen` tries each line in one
VERSIONS = [
    pytest.param(version, marks=() if version == f"3.{sys.version_info[1]}" else pytest.mark.long)
    for version in pythons.CLAIMED
]
SECONDS = 100.0  # within which each of them ends on any machine


def begin(version: str, name: str) -> subprocess.Popen[str]:
    """Start the program on a version of Python, with this process's environment."""
    python = pythons.find(version)
    if python is None:
        if os.environ.get("CI"):
            pytest.fail(pythons.missing(version))
        pytest.skip(pythons.missing(version))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        [python, "-B", str(PROGRAM), name],
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """What a process printed. It ended by itself, and reported nothing of ours."""
    try:
        out, error = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        pytest.fail(f"the process did not end; it printed {out!r} and {error!r}")
    assert process.returncode == 0, error
    assert "lambda_lock" not in error, error  # Python itself may report a thread that it has frozen
    return out


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_a_process_ends_though_its_senders_are_frozen_at_any_line(version, table):
    places = end(begin(version, "frozen")).split()
    assert len(places) > 30
    assert {place.partition(":")[0] for place in places} >= {"heartbeat.py", "renewer.py", "threading.py"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_process_whose_clients_have_renewed_and_are_closed_ends(version, table):
    for _ in range(RUNS // 2):
        for process in [begin(version, "renewed") for _ in range(2)]:
            end(process)
