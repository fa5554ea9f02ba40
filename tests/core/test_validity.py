"""Validity counts from before the first send of the request that was granted, however long its answer took."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from lambda_lock.core import acquire, handover, keep, resume
from lambda_lock.core.lease import DRIFT
from lambda_lock.core.outcome import TransportError
from lambda_lock.core.protocol import Hold

from .driver import THROTTLED, OnTable

LEASE = 20.0 * (1 - DRIFT)  # seconds
TRIP = 0.1  # seconds; a few of them leave the lease, and not the Date, to end the validity

Steps = Generator[Any, Any, Any]


def acquiring(process: OnTable, hold: Hold) -> Steps:
    process.release(hold)
    return acquire.acquire(process.wanted(), process.talk())


def renewing(process: OnTable, hold: Hold) -> Steps:
    hold.valid_until = process.now + 1.0
    return keep.renew(hold, process.talk())


def adopting(process: OnTable, hold: Hold) -> Steps:
    process.run(handover.hand_over(hold, process.talk(), lease_ms=20_000))
    return handover.adopt(process.wanted(owner=hold.owner), hold.token, process.talk())


def resuming(process: OnTable, hold: Hold) -> Steps:
    return resume.resume(process.wanted(owner=f"{hold.owner}/{'e' * 32}"), hold.token, process.talk())


def granted(request: Callable[[OnTable, Hold], Steps], *, lost: int = 0, throttled: int = 0) -> tuple[float, float]:
    """How long the hold is valid, from before the first send and from the answer on.

    lost: so many sends land, but their answers are lost. throttled: so many more are refused for now.
    """
    process = OnTable()
    hold = process.acquire()
    process.trip = TRIP
    process.now += 5.0
    steps = request(process, hold)
    began, troubles = process.now, [TransportError(True, "no answer")] * lost + [THROTTLED] * throttled

    def answer(operation: str, sent: dict[str, Any]) -> Any:
        if not troubles:
            return process.apply(operation, sent)
        trouble = troubles.pop(0)
        if isinstance(trouble, TransportError):
            process.apply(operation, sent)
        return trouble

    process.answer = answer
    result = process.run(steps)
    hold = result if isinstance(result, Hold) else hold
    return hold.valid_until - began, hold.valid_until - process.now


@pytest.mark.parametrize("request_", [acquiring, renewing, adopting, resuming])
def test_the_time_that_an_answer_takes_is_not_valid(request_):
    since_sent, since_answered = granted(request_)
    assert since_sent == pytest.approx(LEASE)
    assert since_answered == pytest.approx(LEASE - TRIP)


@pytest.mark.parametrize(("lost", "throttled"), [(1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("request_", [acquiring, adopting, resuming])
def test_sends_before_the_one_that_was_answered_take_from_the_validity(request_, lost, throttled):
    since_sent, since_answered = granted(request_, lost=lost, throttled=throttled)
    assert since_sent <= LEASE + 1e-6
    assert since_answered < LEASE - (1 + lost + throttled) * TRIP
