"""Tests of minutes run again where what they depend on has changed, and what is noted is what has passed."""

import json
import re
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from rig.engine import ROOT
from tests.prove import noted
from tests.prove.noted import KINDS, Kind, digest, main

KIND = {"planted": Kind("planted", {"greenlets": ("lambda_lock/errors.py",)})}
NOW = digest(["lambda_lock/errors.py", "tests/greenlets"])


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """In CI, pytest is not started: ``of`` notes of which folders it would run the tests, and ``status`` is its end."""
    runs = SimpleNamespace(of=[], status=0)

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        runs.of.append([part for part in command if part.startswith("tests/")])
        return subprocess.CompletedProcess(command, runs.status)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(noted, "SHORT", False)
    monkeypatch.setenv("CI", "true")
    return runs


def test_a_digest_changes_with_each_file_its_name_and_its_content(tmp_path):
    (tmp_path / "a").mkdir()
    found = [digest(["a"], tmp_path)]
    for name, text in (("a/one.py", ""), ("a/two.py", ""), ("a/two.py", "pass\n"), ("a/three.py", "pass\n")):
        (tmp_path / name).write_text(text)
        found.append(digest(["a"], tmp_path))
    assert len(set(found)) == len(found)
    (tmp_path / "a" / "notes.md").write_text("")
    assert digest(["a"], tmp_path) == found[-1]


def test_a_digest_changes_with_what_a_folder_of_tests_imports_or_starts(tmp_path):
    files = {
        "one/test_it.py": "from tests.two import (\n    helper,\n)\nRUN = ['-m', 'tests.three']\n",
        "two/helper.py": "from .further import name\n",
        **dict.fromkeys(("two/further.py", "two/another.py", "three/__main__.py"), ""),
    }
    for name, text in files.items():
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(text)
    before = digest(["tests/one"], tmp_path)
    for name, text in files.items():
        (tmp_path / "tests" / name).write_text(f"{text}pass\n")
        assert (digest(["tests/one"], tmp_path) != before) == (name != "two/another.py"), name
        (tmp_path / "tests" / name).write_text(text)


def test_nothing_runs_where_nothing_has_changed_unless_it_is_asked_for(runs, tmp_path, monkeypatch, capsys):
    file = tmp_path / "noted.json"
    assert main(["planted", "-k", "one of them"], KIND, file) == 0
    assert main(["planted", "tests/core"], KIND, file) == 0  # runs alone
    monkeypatch.delenv("CI")  # tests whose programs are missing are skipped
    assert main(["planted"], KIND, file) == 0
    assert runs.of == [["tests/greenlets"], ["tests/core"], ["tests/greenlets"]]
    assert not file.exists()
    monkeypatch.setenv("CI", "true")
    assert main(["planted", "--", "--numprocesses", "2"], KIND, file) == 0
    assert json.loads(file.read_text()) == {"planted": {"greenlets": NOW}}
    runs.of.clear()
    assert main(["planted"], KIND, file) == 0
    assert "passed on the same files: greenlets" in capsys.readouterr().out
    assert runs.of == []
    assert main(["planted", "--all"], KIND, file) == 0
    file.write_text('{"planted": {"greenlets": "another"}}')
    runs.status = 1
    assert main(["planted"], KIND, file) == 1
    assert runs.of == [["tests/greenlets"]] * 2
    assert json.loads(file.read_text()) == {"planted": {"greenlets": "another"}}


def test_what_depends_on_much_else_always_runs_and_is_not_noted(runs, tmp_path):
    file = tmp_path / "noted.json"
    kinds = {"slow": Kind("slow", {"greenlets": ()}, ("docs",))}
    assert [main(["slow"], kinds, file) for _ in range(2)] == [0, 0]
    assert runs.of == [["tests/greenlets", "tests/docs"], ["tests/docs"]]
    assert list(json.loads(file.read_text())["slow"]) == ["greenlets"]


def test_what_passed_in_the_short_form_is_enough_for_the_short_form_only(runs, tmp_path, monkeypatch):
    file = tmp_path / "noted.json"
    for short, runs_again in ((True, True), (True, False), (False, True), (True, False), (False, False)):
        monkeypatch.setattr(noted, "SHORT", short)
        runs.of.clear()
        assert main(["planted"], KIND, file) == 0
        assert bool(runs.of) == runs_again
    assert list(json.loads(file.read_text())["planted"]) == ["greenlets", "greenlets, in the short form"]
    file.write_text(json.dumps({"planted": {"greenlets": NOW}}))
    monkeypatch.setattr(noted, "SHORT", True)
    assert main(["planted"], KIND, file) == 0
    assert runs.of == []


def test_each_folder_that_plants_mistakes_is_known_and_what_a_folder_depends_on_exists():
    mark = re.compile(r"^(@|pytestmark = .*)pytest\.mark\.planted", re.MULTILINE)
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if mark.search(file.read_text())]
    assert {file.relative_to(ROOT / "tests").parts[0] for file in files} == KINDS["planted"].judged.keys()
    for kind in KINDS.values():
        assert all((ROOT / name).exists() for names in kind.judged.values() for name in names)
        assert all((ROOT / "tests" / name).is_dir() for name in (*kind.judged, *kind.always))
