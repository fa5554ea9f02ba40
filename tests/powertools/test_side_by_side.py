"""What benchmarks/idempotency says of either library, each case played again. No time is asserted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.idempotency.cases import CASES
from benchmarks.idempotency.measure import create_tables, play
from rig.engine import Ministack

# For lambda_lock and for Powertools: requests, effects, and whether something was lost, done again or not told apart.
# How many requests it takes is not asserted where a case waits: one poll more or less does not matter.
OURS_AND_THEIRS = {
    "new": ((2, 1, False), (2, 1, False)),
    "duplicate": ((1, 1, False), (1, 1, False)),
    "cached": ((0, 1, False), (0, 1, False)),
    "running": ((1, 1, False), (1, 1, False)),
    "customer": ((11, 2, False), (4, 2, True)),
    "fails": ((4, 1, False), (4, 1, False)),
    "late-owner": ((None, 2, False), (None, 2, True)),
    "late-failure": ((None, 2, False), (None, 3, True)),
    "late-commit": ((None, 1, False), (None, 2, True)),
    "time-out": ((None, 1, False), (None, 1, False)),
    "lost-reply": ((None, 1, False), (None, 1, True)),
    "nested": ((5, 1, False), (5, 1, False)),
    "async": ((2, 1, False), (1, 0, True)),
    "other-payload": ((1, 1, False), (1, 1, False)),
    "hook": ((1, 1, False), (1, 1, False)),
    "model": ((3, 1, False), (3, 1, False)),
    "unstorable": ((3, 1, False), (2, 1, True)),
}


@pytest.fixture(scope="module")
def own_engine() -> Iterator[Ministack]:
    """An engine for the benchmark's tables, whose names others use too."""
    with Ministack() as engine:
        create_tables(engine)
        yield engine


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of what the cases provoke
@pytest.mark.parametrize("case", CASES)
def test_each_case_comes_out_as_the_documentation_says(case, own_engine, table, monkeypatch):
    for name, value in own_engine.environment().items():
        monkeypatch.setenv(name, value)
    played = play(own_engine, case)
    seen = {
        name: (len(one.requests) if CASES[case].timed else None, one.effects, bool(one.outcome.fault))
        for name, one in played.items()
    }
    assert (seen["lambda_lock"], seen["powertools"]) == OURS_AND_THEIRS[case]
