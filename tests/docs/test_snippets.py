"""Every Python block in README.md and docs/ runs against the engine, as a reader would run it.

The code in a comment ``<!-- then: code -->`` right after a block is run after the block. It calls what the block
defines.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import LockClient, default_client, set_default_client
from rig import events
from rig.engine import ROOT, Ministack
from tests.support.context import Context
from tests.support.loop import loop

__all__ = ["loop"]

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:<!-- then: (.*?) -->)?", re.MULTILINE | re.DOTALL)
_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _line(page: Path, match: re.Match[str]) -> int:
    return page.read_text()[: match.start()].count("\n") + 1


_SNIPPETS = [
    pytest.param(page, match[1], match[2] or "", id=f"{page.name}:{_line(page, match)}")
    for page in _PAGES
    if page.name != "durable.md"  # which tests/durable runs, where the SDK is installed
    for match in _BLOCK.finditer(page.read_text())
]


#: Tables of the snippets' own rows, which are never in the table of the locks.
_OF_THE_APPLICATION = ("accounts", "invoices", "journal", "pages", "payments", "receipts")


@pytest.fixture
def tables(engine: Ministack, table: str) -> Iterator[None]:
    """The table "locks", which snippets use besides the one in LAMBDA_LOCK_TABLE, and those of the application.

    Tables that snippets create are deleted at the end.
    """
    engine.create_table("locks")
    for name in _OF_THE_APPLICATION:
        engine.create_table(name, "id")
    before = _table_names(engine)
    set_default_client(None)
    yield
    default_client().close()
    set_default_client(None)
    for name in _table_names(engine) - (before - {"locks", *_OF_THE_APPLICATION}):
        engine.delete_table(name)


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """The library's logger, as it was: a snippet may set its level, as copy_config_to_registered_loggers does."""
    ours = logging.getLogger("lambda_lock")
    before = ours.handlers[:], ours.level, ours.propagate
    yield
    ours.handlers[:], level, ours.propagate = before
    ours.setLevel(level)  # not by the attribute: a logger remembers which levels are enabled


def _table_names(engine: Ministack) -> set[str]:
    """The names of all tables. A page has at most a hundred, and a run of all tests creates more."""
    names: set[str] = set()
    page: dict[str, Any] = {"LastEvaluatedTableName": None}
    while "LastEvaluatedTableName" in page:
        start = page["LastEvaluatedTableName"]
        page = engine.dynamodb("ListTables", {"ExclusiveStartTableName": start} if start else {})
        names.update(page["TableNames"])
    return names


@pytest.mark.usefixtures("tables", "loop")
@pytest.mark.parametrize(("page", "code", "then"), _SNIPPETS)
def test_a_snippet_runs_as_it_stands(page, code, then, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.docs.django_site")
    names: dict[str, Any] = {"events": {name: events.load(name) for name in events.names()}, "context": Context}
    try:
        exec(compile(code, str(page), "exec", dont_inherit=True), names)  # without this module's __future__
        exec(compile(then, f"{page} (then)", "exec", dont_inherit=True), names)
    finally:
        for made in list(names.values()):
            if isinstance(made, LockClient):
                made.close(release=False)


@pytest.mark.parametrize("file", [*_PAGES, *sorted((ROOT / "examples").glob("*.py"))], ids=lambda file: file.name)
def test_no_example_writes_rows_of_its_own_into_the_table_of_the_locks(file):
    text = file.read_text()
    assert not re.search(
        r"""["']?TableName["']?\s*[:=]\s*(["']locks["']|TABLE\b|os\.environ\["LAMBDA_LOCK_TABLE)""", text
    )


def test_the_readme_has_snippets_to_run():
    assert len(_SNIPPETS) >= 5


@pytest.mark.parametrize("page", [*_PAGES, ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_each_test_that_a_page_names_exists(page):
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)", page.read_text()):
        assert f"def {name}(" in (ROOT / path).read_text(), f"{page.name} names {path}::{name}"
