"""A beginner's path: every command and program of docs/getting-started.md, as written, from an empty folder.

pip finds this checkout's wheel and nothing else. The packages that the extras name are those of the environments of
tests, because nothing is downloaded here.
"""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from rig.engine import ROOT
from rig.lambda_runtime import LambdaEnvironment
from rig.packages import unzip
from tests.support.installed import finish

from .conftest import first_terminal

PAGE = (ROOT / "docs" / "getting-started.md").read_text()
INSTALLING, TESTING, STARTING, USING, PACKAGING = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
APP, TEST, CDK = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _with_packages_of_the_extras(folder: Path, command: str) -> str:
    """The command, in which pip need not find what the extras name: this environment's packages are there already."""
    (site,) = (folder / ".venv" / "lib").glob("python3.*/site-packages")
    packages = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    (site / "extras.pth").write_text(f"{packages}\n")
    extras = re.findall(r'"lambda-lock\[([\w,]+)\]"', command)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras
    assert all(name in known for name in extras[0].split(","))
    return f"export PIP_NO_DEPS=1\n{command}"


@pytest.mark.long
def test_each_step_of_a_beginner_works_as_it_is_written(shell, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    finish(["sh", "-ec", INSTALLING], shell, cwd=project)  # 1

    (project / "app.py").write_text(APP)  # 2
    (project / "test_app.py").write_text(TEST)
    activated = f". .venv/bin/activate\n{TESTING}"
    assert finish(["sh", "-ec", activated], shell, cwd=project) == "a customer is invoiced under a lock\n"

    install, dev = STARTING.strip().splitlines()  # 3
    assert dev == "lambda-lock dev"
    finish(["sh", "-ec", f". .venv/bin/activate\n{_with_packages_of_the_extras(project, install)}"], shell, cwd=project)
    with first_terminal(f". .venv/bin/activate\nexec {dev}", shell, project) as pasted:
        printed = finish(["sh", "-ec", f". .venv/bin/activate\n{pasted}\n{USING}"], shell, cwd=project)
        assert re.search(r"^under token \d+\nnightly-report\t\tfree\t", printed, re.MULTILINE)

        finish(["sh", "-ec", PACKAGING], shell, cwd=project)  # 4
        unzip(project / "function.zip", tmp_path / "task")
        assert _invoked(tmp_path / "task", pasted) == "invoiced 42"
        printed = finish(["sh", "-ec", f". .venv/bin/activate\n{pasted}\nlambda-lock ls"], shell, cwd=project)
        assert "invoice#42\t" in printed


def _invoked(folder: Path, pasted: str) -> object:
    """What the handler of an unpacked zip file returns under awslambdaric, with the variables that were pasted."""
    variables = dict(re.findall(r"^export (\w+)='?(.*?)'?$", pasted, re.MULTILINE))
    assert variables["LAMBDA_LOCK_TABLE"]
    environment = variables | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with LambdaEnvironment("app.handler", folder, environment=environment) as function:
        return function.invoke({"detail": {"customer_id": "42"}}, timeout_seconds=20).result()


def test_what_other_tests_and_ci_run_is_the_same_on_their_pages():
    assert PACKAGING in (ROOT / "docs" / "packaging.md").read_text()
    assert CDK in (ROOT / "docs" / "deploy.md").read_text()
    assert "`make deploy-local`" in PAGE
    assert re.search(r"^run .*\bdeploy-local\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert "npx cdk deploy\n" in (ROOT / "docs" / "infra.md").read_text()
