"""Tests of minutes run again where what they depend on has changed, and what is noted is what has passed."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from rig.engine import ROOT
from tests.prove import noted
from tests.prove.noted import KINDS, Kind, digest, main

KIND = {"planted": Kind("planted", {"greenlets": ("lambda_lock/errors.py",)})}
NOW = digest(["lambda_lock/errors.py", "tests/greenlets"])


@pytest.fixture(autouse=True)
def in_ci(monkeypatch):
    monkeypatch.setenv("CI", "true")


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
    tests = tmp_path / "tests"
    for folder in ("one", "two", "three"):
        (tests / folder).mkdir(parents=True)
    (tests / "one" / "test_it.py").write_text("from tests.two import helper\nRUN = ['-m', 'tests.three']\n")
    (tests / "two" / "helper.py").write_text("from .further import name\n")
    for file in ("two/further.py", "two/another.py", "three/__main__.py"):
        (tests / file).write_text("")
    before = digest(["tests/one"], tmp_path)
    changes = {}
    for file in ("two/helper.py", "two/further.py", "two/another.py", "three/__main__.py"):
        text = (tests / file).read_text()
        (tests / file).write_text(f"{text}pass\n")
        changes[file] = digest(["tests/one"], tmp_path) != before
        (tests / file).write_text(text)
    assert changes == {file: file != "two/another.py" for file in changes}


def test_nothing_runs_where_nothing_has_changed_unless_it_is_asked_for(tmp_path, monkeypatch, capsys):
    file = tmp_path / "noted.json"
    ran: list[str] = []

    class Done:
        returncode = 0

    def run(command: list[str], **_: object) -> type[Done]:
        ran.append(command[-1])
        return Done

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(noted, "SHORT", False)
    assert main(["planted", "-k", "one of them"], KIND, file) == 0
    assert not file.exists()
    ran.clear()
    assert main(["planted", "--", "--numprocesses", "2"], KIND, file) == 0
    assert json.loads(file.read_text()) == {"planted": {"greenlets": NOW}}
    assert main(["planted"], KIND, file) == 0
    assert ran == ["tests/greenlets"]
    assert "passed on the same files: greenlets" in capsys.readouterr().out
    assert main(["planted", "--all"], KIND, file) == 0
    file.write_text('{"planted": {"greenlets": "another"}}')
    Done.returncode = 1
    assert main(["planted"], KIND, file) == 1
    assert ran == ["tests/greenlets"] * 3
    assert json.loads(file.read_text()) == {"planted": {"greenlets": "another"}}


def test_what_depends_on_much_else_always_runs_and_is_not_noted(tmp_path, monkeypatch):
    file = tmp_path / "noted.json"
    ran: list[list[str]] = []

    class Done:
        returncode = 0

    def run(command: list[str], **_: object) -> type[Done]:
        ran.append([part for part in command if part.startswith("tests/")])
        return Done

    monkeypatch.setattr(subprocess, "run", run)
    kinds = {"slow": Kind("slow", {"greenlets": ()}, ("docs",))}
    assert [main(["slow"], kinds, file) for _ in range(2)] == [0, 0]
    assert ran == [["tests/greenlets", "tests/docs"], ["tests/docs"]]
    assert [name.partition(",")[0] for name in json.loads(file.read_text())["slow"]] == ["greenlets"]


def test_folders_that_are_named_run_alone(tmp_path, monkeypatch):
    ran: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.extend(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert main(["planted", "tests/core"], KIND, tmp_path / "noted.json") == 0
    assert [part for part in ran if part.startswith("tests/")] == ["tests/core"]


def test_nothing_is_noted_where_tests_whose_programs_are_missing_are_skipped(tmp_path, monkeypatch):
    monkeypatch.delenv("CI")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    assert main(["planted"], KIND, tmp_path / "noted.json") == 0
    assert not (tmp_path / "noted.json").exists()


def test_what_passed_in_the_short_form_is_enough_for_the_short_form_only(tmp_path, monkeypatch):
    file = tmp_path / "noted.json"
    ran: list[bool] = []

    class Done:
        returncode = 0

    def run(*_: object, **__: object) -> type[Done]:
        ran.append(short)
        return Done

    monkeypatch.setattr(subprocess, "run", run)
    for short in (True, True, False, True, False):
        monkeypatch.setattr(noted, "SHORT", short)
        assert main(["planted"], KIND, file) == 0
    assert ran == [True, False]
    assert list(json.loads(file.read_text())["planted"]) == ["greenlets", "greenlets, in the short form"]
    file.write_text(json.dumps({"planted": {"greenlets": NOW}}))
    monkeypatch.setattr(noted, "SHORT", True)
    assert main(["planted"], KIND, file) == 0
    assert ran == [True, False]


def test_each_folder_that_plants_mistakes_is_known_and_what_a_folder_depends_on_exists():
    mark = re.compile(r"^(@|pytestmark = .*)pytest\.mark\.planted", re.MULTILINE)
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if mark.search(file.read_text())]
    marked = {file.relative_to(ROOT / "tests").parts[0] for file in files}
    assert marked == KINDS["planted"].judged.keys()
    for kind in KINDS.values():
        assert all((ROOT / name).exists() for names in kind.judged.values() for name in names)
        assert all((ROOT / "tests" / name).is_dir() for name in (*kind.judged, *kind.always))
