"""Waiting asleep under the simulator. A failure names its plan and seed: python -m tests.simulation.waking --trace."""

from __future__ import annotations

import pytest

from tests.simulation.waking.plans import MUTATIONS, PLANS, run_many, shown_by
from tests.simulation.waking.scene import simulate

LONG = {"beside those in the queue", "beside those in the queue, permits"}


@pytest.mark.parametrize("runs", [pytest.param(2, id="a few"), pytest.param(150, id="more", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(PLANS))
def test_nobody_works_beside_another_and_no_sleeper_is_forgotten(name: str, runs: int) -> None:
    judged = run_many(1000, -(-runs // 4) if name in LONG else runs, name)
    failed = {seed: each.failures for seed, each in judged if each.failures}
    assert not failed, f"--plan {name!r}: {failed}"
    assert sum(each.grants for _, each in judged) >= 3 * len(judged)


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_broken_rule_of_the_waker_is_caught(name: str) -> None:
    assert shown_by(name), f"{MUTATIONS[name].runs} runs did not show: {name}"


@pytest.mark.parametrize("runs", [pytest.param(1, id="one"), pytest.param(30, id="more", marks=pytest.mark.slow)])
@pytest.mark.parametrize("after", [False, True], ids=["before a step", "after its request"])
@pytest.mark.parametrize("step", range(1, 16))
def test_a_waker_that_is_killed_at_any_of_its_steps_forgets_nobody(step: int, after: bool, runs: int) -> None:
    for seed in range(runs):
        for permits in (None, 2):
            judged = simulate(seed, {"kill_at": step, "after": after, "permits": permits, "executions": 5})
            assert not judged.failures
            assert judged.grants >= 5


def test_a_run_can_be_repeated_event_for_event() -> None:
    first: list[str] = []
    second: list[str] = []
    simulate(7, PLANS["all"], first.append)
    simulate(7, PLANS["all"], second.append)
    assert first == second
    assert len(first) > 100
