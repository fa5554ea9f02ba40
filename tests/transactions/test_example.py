"""The example of a late writer runs, and shows what it says."""

import pytest

from rig.engine import ROOT


@pytest.mark.long
def test_the_late_writer_corrupts_a_plain_put_and_is_refused_by_commit(table, start):
    example = start(ROOT / "examples" / "late_writer.py")
    plain, commit = example.communicate(timeout=100)[0].split("With commit:")
    assert example.returncode == 0
    assert "100 + 50 - 30 = 150: 30 are gone" in plain
    assert "the first is refused: lock 'account' is no longer ours" in commit
    assert "100 + 50 - 30 = 120" in commit
