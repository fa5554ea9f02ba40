"""The comparison with the older clients: each of its rows has tests, on a page of their own."""

import re

from rig.engine import ROOT

_DOCS = ROOT / "docs"


def _rows(page: str) -> list[tuple[str, str, str]]:
    """Section, first cell and last cell of each row."""
    found, section = [], ""
    for line in (_DOCS / page).read_text().splitlines():
        if line.startswith("#"):
            section = line
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and set(line) - set("|-"):
            found.append((section, cells[0], cells[-1]))
    return found


def test_each_row_of_the_comparison_has_its_tests_and_each_test_its_row():
    compared = [(section, cell) for section, cell, _ in _rows("parity.md")]
    assert len(compared) > 100
    assert [(section, cell) for section, cell, _ in _rows("parity-tests.md")] == compared


def test_a_row_names_a_test_unless_there_is_nothing_to_test():
    without = [cell for _, cell, tests in _rows("parity-tests.md") if "::" not in tests and tests != "test"]
    names = ("updateLookUpTime", "run", "lock_client`, `thread_lock`, `app_callback")
    assert sorted(without) == sorted(["ErrCannotReleaseNullLock", *(f"`{name}`" for name in names)])
