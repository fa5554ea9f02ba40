"""What is said in more than one file of the project is said alike, and what a file names exists."""

import re
import shlex
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

import lambda_lock
from rig import pythons
from rig.engine import ROOT

_MAKEFILE = (ROOT / "Makefile").read_text()
_WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").iterdir()}
_WORKFLOW = _WORKFLOWS["ci"]
_DEPENDABOT = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())
_HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
_PINNED = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE))
_FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
_PAGES = [
    ROOT / name for name in ("CODE_OF_CONDUCT.md", "SECURITY.md", "RELEASING.md", "CONTRIBUTING.md", "CHANGELOG.md")
]


def _of_ci_run() -> set[str]:
    """The targets of .ci/run."""
    text = (ROOT / ".ci" / "run").read_text()
    calls = re.findall(r"^(?:run|tests) ([\w -]+?)(?: --.*)?(?: #.*)?$", text, re.MULTILINE)
    return {target for call in calls for target in call.split()} - {"environments"}  # what the others need


def test_the_workflow_and_ci_run_call_the_same_targets_with_the_same_settings_and_make_has_them():
    (job,) = _WORKFLOW["jobs"].values()
    assert job["steps"][-1] == {"run": "make ${{ matrix.targets }}"}
    assert {target for targets in job["strategy"]["matrix"]["targets"] for target in targets.split()} == _of_ci_run()
    assert len(_of_ci_run()) >= 8
    assert _of_ci_run() <= set(re.findall(r"^([a-z-]+):", _MAKEFILE, re.MULTILINE))
    exported = dict(re.findall(r"^export (\w+)=(\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert _WORKFLOW["env"] == exported


def test_the_weekly_proof_is_made_by_the_target_that_users_call():
    (job,) = _WORKFLOWS["prove"]["jobs"].values()
    ran = [step["run"].split()[:2] for step in job["steps"] if "run" in step]
    assert ran == [["make", "peers"], ["make", "test-planted"], ["make", "prove"], ["make", "one-token"]]


def test_the_workflow_of_the_proof_says_how_long_its_figures_are_kept():
    (kept,) = (step["with"] for step in _WORKFLOWS["prove"]["jobs"]["prove"]["steps"] if "upload-artifact" in str(step))
    for page in (".github/workflows/prove.yml", "docs/safety-evidence.md"):
        said = re.findall(r"figures\b[^.]*? for (.+?)[:.]", " ".join((ROOT / page).read_text().split()))
        assert said == [f"{kept['retention-days']} days"], page


@pytest.mark.parametrize("name", sorted(_WORKFLOWS))
def test_a_workflow_may_only_read_and_only_what_publishes_may_prove_who_it_is(name):
    assert _WORKFLOWS[name]["permissions"] == {"contents": "read"}
    jobs = {job: more["permissions"] for job, more in _WORKFLOWS[name]["jobs"].items() if "permissions" in more}
    assert jobs == ({"publish": {"id-token": "write", "attestations": "write"}} if name == "release" else {})


def test_each_action_is_pinned_by_its_digest_with_its_version_beside_it_and_alike_everywhere():
    """A tag can be moved to other code by whoever takes over an action; a digest cannot."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / ".github" / "workflows").iterdir():
        for used in re.findall(r"uses: *(.*)", path.read_text()):
            pin = re.fullmatch(r"([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+", used)
            assert pin, f"{path.name}: {used}"
            found.setdefault(pin[1], set()).add(used)
    assert found
    assert [pins for pins in found.values() if len(pins) > 1] == []


def test_dependabot_looks_at_the_actions_and_at_the_pins_of_the_checks():
    updates = {one["package-ecosystem"]: one for one in _DEPENDABOT["updates"]}
    assert updates["github-actions"]["directory"] == "/"
    assert updates["pip"]["directory"] == "/requirements"
    folder = ROOT / "requirements"
    for excluded in updates["pip"]["exclude-paths"]:
        assert list(folder.glob(excluded)), excluded
    for ignored in updates["pip"]["ignore"]:
        assert any(f"{ignored['dependency-name']}==" in path.read_text() for path in folder.glob("*.in")), ignored


def test_each_file_has_an_owner():
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    assert all(owner.startswith("@") for _, *owners in rules for owner in owners)
    assert rules[0][0] == "*"


def test_what_publishes_a_release_runs_nothing_but_pinned_actions_on_what_was_built_before():
    workflow = _WORKFLOWS["release"]
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert "make build" in [step.get("run") for step in build["steps"]]
    assert publish["needs"] == "build"
    assert publish["environment"]["name"] == "pypi"
    actions = [step["uses"].partition("@")[0] for step in publish["steps"]]
    assert actions == ["actions/download-artifact", "actions/attest", "pypa/gh-action-pypi-publish"]
    assert not [step for step in publish["steps"] if "password" in step.get("with", {})]
    assert ".github/workflows/release.yml" in (ROOT / "RELEASING.md").read_text()


def test_the_workflows_go_is_the_one_that_the_checker_of_histories_asks_for():
    (go,) = re.findall(r"^go (\S+)$", (ROOT / "tests" / "histories" / "checker" / "go.mod").read_text(), re.MULTILINE)
    jobs = [job for workflow in _WORKFLOWS.values() for job in workflow["jobs"].values()]
    used = [step["with"]["go-version"] for job in jobs for step in job["steps"] if "setup-go@" in step.get("uses", "")]
    assert used == [".".join(go.split(".")[:2])]


def test_each_target_that_tests_other_clients_has_them_installed_first():
    (job,) = _WORKFLOW["jobs"].values()
    for targets in job["strategy"]["matrix"]["targets"]:
        *before, target = targets.split()
        assert before == (["peers"] if target in ("test", "test-slow", "test-dynamodb-local") else []), targets


def test_the_folders_around_the_library_are_those_that_the_page_of_the_tests_names():
    (around,) = re.findall(r"^AROUND := \$\(addprefix tests/,(.*)\)$", _MAKEFILE, re.MULTILINE)
    library, others = (ROOT / "tests" / "README.md").read_text().split("\n## Around the library\n")
    named = [set(re.findall(r"^\| `(\w+)/` ", part, re.MULTILINE)) for part in (library, others)]
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    folders |= {path.parents[1].name for path in (ROOT / "tests").glob("*/*/test_*.py")}
    assert named == [folders - set(around.split()), set(around.split())]


def _of_the_workflow_pythons() -> list[str]:
    (job,) = _WORKFLOW["jobs"].values()
    (python,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    return re.sub("#.*", "", python["python-version"]).split()


def test_the_versions_that_are_claimed_are_those_that_the_workflow_installs_and_the_tests_run_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = re.findall(r"Programming Language :: Python :: (3\.\d+)", " ".join(project["classifiers"]))
    limits = tomllib.loads((ROOT / "benchmarks" / "limits.toml").read_text())
    assert limits["modules"]["python"] == _of_the_workflow_pythons()[-1]
    assert list(pythons.CLAIMED) == claimed == sorted(_of_the_workflow_pythons(), key=lambda text: int(text[2:]))
    assert project["requires-python"] == f">={claimed[0]}"
    assert f"Python {claimed[0]} to {claimed[-1]}" in (ROOT / "README.md").read_text().partition("## State")[2]
    assert f"<version>{claimed[-1]}." in (ROOT / "rig" / "python" / "pom.xml").read_text()
    assert f"python{claimed[-1]} --version" in _MAKEFILE
    for name in ("tests/runtime/test_ending.py", *(f"tests/{folder}" for folder in (*pythons.NEWEST, *pythons.OTHERS))):
        assert (ROOT / name).exists()


def test_the_hooks_run_the_checks_of_make_check_on_its_files_with_its_tools():
    assert {repo["repo"] for repo in _HOOKS} == {"local"}  # so that nothing else pins a tool
    hooks = [hook for repo in _HOOKS for hook in repo["hooks"]]
    wanted = dict(tool.split("==") for hook in hooks for tool in hook.get("additional_dependencies", []))
    assert wanted
    assert wanted.items() <= _PINNED.items(), "run 'make requirements', then set them in .pre-commit-config.yaml"
    (sources,) = re.findall(r"^SOURCES := \$\(wildcard (.*)\)$", _MAKEFILE, re.MULTILINE)
    pattern = f"^({'|'.join(map(re.escape, sources.split()))})(/|$)"
    assert {hook["files"] for hook in hooks if "files" in hook} == {pattern}
    recipe = _MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0]
    entries = {shlex.split(hook["entry"])[1] for hook in hooks if "files" in hook}
    assert entries == set(re.findall(r"\$\(BIN\)/ruff (\w+)", recipe))


def test_the_version_is_written_in_one_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version", "readme"]
    path = project["tool"]["hatch"]["version"]["path"]
    assert f'\n__version__ = "{lambda_lock.__version__}"\n' in (ROOT / path).read_text()
    sources = [source for source in (ROOT / "lambda_lock").rglob("*.py") if source != ROOT / path]
    assert not [source for source in sources if f'"{lambda_lock.__version__}"' in source.read_text()]


def test_where_an_extra_is_listed_that_goes_with_no_other_the_way_to_have_both_is_said():
    """`local` pins botocore below what `durable` needs: pip refuses the two together."""
    for page in ("README.md", "docs/getting-started.md", "docs/command-line.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert "`durable`" in text, page
        assert "pipx install ministack" in text, page
    assert "`local` cannot be installed beside it" in " ".join((ROOT / "docs" / "durable.md").read_text().split())


def test_an_extra_takes_no_next_version_of_a_library_that_is_still_changing():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in ("cdk", "durable"):
        assert all(re.search(r",<\d+$", wanted) for wanted in extras[name]), name


def test_the_readme_and_the_changelog_know_the_version_and_what_is_not_released():
    major_and_minor = ".".join(lambda_lock.__version__.split(".")[:2])
    assert f"Version {major_and_minor}." in (ROOT / "README.md").read_text().partition("## State")[2]
    headings = re.findall(r"^##+ .*", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["## Unreleased", "### Not yet"]
    released = [found[1] for heading in headings if (found := re.match(r"## (\d\S+?),", heading))]
    assert released[:1] in ([], [lambda_lock.__version__])


def test_what_is_not_there_yet_is_refused_or_absent():
    """Each entry of the list has its check here: one that came true must leave the list."""
    text = (ROOT / "CHANGELOG.md").read_text().partition("### Not yet\n")[2].partition("\n#")[0]
    entries = re.findall(r"^- (.*?)(?=\n- |\Z)", text.strip(), re.MULTILINE | re.DOTALL)
    names = {name.lower() for name in lambda_lock.__all__}
    still_missing = {
        "A run on AWS itself": "has been run on AWS itself so far" in (ROOT / "docs" / "verified.md").read_text(),
        "Read-write locks": not any(re.match("(with_)?(read|shared)", name) for name in names),
        "Tables that are replicated": "is replicated to" in (ROOT / "lambda_lock" / "table.py").read_text(),
        "`lambda-lock run` on Windows": "pthread_sigmask" in (ROOT / "lambda_lock" / "cli" / "run.py").read_text(),
    }
    for entry in entries:
        known = [beginning for beginning in still_missing if entry.startswith(beginning)]
        assert known, f"add a check for: {entry}"
        assert still_missing[known[0]], f"no longer true: {entry}"


@pytest.mark.parametrize("form", _FORMS, ids=lambda form: form.name)
def test_a_form_is_one_that_the_host_can_show(form):
    read: dict[str, Any] = yaml.safe_load(form.read_text())
    if form.name == "config.yml":
        assert all(link.keys() == {"name", "url", "about"} for link in read["contact_links"])
        return
    assert {"name", "description", "body"} <= read.keys()
    ids = [field["id"] for field in read["body"]]
    assert len(ids) == len(set(ids))
    for kind, attributes in ((field["type"], field["attributes"]) for field in read["body"]):
        assert kind in ("textarea", "input", "dropdown", "checkboxes", "markdown")
        assert attributes["label"]
        assert kind not in ("dropdown", "checkboxes") or attributes["options"]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_each_file_that_a_page_of_the_project_links_to_exists(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_code_of_conduct_names_its_source_and_whom_to_ask():
    text = " ".join((ROOT / "CODE_OF_CONDUCT.md").read_text().split())
    assert "Contributor Covenant, version 2.1" in text
    assert "https://github.com/lambda-lock/lambda-lock/security/advisories/new" in text


@pytest.mark.parametrize(
    "name", ["CODE_OF_CONDUCT.md", "RELEASING.md", ".github", ".ci", ".pre-commit-config.yaml", "hatch_build.py"]
)
def test_the_sdist_has_what_these_tests_read(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert name in project["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]


def test_each_target_that_a_page_of_the_project_names_exists():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^  make ([\w-]+)", said, re.MULTILINE))
    for page in (*_PAGES, ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"):
        named = set(re.findall(r"`make ([a-z-]+)", page.read_text()))
        assert named <= targets, page.name
