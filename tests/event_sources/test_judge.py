"""The judge finds everything that went wrong, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from . import judge
from .judge import Order

FIRST: Order = {"id": "o-1", "customer": "c", "group": "g"}
SECOND: Order = {"id": "o-2", "customer": "c", "group": "g"}
POISON: Order = {"id": "p", "customer": "c", "group": "g", "plan": judge.POISON}
ONCE = {"runs": 1, "effects": 1}


def run(order: Order, entered: int, left: int | None, *, number: str = "1") -> list[dict[str, Any]]:
    notes = [{"what": "entered", "at": entered, "order": order["id"], "run": number}]
    return notes + ([{**notes[0], "what": "left", "at": left}] if left is not None else [])


IN_ORDER = [*run(FIRST, 1, 2), *run(SECOND, 3, 4)]


def kinds(*arguments: Any) -> set[str]:
    return {wrong.partition(":")[0].partition(" for ")[0] for wrong in judge.wrongs(*arguments)}


def test_all_is_well_where_each_was_done_once_in_its_turn() -> None:
    assert kinds([FIRST, SECOND, FIRST], IN_ORDER, {"o-1": ONCE, "o-2": ONCE}) == set()


def test_poison_is_dead_and_has_no_effect() -> None:
    notes = [*run(POISON, 1, None), *run(FIRST, 2, 3)]
    assert kinds([POISON, FIRST], notes, {"o-1": ONCE, "p": {"runs": 1}}, ["p"]) == set()
    assert kinds([POISON, FIRST], notes, {"o-1": ONCE, "p": ONCE}, []) == {"miscounted", "dead letters"}
    assert kinds([POISON, FIRST], notes, {"o-1": ONCE}, ["p", "o-1"]) == {"dead letters"}


@pytest.mark.parametrize(
    ("notes", "wrong"),
    [
        (run(FIRST, 1, 2), {"never done"}),
        ([*run(FIRST, 1, 2), *run(SECOND, 3, None)], {"never done"}),
        ([*run(FIRST, 1, 3), *run(SECOND, 2, 4)], {"two inside", "out of order"}),
        ([*run(SECOND, 1, 2), *run(FIRST, 3, 4)], {"out of order"}),
        ([*run(FIRST, 1, 2), *run(SECOND, 3, 4), *run(FIRST, 5, 6, number="2")], {"out of order"}),
    ],
)
def test_a_wrong_of_the_journal_is_found(notes: list[dict[str, Any]], wrong: set[str]) -> None:
    assert kinds([FIRST, SECOND], notes, {"o-1": ONCE, "o-2": ONCE}) == wrong


@pytest.mark.parametrize(
    ("plan", "commit", "effects"),
    [
        ([], False, {"effects": 1}),
        (["exit before"], True, {"effects": 1, "committed": 1}),
        (["exit between"], True, {"effects": 2, "committed": 1}),
        (["exit after"], True, {"effects": 1, "committed": 1}),
        (["exit after"], False, {"effects": 2}),
        (["exit answering"], False, {"effects": 1}),
    ],
)
def test_an_effect_is_repeated_only_by_a_run_that_broke_off_behind_it(
    plan: list[str], commit: bool, effects: dict[str, int]
) -> None:
    order = FIRST | {"plan": plan, "commit": commit}
    assert kinds([order], run(order, 1, 2), {"o-1": effects}) == set()
    for what in effects:
        assert kinds([order], run(order, 1, 2), {"o-1": effects | {what: effects[what] + 1}}) == {"miscounted"}
