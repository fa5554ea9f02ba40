"""The proof runs its parts, adds up what they count, and fails where one of them does, or is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.prove.__main__ import main
from tests.prove.parts import COUNTED, PARTS, Part
from tests.prove.report import BEGIN, END

COUNTS = {"simulated grants": ("grants",), "real kills and freezes": ("happened.killed", "happened.frozen")}


class Program(Part):
    """A part that is a Python expression for its figures, and ends with the status that it is given."""

    is_missing = False

    def command(self, long: bool, file: Path) -> list[str]:
        figures, status = self.short
        write = f"open({str(file)!r}, 'w').write({figures!r})" if figures else "None"
        return [sys.executable, "-c", f"import sys; {write}; sys.exit({status})"]


def program(name: str, figures: str, status: int = 0) -> Part:
    return Program(name, "tests.prove", (figures, str(status)), counts=COUNTS | {"double holders": ("double_holders",)})


def prove(folder: Path, *parts: Part, arguments: list[str] | None = None) -> int:
    (folder / "safety.md").write_text(f"Before.\n\n{BEGIN}\n\nof before\n\n{END}\n\nAfter.\n")
    return main(arguments or [], parts, folder, folder / "figures.md")


def last_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()[-len(COUNTED) :]


def test_the_figures_of_all_parts_are_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = program("one", '{"grants": 2000, "happened": {"killed": 3, "forked": 9}, "double_holders": 0}')
    two = program("two", '{"grants": 1, "happened": {"frozen": 4}}')
    assert prove(tmp_path, one, two) == 0
    assert last_lines(capsys) == [
        "states explored: 0",
        "mutants killed: 0 of 0",
        "simulated grants: 2001",
        "histories checked: 0",
        "real kills and freezes: 7",
        "inputs fuzzed: 0",
        "double holders: 0",
    ]
    left = json.loads((tmp_path / "prove.json").read_text())
    assert left["passed"]
    assert left["parts"]["one"]["figures"]["grants"] == 2000
    page = (tmp_path / "figures.md").read_text()
    assert "simulated grants: 2001" in page
    assert "- happened: forked 9, killed 3" in page
    quoting = (tmp_path / "safety.md").read_text()
    assert "simulated grants: 2001\n" in quoting
    assert quoting.startswith(f"Before.\n\n{BEGIN}\n")
    assert quoting.endswith(f"{END}\n\nAfter.\n")
    assert "of before" not in quoting


def test_a_part_that_gives_way_runs_beside_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Waiting(Program):
        def command(self, long: bool, file: Path) -> list[str]:
            other = str(file.parent / "other.json")
            wait = f"import os, time\nwhile not os.path.exists({other!r}): time.sleep(0.01)"
            return [sys.executable, "-c", f"print('one'); {wait}\nopen({str(file)!r}, 'w').write('{{\"grants\": 1}}')"]

    aside = Waiting("aside", "tests.prove", counts=COUNTS, aside=True)
    assert prove(tmp_path, aside, program("other", '{"grants": 2}')) == 0
    assert "simulated grants: 3" in last_lines(capsys)
    assert (tmp_path / "prove" / "aside.log").read_text() == "one\n"


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(program("bad", '{"grants": 5, "double_holders": 1}', 1), id="ended with 1"),
        pytest.param(program("bad", ""), id="wrote no figures"),
        pytest.param(program("bad", "{"), id="wrote half its figures"),
        pytest.param(Part("bad", "tests.not_there", counts=COUNTS), id="is missing"),
    ],
)
def test_one_part_that_did_not_pass_fails_the_proof(
    part: Part, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prove(tmp_path, program("good", '{"grants": 1}'), part) == 1
    output = capsys.readouterr().out
    assert "bad: missing" in output or "bad: failed" in output
    assert not json.loads((tmp_path / "prove.json").read_text())["passed"]


def test_a_run_of_some_parts_leaves_the_page_alone(tmp_path: Path) -> None:
    assert prove(tmp_path, program("one", '{"grants": 1}'), program("two", "", 1), arguments=["--only", "one"]) == 0
    assert not (tmp_path / "figures.md").exists()
    assert "of before" in (tmp_path / "safety.md").read_text()


def test_figures_of_a_run_before_are_not_counted_again(tmp_path: Path) -> None:
    assert prove(tmp_path, program("one", '{"grants": 1}')) == 0
    assert prove(tmp_path, program("one", "")) == 1


def test_a_name_that_no_part_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        prove(tmp_path, program("one", "{}"), arguments=["--only", "other"])
    assert "there are one" in capsys.readouterr().err


def test_what_the_parts_count_has_its_line_and_each_line_its_part() -> None:
    counted = {line for part in PARTS for line in part.counts}
    assert counted == {*COUNTED, "mutants"}
