"""Mistakes are planted whole, are taken out again, and are refused where the code has moved."""

from __future__ import annotations

import pytest

from tests.exploration.mutants import OWN
from tests.expressions.mistakes import DEFECTS, MISTAKES
from tests.fuzzing.mistakes import FED, PLAYED
from tests.prove import mistakes
from tests.prove.mistakes import edit, planted, put
from tests.races.mutants import MUTANTS
from tests.simulation.mutations import MUTATIONS

SIMULATED = {name: mutation.change for name, mutation in MUTATIONS.items()}
SWITCHED = {name: mutant.change for name, mutant in MUTANTS.items()}
FUZZED = {name: change for name, (change, *_) in (*PLAYED.items(), *FED.items())}
ALL = MISTAKES | DEFECTS | OWN | SIMULATED | SWITCHED | FUZZED


class Greeter:
    def greet(self, name: str) -> str:
        return f"hello {name}"


class Loud(Greeter):
    def greet(self, name: str) -> str:
        return super().greet(name).upper()


def test_an_edit_is_seen_by_all_who_know_the_function_and_is_taken_out_again() -> None:
    known = Loud().greet
    with planted(edit(Greeter.greet, "hello → bye"), edit(Loud.greet, "upper() → title()")):
        assert known("you") == "Bye You"
        with planted(edit(Greeter.greet, "bye → farewell"), edit(Loud.greet, "upper() → title()")):
            assert known("you") == "Farewell You"
        assert known("you") == "Bye You"
    assert known("you") == "HELLO YOU"


@pytest.mark.parametrize(("text", "times"), [("good day → bye", 0), ("name → who", 2)])
def test_an_edit_of_what_is_not_there_exactly_once_is_refused_and_nothing_is_left(text: str, times: int) -> None:
    with (
        pytest.raises(ValueError, match=rf"greet has changed: .* is {times} times in it"),
        planted(
            edit(Loud.greet, "upper → lower"),
            edit(Greeter.greet, text),
        ),
    ):
        pass
    assert Loud().greet("you") == "HELLO YOU"


def test_an_edit_that_names_what_the_function_does_not_know_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="greet has changed: it does not know title"),
        planted(edit(Greeter.greet, "{name} → {title}")),
    ):
        pass


def test_an_attribute_that_is_inherited_is_taken_away_again() -> None:
    class Quiet(Greeter):
        pass

    with planted(put(Quiet, "greet", lambda self, name: name)):
        assert Quiet().greet("you") == "you"
    assert "greet" not in vars(Quiet)


@pytest.mark.parametrize("change", ALL.values(), ids=ALL)
def test_every_mistake_can_be_planted(change: mistakes.Change) -> None:
    with planted(change):
        pass
    assert not mistakes._sources
