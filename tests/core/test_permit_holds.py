"""Permits that outlive an invocation, request by request: by string, by holder, and by whatever comes late."""

from functools import partial
from typing import Any

import pytest

from lambda_lock.core import handover, requests, resume
from lambda_lock.core.handover import read_handover
from lambda_lock.core.permits import KEPT, PermitPlace, hold_of
from lambda_lock.core.protocol import AcquireRequest, Hold
from lambda_lock.core.resume import name_of
from lambda_lock.core.row import base_of
from lambda_lock.errors import LockFormatError, LockLostError, LockNotGrantedError

from .driver import refused
from .test_resume import Invocations

N = 2


class Admitted(Invocations):
    """Invocations that have permits of one semaphore."""

    def wanted(self, **changes: Any) -> AcquireRequest:
        return super().wanted(**{"permits": N, **changes})

    def acquire_as(self, holder: str, **changes: Any) -> Hold:
        wanted = self.wanted(owner=f"{holder}#{name_of(holder)}/{self.entropy.nonce()}", **changes)
        self.sent.clear()
        return self.run(resume.acquire(wanted, self.talk()))

    @property
    def attempts(self) -> list[str]:
        return list(self.row["permits"]["M"])

    @property
    def holds(self) -> list[str]:
        return list(self.row["permitTokens"]["M"])


def attempt(hold: Hold) -> str:
    return hold.owner.rpartition("#")[2]


@pytest.fixture
def driver() -> Admitted:
    return Admitted()


@pytest.fixture
def first(driver: Admitted) -> Hold:
    """The first handle of a hold. Its process is gone."""
    hold = driver.acquire()
    driver.now += 1
    return hold


def test_a_resume_replaces_one_entry_by_another_under_the_same_token(driver, first):
    other = driver.acquire()
    hold = driver.resume(first)
    assert driver.operations == ["GetItem", "UpdateItem"]
    assert set(driver.attempts) == {attempt(other), attempt(hold)}
    assert set(driver.holds) == {attempt(other), attempt(first)}
    assert hold.token == first.token
    assert attempt(hold).startswith(f"{attempt(first)}/")


def test_a_resume_needs_no_free_permit_and_looks_at_no_n(driver, first):
    driver.acquire()
    driver.resume(first, permits=1)
    with pytest.raises(LockNotGrantedError, match="2 of 2 are held"):
        driver.acquire()


def test_a_copy_of_the_claim_that_comes_late_gets_no_permit_beside_the_attempt(driver):
    driver.release(driver.acquire(permits=3))  # makes the row
    first = driver.acquire(permits=3)
    claim = driver.sent[-1]
    hold = driver.resume(first)
    refused(driver, claim)
    assert driver.attempts == [attempt(hold)]


def test_every_earlier_attempt_is_refused(driver, first):
    hold = driver.resume(first)
    assert not driver.renew(first).renewed
    assert not driver.release(first)
    assert driver.renew(hold).renewed
    assert driver.release(hold)
    assert driver.attempts == driver.holds == []


def test_an_attempt_that_comes_late_goes_over_its_own_entry(driver, first):
    driver.trouble(driver.apply, driver.late_by(100))  # its validity has passed on arrival
    wanted = driver.wanted(owner=f"{base_of(first.owner)}/{driver.entropy.nonce()}", decision=500.0)
    hold = driver.run(resume.resume(wanted, first.token, driver.talk()))
    _, request = driver.sent[-1]
    assert "REMOVE" not in request["UpdateExpression"]
    assert driver.attempts == [attempt(hold)]


def test_what_is_handed_over_is_resumed_adopted_once_and_released_by_a_string_with_n(driver, first):
    string = read_handover(driver.hand_over(driver.resume(first)), "locks")
    assert (string.permits, string.owner, string.token) == (N, first.owner, first.token)
    assert driver.attempts == [f"{attempt(first)}/"]
    adopted = driver.adopt(first)
    assert adopted.token == first.token + 1
    with pytest.raises(LockLostError):
        driver.resume(first)
    assert not driver.release_string(first)
    assert driver.release_string(adopted)
    assert driver.attempts == driver.holds == []


def test_a_release_by_string_reads_first_and_is_false_the_second_time(driver, first):
    driver.resume(first)
    assert driver.release_string(first)
    assert driver.operations == ["GetItem", "UpdateItem"]
    assert not driver.release_string(first)
    assert driver.operations == ["GetItem"]


def test_a_release_by_string_whose_reply_is_lost_is_true(driver, first):
    driver.trouble(driver.apply, driver.lost_reply)
    assert driver.release_string(first)
    assert driver.operations == ["GetItem", "UpdateItem", "UpdateItem"]


