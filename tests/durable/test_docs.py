"""The Python blocks in docs/durable.md run as they stand. tests/docs runs those of all other pages."""

import re
from typing import Any

import pytest

from lambda_lock import LockClient
from rig.engine import ROOT

PAGE = ROOT / "docs" / "durable.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:<!-- then: (.*?) -->)?", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("code", "then"), BLOCKS)
def test_a_snippet_runs_as_it_stands(engine, table, code, then):
    engine.create_table("locks")
    names: dict[str, Any] = {}
    try:
        exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)
        exec(compile(then, f"{PAGE} (then)", "exec", dont_inherit=True), names)
    finally:
        for made in list(names.values()):
            if isinstance(made, LockClient):
                made.close(release=False)
        engine.delete_table("locks")


def test_the_page_has_snippets_to_run():
    assert BLOCKS
