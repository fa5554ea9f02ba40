"""Permits of more than one, request by request: what a row that counts weights requires, and how one begins to."""

import re
from typing import Any

import pytest

from lambda_lock.core import acquire, resume
from lambda_lock.core.outcome import TransportError
from lambda_lock.core.permit_queue import queue_for_permit
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, Hold
from lambda_lock.core.resume import name_of
from lambda_lock.core.row import LONGEST_BELIEVED, MOST_PERMITS, SEAL, WEIGHED, counts, ticket_expiry, ticket_take
from lambda_lock.core.tickets import make_ticket
from lambda_lock.errors import LockFormatError, LockNotGrantedError

from .driver import NOW, place
from .test_permits import Admitted, nonce, places


class Weighing(Admitted):
    """A process whose acquires take ``take`` of ``permits``."""

    def wanted(self, **changes: Any) -> AcquireRequest:
        return super().wanted(**{"take": 1, **changes})

    def kind_of(self, operation: str, request: dict[str, Any]) -> str:
        return "claim" if "ReturnValues" in request else super().kind_of(operation, request)

    @property
    def format(self) -> Any:
        return self.row["recordVersionNumber"]["S"]

    @property
    def taken(self) -> tuple[int, dict[str, int]]:
        takes = {name: int(value["N"]) for name, value in self.row["permitTakes"]["M"].items()}
        return int(self.row["permitsTaken"]["N"]), takes


@pytest.fixture
def driver() -> Weighing:
    return Weighing()


def test_a_row_counts_what_each_holder_takes_and_a_release_gives_that_back(driver):
    three, one = driver.acquire(permits=5, take=3), driver.acquire(permits=5, take=1)
    assert driver.format == WEIGHED
    assert driver.taken == (4, {nonce(three): 3})
    assert "has no 2 free permits: 4 of 5 are held, by me#" in str(driver.refused(permits=5, take=2))
    assert driver.release(three)
    assert driver.taken == (1, {})
    four = driver.acquire(permits=5, take=4)
    assert driver.release(one)
    assert driver.taken == (4, {nonce(four): 4})


def test_in_a_row_that_is_there_a_claim_with_a_weight_is_one_request(driver):
    assert driver.release(driver.acquire(take=2))
    driver.kinds.clear()
    assert driver.release(driver.acquire(take=1))
    assert len(driver.kinds) == 2


def test_what_says_nothing_of_weights_writes_rows_without_them(driver):
    hold = driver.acquire(take=None)
    assert driver.format == SEAL
    assert not {"permitTakes", "permitsTaken"} & driver.row.keys()
    assert driver.release(hold)
    driver.acquire(take=None)
    assert driver.format == SEAL


def test_one_permit_fits_a_row_of_either_kind(driver):
    driver.acquire(permits=3, take=None)
    driver.acquire(permits=3, take=1)
    assert driver.format == SEAL
    weighed = Weighing()
    weighed.acquire(permits=3, take=2)
    hold = weighed.acquire(permits=3, take=None)
    assert weighed.taken[0] == 3
    assert weighed.release(hold)
    assert weighed.taken[0] == 2


def test_more_than_one_waits_until_nobody_holds_where_weights_do_not_count(driver):
    hold = driver.acquire(permits=5, take=None)
    refused = str(driver.refused(permits=5, take=2))
    assert re.search(r"1 of 5 are held, .*, without take=, and must be released before", refused)
    assert driver.release(hold)
    taken = driver.acquire(permits=5, take=2)
    assert driver.format == WEIGHED
    assert driver.taken == (2, {nonce(taken): 2})


def test_a_row_changes_over_when_all_who_held_it_are_dead_and_their_entries_go(driver):
    driver.acquire(permits=5, take=None)
    driver.acquire(permits=5, take=None)
    driver.now += 30
    hold = driver.acquire(permits=5, take=2)
    assert driver.entries.keys() == {nonce(hold)}
    assert driver.taken == (2, {nonce(hold): 2})


def test_a_row_does_not_change_over_beside_a_claim_that_comes_between():
    driver, beside = Weighing(), Weighing()
    beside.table = driver.table
    assert driver.release(driver.acquire(permits=5, take=None))
    late: list[Hold] = []
    driver.after["claim"] = [lambda: late.append(beside.acquire(permits=5, take=None))]  # it has just seen the row
    driver.refused(permits=5, take=2)
    assert driver.format == SEAL
    assert driver.entries.keys() == {nonce(hold) for hold in late} != set()


def test_what_the_dead_took_is_free_again(driver):
    driver.acquire(permits=5, take=4)
    driver.now += 30
    hold = driver.acquire(permits=5, take=5)
    assert driver.taken == (5, {nonce(hold): 5})


