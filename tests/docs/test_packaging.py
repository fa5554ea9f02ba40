"""docs/packaging.md: its commands build what runs, and its snippets are those of docs/deploy with a package."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml

from rig.engine import ROOT, Ministack
from rig.lambda_runtime import LambdaEnvironment
from rig.packages import accepted, sources, unzip
from tests.support.installed import finish

_PAGE = (ROOT / "docs" / "packaging.md").read_text()
_FOLDER = ROOT / "docs" / "packaging"
_DEPLOY = ROOT / "docs" / "deploy"
_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
_FOUR_LINES = next(code for kind, code in _BLOCKS if kind == "sh")


def _run(folder: Path, engine: Ministack, table: str) -> list[str]:
    """Invoke the handler in a folder under awslambdaric. Returns what Python said about the library's modules."""
    environment = engine.environment() | {
        "LAMBDA_LOCK_TABLE": table,
        "PYTHONPATH": str(folder),  # not this checkout
        "PYTHONVERBOSE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # Lambda's folder is read-only
    }
    with LambdaEnvironment("app.handler", folder, environment=environment) as function:
        assert function.invoke({"id": "7"}, timeout_seconds=20).result() == "order 7 is mine"
        return [line for line in function.lines if "lambda_lock/" in line and line.startswith("# ")]


def _check(folder: Path, engine: Ministack, table: str) -> None:
    """Whether each .pyc file is accepted, and whether those of the library were what ran."""
    assert accepted(sys.executable, folder) == sources(folder)
    said = _run(folder, engine, table)
    loaded = [line for line in said if line.startswith("# code object from")]
    assert len(loaded) > 10
    library = f"# code object from '{folder}/lambda_lock/"
    assert all(line.startswith(library) and line.endswith(".pyc'") for line in loaded)


@pytest.mark.ministack_only(reason="Lambda environments of this test use the engine's settings")
def test_the_zip_file_of_the_four_lines_runs_under_awslambdaric(shell, tmp_path, engine, table):
    """It is as small as the page says, and its last line compiles it."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "app.py").write_text((_FOLDER / "app.py").read_text())
    first, *others = _FOUR_LINES.splitlines()
    finish(["sh", "-ec", first], shell, cwd=project)
    package = project / "package"
    assert sources(package)
    assert accepted(sys.executable, package) == set()
    finish(["sh", "-ec", "\n".join(others)], shell, cwd=project)
    unzip(project / "function.zip", tmp_path / "task")
    _check(tmp_path / "task", engine, table)
    folder = package / "lambda_lock"
    files = [path for path in folder.rglob("*") if path.relative_to(folder).parts[0] not in ("cdk", "cli", "testing")]
    assert sum(path.stat().st_size for path in files if path.is_file()) < 3_000_000
    assert "less than 3 MB" in _PAGE


@pytest.mark.long
@pytest.mark.ministack_only(reason="Lambda environments of this test use the engine's settings")
def test_what_the_lines_of_the_image_make_runs_under_awslambdaric(shell, tmp_path, engine, table):
    task = tmp_path / "task"
    task.mkdir()
    (task / "app.py").write_text((_FOLDER / "app.py").read_text())
    (task / "requirements.txt").write_text("lambda-lock\n")
    steps = [line.partition(" ") for line in (_FOLDER / "Dockerfile").read_text().splitlines()]
    assert [name for name, _, _ in steps] == ["FROM", "COPY", "RUN", "RUN", "CMD"]
    for name, _, command in steps:
        if name == "RUN":
            finish(["sh", "-ec", command], shell | {"LAMBDA_TASK_ROOT": str(task)})
    assert json.loads(steps[-1][2]) == ["app.handler"]
    _check(task, engine, table)


@pytest.mark.parametrize("file", sorted(path.name for path in _FOLDER.iterdir()))
def test_the_page_quotes_the_file_as_it_is(file):
    assert (_FOLDER / file).read_text() in [code for _, code in _BLOCKS]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads CloudFormation's short functions as {"!Ref": "Locks"}."""


def _function(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    assert isinstance(node, yaml.ScalarNode)
    return {f"!{tag}": loader.construct_scalar(node)}


_Loader.add_multi_constructor("!", _function)


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.load(path.read_text(), _Loader)  # noqa: S506 - it is safe, see there
    return read


def test_the_serverless_framework_makes_what_the_sam_template_makes():
    ours, sam = _read(_FOLDER / "serverless.yml"), _read(_DEPLOY / "sam.yaml")["Resources"]
    function = sam["Function"]["Properties"]
    assert ours["resources"]["Resources"]["Locks"] == sam["Locks"]
    assert ours["provider"]["environment"] == function["Environment"]["Variables"]
    assert ours["provider"]["iam"]["role"]["statements"] == function["Policies"][0]["Statement"]
    assert ours["provider"]["runtime"] == function["Runtime"]
    assert ours["functions"]["function"] == {"handler": function["Handler"]}
    assert ours["package"] == {"artifact": "function.zip"}


def test_the_sam_function_is_the_templates_with_the_folder():
    ours = _read(_FOLDER / "sam.yaml")["Function"]
    function = _read(_DEPLOY / "sam.yaml")["Resources"]["Function"]["Properties"]
    properties = {"CodeUri": "package/", "Architectures": ["arm64"]}
    assert ours["Properties"] == {name: function[name] for name in ("Handler", "Runtime")} | properties
    assert ours["Metadata"] == {"SkipBuild": True}


def test_the_terraform_function_is_the_configurations_with_the_zip_file():
    def function(path: Path) -> dict[str, Any]:
        with path.open() as file:
            options = hcl2.SerializationOptions(strip_string_quotes=True, explicit_blocks=False)
            resources = hcl2.load(file, serialization_options=options)["resource"]
        (found,) = (each["aws_lambda_function"] for each in resources if "aws_lambda_function" in each)
        body: dict[str, Any] = found["function"]
        return body

    added = {"architectures": ["arm64"], "source_code_hash": '${filebase64sha256("function.zip")}'}
    assert function(_FOLDER / "function.tf") == function(_DEPLOY / "terraform.tf") | added


def test_each_shell_block_is_one_that_the_shell_can_read():
    for kind, code in _BLOCKS:
        if kind == "sh":
            subprocess.run(["sh", "-n"], input=code, text=True, check=True)
