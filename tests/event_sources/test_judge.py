"""The judge finds everything that went wrong, and nothing else."""

from typing import Any

import pytest

from . import judge
from .judge import Order

FIRST: Order = {"id": "o-1", "customer": "c", "group": "g"}
SECOND: Order = {"id": "o-2", "customer": "c", "group": "g"}
OTHER: Order = {"id": "o-3", "customer": "other", "group": "other"}
POISON: Order = {"id": "p", "customer": "c", "group": "g", "plan": judge.POISON}
ONCE = {"runs": 1, "effects": 1}


def run(order: Order, entered: int, left: int | None, *, then: str | None = None, **more: Any) -> list[dict[str, Any]]:
    """The notes of one run; ``then``: one more after the first. more: its number, its invocation and its worker."""
    entry = {"order": order["id"], "run": "1", "invocation": "i-1", "worker": 1} | more
    moments = (("entered", entered), (then, entered), ("left", left))
    return [{**entry, "what": what, "at": at} for what, at in moments if what is not None and at is not None]


#: The beginning of an invocation, which was killed unless it ended.
BEGAN = [{"what": "began", "invocation": "i-1", "pid": 1, "receives": {}}]
ENDED = [{"what": "ended", "invocation": "i-1", "returned": []}]
IN_ORDER = [*run(FIRST, 1, 2), *run(SECOND, 3, 4)]
SECOND_RUN = {"run": "2", "invocation": "i-9"}
AGAIN = [*run(FIRST, 9, 10, **SECOND_RUN), *run(OTHER, 11, 12, **SECOND_RUN)]


def kinds(*arguments: Any) -> set[str]:
    return {wrong.partition(":")[0].partition(" for ")[0] for wrong in judge.wrongs(*arguments)}


def test_poison_is_dead_and_has_no_effect():
    notes = [*run(POISON, 1, None), *run(FIRST, 2, 3)]
    assert kinds([POISON, FIRST], notes, {"o-1": ONCE, "p": {"runs": 1}}, ["p"]) == set()
    assert kinds([POISON, FIRST], notes, {"o-1": ONCE, "p": ONCE}, []) == {"miscounted", "dead letters"}
    assert kinds([POISON, FIRST], notes, {"o-1": ONCE}, ["p", "o-1"]) == {"dead letters"}


@pytest.mark.parametrize(
    ("notes", "wrong"),
    [
        (IN_ORDER, set()),
        (run(FIRST, 1, 2), {"never done"}),
        ([*run(FIRST, 1, 2), *run(SECOND, 3, None)], {"never done"}),
        ([*run(FIRST, 1, 3), *run(SECOND, 2, 4)], {"two inside", "out of order"}),
        ([*run(SECOND, 1, 2), *run(FIRST, 3, 4)], {"out of order"}),
        ([*IN_ORDER, *run(FIRST, 5, 6, run="2")], {"out of order"}),
    ],
)
def test_a_wrong_of_the_journal_is_found(notes, wrong):
    assert kinds([FIRST, SECOND, FIRST], notes, {"o-1": ONCE, "o-2": ONCE}) == wrong


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
    ("notes", "may_be_repeated"),
    [
        ([*BEGAN, *run(FIRST, 1, 2)], True),  # it was killed at its end
        ([*BEGAN, *run(OTHER, 1, None), *run(FIRST, 2, 3)], True),  # what its worker did before it shows nothing
        ([*BEGAN, *run(FIRST, 1, 2), *run(OTHER, 3, None, worker=2)], True),  # nor does what another worker did
        ([*BEGAN, *run(FIRST, 1, 2), *run(OTHER, 3, None, invocation="i-2")], True),  # or one in another invocation
        ([*BEGAN, *run(FIRST, 1, 2, then="committed")], False),
        (run(FIRST, 1, 2), False),  # not of a batch, so that nothing says that it was killed
        ([*BEGAN, *run(FIRST, 1, 2), *ENDED], False),
        ([*BEGAN, *run(FIRST, 1, 2), *run(OTHER, 3, None)], False),  # its worker went on: the completion is there
    ],
)
def test_only_a_run_that_was_killed_at_its_end_may_be_repeated_and_once(notes, may_be_repeated):
    for effects, well in ((2, may_be_repeated), (3, False)):
        found = kinds([FIRST, OTHER], [*notes, *AGAIN], {"o-1": {"effects": effects}, "o-3": ONCE})
        assert found == (set() if well else {"miscounted"})
    if not may_be_repeated:
        broken_again = [note for note in AGAIN if note["what"] == "entered" or note["order"] == "o-3"]
        twice = {"o-1": {"effects": 2}, "o-3": ONCE}
        assert kinds([FIRST, OTHER], [*notes, *broken_again], twice) == {"miscounted"}


def test_a_run_may_be_killed_before_it_breaks_off_as_planned():
    order = FIRST | {"plan": ["raise between"]}
    again = run(order, 3, 4, run="2")
    for then, fewest in ((None, 1), ("breaks off", 2)):
        notes = [*BEGAN, *run(order, 1, None, then=then), *again]
        found = [kinds([order], notes, {"o-1": {"effects": effects}}) for effects in (1, 2)]
        assert found == [set() if effects >= fewest else {"miscounted"} for effects in (1, 2)]
