"""A claim that is given up is given back like any other decision: through throttling, lost replies and interrupts."""

import contextlib
from typing import Any

import pytest

from lambda_lock.core.outcome import ConditionFailed, ServiceError, TransportError
from lambda_lock.core.protocol import DECISION
from lambda_lock.errors import LockNotGrantedError

from .driver import NOW, THROTTLED, UNKNOWN, Interrupt, OnTable

BUSY = ServiceError("TransactionConflictException", "", retryable=True)
UNSENT = TransportError(False)


class Troubled(OnTable):
    """Each time the claim is sent, it is carried out and its reply is lost. ``trouble`` then meets the releases."""

    def __init__(self, *trouble: Exception) -> None:
        super().__init__()
        self.troubles = {"claim": [self.carried_out] * 99, "release": list(trouble)}

    def kind_of(self, operation: str, request: dict[str, Any]) -> str:
        return "claim" if "if_not_exists" in request.get("UpdateExpression", "") else "release"

    def carried_out(self, operation: str, request: dict[str, Any]) -> TransportError:
        with contextlib.suppress(ConditionFailed):  # sent again, although it was carried out before
            self.apply(operation, request)
        return UNKNOWN

    @property
    def releases(self) -> int:
        return self.kinds.count("release")

    @property
    def is_held(self) -> bool:
        return bool(self.table.items()) and "isReleased" not in self.row


def given_up(*trouble: Exception, **changes: Any) -> Troubled:
    """A process whose claim gets no answer."""
    driver = Troubled(*trouble)
    with pytest.raises(TransportError):
        driver.acquire(**changes)
    return driver


@pytest.mark.parametrize("trouble", [THROTTLED, BUSY, UNSENT, UNKNOWN], ids=["throttled", "busy", "unsent", "unknown"])
@pytest.mark.parametrize("deletes", [False, True])
def test_a_give_back_that_does_not_get_through_is_sent_again(trouble, deletes):
    driver = given_up(trouble, trouble, trouble, delete_on_release=deletes)
    assert not driver.is_held
    assert driver.releases == 4


def test_a_give_back_whose_reply_is_lost_is_done_once():
    driver = Troubled()
    driver.troubles["release"] = [driver.lost_reply]
    with pytest.raises(TransportError):
        driver.acquire()
    assert not driver.is_held
    assert driver.releases == 2


def test_a_give_back_that_never_gets_through_ends_with_its_decision():
    driver = given_up(*[THROTTLED] * 1000)
    assert driver.is_held  # until its lease ends
    assert 3 < driver.releases < 100
    assert driver.now < 2 * DECISION + 2


def test_a_refused_permission_is_not_asked_for_again():
    assert given_up(*[ServiceError("AccessDeniedException", "")] * 1000).releases == 1


@pytest.mark.parametrize("at", range(3, 3 + 6))
def test_an_interrupt_thrown_in_again_does_not_end_the_giving_back(at):
    first, second = KeyboardInterrupt(), Interrupt()
    driver = Troubled(THROTTLED, THROTTLED)
    driver.thrown = {2: first, at: second}
    with pytest.raises((KeyboardInterrupt, Interrupt)) as caught:
        driver.acquire()
    assert not driver.is_held
    if at <= driver.steps:
        assert caught.value is second  # the newer one is raised, and the one that it interrupted is its context
        assert second.__context__ is first


def test_a_third_interrupt_ends_the_giving_back_at_once():
    driver = Troubled(*[THROTTLED] * 1000)
    driver.thrown = {2: KeyboardInterrupt(), 4: KeyboardInterrupt(), 6: Interrupt()}
    with pytest.raises(Interrupt):
        driver.acquire()
    assert driver.steps == 6


def test_a_client_that_is_closed_while_it_gives_back_raises_what_it_gave_up_for():
    driver = Troubled(THROTTLED, THROTTLED)
    driver.thrown = {2: KeyboardInterrupt(), 4: RuntimeError("closed")}
    with pytest.raises(KeyboardInterrupt):
        driver.acquire()
    assert not driver.is_held


def test_an_interrupt_after_a_long_sleep_leaves_the_giving_back_its_whole_time():
    """An interrupt comes without a look at the clocks, so a decision's time counts from the first answer."""
    driver = Troubled(*[THROTTLED] * 6)
    driver.before["release"] = [lambda: driver.pass_time(3600)]
    driver.thrown = {2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        driver.acquire()
    assert not driver.is_held
    assert driver.releases == 7


@pytest.mark.parametrize(
    "row", [{}, {"isReleased": {"S": "1"}, "recordVersionNumber": {"S": "x"}}], ids=["none", "free"]
)
def test_an_answer_that_comes_too_late_for_another_claim_does_not_name_a_holder_of_a_free_lock(row):
    driver = OnTable(trip=DECISION + 0.1)
    driver.troubles["UpdateItem"] = [ConditionFailed({"key": {"S": "k"}, **row} if row else None, int(NOW + 5))]
    with pytest.raises(LockNotGrantedError, match="lock 'k' is free, but no claim came in time") as refused:
        driver.acquire()
    assert refused.value.holder is None
    assert refused.value.retry_after in (0, 0.05)


def test_the_date_of_the_release_that_gives_a_claim_back_is_noted():
    driver = OnTable()
    driver.thrown[1] = KeyboardInterrupt()  # instead of the answer to the claim
    with pytest.raises(KeyboardInterrupt):
        driver.acquire()
    assert [operation for operation, _ in driver.sent] == ["UpdateItem"]
    assert driver.memory.server.is_known
