"""Whatever rows and answers say, a decision is a handful of requests: no loop of the core is without an end."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_lock.core.outcome import ConditionFailed, Reply
from lambda_lock.errors import LockError, LockNotGrantedError, LockTimeoutError, TransportError

from .driver import NOW, Driver, OnTable

HANDFUL = 8  # requests

FREE = {"key": {"S": "k"}, "ownerName": {"S": "other#1"}, "isReleased": {"S": "1"}, "recordVersionNumber": {"S": "v"}}
DEAD = {
    "key": {"S": "k"},
    "ownerName": {"S": "other#1"},
    "leaseDuration": {"S": "20000"},
    "recordVersionNumber": {"S": f"L1:{int(NOW * 1000) - 60_000:013d}:{'0' * 32}"},
    "fencingToken": {"N": "7"},
}


# Acquire


@pytest.mark.parametrize("shown", [None, FREE, DEAD], ids=["none", "free", "dead"])
def test_writes_that_are_refused_although_the_row_shown_lets_them_pass_come_to_an_end(shown: Any) -> None:
    driver = Driver(lambda operation, request: ConditionFailed(shown, int(NOW)))
    with pytest.raises(TransportError, match="endpoint") as caught:
        driver.acquire()
    assert not caught.value.ambiguous
    assert caught.value.key == "k"
    assert len(driver.sent) <= HANDFUL


@pytest.mark.parametrize("shown", [None, FREE, DEAD], ids=["none", "free", "dead"])
def test_who_waits_before_answers_that_contradict_each_other_pauses_between_them(shown: Any) -> None:
    def answer(operation: str, request: Any) -> Any:
        return Reply(shown, int(NOW)) if operation == "GetItem" else ConditionFailed(shown, int(NOW))

    driver = Driver(answer)
    with pytest.raises((TransportError, LockTimeoutError)):
        driver.acquire(patient=True, wait_until=10.0)
    assert driver.now < 20
    assert len(driver.sent) < 250  # 40 pauses or so, with a handful of writes between two


def test_a_grant_that_is_never_any_good_is_not_corrected_for_ever() -> None:
    """Each Date is an hour before the one that the expiry was reckoned from."""
    driver = OnTable()
    driver.apply = lambda operation, request: Reply(  # type: ignore[method-assign]
        driver.table.apply(operation, request), int(NOW) - 3600 * len(driver.sent)
    )
    driver.answer = driver.apply
    with pytest.raises((TransportError, LockNotGrantedError)):
        driver.acquire()
    assert len(driver.sent) <= HANDFUL
    assert "isReleased" in driver.row  # and nothing is left held


def test_the_rows_of_another_lock_in_the_answers_end_a_wait_of_none_with_an_error() -> None:
    """A write that is carried out, and answered with somebody else's row."""
    driver = Driver(lambda operation, request: Reply(DEAD, int(NOW)))
    with pytest.raises(LockError):
        driver.acquire()
    assert len(driver.sent) <= 2 * HANDFUL  # what was sent is given back