def test_a_release_by_string_that_comes_late_does_not_end_what_was_adopted_meanwhile(driver, first):
    """The adopter's entry has the same name. Only the token tells the two apart."""
    late = requests.release(first.place, owner=first.owner, token=first.token, content=requests.Content())
    adopted = driver.adopt(first)
    assert adopted.owner == first.owner
    refused(driver, late)
    assert driver.renew(adopted).renewed


def test_a_holder_has_one_permit_after_doubled_acquires_though_others_are_free(driver):
    first = driver.acquire_as("x/1#y", permits=5)
    second = driver.acquire_as("x/1#y", permits=5)
    assert second.token == first.token
    assert [hold_of(each) for each in driver.attempts] == driver.holds == [name_of("x/1#y")]
    assert base_of(second.owner) == f"x/1#y#{name_of('x/1#y')}"
    assert not driver.renew(first).renewed


def test_a_holder_is_resumed_though_no_permit_is_free_and_its_lease_is_over(driver):
    first = driver.acquire_as("h")
    driver.acquire()
    driver.now += 500
    assert driver.acquire_as("h").token == first.token


def test_a_late_claim_of_a_holder_is_found_and_ended_by_its_next_acquire(driver):
    driver.release(driver.acquire())
    first = driver.acquire_as("h")
    claim = driver.sent[-1]
    assert driver.release(first)
    driver.apply(*claim)
    assert len(driver.attempts) == 1
    assert driver.release(driver.acquire_as("h"))
    assert driver.attempts == driver.holds == []


def test_a_claim_that_finds_its_own_hold_under_another_attempt_waits_like_anybody(driver):
    first = driver.acquire_as("h", permits=5)
    with pytest.raises(LockNotGrantedError, match="has a permit of this hold already, under h#"):
        driver.acquire(owner=f"{base_of(first.owner)}/{driver.entropy.nonce()}", permits=5)


def test_a_row_with_two_entries_of_one_hold_is_a_clear_error(driver, first):
    ((name, entry),) = driver.row["permits"]["M"].items()
    driver.damage(permits={"M": {name: entry, f"{name}/x": entry}})
    with pytest.raises(LockFormatError, match="two entries in permits of one hold"):
        driver.acquire()


def test_an_entry_of_the_own_holder_that_cannot_be_read_is_a_clear_error(driver):
    first = driver.acquire_as("h", permits=5)
    driver.damage(permits={"M": {attempt(first): {"S": "x"}}})
    again = partial(driver.acquire_as, "h", permits=5)
    for act in (again, partial(driver.resume, first), partial(driver.release_string, first)):
        with pytest.raises(LockFormatError, match="an entry of this holder in permits that cannot be read"):
            act()
    driver.damage(permits={"M": {}})
    for act in (again, partial(driver.resume, first)):
        with pytest.raises(LockFormatError, match="no entry in permits for a token of this holder"):
            act()
    driver.acquire_as("another", permits=5)


def test_a_lock_s_string_on_a_semaphore_and_the_reverse_are_clear_errors(driver, first):
    lock = driver.wanted(permits=None, owner=first.owner)
    for steps in (
        resume.resume(lock, first.token, driver.talk()),
        resume.release(lock.place, first.owner, first.token, driver.talk()),
        handover.adopt(lock, first.token, driver.talk()),
    ):
        with pytest.raises(LockFormatError, match="is a semaphore, not a lock"):
            driver.run(steps)
    lock = Admitted()
    held = lock.acquire(permits=None)
    with pytest.raises(LockFormatError, match="is a lock, not a semaphore"):
        lock.resume(held)
    held.place = PermitPlace(held.place, N, held.owner)
    with pytest.raises(LockFormatError, match="is a lock, not a semaphore"):
        lock.release_string(held)


def test_the_row_outlives_a_lease_of_a_year_whoever_writes_last(driver):
    year = driver.acquire(lease_ms=366 * 86_400_000)
    brief = driver.acquire(lease_ms=1000)
    ttl = int(driver.row["ttl"]["N"])
    assert ttl == -(-brief.expiry_ms // 1000) + KEPT
    assert ttl * 1000 > year.expiry_ms


def test_a_permit_that_is_never_resumed_has_the_same_name_in_both_maps(driver):
    hold = driver.acquire()
    driver.hand_over(hold)
    assert driver.attempts == driver.holds == [attempt(hold)]


def test_a_hundred_dead_attempts_are_replaced_at_once(driver):
    for _ in range(100):
        driver.resume(driver.acquire(permits=100))
    driver.now += 100
    driver.sent.clear()
    driver.acquire(permits=100)
    assert len(driver.attempts) == len(driver.holds) == 1
    _, request = driver.sent[-1]
    assert max(len(request["ConditionExpression"]), len(request["UpdateExpression"])) < 4096  # DynamoDB's limit
