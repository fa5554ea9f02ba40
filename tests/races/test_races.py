"""Some forced switches of each pair. ``python -m tests.races`` plays them all."""

import itertools
import json
import os
from collections.abc import Iterator

import pytest

from tests.support.sampled import sampled_with

from .__main__ import main, on_one_processor
from .mutants import MUTANTS, broken
from .scenarios import SCENARIOS
from .scheduler import POLICIES
from .sweep import once, play
from .world import LOCKS, ORDERS

#: One in so many single switches, at each line: a prime, so that repeated code is not met at the same place each time.
_STRIDE = 499

#: The same in `make test`.
_FEWER = 1499


@pytest.fixture(autouse=True)
def one_processor() -> Iterator[None]:
    """One thread runs at a time, and on one processor they follow each other faster."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    on_one_processor()
    yield
    if before is not None:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("name", "stride"), sampled_with(3, SCENARIOS, _FEWER, _STRIDE))
def test_a_thread_switch_harms_nobody(name, stride):
    scenario = SCENARIOS[name]
    for policy in POLICIES:
        for plan in itertools.islice(once(scenario, policy, "line"), 0, None, stride):
            assert play(scenario, plan, policy, "line").wrong == []


@pytest.mark.long
def test_an_engine_over_http_says_the_same(engine, table):
    for name, key in ((LOCKS, "key"), (ORDERS, "id")):
        engine.create_table(name, key)
    try:
        for name in ("release / commit", "renewal / hand_over", "close / acquire", "renewal / heartbeat()"):
            for plan in itertools.islice(once(SCENARIOS[name], "helpers", "line", engine), 0, None, _STRIDE):
                assert play(SCENARIOS[name], plan, "helpers", "line", engine).wrong == []
    finally:
        for name in (LOCKS, ORDERS):
            engine.delete_table(name)


@pytest.mark.long
def test_a_lock_whose_lease_was_shortened_beside_a_renewal_is_renewed_in_time():
    scenario = SCENARIOS["renewal / heartbeat() with a shorter lease"]
    for choice in play(scenario, {}, "helpers", "line").choices:
        if choice.where.endswith(("Renewer.watch", "Renewer._plan", "Renewer._planned")):
            plan = {choice.point: choice.others[0]}
            assert play(scenario, plan, "helpers", "line").wrong == []


@pytest.mark.long
def test_two_last_acts_at_once_are_noticed():
    scenario = SCENARIOS["release / release"]
    with broken("two last acts have the turn at once"):
        plans = once(scenario, "oldest", "line")
        wrong = next(played.wrong for plan in plans if (played := play(scenario, plan, "oldest", "line")).wrong)
    assert wrong == ["2 last acts succeeded: [True, True]"]


def test_the_same_plan_gives_the_same_run():
    scenario = SCENARIOS["renewal / release"]
    first, second = (play(scenario, {40: 2}, "oldest", "access").choices for _ in range(2))
    assert first == second


@pytest.mark.prove
def test_each_defect_that_is_planted_is_noticed(tmp_path):
    file = tmp_path / "figures.json"
    assert main(["--mutants", "--json", str(file)]) == 0
    assert json.loads(file.read_text())["mutants killed"] == len(MUTANTS)


@pytest.mark.prove
def test_no_single_switch_harms_over_http_or_in_memory():
    assert main(["--minutes", "0.3", "--engine", "ministack"]) == 0
