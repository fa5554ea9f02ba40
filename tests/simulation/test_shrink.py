"""A failing run is shrunk to a trace that one can read, and drawn as lanes."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from rig.engine import ROOT
from tests.simulation import lanes
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
@pytest.mark.parametrize("bias", ["stormy", "permits", "holds"])
def test_recording_a_run_does_not_change_it_and_all_its_draws_repeat_it(bias):
    lines: list[str] = []
    simulate(11, bias, lines.append)
    first = Replay({}, None, None)
    first.run(11, bias, {})
    again = Replay(first.recorded, set(first.recorded), None)
    again.run(11, bias, {})
    expected = [f"{step.at} {step.who} {step.what}" for step in map(_step, lines)]
    for replay in (first, again):
        assert [f"{step.at} {step.who} {step.what}" for step in replay.steps] == expected


def _step(line: str) -> Step:
    return Step(line, frozenset())


@pytest.mark.long
def test_the_command_draws_two_holders_side_by_side():
    command = ["-m", "tests.simulation", "--seed", "3", "--bias", "mixed", "--broken", BY_THE_CLOCK, "--shrink"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    last = [line for line in done.stdout.splitlines() if "GRANTED" in line][-1]
    assert last.count("█") == 2, done.stdout


@pytest.mark.long
@pytest.mark.parametrize("bias", ["mixed", "holds-dying", "permits-queue-late"])
def test_lanes_fit_the_page_and_say_something_for_each_step(bias):
    replay = Replay({}, None, None)
    replay.run(5, bias, {})
    drawn = list(lanes.draw(replay.steps))
    assert max(map(len, drawn)) <= lanes.WIDTH
    assert len(drawn) > len(replay.steps) / 2
