"""What docs/troubleshooting.md says to do in an emergency: what it names exists."""

import re
import shlex

import click
import pytest

from lambda_lock.cdk.monitoring import _ALARMS
from lambda_lock.cli.app import app
from lambda_lock.observe.log import LEVELS
from lambda_lock.observe.metrics import COUNTED
from rig.engine import ROOT

_PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
_SECTION = _PAGE.partition("## What is wrong right now?\n")[2].partition("\n## Errors\n")[0]
ENTRIES = {title: entry for title, _, entry in (each.partition("\n") for each in _SECTION.split("\n### ")[1:])}


def _command(words: list[str]) -> click.Command:
    """The command that the words name. Its options are left in ``words``."""
    found: click.Command = app
    while isinstance(found, click.Group):
        found = found.commands[words.pop(0)]
    return found


@pytest.mark.parametrize("title", ENTRIES)
def test_what_an_entry_names_exists_and_it_is_read_in_two_minutes(title):
    """At most 130 words each: what is seen, and what to do."""
    entry = ENTRIES[title]
    assert re.search(r"^<!-- search: .+ -->$", entry, re.MULTILINE)
    said = [re.findall(rf"^\*\*{part}:\*\* (.+)$", entry, re.MULTILINE) for part in ("Seen", "Do")]
    assert all(said)
    assert len(f"{said[0][0]} {said[1][0]}".split()) <= 130
    assert {*re.findall(r"\bevent `(\w+)`", entry)} <= LEVELS.keys()
    assert {*re.findall(r"\bmetric `(\w+)`", entry)} <= {*COUNTED.values()}
    assert {*re.findall(r"\balarm (\w+)", entry, re.IGNORECASE)} - {"by"} <= _ALARMS.keys()
    for text in re.findall(r"`lambda-lock ([^`]+)`", entry):
        words = shlex.split(text)
        command = _command(words)
        known = {option for each in command.params for option in each.opts}
        assert {word for word in words if word.startswith("-")} <= known, text
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        assert bool(arguments) == any(word.isupper() for word in words) or "--prefix" in words or "--json" in words


def test_there_is_an_entry_for_each_situation_and_each_alarm_of_the_construct_is_named():
    assert len(ENTRIES) >= 17
    assert [name for name in _ALARMS if not re.search(rf"\b{name}\b", _PAGE)] == []
