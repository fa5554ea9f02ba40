"""Waiting asleep under the simulator. A failure names its plan and seed: python -m tests.simulation.waking --trace."""

import pytest

from tests.simulation.runs import Totals
from tests.simulation.waking.plans import MUTATIONS, PLANS, play, shown_by
from tests.simulation.waking.scene import simulate
from tests.support.sampled import sampled_with
from tests.support.short import SHORT

LONG = {
    "beside those in the queue", "beside those in the queue, permits", "beside those in the queue, weights",
    "readers that poll beside a writer that sleeps",
}  # fmt: skip


@pytest.mark.parametrize(("name", "runs"), sampled_with(2, sorted(PLANS), 2, 20 if SHORT else 150, pytest.mark.slow))
def test_nobody_works_beside_another_and_no_sleeper_is_forgotten(name, runs):
    total, runs = Totals(), -(-runs // 4) if name in LONG else runs
    for seed in range(1000, 1000 + runs):
        total.note(play(seed, name))
    assert not total.failed, "\n".join(map(str, total.failed))
    assert total.counts["grants"] >= 3 * runs


@pytest.mark.planted
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_broken_rule_of_the_waker_is_caught(name):
    assert shown_by(name), f"{MUTATIONS[name].runs} runs did not show: {name}"


@pytest.mark.parametrize(
    "runs", [pytest.param(1, id="one"), pytest.param(10 if SHORT else 30, id="more", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("after", [False, True], ids=["before a step", "after its request"])
@pytest.mark.parametrize("step", range(1, 16))
def test_a_waker_that_is_killed_at_any_of_its_steps_forgets_nobody(step, after, runs):
    for seed in range(runs):
        for weight in ({}, {"permits": 2}, {"permits": 4, "takes": (1, 2, 4)}):
            result = simulate(seed, {"kill_at": step, "after": after, "executions": 5, **weight})
            assert not result.failures
            assert result.counts["grants"] >= 5
