"""What the benchmark of contention says of its workers' reports."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.contention.__main__ import Crowd
from benchmarks.contention.judge import Run, judge
from benchmarks.contention.rows import Row
from benchmarks.contention.summary import Median
from benchmarks.contention.targets import verdicts
from benchmarks.contention.virtual import World


def report(*workers: list[list[float | None]], removed: int = 0) -> dict[str, Any]:
    """workers: for each its waits, as asked, placed, granted, ended and token."""
    reports = [{"waits": waits, "writes": 4, "reads": 2, "removed": removed, "errors": []} for waits in workers]
    return {"start": 0.0, "end": 10.0, "workers": reports}


def test_holds_that_overlap_are_a_fault():
    assert judge(report([[0, None, 1, 2, 1]], [[0, None, 2, 3, 2]])).faults == []
    assert judge(report([[0, None, 1, 2, 1]], [[0, None, 1.9, 3, 2]])).faults == ["two held the lock at 1.900000 s"]


def test_a_grant_while_another_hold_never_ended_is_a_fault():
    assert judge(report([[0, None, 1, None, 1]], [[0, None, 5, 6, 2]])).faults


def test_a_token_that_does_not_rise_is_a_fault():
    assert judge(report([[0, None, 1, 2, 7]], [[0, None, 3, 4, 7]])).faults == ["token 7 came after 7"]


def test_the_longest_wait_counts_those_that_have_not_ended():
    run = judge(report([[0, None, 1, 2, 1]], [[3, None, None, None, None]]))
    assert (run.longest, run.open, run.starved) == (7.0, True, 1)


def test_a_grant_passes_whoever_asked_before_and_still_waits():
    run = judge(report([[0, None, 5, 6, 3]], [[1, None, 2, 2.5, 1], [3, None, 4, 4.5, 2]]))
    assert run.passed == pytest.approx(2 / 3)
    assert run.most_passed == 2


@pytest.mark.parametrize(("place", "out_of_line"), [(0.5, 1), (1.5, 0)])
def test_a_grant_is_out_of_line_if_an_older_place_still_waits(place, out_of_line):
    assert judge(report([[0, place, 5, 6, 2]], [[0, 1, 2, 3, 1]])).out_of_line == out_of_line


def test_targets_that_are_missed_are_named():
    row = Row(8, 0.02, 5, ("queue", "poll"))
    good = judge(report([[0, 0.1, 0.3, 0.32, 1]], [[0, 0.2, 0.33, 0.35, 2]]))
    bad = judge(report([[0, 0.1, 0.3, 0.32, 1]], [[0, 0.2, 9, 9.1, 2]], removed=1))
    assert "8 workers, 20 ms, even: the longest wait is 0.4 s or less" in missed(row, bad, good)
    assert "8 workers, 20 ms, even: no living waiter is removed" in missed(row, bad, good)
    assert "8 workers, 20 ms, even: at least 0.95 of the throughput with queue=False" in missed(row, bad, good)
    assert "8 workers, 20 ms, even: the longest wait is 0.4 s or less" not in missed(row, good, good)


def missed(row: Row, ours: Run, poll: Run) -> set[str]:
    results = {row: {"queue": Median([ours]), "poll": Median([poll])}}
    return {verdict.what for verdict in verdicts(results) if not verdict.held}


@pytest.mark.ministack_only("the crowd's table is made there")
@pytest.mark.parametrize("name", ["queue", "poll"])
def test_real_processes_contend_and_never_hold_the_lock_at_once(engine, table, name):
    with Crowd(name, engine, table=table, python=Path(sys.executable)) as crowd:
        crowd.answer()
        run = judge(crowd.run(Row(3, 0.01, 1.5, (name,)), 1))
    assert run.grants
    assert not run.faults
    assert not run.errors
    assert not run.removed
    assert run.writes >= 2


@pytest.mark.long
def test_in_virtual_time_equal_code_gives_equal_figures():
    row = Row(4, 0.05, 0, ())
    first, second = (World(row, queue=True).run() for _ in range(2))
    assert first == second
    assert first.grants
    assert not first.faults
    assert first.as_json() != World(row, queue=False).run().as_json()
