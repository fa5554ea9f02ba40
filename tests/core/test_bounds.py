"""No matter what rows and answers say, a decision takes a handful of requests: the core has no endless loops."""

from typing import Any

import pytest

from lambda_lock.core import handover, resume
from lambda_lock.core.outcome import ConditionFailed, Reply
from lambda_lock.core.protocol import ClientMemory, Hold
from lambda_lock.errors import (
    LockError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
    TransportError,
)

from .driver import DEAD, NOW, Driver, OnTable

HANDFUL = 8  # requests

FREE = {"key": {"S": "k"}, "ownerName": {"S": "other#1"}, "isReleased": {"S": "1"}, "recordVersionNumber": {"S": "v"}}
each_row = pytest.mark.parametrize("shown", [None, FREE, DEAD], ids=["none", "free", "dead"])


# Acquire


@each_row
def test_writes_that_are_refused_although_the_row_shown_lets_them_pass_come_to_an_end(shown):
    driver = Driver(lambda operation, request: ConditionFailed(shown, int(NOW)))
    with pytest.raises(TransportError, match="endpoint") as caught:
        driver.acquire()
    assert not caught.value.ambiguous
    assert caught.value.key == "k"
    assert len(driver.sent) <= HANDFUL


@each_row
def test_who_waits_before_answers_that_contradict_each_other_pauses_between_them(shown):
    def answer(operation: str, request: Any) -> Any:
        return Reply(shown, int(NOW)) if operation == "GetItem" else ConditionFailed(shown, int(NOW))

    driver = Driver(answer)
    with pytest.raises((TransportError, LockTimeoutError)):
        driver.acquire(waits=True, wait_until=10.0)
    assert driver.now < 20
    assert len(driver.sent) < 250  # about 40 pauses, with a handful of writes between two of them


def test_a_grant_that_is_never_any_good_is_not_corrected_for_ever(driver):
    """Each Date is an hour before the one that the expiry was computed from."""

    def dated(operation: str, request: Any) -> Reply:
        return Reply(driver.table.apply(operation, request), int(NOW) - 3600 * len(driver.sent))

    driver.answer = dated
    with pytest.raises((TransportError, LockNotGrantedError)):
        driver.acquire()
    assert len(driver.sent) <= HANDFUL
    assert "isReleased" in driver.row  # and no lock stays held


def test_the_rows_of_another_lock_in_the_answers_end_a_wait_of_none_with_an_error():
    """A write that is carried out but answered with somebody else's row."""
    driver = Driver(lambda operation, request: Reply(DEAD, int(NOW)))
    with pytest.raises(LockError):
        driver.acquire()
    assert len(driver.sent) <= 2 * HANDFUL  # what was claimed is given back


# A row with my owner and token that no request can match

HIGHEST = {"S": f"L1:9999999999999:{'f' * 32}"}  # above every version with 13 digits
UNMATCHED = {
    "a version that none can be above": {"recordVersionNumber": HIGHEST},
    "a token with a fraction": {"fencingToken": {"N": "{token}.5"}},
    "a token that is text": {"fencingToken": {"S": "7"}},
    "a version of fourteen digits": {"recordVersionNumber": {"S": f"L1:99999999999999:{'f' * 32}"}},
}


@pytest.fixture
def driver() -> OnTable:
    return OnTable()


@pytest.fixture(params=UNMATCHED.values(), ids=list(UNMATCHED))
def hold(driver: OnTable, request: pytest.FixtureRequest) -> Hold:
    """A lock whose row was changed without its knowledge."""
    hold = driver.acquire()
    for name, value in request.param.items():
        driver.damage(**{name: {kind: text.replace("{token}", str(hold.token)) for kind, text in value.items()}})
    driver.sent.clear()
    return hold


def test_a_renewal_that_the_row_can_only_refuse_is_lost_after_a_handful_of_requests(driver, hold):
    assert not driver.renew(hold).renewed
    assert hold.lost
    assert hold.holder is None
    assert len(driver.sent) <= HANDFUL


def test_a_hand_over_that_the_row_can_only_refuse_gives_no_string(driver, hold):
    with pytest.raises((LockLostError, LockFormatError)):
        driver.run(handover.hand_over(hold, driver.talk(), lease_ms=20_000))
    assert not hold.handed_over
    assert len(driver.sent) <= HANDFUL


@pytest.mark.parametrize("known", [True, False], ids=["time known", "time unknown"])
@pytest.mark.parametrize(
    ("act", "attempt", "parked"),
    [(handover.adopt, "", ""), (resume.resume, "/" + "e" * 32, ""), (resume.resume, "/" + "e" * 32, "/")],
    ids=["adopt", "resume from the first handle", "resume what is parked"],
)
def test_what_the_row_can_only_refuse_ends_after_a_handful_of_requests(driver, hold, act, attempt, parked, known):
    owner = {"S": hold.owner + parked}
    driver.damage(ownerName=owner)
    if not known:
        driver.memory = ClientMemory(10)
    with pytest.raises((LockLostError, LockFormatError)):
        driver.run(act(driver.wanted(owner=hold.owner + attempt), hold.token, driver.talk()))
    assert len(driver.sent) <= HANDFUL + 1
    assert driver.row["ownerName"] == owner
    assert "isReleased" not in driver.row  # the row is left alone


def test_a_release_by_string_ends_after_a_handful_of_requests_whatever_the_row(driver, hold):
    driver.damage(ownerName={"S": f"{hold.owner}/"})
    release = resume.release(hold.place, hold.owner, hold.token, driver.talk())
    assert driver.run(release) is ("isReleased" in driver.row)
    assert len(driver.sent) <= HANDFUL


def test_names_that_change_with_every_answer_end_a_resume_and_a_release_by_string(driver):
    hold = driver.acquire()
    row = driver.row

    def renamed(operation: str, request: Any) -> Any:
        return ConditionFailed({**row, "ownerName": {"S": f"{hold.owner}/{len(driver.sent)}"}}, int(NOW))

    driver.answer = renamed
    wanted = driver.wanted(owner=f"{hold.owner}/{'e' * 32}")
    driver.sent.clear()
    with pytest.raises(TransportError):
        driver.run(resume.resume(wanted, hold.token, driver.talk()))
    assert len(driver.sent) <= HANDFUL
    driver.sent.clear()
    with pytest.raises(TransportError) as caught:
        driver.run(resume.release(hold.place, hold.owner, hold.token, driver.talk()))
    assert not caught.value.ambiguous
    assert len(driver.sent) <= HANDFUL


def test_an_honest_row_that_a_newer_renewal_of_ours_has_changed_is_still_gone_above(driver):
    hold = driver.acquire()
    above = hold.expiry_ms + 5000
    driver.damage(recordVersionNumber={"S": f"L1:{above}:{'0' * 32}"})
    assert driver.renew(hold).renewed
    assert hold.expiry_ms > above
