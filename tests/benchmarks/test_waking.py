"""The measurement of executions that sleep: that its figures can be right."""

import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.waking.report import DRAWN, PICTURE, judge, overlaps, picture
from benchmarks.waking.world import LOADS, Load, Run, World, size

SMALL = Load("8 executions", 5.0, executions=8)


@pytest.mark.parametrize(
    "load",
    [
        SMALL,
        Load("with callers", 1.0, executions=6, callers=2, between=1.0),
        Load("for permits", 5.0, executions=8, permits=3),
        Load("longer than a time-out", 1500.0, executions=8),
    ],
    ids=lambda load: load.title,
)
@pytest.mark.parametrize("asleep", [True, False])
def test_all_executions_have_had_the_lock_one_after_the_other(load, asleep):
    run = World(load, asleep=asleep).run()
    assert len(run.grants) == load.executions
    assert run.done is not None
    assert run.done >= sum(end - begin for begin, end, _ in run.spans) / (load.permits or 1)
    assert overlaps(run, load.permits or 1) == 0
    assert min(run.idle) >= 0


def test_equal_seeds_give_equal_figures():
    first, second = (judge(SMALL, [World(SMALL, asleep=True, seed=7).run()]) for _ in range(2))
    assert first == second


def test_who_sleeps_comes_in_order_and_is_invoked_twice_and_who_polls_more_often():
    load = Load("30 executions", 30.0, executions=30)
    asleep, polling = (judge(load, [World(load, asleep=way).run()]) for way in (True, False))
    for figure, most in (("passed", 0.1), ("invocations", 2), ("operations", 6)):
        assert asleep[figure] <= most < polling[figure]


def test_more_than_may_hold_it_are_noticed():
    run = Run(spans=[(0.0, 2.0, "one"), (1.0, 3.0, "two"), (3.0, 4.0, "three")])
    assert overlaps(run, 1) == 1
    assert overlaps(run, 2) == 0


def test_the_size_of_an_item_is_that_of_its_names_and_values():
    assert size({"key": {"S": "abc"}}) == 6
    assert size({"l": {"L": [{"S": "ab"}]}}) == 1 + 3 + 1 + 2


def test_the_picture_of_the_page_is_of_these_loads_and_can_be_read():
    assert set(DRAWN) <= {load.title for load in LOADS}
    run = World(SMALL, asleep=True).run()
    drawn = ElementTree.fromstring(picture({name: {"asleep": run, "polling": run} for name in DRAWN}))
    stored = ElementTree.fromstring(PICTURE.read_text())
    for root in (drawn, stored):
        assert root.get("role") == "img"
        assert "prefers-color-scheme:dark" in "".join(root.itertext())
