"""Planted mistakes are tried again where the code or the judge has changed, and what is noted is what was noticed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from rig.engine import ROOT
from tests.prove import planted
from tests.prove.planted import JUDGED, digest, main

ONE: dict[str, tuple[str, ...]] = {"greenlets": ("lambda_lock/errors.py",)}


def test_a_digest_changes_with_each_file_its_name_and_its_content(tmp_path):
    (tmp_path / "a").mkdir()
    found = [digest(["a"], tmp_path)]
    for name, text in (("a/one.py", ""), ("a/two.py", ""), ("a/two.py", "pass\n"), ("a/three.py", "pass\n")):
        (tmp_path / name).write_text(text)
        found.append(digest(["a"], tmp_path))
    assert len(set(found)) == len(found)
    (tmp_path / "a" / "notes.md").write_text("")
    assert digest(["a"], tmp_path) == found[-1]


def test_nothing_runs_where_nothing_has_changed_unless_it_is_asked_for(tmp_path, monkeypatch, capsys):
    noted = tmp_path / "noted.json"
    ran: list[str] = []

    class Done:
        returncode = 0

    def run(command: list[str], **_: object) -> type[Done]:
        ran.append(command[-1])
        return Done

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(planted, "SHORT", False)
    assert main(["-k", "one of them"], ONE, noted) == 0
    assert not noted.exists()
    ran.clear()
    assert main(["--", "--numprocesses", "2"], ONE, noted) == 0
    assert json.loads(noted.read_text()) == {"greenlets": digest(["lambda_lock/errors.py", "tests/greenlets"])}
    assert main([], ONE, noted) == 0
    assert ran == ["tests/greenlets"]
    assert "in the same files" in capsys.readouterr().out
    assert main(["--all"], ONE, noted) == 0
    noted.write_text('{"greenlets": "another"}')
    Done.returncode = 1
    assert main([], ONE, noted) == 1
    assert ran == ["tests/greenlets"] * 3
    assert json.loads(noted.read_text()) == {"greenlets": "another"}


def test_what_the_short_form_has_noticed_is_enough_for_the_short_form_only(tmp_path, monkeypatch):
    noted = tmp_path / "noted.json"
    ran: list[bool] = []

    class Done:
        returncode = 0

    def run(*_: object, **__: object) -> type[Done]:
        ran.append(short)
        return Done

    monkeypatch.setattr(subprocess, "run", run)
    for short in (True, True, False, True, False):
        monkeypatch.setattr(planted, "SHORT", short)
        assert main([], ONE, noted) == 0
    assert ran == [True, False]
    assert list(json.loads(noted.read_text())) == ["greenlets", "greenlets, in the short form"]
    noted.write_text(json.dumps({"greenlets": digest(["lambda_lock/errors.py", "tests/greenlets"])}))
    monkeypatch.setattr(planted, "SHORT", True)
    assert main([], ONE, noted) == 0
    assert ran == [True, False]


def test_each_folder_that_plants_mistakes_is_known_and_what_it_judges_exists():
    marked = {file.relative_to(ROOT / "tests").parts[0] for file in (ROOT / "tests").rglob("test_*.py")
              if "mark.planted" in file.read_text() and file != Path(__file__)}  # fmt: skip
    assert marked == JUDGED.keys()
    assert all((ROOT / name).exists() for names in JUDGED.values() for name in names)
