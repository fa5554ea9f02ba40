"""The demo played once, as `make demo` does; and what is said where it cannot be played."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from demo.__main__ import NOT_RUN, main


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    for _ in range(3):
        picture = tmp_path_factory.mktemp("demo") / "sub" / "demo.svg"
        command = [sys.executable, "-m", "demo", "--json", "--svg", str(picture)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        if not missed_its_cues(done.stderr):
            break
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"progress": done.stderr}


def missed_its_cues(stderr: str) -> bool:
    """Whether the only thing wrong is that the story did not happen as told: a busy machine comes late to its cues."""
    wrong = stderr.partition("The demo's verification failed:\n")[2].splitlines()
    return bool(wrong) and all(line.startswith("  the story was to have ") for line in wrong)


def test_the_demo_holds_what_it_claims_and_has_waits_renewals_a_skip_and_a_return_in_it(played):
    """That a killed and a frozen holder are replaced is one of its claims."""
    assert played["holds"]
    assert [check["holds"] for check in played["checks"]] == [True] * 5
    outcomes = Counter(delivery["outcome"] for delivery in played["evidence"]["deliveries"])
    assert (outcomes["skipped"], outcomes["returned"] >= 2, outcomes["failed"]) == (1, True, 0)
    renewed = Counter(mark["lane"] for mark in played["story"]["marks"] if mark["happening"] == "renewed")
    assert renewed["report 1"] >= 2  # 5.5 s of work on a lease of 2 s
    assert {"invoices 1", "invoices 2"} <= {s["lane"] for s in played["story"]["spans"] if s["state"] == "waiting"}


def test_progress_goes_to_stderr_in_plain_lines_and_the_picture_where_it_was_asked_for(played):
    assert "invoices 2: killed at its timeout\n" in played["progress"]
    assert "\x1b" not in played["progress"]
    assert ET.parse(Path(played["svg"])).getroot().get("role") == "img"


def test_without_an_engine_the_demo_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setenv("LAMBDA_LOCK_ENGINE_BIN", "nowhere/ministack")
    assert main([]) == NOT_RUN
    assert "could not be played: nowhere/ministack is not there: run 'make setup'" in capsys.readouterr().err
