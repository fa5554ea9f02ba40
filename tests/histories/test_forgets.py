"""Events that are forgotten, on an engine over HTTP, while requests are lost, doubled and late."""

from __future__ import annotations

import copy

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


def test_the_judge_accepts_a_history_by_hand():
    assert judge(_LEGAL) == []


def test_the_judge_rejects_what_was_begun_before_a_forget_that_has_returned():
    for said in (True, False):
        history = copy.deepcopy(_LEGAL)
        history.forgot[0].said = said
        history.made, history.asked = {0: Made(1, 2)}, [_LEGAL.asked[0], Asked(7, 7.1, 0, own=False)]
        assert [found.partition(":")[0] for found in judge(history)] == ["stale"]
    history.forgot[0].said, history.forgot[0].end = None, OPEN  # of an unknown outcome: it has not returned
    assert judge(history) == []


def test_the_judge_rejects_an_event_that_is_made_again_and_that_nobody_forgot():
    for forgot, expected in ((Forgot(0.1, 0.2, True), ["erased"]), (Forgot(2.5, OPEN, None), [])):
        history = copy.deepcopy(_LEGAL)
        history.forgot = [forgot]
        assert [found.partition(":")[0] for found in judge(history)] == expected


def test_the_judge_rejects_a_result_that_was_forgotten_for_another_one_or_denied():
    for number, expected in ((0, []), (7, ["erased"])):
        history = copy.deepcopy(_LEGAL)
        history.forgot[0].number = number
        assert [found.partition(":")[0] for found in judge(history)] == expected
    history = copy.deepcopy(_LEGAL)
    history.forgot = [Forgot(4, 5, False, 0), Forgot(8, 9, True, 0)]
    assert judge(history) == []
    history.asked.append(Asked(6, 7, 0, own=False))
    assert [found.partition(":")[0] for found in judge(history)] == ["denied"]


def test_the_judge_rejects_two_who_make_it_at_once():
    history = copy.deepcopy(_LEGAL)
    history.made[2] = Made(10.5, 10.6)
    assert [found.partition(":")[0] for found in judge(history)] == ["two at once"]
