"""A release leaves no late copy of a claim of its own, and never releases what an adopter has."""

from typing import Any

import pytest

from lambda_lock.core import handover, keep
from lambda_lock.core.protocol import Hold
from lambda_lock.errors import TransportError

from .driver import DEAD, NOW, OnTable


@pytest.fixture
def driver() -> OnTable:
    return OnTable()


def is_held(driver: OnTable) -> bool:
    return "isReleased" not in driver.row


def interrupt_handover(driver: OnTable, hold: Hold) -> None:
    """Hand over: the request is carried out, and the interrupt comes before its answer."""
    steps = handover.hand_over(hold, driver.talk(), lease_ms=20_000)
    send: Any = next(steps)
    driver.apply(send.operation, send.request)
    with pytest.raises(KeyboardInterrupt):
        steps.throw(KeyboardInterrupt())


@pytest.mark.parametrize("handed_over", [False, True], ids=["released", "released after an interrupted handover"])
def test_a_late_copy_of_a_claim_that_was_first_refused_is_released_with_the_lock(driver, handed_over):
    driver.damage(**DEAD)
    hold = driver.acquire()
    claim, take_over = driver.sent
    assert take_over[0] == "UpdateItem"
    if handed_over:
        interrupt_handover(driver, hold)
    driver.troubles["UpdateItem"] = [driver.lost_reply]
    driver.after["UpdateItem"] = [lambda: driver.apply(*claim)]  # the late copy finds the lock free
    assert driver.run(keep.release(hold, driver.talk())) is True
    assert not is_held(driver)


def test_a_second_late_copy_that_lands_while_the_first_is_released_is_released_too(driver):
    driver.damage(**DEAD | {"recordVersionNumber": {"S": f"L1:{int(NOW * 1000) + 60_000:013d}:{'0' * 32}"}})
    driver.before["GetItem"] = [lambda: driver.damage(isReleased={"S": "1"})]
    hold = driver.acquire(waits=True, wait_until=20.0)
    first, second = [sent for sent in driver.sent if sent[0] == "UpdateItem"]
    driver.troubles["UpdateItem"] = [driver.lost_reply, driver.apply, driver.lost_reply]
    driver.after["UpdateItem"] = [lambda: driver.apply(*first), lambda: None, lambda: driver.apply(*second)]
    sent = len(driver.sent)
    assert driver.release(hold) is True
    assert len(driver.sent) - sent == 5  # to release mine, twice; the first copy, twice; the second copy
    assert not is_held(driver)


def test_the_release_of_what_an_interrupted_handover_parked_is_sent_no_more_once_it_is_found_released(driver):
    hold = driver.acquire(owner=f"me#{'1' * 32}/{'2' * 32}")  # a first handle, by its holder
    interrupt_handover(driver, hold)

    def carried_out_without_an_answer(operation: str, request: dict[str, Any]) -> Any:
        if "L1" not in str(request["ExpressionAttributeValues"]):  # not under a version
            return driver.apply(operation, request)
        driver.apply(operation, request)
        driver.answer = driver.apply
        return TransportError(True)

    driver.answer = carried_out_without_an_answer
    sent = len(driver.sent)
    assert driver.release(hold) is True
    assert len(driver.sent) - sent == 3  # to release mine; what was parked, twice
    assert not is_held(driver)


def test_the_release_of_a_handle_whose_lock_was_adopted_by_its_owner_and_token_leaves_the_adopter_its_lock(driver):
    """No string was given: who knows the owner and the token may adopt without one."""
    hold = driver.acquire()
    adopted = driver.run(handover.adopt(driver.wanted(owner=hold.owner), hold.token, driver.talk()))
    assert adopted.owner == hold.owner
    assert driver.run(keep.release(hold, driver.talk())) is False
    assert is_held(driver)
    assert adopted.is_held(driver.reading().elapsed)
