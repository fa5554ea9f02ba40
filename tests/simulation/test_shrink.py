"""A failing run is shrunk to a trace that one can read, and drawn as lanes."""

import shlex

import pytest

from tests.simulation import lanes
from tests.simulation.__main__ import main
from tests.simulation.runs import run_many, simulate
from tests.simulation.shrink import Replay, Step, kind_of, shrink

BY_THE_CLOCK = "expiry judged by the waiter's clock"


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "bias", "kind"),
    [
        (BY_THE_CLOCK, "mixed", "overlap"),
        pytest.param("a size that does not count at all", "permits", "overlap", marks=pytest.mark.prove),
        pytest.param("an adoption under any token", "handing-over", "overlap", marks=pytest.mark.prove),
    ],
)
def test_a_failing_run_is_shrunk_to_few_steps_that_fail_in_the_same_way(rule, bias, kind):
    (failed, *_) = run_many(0, 20, bias, rule).failed
    assert kind_of(failed.failures) == kind
    shrunk = shrink(failed.seed, bias, rule, most=150)
    assert shrunk is not None
    assert len(shrunk.steps) <= 40
    last = shrunk.steps[-1]
    assert (last.who, last.what.partition(":")[0]) == ("JUDGE", kind)
    assert sum(step.what.startswith("GRANTED") for step in shrunk.steps) >= 2
    assert "--shrink" in str(failed)
    assert shlex.quote(rule) in str(failed)


def test_a_run_without_failures_is_not_shrunk():
    assert shrink(3, "mixed") is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "bias"), [(11, "stormy"), (11, "permits"), (5, "holds-dying"), (5, "permits-queue-late")]
)
def test_recording_a_run_does_not_change_it_all_its_draws_repeat_it_and_its_lanes_fit_the_page(seed, bias):
    lines: list[str] = []
    simulate(seed, bias, lines.append)
    first = Replay({}, None, None)
    first.run(seed, bias, {})
    again = Replay(first.recorded, set(first.recorded), None)
    again.run(seed, bias, {})
    steps = [Step(line, frozenset()) for line in lines]
    for replay in (first, again):
        assert [(one.at, one.who, one.what) for one in replay.steps] == [(one.at, one.who, one.what) for one in steps]
    drawn = list(lanes.draw(first.steps))
    assert max(map(len, drawn)) <= lanes.WIDTH
    assert len(drawn) > len(first.steps) / 2


@pytest.mark.long
def test_the_command_draws_two_holders_side_by_side(capsys):
    assert main(["--seed", "3", "--bias", "mixed", "--broken", BY_THE_CLOCK, "--shrink"]) == 1
    drawn = capsys.readouterr().out
    last = [line for line in drawn.splitlines() if "GRANTED" in line][-1]
    assert last.count("█") == 2, drawn
