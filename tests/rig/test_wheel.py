"""The wheel contains the package, and nothing else from this repository."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

from rig.engine import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_holds_the_typed_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    folders = {Path(name).parts[0] for name in wheel.namelist()}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"lambda_lock"}
    assert "lambda_lock/py.typed" in wheel.namelist()


def test_the_wheel_says_where_the_project_is(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    urls = dict(line.split(", ") for line in message_from_bytes(wheel.read(name)).get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert all(url.startswith("https://") for url in urls.values())


def test_the_wheel_depends_on_nothing_but_by_extras(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    required = message_from_bytes(wheel.read(name)).get_all("Requires-Dist", [])
    assert required
    assert all("extra ==" in requirement for requirement in required)
