"""The judge finds everything that went wrong, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from . import judge
from .judge import Order

FIRST: Order = {"id": "o-1", "customer": "c", "group": "g"}
SECOND: Order = {"id": "o-2", "customer": "c", "group": "g"}
OTHER: Order = {"id": "o-3", "customer": "other", "group": "other"}
POISON: Order = {"id": "p", "customer": "c", "group": "g", "plan": judge.POISON}
ONCE = {"runs": 1, "effects": 1}


def run(
    order: Order,
    entered: int,
    left: int | None,
    *,
    number: str = "1",
    invocation: str = "i-1",
    worker: int = 1,
    then: str | None = None,
) -> list[dict[str, Any]]:
    """The notes of one run; ``then``: one more after the first."""
    entry = {"order": order["id"], "run": number, "invocation": invocation, "worker": worker}
    notes = [{**entry, "what": "entered", "at": entered}]
    if then is not None:
        notes.append({**entry, "what": then, "at": entered})
    return notes + ([{**entry, "what": "left", "at": left}] if left is not None else [])


def began(invocation: str) -> list[dict[str, Any]]:
    """The beginning of an invocation, which was killed unless it ended()."""
    return [{"what": "began", "invocation": invocation, "pid": 1, "receives": {}}]


def ended(invocation: str) -> list[dict[str, Any]]:
    return [{"what": "ended", "invocation": invocation, "returned": []}]


IN_ORDER = [*run(FIRST, 1, 2), *run(SECOND, 3, 4)]
AGAIN = [*run(FIRST, 9, 10, number="2", invocation="i-9"), *run(OTHER, 11, 12, number="2", invocation="i-9")]


def kinds(*arguments: Any) -> set[str]:
    return {wrong.partition(":")[0].partition(" for ")[0] for wrong in judge.wrongs(*arguments)}


def test_all_is_well_where_each_was_done_once_in_its_turn():
    assert kinds([FIRST, SECOND, FIRST], IN_ORDER, {"o-1": ONCE, "o-2": ONCE}) == set()


def test_poison_is_dead_and_has_no_effect():
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
def test_a_wrong_of_the_journal_is_found(notes, wrong):
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
def test_an_effect_is_repeated_only_by_a_run_that_broke_off_behind_it(plan, commit, effects):
    order = FIRST | {"plan": plan, "commit": commit}
    assert kinds([order], run(order, 1, 2), {"o-1": effects}) == set()
    for what in effects:
        assert kinds([order], run(order, 1, 2), {"o-1": effects | {what: effects[what] + 1}}) == {"miscounted"}


@pytest.mark.parametrize(
    "notes",
    [
        run(FIRST, 1, 2),
        [*run(OTHER, 1, None), *run(FIRST, 2, 3)],  # what its worker did before it shows nothing
        [*run(FIRST, 1, 2), *run(OTHER, 3, None, worker=2)],  # nor does what another worker did
        [*run(FIRST, 1, 2), *run(OTHER, 3, None, invocation="i-2")],  # or one in another invocation
    ],
)
def test_a_run_that_was_killed_at_its_end_may_be_repeated_and_no_more(notes):
    notes = [*began("i-1"), *notes, *AGAIN]
    assert kinds([FIRST, OTHER], notes, {"o-1": {"effects": 2}, "o-3": ONCE}) == set()
    assert kinds([FIRST, OTHER], notes, {"o-1": {"effects": 3}, "o-3": ONCE}) == {"miscounted"}


@pytest.mark.parametrize(
    "notes",
    [
        run(FIRST, 1, 2),  # not of a batch, so that nothing says that it was killed
        [*began("i-1"), *run(FIRST, 1, 2), *ended("i-1")],
        [*began("i-1"), *run(FIRST, 1, 2), *run(OTHER, 3, None)],  # its worker went on: the completion is there
    ],
)
def test_a_run_that_ended_and_was_not_killed_may_not_be_repeated(notes):
    effects = {"o-1": {"effects": 2}, "o-3": ONCE}
    assert kinds([FIRST, OTHER], [*notes, *AGAIN], effects) == {"miscounted"}
    broken_again = [note for note in AGAIN if note["what"] == "entered" or note["order"] == "o-3"]
    assert kinds([FIRST, OTHER], [*notes, *broken_again], effects) == {"miscounted"}


def test_what_was_committed_may_not_be_repeated_though_its_process_was_killed():
    order = FIRST | {"commit": True}
    for left in (None, 2):
        notes = [*began("i-1"), *run(order, 1, left, then="committed")]
        assert kinds([order], notes, {"o-1": {"effects": 1, "committed": 1}}) == set()
        assert kinds([order, OTHER], [*notes, *AGAIN], {"o-1": {"effects": 2, "committed": 1}, "o-3": ONCE}) == {
            "miscounted"
        }


def test_a_run_may_be_killed_before_it_breaks_off_as_planned():
    order = FIRST | {"plan": ["raise between"]}
    killed, again = [*began("i-1"), *run(order, 1, None)], run(order, 3, 4, number="2")
    assert kinds([order], [*began("i-1"), *again], {"o-1": {"effects": 1}}) == set()  # before its first note
    assert kinds([order], [*killed, *again], {"o-1": {"effects": 1}}) == set()
    assert kinds([order], [*killed, *again], {"o-1": {"effects": 2}}) == set()
    as_planned = [*run(order, 1, None, then="breaks off"), *again]
    assert kinds([order], as_planned, {"o-1": {"effects": 1}}) == {"miscounted"}
    assert kinds([order], as_planned, {"o-1": {"effects": 2}}) == set()
