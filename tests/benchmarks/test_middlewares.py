"""The comparison of idempotent APIs, on those contestants whose packages are here."""

import sys

import pytest

from benchmarks.middlewares.__main__ import BEGIN, CASES, END, PAGE, PYTHON, play, together
from benchmarks.middlewares.serve import CONTESTANTS, OF_REDIS


@pytest.mark.long
@pytest.mark.parametrize("name", CONTESTANTS)
def test_the_table_in_the_docs_is_of_a_run(name):
    if name in OF_REDIS and not PYTHON.exists():
        pytest.skip("make compare-middlewares installs what this needs")
    python = str(PYTHON) if name in OF_REDIS else sys.executable
    found = together({front: play(name, front, python) for front in CONTESTANTS[name]})
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().split(BEGIN)[1].split(END)[0].splitlines()]
    column = 1 + list(CONTESTANTS).index(name)
    assert found == dict(zip(CASES, (row[column] for row in rows[2:]), strict=True))
