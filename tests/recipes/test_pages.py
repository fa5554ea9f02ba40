"""Each program on a page of docs/recipes has a test, and each page its place in the list."""

import re

from rig.engine import ROOT
from tests.recipes.pages import FOLDER, blocks

PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")
INDEX = (FOLDER / "index.md").read_text()


def test_each_program_is_run_by_a_test():
    files = [*(ROOT / "tests" / "recipes").glob("test_*.py"), ROOT / "tests" / "durable" / "test_recipes.py"]
    calls = re.findall(r'\bprogram\("([\w-]+)"(?:, (\d+))?\)', "\n".join(file.read_text() for file in files))
    run = {(name, int(number or 0)) for name, number in calls}
    assert run == {(page.stem, number) for page in PAGES for number in range(len(blocks(page)))}
    assert {name for name, _ in run} == {page.stem for page in PAGES}


def test_each_page_is_in_the_list_and_in_the_table_of_contents():
    assert len(PAGES) >= 10
    for page in PAGES:
        assert f"]({page.name})" in INDEX
        assert f"\n{page.stem}\n" in INDEX


def test_each_page_is_found_by_the_words_that_people_use():
    for page in PAGES:
        words = re.findall(r"^<!-- search: (.*) -->$", page.read_text(), re.MULTILINE)
        assert len(words) == 1, page.name
        assert len(words[0].split(", ")) >= 3, page.name


def test_no_program_writes_into_the_table_of_the_locks():
    for page in PAGES:
        for code in blocks(page):
            assert 'LAMBDA_LOCK_TABLE"' not in code, page.name
            assert '"TableName": "locks"' not in code, page.name
