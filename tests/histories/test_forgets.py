"""Events that are forgotten, on an engine over HTTP, while requests are lost, doubled and late."""

import dataclasses
from typing import Any

import pytest

from rig.engine import Engine
from tests.simulation.mutations import broken

from .forgets import OPEN, Asked, Forgot, History, Made, judge, play
from .storm import Storm

_LATE = {"doubled late": 400, "doubled at once": 50, "cut after": 15, "cut before": 15, "cut, and delivered late": 5}


def _round(engine: Engine, table: str, seed: int, seconds: float = 4.0) -> History:
    with Storm(engine.url, seed, faults=_LATE, late=(0.05, 0.8)) as storm:
        storm.stormy = True
        return play(storm.url, table, seconds, seed)


@pytest.mark.long
def test_nothing_that_was_begun_before_a_forget_is_given_out_after_it_and_no_copy_erases_what_came_later(engine, table):
    history = _round(engine, table, 1)
    assert judge(history) == []
    assert sum(forgot.said is True for forgot in history.forgot) >= 2
    assert any(forgot.number is not None for forgot in history.forgot)
    assert any(not asked.own for asked in history.asked)
    assert len(history.made) >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "shows"),
    [
        ("a completion forgotten by its key", "erased"),
        ("an event in progress counted as not done", "stale"),
        ("any result forgotten for one", "erased"),
        ("one result forgotten by its key", "erased"),
    ],
)
def test_a_broken_rule_shows_in_the_histories(rule, shows, engine, table):
    with broken(rule):
        for seed in range(20):
            if any(found.startswith(shows) for found in judge(_round(engine, table, seed))):
                return
    pytest.fail(f"20 rounds did not show: {rule}")


_LEGAL = History(
    made={0: Made(1, 2), 1: Made(10, 11)},
    asked=[Asked(0.9, 2.1, 0, own=True), Asked(3, 3.1, 0, own=False), Asked(9.9, 11.1, 1, own=True)],
    forgot=[Forgot(5, 6, True)],
)


def judged(**changed: Any) -> list[str]:
    """What the judge finds wrong with the legal history, changed so."""
    return [found.partition(":")[0] for found in judge(dataclasses.replace(_LEGAL, **changed))]


def test_the_judge_accepts_a_history_by_hand():
    assert judged() == []


def test_the_judge_rejects_what_was_begun_before_a_forget_that_has_returned():
    late: dict[str, Any] = {"made": {0: Made(1, 2)}, "asked": [_LEGAL.asked[0], Asked(7, 7.1, 0, own=False)]}
    for forgot, expected in (
        (Forgot(5, 6, True), ["stale"]),
        (Forgot(5, 6, False), ["stale"]),
        (Forgot(5, OPEN, None), []),
    ):
        assert judged(**late, forgot=[forgot]) == expected


def test_the_judge_rejects_an_event_that_is_made_again_and_that_nobody_forgot():
    for forgot, expected in ((Forgot(0.1, 0.2, True), ["erased"]), (Forgot(2.5, OPEN, None), [])):
        assert judged(forgot=[forgot]) == expected


def test_the_judge_rejects_a_result_that_was_forgotten_for_another_one_or_denied():
    assert judged(forgot=[Forgot(5, 6, True, 0)]) == []
    assert judged(forgot=[Forgot(5, 6, True, 7)]) == ["erased"]
    denied = [Forgot(4, 5, False, 0), Forgot(8, 9, True, 0)]
    assert judged(forgot=denied) == []
    assert judged(forgot=denied, asked=[*_LEGAL.asked, Asked(6, 7, 0, own=False)]) == ["denied"]


def test_the_judge_rejects_two_who_make_it_at_once():
    assert judged(made={**_LEGAL.made, 2: Made(10.5, 10.6)}) == ["two at once"]
