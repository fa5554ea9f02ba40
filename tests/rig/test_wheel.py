"""The wheel contains the package, and nothing else from this repository."""

import json
import socket
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import lambda_lock
from rig.engine import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_holds_the_typed_package_and_nothing_else_for_every_architecture(wheel):
    assert str(wheel.filename).endswith("-py3-none-any.whl")
    suffixes = {Path(name).suffix for name in wheel.namelist() if ".dist-info/" not in name}
    assert suffixes == {".py", ".typed", ".html"}
    folders = {Path(name).parts[0] for name in wheel.namelist()}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"lambda_lock"}
    assert "lambda_lock/py.typed" in wheel.namelist()


def test_the_wheel_says_where_the_project_is_and_depends_on_nothing_but_by_extras(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = message_from_bytes(wheel.read(name))
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert all(url.startswith("https://") for url in urls.values())
    required = metadata.get_all("Requires-Dist", [])
    assert required
    assert all("extra ==" in requirement for requirement in required)


@pytest.fixture(scope="module")
def bill(wheel: zipfile.ZipFile) -> str:
    (name,) = (name for name in wheel.namelist() if "/sboms/" in name)
    assert name.endswith(".dist-info/sboms/lambda-lock.cdx.json")
    return wheel.read(name).decode()


@pytest.mark.long
def test_the_wheels_bill_of_materials_is_valid(bill):
    # Imported here: it builds dozens of grammars, and each worker imports all files of tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    spoilt = bill.replace('"type": "library"', '"type": "book"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(spoilt) is not None


def test_the_bill_of_materials_lists_no_hard_dependency_and_all_extras(bill):
    read: dict[str, Any] = json.loads(bill)
    package = read["metadata"]["component"]
    assert package["purl"] == f"pkg:pypi/lambda-lock@{lambda_lock.__version__}"
    (needs,) = (found for found in read["dependencies"] if found["ref"] == package["bom-ref"])
    assert needs["dependsOn"] == []
    assert {component["scope"] for component in read["components"]} == {"optional"}
    listed = set()
    for component in read["components"]:
        about = {one["name"]: one["value"] for one in component["properties"]}
        listed.add((about["python:extra"], about["python:requirement"], component["purl"]))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [(extra, Requirement(text)) for extra, texts in extras.items() for text in texts]
    assert listed == {(extra, str(one), f"pkg:pypi/{one.name}") for extra, one in wanted}


def test_the_bill_of_materials_names_nothing_of_the_machine(bill):
    for text in (ROOT, Path.home(), tempfile.gettempdir(), sys.prefix, socket.gethostname()):
        assert str(text) not in bill
    assert "timestamp" not in bill  # so that equal sources give an equal wheel
