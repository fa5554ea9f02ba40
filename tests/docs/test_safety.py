"""The pages about safety say what is true: what they name is there, and their figures are those of the latest run."""

import importlib
import re
import shlex
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from demo import lease as picture
from lambda_lock.core import lease, protocol
from rig.engine import ROOT
from tests.histories.breaking import BREAKS
from tests.prove.parts import COUNTED, PARTS
from tests.prove.report import BEGIN, END
from tests.simulation.mutations import MUTATIONS
from tests.simulation.schedule import BIASES

PAGE = "\n".join((ROOT / "docs" / f"safety{part}.md").read_text() for part in ("", "-assumptions", "-evidence"))
FIGURES = (ROOT / "docs" / "safety-figures.md").read_text()
_TEXT = " ".join(PAGE.split())

_CODE = re.compile(r"`([^`\n]+)`|^    (\S.*)$", re.MULTILINE)
SAID = [first or second for first, second in _CODE.findall(re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S))]
COMMANDS = sorted({shlex.split(text)[2:][0]: None for text in SAID if text.startswith("python -m ")})


def commands(module: str) -> list[list[str]]:
    """The arguments of each command that runs this module."""
    return [shlex.split(text)[3:] for text in SAID if text.startswith(f"python -m {module}")]


def test_the_page_has_commands_of_all_parts():
    assert {part.module for part in PARTS} <= set(COMMANDS)


@pytest.mark.parametrize("module", COMMANDS)
def test_each_option_in_a_command_exists(module, capsys):
    found = importlib.import_module(module)
    program = importlib.import_module(f"{module}.__main__") if hasattr(found, "__path__") else found
    options = {word for words in commands(module) for word in words if word.startswith("--")}
    if options:
        with pytest.raises(SystemExit):
            program.main(["--help"])
        said = capsys.readouterr().out
        assert [option for option in options if option not in said] == []


def test_each_rule_that_a_command_breaks_is_one_that_the_simulator_can_break_and_is_caught_by_it():
    for words in commands("tests.simulation"):
        options = dict(pairwise(words))
        assert options.get("--broken") in {None, *MUTATIONS}
        assert options.get("--bias") in {None, *BIASES}
        if part := options.get("--mutations"):
            named = [name for name, rule in MUTATIONS.items() if any(part in text for text in (name, *rule.biases))]
            assert named, part
        if "--broken" in options and "--runs" in options:
            rule = MUTATIONS[options["--broken"]]
            assert options["--bias"] in rule.biases
            assert int(options["--runs"]) >= rule.runs


def test_each_rule_that_the_page_counts_on_is_at_the_head_of_the_protocol():
    rules = {int(number) for number in re.findall(r"^(\d+)\. \*\*", str(protocol.__doc__), re.MULTILINE)}
    named = re.findall(r"[Rr]ules? ([\d, toand]+?) (?:of|and) `core/protocol\.py`", PAGE)
    assert len(named) >= 5
    assert {int(number) for text in named for number in re.findall(r"\d+", text)} <= rules
    assert ("(twelve rules)" in PAGE, max(rules)) == (True, 12)


def test_each_file_and_test_that_the_page_names_exists():
    named = [text.partition("::")[0] for text in SAID if re.fullmatch(r"[\w./-]+\.py(::\w+)?|\.ci/\w+", text)]
    named += [word for text in SAID for word in text.split() if word.startswith("tests/") and "::" not in word]
    assert len(named) > 20
    for name in named:
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "lambda_lock")), name
    tests = re.findall(r"(tests/[\w/]+\.py)::(\w+)", PAGE)
    assert len(tests) > 15
    for file, test in tests:
        assert re.search(rf"^(?:async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), test


def test_each_name_that_the_page_finds_in_a_module_is_there():
    for text, module in re.findall(r"((?:`\w+`(?:, | and )?)+) in `(core/\w+\.py)`", PAGE):
        code = (ROOT / "lambda_lock" / module).read_text()
        for name in re.findall(r"`(\w+)`", text):
            assert re.search(rf"^(?:class |def |){name}\b", code, re.MULTILINE), f"{module} has no {name}"


def test_each_target_that_the_page_names_is_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    targets = {text.split()[1] for text in SAID if text.startswith("make ")}
    assert "prove" in targets
    assert [name for name in targets if f"\n{name}: " not in makefile] == []


def test_ci_runs_what_the_page_says_that_it_runs():
    table = PAGE.partition("| in CI |\n")[2].partition("\n\n")[0]
    run = re.findall(r"^(?:run|tests) (.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    ci = {"interop" if target == "peers" else target for line in run for target in line.split()}
    rows = re.findall(r"^\|.*\| `make ([\w-]+)` \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 7
    for target, said in rows:
        assert (target in ci) != said.startswith(("no", "once a week")), target
    assert "make prove\n" in (ROOT / ".github" / "workflows" / "prove.yml").read_text()


def test_the_constants_on_the_page_are_those_of_the_code():
    assert (lease.MARGIN, lease.GRACE, lease.DRIFT) == (1.5, 2.0, 1 / 1000)
    for text in ("MARGIN (1.5 s)", "GRACE (2 s)", "DRIFT is 1/1000", "2 to 3 s after the end of the lease"):
        assert text in _TEXT
    assert ("in fourteen ways" in _TEXT, len(BREAKS)) == (True, 14)
    most = sorted(rule.runs for rule in MUTATIONS.values())[-3:]
    assert most[0] < most[1] == most[2] == 20_000
    assert "two mutants of the corrections need up to 20,000 runs" in _TEXT


def test_the_figures_on_the_page_are_those_of_the_latest_run():
    quoted = PAGE.partition(BEGIN)[2].partition(END)[0].strip()
    if quoted == "No run is recorded yet.":
        assert "No run is recorded yet" in FIGURES
        return
    assert quoted in FIGURES
    said = dict(line.rsplit(": ", 1) for line in quoted.strip("`\n").splitlines())
    assert [name for name in COUNTED if name in said] == list(COUNTED)
    assert said["double holders"] == "0"


def test_the_picture_is_the_one_that_the_code_computes_now():
    assert (ROOT / "docs" / "lease.svg").read_text() == picture.draw()
    root = ET.fromstring(picture.draw())
    assert root.findtext("{http://www.w3.org/2000/svg}desc") == picture.in_words()
    assert picture.draw().count("prefers-color-scheme:dark") == 2
