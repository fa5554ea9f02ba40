"""The documented example: one leads, the others follow, and a leader that dies or freezes is replaced."""

import os
import queue
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import boto3
import pytest

from examples.leader_election import Candidates, check_journal, read_journal
from rig.engine import ROOT

LEASE = 3.0  # seconds: a leader must not lose it because the machine is busy


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are processes of their own: they find this checkout."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def candidates(table: str) -> Iterator[Candidates]:
    with Candidates(3, LEASE) as started:
        yield started


def journal(table: str) -> list[tuple[int, str]]:
    return read_journal(boto3.client("dynamodb"), f"{table}-journal")


@pytest.mark.long
def test_failover_is_measured_by_the_documented_command_and_never_are_there_two_leaders(table):
    command = [sys.executable, "examples/leader_election.py", "measure", "--lease", "2", "--rounds", "3"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100).stdout
    assert re.search(r"lease 2 s: failover in [\d.]+ to [\d.]+ s; \d+ terms, never two leaders", said)
    assert check_journal(journal(table)) >= 4


def test_a_leader_that_steps_down_is_followed_at_once_under_the_next_token(candidates):
    name, (token,) = candidates.wait_for("leads")
    candidates.processes[name].terminate()
    other, (next_token,) = candidates.wait_for("leads")
    assert other != name
    assert int(next_token) == int(token) + 1
    assert candidates.processes[name].wait(30) == 0


@pytest.mark.long
def test_a_frozen_leader_stops_when_it_wakes_and_follows(candidates, table):
    name, _ = candidates.wait_for("leads")
    frozen = candidates.processes[name]
    os.kill(frozen.pid, signal.SIGSTOP)
    other, _ = candidates.wait_for("leads")
    assert other != name
    os.kill(frozen.pid, signal.SIGCONT)
    candidates.wait_for("deposed", by=name)
    candidates.wait_for("follows", by=name)
    candidates.close()
    check_journal(journal(table))


@pytest.mark.long
def test_while_a_leader_works_nobody_else_leads(candidates):
    candidates.wait_for("leads")
    with pytest.raises(queue.Empty):
        candidates.wait_for("leads", seconds=LEASE + 2)  # longer than a lease that is not renewed


@pytest.mark.parametrize("entries", [[(1, "a"), (2, "b"), (1, "a")], [(1, "a"), (1, "b")]])
def test_two_leaders_would_be_noticed(entries):
    with pytest.raises(ValueError, match=r"leader|led"):
        check_journal(entries)


def test_terms_are_counted():
    assert check_journal([(1, "a"), (1, "a"), (2, "b"), (5, "a")]) == 3
