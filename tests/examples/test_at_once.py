"""The examples of permits and of several keys, as their docstrings say to run them."""

import re
import subprocess
import sys

import pytest

from rig.engine import ROOT

pytestmark = pytest.mark.usefixtures("table")


def run(name: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.long
def test_a_service_that_bears_three_calls_gets_no_more_with_permits():
    said = run("fragile_service.py")
    assert "\nwith permits: 0 of 24 calls failed" in said
    assert re.match(r"without permits: \d+ of 24 calls failed", said)


@pytest.mark.long
def test_transfers_in_any_order_lose_no_cent_and_all_get_done():
    said = run("transfers.py")
    assert "4 of 4 processes did their 10 transfers" in said
    assert "400 in all, as before: True" in said
