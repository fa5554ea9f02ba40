"""The table and the picture of docs/rate-limits.md are of a run, which is the same on every machine."""

import pytest

from benchmarks.rates.__main__ import measure
from benchmarks.rates.report import BEGIN, END, PAGE, PICTURE, table


@pytest.fixture(scope="module")
def measured():
    return measure()


@pytest.mark.long
def test_the_table_and_the_picture_in_the_docs_are_of_a_run(measured):
    result, drawn = measured
    assert f"{BEGIN}{table(result)}{END}" in PAGE.read_text(), "write them by python -m benchmarks.rates --docs"
    assert PICTURE.read_text() == drawn


@pytest.mark.long
def test_our_limiter_keeps_the_limit_and_the_shortest_waits(measured):
    limiters = measured[0]["limiters"]
    for load in range(2):
        ours, *others = [runs[load] for runs in limiters.values()]
        assert ours["most"] <= 11
        assert ours["longest"] < min(other["longest"] for other in others)