def test_a_hundred_dead_holders_are_replaced_in_expressions_that_dynamodb_takes(driver):
    for _ in range(MOST_PERMITS // 2):
        driver.acquire(permits=100, take=2)
    driver.now += 30
    driver.acquire(permits=100, take=100)
    _, request = driver.sent[-1]
    assert max(len(request["ConditionExpression"]), len(request["UpdateExpression"])) < 4096


def test_a_string_releases_what_its_hold_took_without_knowing_it(driver):
    hold = driver.acquire(permits=5, take=4)
    there = PermitPlace(place(), 5, hold.owner)
    assert driver.run(resume.release(there, hold.owner, hold.token, driver.talk()))
    assert driver.taken == (0, {})


def by_holder(driver, take):
    owner = f"me#{name_of('me')}/{driver.entropy.nonce()}"
    return driver.run(resume.acquire(driver.wanted(permits=5, take=take, owner=owner), driver.talk()))


def test_a_hold_does_not_grow_when_its_holder_asks_for_more(driver):
    first = by_holder(driver, 2)
    assert (by_holder(driver, 1).take, first.take) == (2, 2)
    with pytest.raises(
        LockFormatError, match=r"me has 2 of the permits of .* already, and asks for 5: a hold does not"
    ):
        by_holder(driver, 5)
    assert driver.taken == (2, {name_of("me"): 2})


@pytest.mark.parametrize(("before", "lost"), [(2, 1), (None, 2)], ids=["counts weights", "changes over"])
def test_a_claim_given_up_gives_back_what_it_took_in_the_row_in_which_it_landed(driver, before, lost):
    assert driver.release(driver.acquire(permits=5, take=before))
    driver.troubles["claim"] = [*[driver.apply] * (lost - 1), driver.lost_reply]
    driver.thrown = {driver.steps + lost + 1: KeyboardInterrupt()}  # before the claim is sent again
    with pytest.raises(KeyboardInterrupt):
        driver.acquire(permits=5, take=3)
    assert driver.taken == (0, {})


@pytest.mark.parametrize(
    "damage",
    [
        {"permitsTaken": {"N": "1"}},
        {"permitsTaken": {"N": "3"}},
        {"permitsTaken": {"S": "2"}},
        {"permitsTaken": None},
        {"permits": {"M": {}}},
        {"permitTakes": {"M": {}}},
        {"permitTakes": {"M": {"somebody": {"N": "2"}}}},
        {"recordVersionNumber": {"S": "semaphore3"}},
    ],
)
def test_nobody_is_let_in_where_the_sum_is_wrong(driver, damage):
    driver.acquire(permits=5, take=2)
    driver.damage(**damage)
    before = driver.entries
    with pytest.raises(LockFormatError):
        driver.acquire(permits=5, take=1)
    assert driver.entries == before


def test_readers_and_a_writer_are_named_in_the_refusal(driver):
    readers = [driver.acquire(permits=100, take=1) for _ in range(3)]
    assert "is held by 3 readers: me#" in str(driver.refused(permits=100, take=100))
    assert all(map(driver.release, readers))
    driver.acquire(permits=100, take=100)
    assert "is held by a writer: me#" in str(driver.refused(permits=100, take=1))


# -- who waits --------------------------------------------------------------------------------------------------------


def test_a_ticket_says_what_its_owner_takes_unless_that_is_one():
    assert make_ticket("01234567", int(NOW)) == make_ticket("01234567", int(NOW), 1)
    heavy = make_ticket("01234567", int(NOW), 100)
    assert (len(heavy), ticket_expiry(heavy), ticket_take(heavy)) == (16, NOW, 100)
    assert counts(heavy, int(NOW - LONGEST_BELIEVED))
    assert not counts(heavy, int(NOW) + 1)
    assert ticket_take("something else that is long") == 1


def heavy(take: int) -> Any:
    return {"L": [{"S": make_ticket("a-writer", int(NOW + 20), take)}]}


@pytest.mark.parametrize(
    "how",
    [{}, {"waits": True, "wait_until": 1.0}, {"waits": True, "wait_until": 2.0, "queue": queue_for_permit}],
    ids=["at once", "polling", "by a last try"],
)
def test_nobody_without_a_ticket_passes_one_who_waits_for_more(driver, how):
    driver.acquire(permits=100, take=1)
    driver.damage(waiters=heavy(100))
    assert "has a free permit, but 1 waits before this one" in str(driver.refused(permits=100, take=1, **how))
    driver.now = NOW + 21  # the ticket of one that died
    driver.acquire(permits=100, take=1)


def test_who_fits_in_beside_all_who_wait_is_let_in(driver):
    driver.acquire(permits=10, take=1)
    driver.damage(waiters=heavy(3))
    driver.acquire(permits=10, take=6)
    driver.refused(permits=10, take=1)


def test_one_who_takes_more_passes_nobody_without_a_ticket_also_not_those_who_wait_for_one(driver):
    assert driver.release(driver.acquire(permits=100, take=100))
    driver.damage(waiters=places("a-reader"))
    assert "but 1 waits before this one" in str(driver.refused(permits=100, take=100))
    driver.acquire(permits=100, take=99)  # one is left to it


def test_those_who_wait_for_one_are_passed_by_a_call_that_does_not_wait_as_ever(driver):
    driver.acquire(permits=3, take=2)
    driver.damage(waiters=places("somebody"))
    driver.acquire(permits=3, take=1)


# -- late copies -------------------------------------------------------------------------------------


def test_more_than_one_is_never_claimed_where_weights_do_not_count_whatever_was_seen_before(driver) -> None:
    others = driver.acquire(permits=5, take=None)
    wanted = driver.wanted(permits=5, take=4)
    wanted.place.row(driver.row)
    with pytest.raises(LockNotGrantedError):
        driver.run(acquire.acquire(wanted, driver.talk()))
    assert driver.entries.keys() == {nonce(others)}


def test_a_release_gives_back_what_a_late_claim_of_its_acquire_took_in_a_row_of_the_other_kind() -> None:
    driver, beside = Weighing(), Weighing()
    beside.table = driver.table
    assert beside.release(beside.acquire(permits=5, take=None))
    driver.troubles["claim"] = [TransportError(True)]  # it comes late
    driver.after["claim"] = [lambda: beside.acquire(permits=5, take=None)]  # before it is sent again
    hold = driver.acquire(permits=5, take=1)
    assert driver.format == SEAL
    driver.now += 60  # all are dead
    beside.now = driver.now
    assert beside.release(beside.acquire(permits=5, take=2))  # and the row changes over
    driver.apply(*driver.sent[0])
    assert driver.taken == (1, {})
    assert not driver.release(hold)
    assert not driver.entries
    assert driver.taken == (0, {})
    beside.acquire(permits=5, take=5)
