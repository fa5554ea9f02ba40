"""What is said in more than one file of the project is said alike, and what a file names exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import lambda_lock
from rig.engine import ROOT

_MAKEFILE = (ROOT / "Makefile").read_text()
_WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").iterdir()}
_WORKFLOW = _WORKFLOWS["ci"]
_HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
_PINNED = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE))
_FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
_PAGES = [
    ROOT / name for name in ("CODE_OF_CONDUCT.md", "SECURITY.md", "RELEASING.md", "CONTRIBUTING.md", "CHANGELOG.md")
]


def _of_ci_run() -> set[str]:
    """The targets of .ci/run."""
    calls = re.findall(r"^(?:run|tests) ([\w -]+?)(?: #.*)?$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    return {target for call in calls for target in call.split()}


def _of_the_workflow() -> set[str]:
    (job,) = _WORKFLOW["jobs"].values()
    return {target for targets in job["strategy"]["matrix"]["targets"] for target in targets.split()}


def test_the_workflow_and_ci_run_call_the_same_targets_and_make_has_them() -> None:
    assert _of_the_workflow() == _of_ci_run()
    assert len(_of_ci_run()) >= 8
    assert _of_ci_run() <= set(re.findall(r"^([a-z-]+):", _MAKEFILE, re.MULTILINE))


def test_the_workflow_runs_make_with_the_settings_of_ci_run() -> None:
    (job,) = _WORKFLOW["jobs"].values()
    assert job["steps"][-1] == {"run": "make ${{ matrix.targets }}"}
    exported = dict(re.findall(r"^export (\w+)=(\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert _WORKFLOW["env"] == exported


def test_the_weekly_proof_is_made_by_the_target_that_users_call() -> None:
    (job,) = _WORKFLOWS["prove"]["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["make test-prove", "make prove"]


@pytest.mark.parametrize("name", sorted(_WORKFLOWS))
def test_a_workflow_may_only_read(name: str) -> None:
    assert _WORKFLOWS[name]["permissions"] == {"contents": "read"}


def test_the_workflows_go_is_the_one_that_the_checker_of_histories_asks_for() -> None:
    (go,) = re.findall(r"^go (\S+)$", (ROOT / "tests" / "histories" / "checker" / "go.mod").read_text(), re.MULTILINE)
    jobs = [job for workflow in _WORKFLOWS.values() for job in workflow["jobs"].values()]
    used = [step["with"]["go-version"] for job in jobs for step in job["steps"] if "setup-go@" in step.get("uses", "")]
    assert used == [".".join(go.split(".")[:2])]


def test_each_target_that_tests_other_clients_has_them_installed_first() -> None:
    (job,) = _WORKFLOW["jobs"].values()
    for targets in job["strategy"]["matrix"]["targets"]:
        *before, target = targets.split()
        assert before == (["peers"] if target in ("test", "test-slow", "test-dynamodb-local") else []), targets


def test_the_workflows_python_is_the_one_whose_figures_the_limits_are() -> None:
    (job,) = _WORKFLOW["jobs"].values()
    (python,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    limits = tomllib.loads((ROOT / "benchmarks" / "limits.toml").read_text())
    assert limits["modules"]["python"] == python["python-version"]


def test_the_hooks_have_the_tools_in_the_versions_of_the_checks() -> None:
    wanted = [tool for repo in _HOOKS for hook in repo["hooks"] for tool in hook.get("additional_dependencies", [])]
    assert wanted
    for tool in wanted:
        name, _, version = tool.partition("==")
        assert _PINNED[name] == version, f"run 'make requirements', then set {name} in .pre-commit-config.yaml"


def test_the_hooks_look_at_the_files_that_make_check_looks_at() -> None:
    (sources,) = re.findall(r"^SOURCES := \$\(wildcard (.*)\)$", _MAKEFILE, re.MULTILINE)
    pattern = f"^({'|'.join(map(re.escape, sources.split()))})(/|$)"
    assert {hook["files"] for repo in _HOOKS for hook in repo["hooks"] if "files" in hook} == {pattern}


def test_the_hooks_of_a_commit_and_make_check_run_the_same_checks() -> None:
    entries = {shlex.split(hook["entry"])[1] for repo in _HOOKS for hook in repo["hooks"] if "files" in hook}
    recipe = _MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0]
    assert entries == set(re.findall(r"\$\(BIN\)/ruff (\w+)", recipe))


def test_every_hook_is_local_so_that_nothing_else_pins_a_tool() -> None:
    assert {repo["repo"] for repo in _HOOKS} == {"local"}


def test_the_version_is_written_in_one_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version", "readme"]
    path = project["tool"]["hatch"]["version"]["path"]
    assert (ROOT / path).read_text() == f'__version__ = "{lambda_lock.__version__}"\n'
    sources = [source for source in (ROOT / "lambda_lock").rglob("*.py") if source != ROOT / path]
    assert not [source for source in sources if f'"{lambda_lock.__version__}"' in source.read_text()]


def test_the_readme_and_the_changelog_know_the_version() -> None:
    major_and_minor = ".".join(lambda_lock.__version__.split(".")[:2])
    assert f"Version {major_and_minor}." in (ROOT / "README.md").read_text().partition("## State")[2]
    released = re.findall(r"^## (\d\S+?),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[:1] in ([], [lambda_lock.__version__])


def test_the_changelog_begins_with_what_is_not_released_and_not_there_yet() -> None:
    headings = re.findall(r"^##+ .*", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["## Unreleased", "### Not yet"]


def test_what_is_not_there_yet_is_refused_or_absent() -> None:
    """Each entry of the list has its check here: one that came true must leave the list."""
    text = (ROOT / "CHANGELOG.md").read_text().partition("### Not yet\n")[2].partition("\n#")[0]
    entries = re.findall(r"^- (.*?)(?=\n- |\Z)", text.strip(), re.MULTILINE | re.DOTALL)
    names = {name.lower() for name in lambda_lock.__all__}
    still_missing = {
        "A run on AWS itself": "has been run on AWS itself so far" in (ROOT / "docs" / "verified.md").read_text(),
        "Read-write locks": not any(re.match("(with_)?(read|shared)", name) for name in names),
        "Tables that are replicated": "is replicated to" in (ROOT / "lambda_lock" / "table.py").read_text(),
        "`lambda-lock run` on Windows": "pthread_sigmask" in (ROOT / "lambda_lock" / "cli" / "child.py").read_text(),
    }
    for entry in entries:
        known = [beginning for beginning in still_missing if entry.startswith(beginning)]
        assert known, f"add a check for: {entry}"
        assert still_missing[known[0]], f"no longer true: {entry}"


@pytest.mark.parametrize("form", _FORMS, ids=lambda form: form.name)
def test_a_form_is_one_that_the_host_can_show(form: Path) -> None:
    read: dict[str, Any] = yaml.safe_load(form.read_text())
    if form.name == "config.yml":
        assert all(link.keys() == {"name", "url", "about"} for link in read["contact_links"])
        return
    assert {"name", "description", "body"} <= read.keys()
    ids = [field["id"] for field in read["body"]]
    assert len(ids) == len(set(ids))
    for field in read["body"]:
        assert field["type"] in ("textarea", "input", "dropdown", "checkboxes", "markdown")
        assert field["attributes"]["label"]
        assert field["type"] not in ("dropdown", "checkboxes") or field["attributes"]["options"]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_each_file_that_a_page_of_the_project_links_to_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_code_of_conduct_names_its_source_and_whom_to_ask() -> None:
    text = " ".join((ROOT / "CODE_OF_CONDUCT.md").read_text().split())
    assert "Contributor Covenant, version 2.1" in text
    assert "https://github.com/lambda-lock/lambda-lock/security/advisories/new" in text


@pytest.mark.parametrize(
    "name", ["CODE_OF_CONDUCT.md", "RELEASING.md", ".github", ".ci", ".pre-commit-config.yaml", "hatch_build.py"]
)
def test_the_sdist_has_what_these_tests_read(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert name in project["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]


def test_each_target_that_a_page_of_the_project_names_exists() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^  make ([\w-]+)", said, re.MULTILINE))
    for page in (*_PAGES, ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"):
        named = set(re.findall(r"`make ([a-z-]+)", page.read_text()))
        assert named <= targets, page.name
