"""The states of a Hold: the table, and that no order of events, not even two at once, gives back what is over."""

import sys
from collections.abc import Callable
from itertools import product
from types import FrameType
from typing import Any

import pytest

from lambda_lock.core import protocol
from lambda_lock.core.other_schemas import PYTHON
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.protocol import AFTER, UNAVAILABLE, AcquireRequest, Hold
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.row import Row, make_version
from lambda_lock.errors import TransportError

END = 10.0  # elapsed seconds
EVENTS: dict[str, Callable[[Hold], object]] = {
    "expired": lambda hold: hold.expire(END),
    "unanswered": lambda hold: hold.answered(TransportError(True, "no answer")),
    "failed": lambda hold: hold.answered(ServiceError("AccessDeniedException", "no")),
    "granted": lambda hold: hold.extend(0.0, None),
    "lost": lambda hold: hold.lose(),
    "ending": lambda hold: hold.end(),
}
STATES = list(dict.fromkeys([*AFTER.values(), *(state for state, _ in AFTER)]))
PAIRS = list(product(STATES, EVENTS))


def hold_in(state: tuple[str, ...]) -> Hold:
    row = Row({PYTHON.version: {"S": make_version(0, "0" * 32)}, PYTHON.token: {"N": "1"}}, PYTHON)
    wanted = AcquireRequest(
        Place("t", PYTHON, "key", "k", None, None), "me", 10_000, Content(), hold_on_unavailable=True
    )
    hold = Hold(wanted, row, 10_000, 0, END)
    vars(hold).update(dict.fromkeys(state, True))
    assert hold.state == state
    return hold


@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_a_hold_goes_where_the_table_says_and_stays_where_it_says_nothing(state, event):
    hold = hold_in(state)
    EVENTS[event](hold)
    assert hold.state == AFTER.get((state, event), state)


def test_the_table_names_no_event_that_cannot_come():
    assert {event for _, event in AFTER} == EVENTS.keys()


@pytest.mark.parametrize(("state", "first", "second"), list(product(STATES, EVENTS, EVENTS)))
def test_what_comes_between_any_two_instructions_of_an_event_is_never_taken_back(state, first, second):
    """As a signal handler or another thread does it: a release, or a loss, in the middle of a renewal's answer."""
    _interrupted(hold_in(state), first, second, sys.maxsize)  # Python 3.12 traces instructions from a second call on
    step = 0
    while (between := _interrupted(hold := hold_in(state), first, second, step)) is not None:
        assert all(getattr(hold, mark) for mark in between), f"{hold.state} after instruction {step}"
        assert hold.ended or "ending" not in (first, second)
        assert hold.lost or "lost" not in (first, second)
        step += 1
    assert step


@pytest.mark.parametrize(("first", "second"), [("granted", "expired"), ("expired", "granted")])
def test_a_look_at_any_instant_of_the_end_of_an_outage_does_not_lose_the_hold(first, second, monkeypatch):
    monkeypatch.setitem(EVENTS, "granted", lambda hold: hold.extend(END, -60))
    _interrupted(hold_in(UNAVAILABLE), first, second, sys.maxsize)
    step = 0
    while _interrupted(hold := hold_in(UNAVAILABLE), first, second, step) is not None:
        assert hold.is_held(END), f"{hold.state} after instruction {step}"
        step += 1
    assert step


def _interrupted(hold: Hold, first: str, second: str, step: int) -> set[str] | None:
    """Let the second event come at this instruction of the first. Return what was final after it. None: it is over."""
    left, seen = step, list[set[str]]()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != protocol.__file__ or seen:
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            sys.settrace(None)
            EVENTS[second](hold)
            seen.append({mark for mark in ("lost", "ended") if getattr(hold, mark)})
        return trace

    sys.settrace(trace)
    try:
        EVENTS[first](hold)
    finally:
        sys.settrace(None)
    return seen[0] if seen else None
