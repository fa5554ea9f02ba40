"""The example of a late writer runs, and shows what it says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rig.engine import ROOT


def run(table: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "late_writer.py")],
        capture_output=True, text=True, timeout=100, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_late_writer_corrupts_a_plain_put_and_is_refused_by_commit(table):
    plain, commit = run(table).split("With commit:")
    assert "100 + 50 - 30 = 150: 30 are gone" in plain
    assert "the first is refused: lock 'account' is no longer ours" in commit
    assert "100 + 50 - 30 = 120" in commit
