"""When a waiter looks: what it has learnt of holds, and for how long the present one has lasted."""

from typing import Any

import pytest

from lambda_lock.core.lease import ClockReading
from lambda_lock.core.queue import Pace
from lambda_lock.core.row import Row, make_version

from .driver import NOW, place


def held_row(*, granted: float, token: int = 1, held_ms: int | None = None) -> Row:
    """A row that was claimed at ``granted`` (seconds after NOW), for a lease of 20 s."""
    item: dict[str, Any] = {
        **place().item_key,
        "ownerName": {"S": "other#1"},
        "recordVersionNumber": {"S": make_version(int((NOW + granted + 22) * 1000), "0" * 32)},
        "leaseDuration": {"S": "20000"},
        "fencingToken": {"N": str(token)},
    }
    if held_ms is not None:
        item["heldMs"] = {"N": str(held_ms)}
    row = place().row(item)
    assert row is not None
    return row


def at(seconds: float) -> ClockReading:
    return ClockReading(seconds, seconds, NOW + seconds)


def nap(age: float, *, ahead: int = 0) -> float:
    """The nap at a first look, at a lock that is held for so long already."""
    pace = Pace()
    pace.note(held_row(granted=100 - age), at(100), int(NOW) + 100)
    return pace.nap(ahead, at(100), None)


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_hold_that_is_old_at_the_first_look_is_looked_at_less_often(ahead):
    assert nap(10.0, ahead=ahead) > 4 * nap(0.0, ahead=ahead)


def test_a_turn_is_expected_later_the_older_the_present_hold_is():
    pace = Pace()
    pace.note(held_row(granted=90), at(100), int(NOW) + 100)
    assert 9.4 < pace.turn(0, at(100)) < 9.6  # the holder's time may be 0.5 s behind


def test_a_hold_is_not_taken_for_an_old_one_because_a_second_begins():
    pace = Pace()
    pace.note(held_row(granted=99.5), at(100), int(NOW) + 100)  # granted now, by a holder whose time is 0.5 s behind
    assert pace.turn(0, at(100)) == pytest.approx(pace.hold)


def test_a_hold_far_longer_than_those_before_begins_the_estimate_anew():
    pace = Pace()
    for token in range(1, 6):
        pace.note(held_row(granted=99, token=token, held_ms=20), at(100), int(NOW) + 100)
    pace.note(held_row(granted=99, token=6, held_ms=300), at(100), int(NOW) + 100)
    assert pace.hold == pytest.approx(0.3)


def test_other_work_is_taken_to_be_as_even_as_the_work_before():
    naps = {}
    for holds in ((20, 20, 20, 20), (20, 60, 20, 60)):
        pace = Pace()
        for token, held_ms in enumerate((*holds, 600)):
            pace.note(held_row(granted=100, token=token + 1, held_ms=held_ms), at(100), int(NOW) + 100)
        naps[holds] = pace.nap(0, at(100), None)
    even, uneven = naps.values()
    assert even > 1.3 * uneven


@pytest.mark.parametrize(("holds", "mean"), [((100, 700), 400), ((300, 20), 160), ((20,), 20)])
def test_other_holds_change_the_estimate_by_half(holds, mean):
    pace = Pace()
    for token, held_ms in enumerate(holds):
        pace.note(held_row(granted=99, token=token + 1, held_ms=held_ms), at(100), int(NOW) + 100)
    assert pace.hold == pytest.approx(mean / 1000)
