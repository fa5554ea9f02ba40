"""`make bench-short` fails where a lock costs more than its limits allow."""

import sys

import pytest

from benchmarks.limits import __main__ as command
from benchmarks.limits.check import State, compare, read, update

TEXT = """
# a comment
[requests]
"of a cycle" = { measured = 2, excess = 0 }

[instructions]
python = "3.11"
"of a cycle" = { measured = 1_000_000, excess = 0.02 } # kept
"""


def states(measured: dict[str, float], python: str = "3.11", text: str = TEXT) -> dict[str, State]:
    return {verdict.name: verdict.state for verdict in compare(read(text), measured, python)}


@pytest.mark.parametrize(
    ("requests", "instructions", "first", "second"),
    [
        (2, 1_000_000, State.HELD, State.HELD),
        (3, 1_020_000, State.EXCEEDED, State.HELD),
        (2, 1_020_001, State.HELD, State.EXCEEDED),
        (1, 970_000, State.LESS, State.LESS),
    ],
)
def test_more_than_the_limit_and_its_excess_is_exceeded(requests, instructions, first, second):
    found = states({"requests: of a cycle": requests, "instructions: of a cycle": instructions})
    assert found == {"requests: of a cycle": first, "instructions: of a cycle": second}


def test_what_cannot_be_measured_here_is_skipped_and_a_figure_without_a_limit_fails():
    for measured, python in (({}, "3.11"), ({"instructions: of a cycle": 9_000_000}, "3.14")):
        found = states({"requests: of a cycle": 2, "requests: of a renewal": 1, **measured}, python=python)
        assert found["instructions: of a cycle"] is State.SKIPPED
        assert found["requests: of a renewal"] is State.NO_LIMIT
    assert not State.NO_LIMIT.is_good


def test_an_update_changes_figures_only_and_those_of_this_python():
    figures: dict[str, float] = {"requests: of a cycle": 3, "instructions: of a cycle": 900_000}
    text = update(TEXT, figures, "3.11")
    assert text == TEXT.replace("measured = 2", "measured = 3").replace("measured = 1_000_000", "measured = 900_000")
    assert set(states(figures, text=text).values()) == {State.HELD}
    assert update(TEXT, {"instructions: of a cycle": 5}, "3.14") == TEXT


@pytest.mark.parametrize(("more", "status"), [(0, 0), (1, 1)])
def test_the_command_fails_on_one_request_more(more, status, monkeypatch, capsys):
    limits = read(command.FILE.read_text())
    figures = {name: limit.measured for name, limit in limits.items()}
    figures["requests: of an acquire and release"] += more
    monkeypatch.setattr(command, "measure", lambda say: figures)
    monkeypatch.setattr(sys, "argv", ["limits"])
    assert command.main() == status
    assert ("EXCEEDED" in capsys.readouterr().out) == bool(status)
