"""The programs on the pages of docs/recipes, as modules."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

from rig.engine import ROOT

FOLDER = ROOT / "docs" / "recipes"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text())


def program(name: str, number: int = 0) -> Any:
    """The program of docs/recipes/<name>.md, as a fresh process would have imported it: module ``app``."""
    return _run(FOLDER / f"{name}.md", blocks(FOLDER / f"{name}.md")[number])


def program_of(page: str, heading: str) -> Any:
    """The first program under a heading of another page of docs/."""
    path = ROOT / "docs" / page
    return _run(path, _BLOCK.findall(path.read_text().partition(f"\n{heading}\n")[2])[0])


def _run(path: Path, code: str) -> Any:
    module = ModuleType("app")
    exec(compile(code, str(path), "exec", dont_inherit=True), vars(module))
    return module
