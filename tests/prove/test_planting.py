"""Mistakes are planted whole, are taken out again, and are refused where the code has moved."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.drivers import mistakes as drivers
from tests.exploration.mutants import OWN
from tests.expressions.mistakes import DEFECTS, MISTAKES
from tests.fuzzing.mistakes import FED, PLAYED
from tests.prove import mistakes
from tests.prove.mistakes import alter, edit, planted, put
from tests.races.mutants import MUTANTS
from tests.simulation.mutations import MUTATIONS
from tests.simulation.waking import plans
from tests.stopping import mistakes as stopping

HAVING_CHANGES: list[Mapping[str, Any]] = [MUTATIONS, MUTANTS, plans.MUTATIONS, drivers.MISTAKES, stopping.MISTAKES]
ALL: list[tuple[str, mistakes.Change]] = [
    *(*MISTAKES.items(), *DEFECTS.items(), *OWN.items()),
    *((name, each.change) for named in HAVING_CHANGES for name, each in named.items()),
    *((name, made[0]) for named in (PLAYED, FED) for name, made in named.items()),
]


class Greeter:
    greeted = 3

    def greet(self, name: str) -> str:
        return f"hello {name}"


class Loud(Greeter):
    def greet(self, name: str) -> str:
        return super().greet(name).upper()


def test_an_edit_is_seen_by_all_who_know_the_function_and_is_taken_out_again():
    known = Loud().greet
    with planted(edit(Greeter.greet, "hello → bye"), edit(Loud.greet, "upper() → title()")):
        assert known("you") == "Bye You"
        with planted(edit(Greeter.greet, "bye → farewell"), edit(Loud.greet, "upper() → title()")):
            assert known("you") == "Farewell You"
        assert known("you") == "Bye You"
    assert known("you") == "HELLO YOU"


def welcome(names: list[str], *, most: int = 2, polite: bool = True) -> str:
    """Welcome them by name."""
    if not names or (polite and len(names) > most):
        return "all are welcome"
    text = ", ".join(sorted(names, reverse=False))
    return f"welcome {text}"


@pytest.mark.parametrize(
    ("where", "new", "result"),
    [
        *(("if names", "not ...", "all are welcome"), ("term most", "True", "all are welcome")),
        *(("term most", "", "all are welcome"), ("operand most", "... - 1", "all are welcome")),
        *(("set text", "names[0]", "welcome b"), ("set reverse", "True", "welcome c, b, a")),
        *(("call sorted", "names", "welcome b, a, c"), ("argument reverse", "names", "welcome b, a, c")),
        *(("return text", "...[:9]", "welcome a"), ("line text -return", "...\ntext += '!'", "welcome a, b, c!")),
        ("start", "most = 2", "all are welcome"),
    ],
)
def test_an_alteration_writes_over_the_one_part_that_mentions_these_names(where, new, result):
    with planted(alter(welcome, where, new)):
        assert welcome(["b", "a", "c"], most=3) == result
    assert welcome(["b", "a", "c"], most=3) == "welcome a, b, c"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edit(Greeter.greet, "name → who"), "greet has changed: .* is 2 times in it"),
        (edit(Greeter.greet, "{name} → {title}"), "greet has changed: it does not know title"),
        (put(Greeter, "greeted", 3), "has changed"),
        (alter(welcome, "argument names", "[]"), "'argument names' is 2 times in it"),
        (alter(welcome, "line shorten", ""), "'line shorten' is 0 times in it"),
        (alter(welcome, "if names", "not crowd"), "it does not know crowd"),
        (alter(Greeter.greet, "return name", "f'hello {name}'"), "changes nothing in it"),
        (alter("renew", "start", "return"), "renew is 2 times in lambda_lock"),
    ],
)
def test_a_change_of_what_is_not_there_exactly_once_or_that_changes_nothing_is_refused(change, why):
    with pytest.raises(ValueError, match=why), planted(edit(Loud.greet, "upper → lower"), change):
        pass
    assert not mistakes._sources
    assert Loud().greet("you") == "HELLO YOU"


def test_every_mistake_can_be_planted():
    for name, change in ALL:
        with planted(change):
            pass
        assert not mistakes._sources, name
