"""The proof runs its parts, adds up what they count, and fails where one of them does, or is missing."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.engine import ROOT
from tests.prove import bench
from tests.prove.__main__ import alone, judge, main
from tests.prove.parts import COUNTED, PARTS, Part, objection
from tests.prove.report import BEGIN, END
from tests.support.installed import finish
from tests.support.waiting import wait_until

COUNTS = ("simulated grants", "real kills and freezes")


_START = """
import os, pathlib, signal, subprocess, sys, time
file, name = pathlib.Path(sys.argv[1]), sys.argv[2]
folder = file.parent
def start(**options):
    program = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", program], **options)
    (folder / f"{name}.new").write_text(str(child.pid))
    (folder / f"{name}.new").rename(folder / f"{name}.child")
"""


class Script(Part):
    """A part that is a Python script. It knows its folder and the file of its figures as `folder` and `file`.

    A process that it starts leaves its id in the folder.
    """

    is_missing = False

    def command(self, long: bool, file: Path) -> list[str]:
        return [sys.executable, "-c", _START + self.short, str(file), self.name]


def script(name: str, text: str, **options: Any) -> Part:
    return Script(name, "tests.prove", text, **options)


def program(name: str, figures: str, counts: tuple[str, ...] = (*COUNTS, "double holders"), status: int = 0) -> Part:
    """A part that writes these figures, if there are any, and ends with this status."""
    write = f"file.write_text({figures!r})\n" if figures else ""
    return script(name, f"{write}sys.exit({status})", counts=counts)


def grants(name: str, number: int) -> Part:
    return program(name, f'{{"simulated grants": {number}}}', COUNTS[:1])


def wait_for_the_end(folder: Path, name: str) -> None:
    status = Path("/proc", (folder / "prove" / f"{name}.child").read_text(), "status")
    wait_until(lambda: not status.exists() or "\nState:\tZ" in status.read_text())


def figures(grants: object = 1, *, kills: int = 1, holders: int = 0) -> str:
    return f'{{"simulated grants": {grants}, "real kills and freezes": {kills}, "double holders": {holders}}}'


def prove(folder: Path, *parts: Part) -> int:
    (folder / "safety-evidence.md").write_text(f"Before.\n\n{BEGIN}\n\nof before\n\n{END}\n\nAfter.\n")
    return main([], parts, folder, folder / "figures.md")


def last_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()[-len(COUNTED) :]


def test_the_figures_of_all_parts_are_added_up(tmp_path, capsys):
    two = program("two", figures(1, kills=4))
    one = program("one", figures(2000, kills=3)[:-1] + ', "happened": {"killed": 3, "forked": 9}}')
    assert prove(tmp_path, one, two) == 0
    counted = {"mutants killed": "0 of 0", "simulated grants": "2001", "real kills and freezes": "7"}
    assert last_lines(capsys) == [f"{name}: {counted.get(name, '0')}" for name in COUNTED]
    left = json.loads((tmp_path / "prove.json").read_text())
    assert left["passed"]
    assert left["parts"]["one"]["figures"]["simulated grants"] == 2000
    page = (tmp_path / "figures.md").read_text()
    assert "simulated grants: 2001" in page
    assert re.search(r"It ran on (commit [0-9a-f]{7,}|an unknown commit)", page)
    assert "- happened: forked 9, killed 3" in page
    quoting = (tmp_path / "safety-evidence.md").read_text()
    assert re.fullmatch(rf"Before\.\n\n{BEGIN}\n.*simulated grants: 2001\n.*{END}\n\nAfter\.\n", quoting, re.DOTALL)
    assert "of before" not in quoting


BAD = {
    "ended with 1": program("bad", figures(), status=1),
    "has a double holder": program("bad", figures(holders=1)),
    "is missing": Part("bad", "tests.not_there", counts=COUNTS),
}


@pytest.mark.parametrize("part", BAD.values(), ids=BAD)
def test_one_part_that_did_not_pass_fails_the_proof(part, tmp_path, capsys):
    assert prove(tmp_path, grants("good", 1), part) == 1
    output = capsys.readouterr().out
    assert "bad: missing (" in output or "bad: failed (" in output
    assert not json.loads((tmp_path / "prove.json").read_text())["passed"]


def test_figures_that_are_missing_or_no_counts_are_no_proof(tmp_path):
    part, file = program("bad", ""), tmp_path / "figures.json"
    assert judge(part, file)[2]
    counts = ('"5"', "null", "-1", "true", "NaN", "1.5", "{}", "0")
    for wrong in ("{", "[1]", '{"simulated grants": 1, "real kills and freezes": 1}', *map(figures, counts)):
        file.write_text(wrong)
        assert judge(part, file)[2], wrong
    file.write_text(figures())
    assert not judge(part, file)[2]
    file.write_text('{"mutants killed": 2, "mutants": 3}')
    assert judge(program("bad", "", ("mutants killed", "mutants")), file)[2] == "mutants killed: 2 of 3"


def test_figures_of_a_run_before_are_not_counted_again(tmp_path):
    assert prove(tmp_path, grants("one", 1)) == 0
    assert prove(tmp_path, program("one", "", COUNTS[:1])) == 1


@pytest.mark.long
@pytest.mark.parametrize("aside", [False, True])
def test_a_part_that_hangs_is_ended_at_its_limit_with_all_that_it_started(aside, tmp_path, capsys):
    """Its child has a session of its own, and ignores interrupts."""
    hangs = script("hangs", "start(start_new_session=True); time.sleep(600)", aside=aside, limits=(0.05, 1))
    assert prove(tmp_path, hangs, grants("other", 2)) == 1
    assert "hangs: failed (it was ended after 0.05 minutes, its limit)" in capsys.readouterr().out
    assert json.loads((tmp_path / "prove.json").read_text())["parts"]["other"]["status"] == "passed"
    wait_for_the_end(tmp_path, "hangs")


def test_a_second_proof_in_the_same_folder_is_refused(tmp_path):
    with alone(tmp_path / "prove"), pytest.raises(SystemExit, match="another proof"):
        prove(tmp_path, grants("one", 1))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("simulation", "simulation --runs 3"),
        pytest.param("drivers", "drivers --minutes 0.01 --only 'acquire: fork'", marks=pytest.mark.prove),
        pytest.param("fuzzing", "fuzzing --minutes 0.02", marks=pytest.mark.prove),
        pytest.param("races", "races --stride 50 --only 'release / commit'", marks=pytest.mark.prove),
        pytest.param("races-mutants", "races --mutants 'the end of a lock'", marks=pytest.mark.prove),
    ],
)
def test_a_proof_writes_what_its_part_counts(name, arguments, tmp_path):
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "tests.prove", *shlex.split(arguments), "--json", str(file)]
    finish(command, dict(os.environ), cwd=ROOT)
    (part,) = (part for part in PARTS if part.name == name)
    assert objection(part.count(json.loads(file.read_text()))) == ""


def test_a_mutant_that_no_name_has_is_no_proof_and_one_that_nothing_has_shown_fails_it(capsys):
    assert main(["simulation", "--mutants", "no such rule"]) == 2
    assert "no name contains 'no such rule'" in capsys.readouterr().err
    figures = bench.planted([("one", "two holders"), ("two", "")])
    assert figures == {"mutants killed": 1, "mutants": 2, "survivors": ["two"], "good": False}
    assert capsys.readouterr().out == "  one: noticed: two holders\n  two: NOT NOTICED\n"
    assert list(bench.lines(figures)) == ["mutants killed: 1 of 2"]
    assert not bench.planted([])["good"]


def test_what_the_parts_count_has_its_line_and_each_line_its_part():
    counted = {line for part in PARTS for line in part.counts}
    assert counted == {*COUNTED, "mutants"}
