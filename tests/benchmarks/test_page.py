"""How docs/performance*.md are put together."""

from pathlib import Path

import pytest

from benchmarks.place import NoPlace, place
from benchmarks.plan import BENCHMARKS
from rig.engine import ROOT

PAGE = "before\n<!-- one: begin -->\nold\n<!-- one: end -->\nbetween\n<!-- two: begin -->\n<!-- two: end -->\n"


def test_a_section_is_replaced_and_the_rest_of_the_page_stays():
    once = place(PAGE, "one", "new\n")
    assert once == PAGE.replace("old\n", "new\n")
    assert place(once, "one", "new\n") == once
    assert place(PAGE, "two", r"\1 stays as it is" + "\n").count(r"\1 stays as it is") == 1


@pytest.mark.parametrize("page", [PAGE.replace("<!-- one: end -->", ""), PAGE + PAGE])
def test_a_page_without_one_place_for_a_section_is_an_error(page):
    with pytest.raises(NoPlace, match="one: begin"):
        place(page, "one", "new\n")


def test_each_section_has_its_place_on_its_page():
    for benchmark in BENCHMARKS:
        if benchmark.section:
            place((ROOT / "docs" / benchmark.page).read_text(), benchmark.name, "")


def test_each_benchmark_takes_json_as_the_plan_says():
    for benchmark in BENCHMARKS:
        module = Path(ROOT, *benchmark.module.split("."))
        source = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
        if source.exists():  # others may come later
            assert "--json" in source.read_text() or "add_json(" in source.read_text(), benchmark.name
