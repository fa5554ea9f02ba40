"""The tests run on the versions that the extra `cdk` promises."""

import re
import tomllib
from pathlib import Path

from rig.engine import ROOT

_DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["cdk"]


def _pinned(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", file.read_text(), re.MULTILINE))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def test_the_oldest_that_is_declared_is_the_oldest_that_is_tested():
    pinned = _pinned(ROOT / "requirements" / "cdk-oldest.txt")
    for requirement in _DECLARED:
        name, oldest = re.match(r"([\w-]+)>=([\d.]+),", requirement).groups()  # type: ignore[union-attr]
        assert _number(pinned[name]) == (*_number(oldest), 0)[:3]


def test_the_newest_that_is_tested_is_declared_and_newer():
    newest, oldest = (_pinned(ROOT / "requirements" / name) for name in ("dev.txt", "cdk-oldest.txt"))
    for requirement in _DECLARED:
        name, bound = re.match(r"([\w-]+)>=[\d.]+,<(\d+)", requirement).groups()  # type: ignore[union-attr]
        assert _number(oldest[name]) < _number(newest[name]) < (int(bound),)
