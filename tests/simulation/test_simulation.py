"""The shipped protocol under the simulator. A failure names its seed and the command that replays it."""

import gc
import multiprocessing
import os
import shlex
import signal
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pytest

from tests.simulation.mutations import MUTATIONS, broken
from tests.simulation.runs import MORE, Totals, run_chunks, run_many, run_slices, shown_by, simulate
from tests.simulation.schedule import BIASES
from tests.simulation.waking.plans import play
from tests.support.sampled import sampled_with
from tests.support.short import ALL, SCHEDULES, SHORT


def check(total: Totals) -> None:
    assert not total.failed, "\n".join([str(total), *[str(result) for result in total.failed[:MORE]]])


@pytest.mark.parametrize(  # the other seeds draw all of them
    ("bias", "runs"), sampled_with(3, sorted(BIASES), 1, 2 if SHORT else 15, pytest.mark.slow)
)
def test_every_bias_holds_and_grants_locks(bias, runs):
    if bias == "foreign-drift" and runs > 1:
        runs //= 2  # they are long
    total = run_many(100_000, runs, bias)
    check(total)
    assert total.counts["grants"] >= runs


@pytest.mark.parametrize(
    ("first", "each"), [(200_000, 1), pytest.param(200_001, 29 if SHORT else 149, marks=pytest.mark.slow)]
)
def test_events_are_done_once_for_their_window_and_again_where_nobody_finished(first, each):
    total = Totals()
    for bias in sorted(bias for bias, settings in BIASES.items() if settings.get("event")):
        total.add(run_many(first, each, bias))
    print(total)
    check(total)
    runs = total.counts["runs"]
    assert total.counts["completions"] > 2 * runs
    assert total.counts["events"] > 1.5 * total.counts["completions"]  # the others failed, died or were late
    assert total.counts["duplicates"] > 3 * runs


@pytest.mark.parametrize("run", [partial(simulate, 7, "stormy"), partial(play, 7, "all")], ids=["clients", "waking"])
def test_a_run_can_be_repeated_event_for_event(run):
    traces: list[list[str]] = [[], []]
    for trace in traces:
        run(trace.append)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 100


def test_a_process_that_died_in_the_queue_is_not_judged_when_it_is_collected():
    trace: list[str] = []
    result = simulate(1, "queue-dying", trace.append)
    gc.collect()
    assert any("dies" in line for line in trace)
    assert not result.failures
    assert not [line for line in trace if "JUDGE" in line]


@pytest.mark.long
def test_the_command_that_replays_a_failure_breaks_the_same_rule():
    rule = "expiry judged by the waiter's clock"
    first = run_many(0, 20, "mixed", rule).failed[0]
    (command,) = (line for line in str(first).splitlines() if "replay: " in line)
    words = shlex.split(command.partition("replay: ")[2])
    with broken(words[words.index("--broken") + 1]):
        again = simulate(int(words[words.index("--seed") + 1]), words[words.index("--bias") + 1])
    assert words[:3] == ["python", "-m", "tests.simulation"]
    assert again.failures == first.failures


NEEDED = [name for name, mutation in MUTATIONS.items() if not mutation.redundant]
LONGEST = [  # to notice: as long as all others together. The short form leaves them to `make prove`
    "a late copy that lands where release freed what is not answered for",
    "a permit that an attempt hands over parked under the first handle's name",
    "a second refusal by the application's conditions counted as final",
    "all those ahead removed once the first one is dead",
    "an owner that is not unique for each acquisition",
    "a renewal without owner and token",
]
PLAYED = [name for name in NEEDED if not SHORT or name not in LONGEST]


@pytest.mark.planted
@pytest.mark.parametrize("name", PLAYED)
def test_a_broken_rule_is_caught(name):
    assert shown_by(name, MUTATIONS[name].runs), f"{MUTATIONS[name].runs} runs did not show: {name}"


SLOW = 1_000_000  # the first slow seed


@pytest.mark.planted
@pytest.mark.parametrize("name", [name for name in MUTATIONS if name not in NEEDED])
def test_a_rule_that_exclusion_does_not_need_may_be_broken(name):
    """If this ever fails, the reason given for the mutation is wrong. The short form plays a share of its runs."""
    assert not shown_by(name, max(1, MUTATIONS[name].runs * SCHEDULES // ALL)), MUTATIONS[name].redundant


# Last, and in small parts, so that several workers share them.
@pytest.mark.parametrize(
    ("first", "runs"),
    [
        (0, 25),
        pytest.param(25, 125, marks=pytest.mark.slow),
        *(pytest.param(first, 500, marks=pytest.mark.slow) for first in range(SLOW, SLOW + SCHEDULES, 500)),
    ],
)
def test_no_schedule_has_two_holders_or_a_ghost(first, runs):
    total = run_many(first, runs)
    print(total)
    check(total)
    assert total.counts["grants"] > (5 if runs < 1000 else 6) * runs  # 150,000 slow ones: 900,000 in all
    assert total.counts["faults"] > 40 * runs


# Many runs at once: what a process finds is reported, and a process that dies is not overlooked.


def test_slices_report_what_their_runs_did():
    part = next(part for part in run_slices(0, 3600, ["mixed"], 1) if part.counts["runs"])
    assert part.counts["grants"] > 0


@pytest.mark.long
def test_runs_whose_process_is_killed_fail():
    parts = run_chunks(0, 10_000, "mixed", 2, chunk=5)
    next(parts)
    victim = multiprocessing.active_children()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(BrokenProcessPool):
        list(parts)
