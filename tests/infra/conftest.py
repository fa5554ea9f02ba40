"""The app of infra/, synthesized once: for an account, and for an engine."""

import json
from pathlib import Path
from typing import Any

import pytest

from rig.engine import ROOT
from tests.cdk.conftest import pytest_pycollect_makemodule as pytest_pycollect_makemodule  # without Node: no test

LOCAL = {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "PYBIN": "/opt/bin/python", "PYTHONPATH": "/opt/python"}
CONTEXT: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]


class Assembly:
    """What one synthesis wrote."""

    def __init__(self, folder: Path, **context: str) -> None:
        import aws_cdk as cdk

        from infra.app import STACK, build

        app = cdk.App(context=CONTEXT | context, outdir=str(folder), analytics_reporting=False)
        build(app)
        app.synth()
        self.folder = folder
        self.template: dict[str, Any] = json.loads((folder / f"{STACK}.template.json").read_text())

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.template["Resources"]
        return found

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """The properties of the resources of a CloudFormation type, by logical id."""
        return {id: each.get("Properties", {}) for id, each in self.resources.items() if each["Type"] == kind}

    def the(self, kind: str, name: str) -> tuple[str, dict[str, Any]]:
        """Logical id and properties of the one resource whose id is this name and a hash."""
        (found,) = (item for item in self.of(kind).items() if item[0][:-8] == name)
        return found


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return Assembly(tmp_path_factory.mktemp("account"))


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return Assembly(tmp_path_factory.mktemp("local"), local=json.dumps(LOCAL))
