"""Faults at every point of the drivers: a part of the sweeps that `python -m tests.drivers` makes."""

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from lambda_lock.runtime import first_use
from lambda_lock.runtime.first_use import FirstUse
from rig.engine import Ministack
from tests.support.elsewhere import in_thread
from tests.support.instants import Strike, points_of
from tests.support.sampled import sampled

from . import cancelling
from .__main__ import sweeps
from .scenes import TABLE, Stage
from .sweep import Steps, Swept, course, sweep, told

#: The modules whose points the tests of `make test` sweep: what drives the protocol, and what hands locks out.
DRIVERS = ("runtime/", "client/taking.py", "client/lock_client.py", "client/closing.py", "client/session.py")

#: The modules whose points they sweep for releases: these end a hold before its row is released.
ENDING = ("runtime/drive.py", "client/lock.py", "client/multi_lock.py", "client/held.py", "core/keep.py")

#: Those in which a request is under way.
SENDING = ("runtime/drive.py", "transport/http1.py")

#: The tests play one point in so many; `python -m tests.drivers`, a part of `make prove`, plays all.
ONE_IN = 11

pytestmark = pytest.mark.ministack_only(reason="its table has a name of its own")


@pytest.fixture
def stage(engine: Ministack, table: str, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """``table`` lets the environment of this process point at the engine."""
    monkeypatch.setenv("LAMBDA_LOCK_TRACING", "off")
    if TABLE not in engine.dynamodb("ListTables", {})["TableNames"]:
        engine.create_table(TABLE)
    return Stage(engine)


def good(swept: Swept) -> int:
    """Check that a sweep found nothing. Returns how many points it had."""
    assert swept.troubles == []
    assert swept.double_holders == 0
    assert swept.played == swept.points
    assert swept.counts["not reached"] < swept.points / 2  # a few are on a way that is not always taken
    return swept.points


def check_some(stage: Stage, operation: str, fault: str, within: tuple[str, ...]) -> None:
    """Play one in so many points of a sweep, which must have many."""
    steps = partial(course, stage, operation, fault, within=within, one_in=ONE_IN)
    assert good(sweep(f"{operation}: {fault}", steps)) * ONE_IN > 50


@pytest.mark.parametrize("operation", sampled(2, zip(["acquire", "close", "release"])))
def test_an_interrupt_at_any_instant_leaves_nothing_held_and_the_client_of_use(operation, stage):
    check_some(stage, operation, "interrupt", DRIVERS)


@pytest.mark.parametrize(
    "operation",
    sampled(
        2,
        zip(["release", "leave a block", "commit", "release all", "commit under all", "hand over what was adopted"]),
    ),
)
def test_a_release_that_an_interrupt_ends_is_completed_at_once(operation, stage):
    check_some(stage, operation, "interrupt", ENDING)


@pytest.mark.parametrize(
    "operation", sampled(2, zip(["acquire", "acquire all", "commit", "adopt", "commit under all"]))
)
def test_a_signal_handler_that_closes_the_client_amid_a_request_leaves_nothing_held(operation, stage):
    check_some(stage, operation, "handler closes", SENDING)


@pytest.mark.long
@pytest.mark.parametrize("operation", ["acquire", "renew", "release"])
def test_a_signal_handler_may_take_release_and_look_whatever_it_interrupts(operation, stage):
    check_some(stage, operation, "handler takes another", DRIVERS)


@pytest.mark.long
def test_a_child_that_leaves_through_an_acquire_does_not_release_its_parents_lock(stage):
    check_some(stage, "acquire", "fork and leave", DRIVERS)


@pytest.mark.parametrize("operation", ["acquire", "hand_over", "close"])
def test_a_cancellation_at_any_wait_leaves_nothing_held(operation, stage):
    name = f"{operation}: cancellation"
    assert good(sweep(name, partial(cancelling.course, stage.rows, operation))) > 15


@pytest.mark.parametrize(
    ("operation", "lost"),
    sampled(  # `make test` plays a third of the operations, each with one of these losses
        9,
        (
            (operation, ("", "request", "reply")[(first + second) % 3])
            for first, operation in enumerate(sorted(cancelling.CANCELLED.keys() - {"wait"}))
            for second in range(3)
        ),
    ),
)
def test_a_cancellation_of_each_operation_leaves_nothing_held_whatever_the_network_loses(operation, lost, stage):
    steps = partial(cancelling.course, stage.rows, operation, lost=lost, one_in=ONE_IN)
    assert good(sweep(f"{operation}: cancellation", steps)) * ONE_IN > 15


@pytest.mark.prove
@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        *itertools.product(["commit", "hand_over", "resume"], ["handler ends the same", "fork and leave"]),
        ("acquire", "fork and go on"),
        ("release", "fork and go on"),
    ],
)
def test_whatever_comes_in_between_nothing_hangs_and_nothing_is_held_for_nobody(operation, fault, stage):
    name = f"{operation}: {fault}"
    assert good(sweep(name, sweeps(stage.rows.engine)[name])) > 15


def test_an_interrupt_on_the_way_into_a_first_use_keeps_no_other_thread_waiting():
    def use() -> None:
        with FirstUse():
            pass

    def has_its_turn() -> bool:
        entered = FirstUse()
        entered.__enter__()
        try:
            return first_use._turn.holder() is entered
        finally:
            entered.__exit__()

    def interrupt() -> None:
        raise KeyboardInterrupt

    found = points_of(use)
    for point in found:
        with contextlib.suppress(KeyboardInterrupt), Strike(point, interrupt):
            use()
        assert in_thread(has_its_turn)(), f"interrupted at {point}"
    assert len(found) > 3


def example(one: Callable[[int], None]) -> Steps:
    """A course of four points, at each of which this is called."""

    def fine(number: int) -> Counter[str]:
        one(number)
        return Counter(fine=1)

    return lambda first: told([f"point {number}" for number in range(4)], first, fine)


_left_behind: list[int] = []


def _spoil(number: int) -> None:
    _left_behind.extend([number] * (number == 1))
    assert not _left_behind, "spoilt"


@pytest.mark.parametrize(
    ("one", "said"), [(lambda number: os._exit(7) if number == 1 else None, "status"), (_spoil, "spoilt")]
)
def test_a_sweep_tells_of_what_hangs_dies_or_is_wrong_and_goes_on_after_it_unspoilt(one, said):
    swept = sweep("example", example(one))
    assert [text for text in swept.troubles if "point 1" in text and said in text] == swept.troubles != []
    assert (swept.played, swept.counts["fine"]) == (4, 3)


def test_a_sweep_whose_time_is_over_has_played_one_point_at_least():
    swept = sweep("example", example(lambda number: None), until=0)
    assert (swept.played, swept.points, swept.troubles) == (1, 4, [])
