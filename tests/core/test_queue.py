"""The life of a waiter, request by request, against a table in memory and virtual clocks."""

import re
from itertools import pairwise
from math import ceil
from typing import Any

import pytest

from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError, TransportError
from lambda_lock.core.protocol import AcquireRequest
from lambda_lock.core.queue import LONGEST_LEASE, LONGEST_NAP, PATIENCE, RENEWED, Queue
from lambda_lock.core.row import LONGEST_BELIEVED, MOST_WAITERS, TICKET_NAME, counts, ticket_expiry
from lambda_lock.core.tickets import make_ticket
from lambda_lock.errors import LockNotGrantedError, LockTimeoutError

from .driver import NOW, THROTTLED, UNKNOWN, Act, Interrupt, OnTable


class Waiting(OnTable):
    """A process that queues."""

    def kind_of(self, operation: str, request: dict[str, Any]) -> str:
        update = request.get("UpdateExpression", "")
        if operation == "GetItem":
            return "read"
        if "list_append" in update:
            return "append"
        if "] = " in update:
            return "renew"
        if update.startswith("REMOVE"):
            return "leave"
        return "claim" if "ReturnValues" in request else "release"

    def wanted(self, **changes: Any) -> AcquireRequest:
        return super().wanted(**{"waits": True, "wait_until": self.now + 10.0, "queue": Queue, **changes})

    @property
    def asked_for(self) -> set[str]:
        """The places that were asked for."""
        appends = [request for _, request in self.sent if "list_append" in request.get("UpdateExpression", "")]
        return {request["ExpressionAttributeValues"][":new"]["L"][0]["S"] for request in appends}

    @property
    def waiters(self) -> list[Any]:
        waiters: list[Any] = self.row.get("waiters", {"L": []})["L"]
        return waiters

    @property
    def places(self) -> list[str]:
        return [place["S"] for place in self.waiters]

    @property
    def names(self) -> list[str]:
        """The names of those whose places ``wait`` wrote, and the places of others."""
        return [place[:TICKET_NAME].rstrip("-") for place in self.places]

    def wait(self, *names: str, seconds: float = 60.0) -> None:
        """Let others wait, whose places count for ``seconds``. By default they look dated by a wrong clock."""
        self.put(self.others(*names, seconds=seconds))

    def put(self, waiters: list[Any]) -> None:
        self.damage(waiters={"L": waiters})

    def others(self, *names: str, seconds: float) -> list[Any]:
        expiry = ceil(NOW + self.now + seconds)
        return places(*(make_ticket(name.ljust(TICKET_NAME, "-"), expiry) for name in names))["L"]

    def seconds_waited(self, wait: float = 10.0) -> float:
        before = self.now
        self.acquire(wait_until=before + wait)
        return self.now - before

    def times_out(self, until: float = 10.0, **changes: Any) -> LockTimeoutError:
        with pytest.raises(LockTimeoutError) as caught:
            self.acquire(wait_until=until, **changes)
        return caught.value

    def refused(self) -> LockNotGrantedError:
        """What one is told who does not wait."""
        with pytest.raises(LockNotGrantedError) as caught:
            self.acquire(waits=False, queue=None)
        return caught.value


def places(*names: str) -> Any:
    return {"L": [{"S": name} for name in names]}


@pytest.fixture
def driver() -> Waiting:
    return Waiting()


def elsewhere(driver: Waiting, lease_ms: int = 20_000) -> Act:
    """Let another process take the lock. Return what releases it."""
    driver.kinds.clear()
    other = driver.acquire(queue=None, lease_ms=lease_ms)
    driver.kinds.clear()
    return lambda: driver.beside(lambda: driver.release(other))


@pytest.fixture
def held(driver: Waiting) -> Act:
    """Another process has the lock. Returns what releases it."""
    return elsewhere(driver)


def test_an_uncontended_acquire_is_one_request(driver):
    driver.acquire()
    assert driver.kinds == ["claim"]


def test_a_waiter_looks_takes_a_ticket_claims_from_it_and_leaves_none(driver):
    driver.at = [(0.5, elsewhere(driver))]
    hold = driver.acquire()
    assert driver.kinds[:3] == ["claim", "read", "append"]
    assert driver.kinds[3:] == ["read"] * len(driver.kinds[3:-1]) + ["claim"]
    assert driver.places == []
    assert hold.token > 0


def test_a_dead_holder_s_row_takes_a_second_request_and_no_ticket(driver, held):
    driver.now += 100
    driver.acquire()
    assert driver.kinds == ["claim", "claim"]


def test_a_clock_a_minute_fast_costs_one_correction_and_no_look(driver):
    driver.clock_ahead = 60
    driver.acquire()
    assert driver.kinds == ["claim", "claim"]


def test_a_wait_that_ends_gives_up_its_ticket_and_says_how_many_were_ahead(driver, held):
    driver.wait("another1", seconds=20)
    driver.damage(heldMs={"N": "500"})
    refused = driver.times_out(2.0)
    assert driver.names == ["another1"]
    assert driver.kinds[-1] == "leave"
    assert refused.ahead == 1
    assert ", and 1 waits before this one" in str(refused)
    assert refused.retry_after == pytest.approx(1.1)
    assert driver.now < 2.1


def test_who_does_not_wait_is_told_how_many_do(driver, held):
    driver.put([*driver.others("another1", "another2", seconds=20), *driver.others("dead", seconds=-2)])
    driver.damage(heldMs={"N": "950"})
    refused = driver.refused()
    assert re.search("is held by me#[0-9a-f]+, and 2 wait before this one. Try", str(refused))
    assert refused.ahead == 2
    assert refused.retry_after == pytest.approx(3.0)


@pytest.mark.parametrize("carried_out", [False, True])
def test_an_append_without_an_answer_is_asked_for_again_under_one_name(driver, carried_out):
    driver.at = [(7.5, elsewhere(driver))]
    driver.troubles["append"] = [driver.lost_reply if carried_out else UNKNOWN, *[UNKNOWN] * 3]
    driver.after["append"] = [lambda: driver.pass_time(2.0)] * 4
    driver.acquire(wait_until=20.0)
    assert len(driver.asked_for) == 1
    assert driver.places == []


@pytest.mark.parametrize("outcome", [UNKNOWN, THROTTLED])
def test_a_ticket_whose_removal_fails_stays_and_the_error_is_that_of_the_wait(driver, held, outcome):
    driver.troubles["leave"] = [outcome]
    driver.times_out(1.0)
    assert len(driver.places) == 1
    assert driver.kinds.count("leave") == 1


def test_a_ticket_that_moved_is_given_up_where_it_is_now(driver, held):
    driver.wait("another1", "another2", "another3")

    driver.before["leave"] = [lambda: driver.put(driver.waiters[1:])] * 3  # another one leaves just before, each time
    driver.times_out(1.0)
    assert driver.places == []


@pytest.mark.parametrize("again", [False, True], ids=["once", "and while it is given up"])
@pytest.mark.parametrize("step", range(4, 12))
def test_an_interrupt_at_any_step_leaves_no_ticket(driver, held, step, again):
    driver.thrown = {driver.steps + step: Interrupt()}
    if again:
        driver.thrown[driver.steps + step + 1] = Interrupt()
    with pytest.raises(Interrupt):
        driver.acquire()
    assert driver.places == []


def throttling(driver: Waiting, kind: str, times: int = 1) -> Act:
    """What lets the next requests of a kind be throttled."""
    return lambda: driver.troubles.update({kind: [THROTTLED] * times})


def released_with(driver: Waiting, *names: str, seconds: float) -> None:
    """Let the lock be free, and others wait whose places count for ``seconds``."""
    elsewhere(driver)()
    driver.wait(*names, seconds=seconds)


def crowd(size: int) -> tuple[str, ...]:
    return tuple(f"other-{number}" for number in range(size))


# -- a place is a lease -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 63, MOST_WAITERS])
@pytest.mark.parametrize("seconds", [-2.0, LONGEST_BELIEVED + 3.0])
def test_tickets_that_have_expired_or_are_dated_too_far_ahead_cost_one_more_claim(driver, size, seconds):
    released_with(driver, *crowd(size), seconds=seconds)
    driver.acquire()
    assert driver.kinds == ["claim", "claim"]
    assert driver.places == []


@pytest.mark.parametrize(("name", "left"), [("first", 1), ("third", 0)], ids=["renewed", "another came"])
def test_the_claim_without_a_ticket_is_refused_if_one_of_the_tickets_was_renewed_or_another_came(driver, name, left):
    released_with(driver, "first", "second", seconds=-2)
    driver.after["claim"] = [lambda: driver.put([*driver.others(name, seconds=20), *driver.waiters[left:]])]
    driver.acquire(wait_until=driver.now + 0.5)  # its last try passes whoever is alive
    assert driver.kinds[:3] == ["claim", "claim", "append"]
    assert name in driver.names


def test_a_ticket_that_was_written_by_another_library_or_by_hand_does_not_count_and_is_no_error(driver):
    texts = ["", "12345678", "x" * 64, "12345678ABCDEF", "12345678 00000", "12345678-1zzzz", "12345678_1_1_1"]
    assert [text for text in texts if counts(text, int(NOW)) or counts(text, None)] == []
    elsewhere(driver)()
    driver.damage(waiters=places(*texts))
    driver.acquire()
    assert driver.kinds == ["claim", "claim"]
    assert driver.places == []


def test_a_ticket_says_in_14_characters_when_it_expires():
    place = make_ticket("01234567", int(NOW))
    assert len(place) == 14
    assert ticket_expiry(place) == NOW
    assert make_ticket("01234567", 36**6 - 1).endswith("zzzzzz")
    assert [counts(place, int(NOW) + seconds) for seconds in (-36, -35, 0, 1)] == [False, True, True, False]
    assert counts(place, None)


def test_a_ticket_is_renewed_while_its_waiter_lives_so_that_it_always_counts(driver):
    elsewhere(driver, lease_ms=200_000)
    left: list[float] = []

    def look() -> None:
        if driver.places and driver.now < 90:  # in the end it expires with the wait
            expiry = ticket_expiry(driver.places[0])
            assert expiry is not None
            left.append(expiry - NOW - driver.now)

    driver.before = {"read": [look] * 200, "renew": [look] * 9}
    driver.times_out(100.0)
    assert min(left) > RENEWED - LONGEST_NAP - 1
    assert max(left) <= LONGEST_LEASE + 2
    assert 2 <= driver.kinds.count("renew") <= 6
    assert len({place[:TICKET_NAME] for place in driver.asked_for}) == 1
    assert driver.places == []


def test_a_wait_that_is_short_renews_nothing_and_its_ticket_expires_with_it(driver, held):
    driver.troubles["leave"] = [UNKNOWN]
    driver.times_out(4.0)
    assert "renew" not in driver.kinds
    expiry = ticket_expiry(driver.places[0])
    assert expiry is not None
    assert 4 <= expiry - NOW <= 6.5


def test_a_ticket_that_expired_while_its_waiter_was_frozen_is_renewed_where_it_is(driver):
    elsewhere(driver, lease_ms=200_000)

    def freeze() -> None:
        driver.now += 40
        driver.put([*driver.waiters, *driver.others("behind", seconds=20)])

    driver.at = [(2.0, freeze)]
    driver.times_out(60.0)
    assert "renew" in driver.kinds
    assert driver.kinds.count("append") == 1
    assert driver.names == ["behind"]


def test_dates_that_jump_to_and_fro_renew_a_ticket_once_for_each_look(driver):
    elsewhere(driver, lease_ms=200_000)

    def answer(operation: str, request: dict[str, Any]) -> Any:
        reply = driver.answered(operation, request)
        late = 60 * (len(driver.kinds) % 2)
        return Reply(reply.item, reply.date + late)

    driver.answer = answer
    driver.times_out(10.0)
    assert driver.kinds.count("renew") > 2
    assert ("renew", "renew") not in pairwise(driver.kinds)


def test_a_renewal_is_refused_where_another_ticket_has_come_to_be(driver, held):
    driver.wait("first", seconds=60)

    driver.before["renew"] = [lambda: driver.put([*driver.waiters[1:], *driver.others("behind", seconds=20)])]
    driver.times_out(18.0)
    assert driver.kinds.count("renew") == 2
    assert driver.names == ["behind"]


def test_a_renewal_without_an_answer_does_not_keep_the_ticket_from_being_given_up(driver):
    elsewhere(driver, lease_ms=200_000)

    driver.troubles["renew"] = [driver.lost_reply]
    driver.after["renew"] = [lambda: driver.thrown.update({driver.steps + 1: Interrupt()})]
    with pytest.raises(Interrupt):
        driver.acquire(wait_until=60.0)
    assert driver.places == []
    assert driver.kinds[-2:] == ["leave", "leave"]  # under its old text first, and then under the one shown


def test_a_late_copy_of_an_append_is_left_to_its_expiry_and_goes_with_the_grant(driver):
    driver.at = [(25.0, elsewhere(driver, lease_ms=200_000))]

    def copy_lands() -> None:
        (append,) = [one for one in driver.sent if driver.kind_of(*one) == "append"]
        driver.apply(*append)

    driver.after["renew"] = [copy_lands]
    driver.acquire(wait_until=60.0)
    assert driver.kinds[-1] == "leave"
    assert driver.places == []


# -- passing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_those_ahead_are_given_three_seconds_each_before_the_first_of_them_is_passed(driver, ahead):
    released_with(driver, *crowd(ahead), seconds=30)
    waited = driver.seconds_waited()
    assert PATIENCE * ahead <= waited < PATIENCE * ahead + 0.2
    assert driver.names == list(crowd(ahead)[1:])


@pytest.mark.parametrize("ahead", [1, 2, MOST_WAITERS - 1])
def test_the_dead_cost_nothing_once_they_have_expired(driver, held, ahead):
    held()
    driver.wait(*crowd(ahead), seconds=12)

    def others_had_it() -> None:
        driver.damage(fencingToken={"N": str(10 + len(driver.sent))}, heldMs={"N": "900"})

    driver.before["read"] = [others_had_it] * 200
    waited = driver.seconds_waited(40.0)
    assert 12 <= waited < 12 + 1 + LONGEST_NAP
    assert driver.places == []


def test_short_moments_between_other_grants_do_not_make_those_ahead_dead(driver, held):
    driver.wait("alive", seconds=30)
    driver.damage(heldMs={"N": "160000"})
    taken_again = lambda: driver.at.append((5.7, elsewhere(driver)))  # noqa: E731
    driver.at = [(2.0, held), (3.2, taken_again)]
    driver.acquire(wait_until=30.0)
    assert driver.now > 5.7 + PATIENCE - LONGEST_NAP


def test_a_first_one_that_renews_its_ticket_lives(driver):
    released_with(driver, "first", seconds=8)

    renew = lambda: driver.put([*driver.others("first", seconds=20), *driver.waiters[1:]])  # noqa: E731
    driver.at = [(driver.now + 2.5, renew)]
    assert driver.seconds_waited() > 2.5 + PATIENCE - 1


def test_whoever_becomes_the_first_of_those_who_wait_is_given_its_own_time(driver):
    released_with(driver, "first", "second", seconds=30)
    driver.at = [(driver.now + 2, lambda: driver.put(driver.waiters[1:]))]
    assert driver.seconds_waited() > 2 + PATIENCE - 1


def test_one_ahead_that_expires_makes_those_behind_it_patient_anew(driver, held):
    driver.put([*driver.others("first", seconds=30), *driver.others("second", seconds=4)])
    driver.at = [(1.0, held)]
    driver.acquire(wait_until=driver.now + 20.0)
    # Otherwise it would pass the first one at once, and so would all others that have been patient for so long.
    assert 6.0 + PATIENCE <= driver.now < 6.0 + PATIENCE + 1.5
    assert driver.places == []


def test_a_look_that_was_throttled_makes_those_ahead_no_more_dead(driver):
    released_with(driver, "first", seconds=30)
    before = driver.now
    driver.at = [(before + 2.5, throttling(driver, "read"))]
    driver.acquire(wait_until=before + 20.0)
    assert driver.now >= before + 2.5 + PATIENCE


def test_a_last_look_that_is_throttled_is_sent_again_though_somebody_is_ahead(driver):
    released_with(driver, "first", seconds=30)
    before = driver.now
    driver.at = [(before + 0.99, throttling(driver, "read"))]
    driver.acquire(wait_until=before + 1.0)
    assert not driver.troubles["read"]
    assert driver.names == ["first"]


def test_a_lock_that_only_this_one_can_see_to_be_free_makes_nobody_dead(driver, held):
    driver.wait("first", seconds=30)
    driver.damage(recordVersionNumber={"S": "a-foreign-version"}, leaseDuration={"S": "1000"})
    driver.acquire(wait_until=driver.now + 20.0)  # by the last try
    assert driver.now > 19
    assert driver.names == ["first"]
    assert driver.kinds.count("read") < 100


@pytest.mark.parametrize("wait", [0.26, 1.0, 2.9])
def test_the_last_try_ignores_who_is_ahead_and_removes_only_who_has_expired(driver, held, wait):
    held()
    alive, dead = driver.others("alive-1", "alive-2", seconds=20), driver.others("dead", seconds=-2)
    driver.put([alive[0], *dead, alive[1]])
    driver.acquire(wait_until=driver.now + wait)
    assert driver.names == ["alive-1", "alive-2"]


def test_a_wait_that_is_over_at_the_first_look_writes_no_ticket(driver, held):
    driver.times_out(until=driver.now + 0.001)
    assert driver.kinds == ["claim", "read"]


def test_those_behind_stay_whether_they_have_expired_or_not(driver, held):
    behind = [*driver.others("dead", seconds=-2), *driver.others("alive", seconds=20)]
    driver.at = [(0.5, lambda: driver.put([*driver.waiters, *behind])), (0.8, held)]
    driver.acquire()
    assert driver.names == ["dead", "alive"]


# -- throttling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("troubles", "how", "kinds"),
    [
        ([THROTTLED] * 2, {}, ["claim", "read", "claim", "read", "claim"]),
        ([THROTTLED] * 2, {"queue": None}, ["claim"] * 3),
        ([UNKNOWN, THROTTLED], {}, ["claim"] * 3),
    ],
    ids=["in the queue", "without it", "an earlier send may have landed"],
)
def test_who_queues_looks_instead_of_sending_a_throttled_claim_again(driver, troubles, how, kinds):
    driver.troubles["claim"] = list(troubles)
    driver.acquire(**how)
    assert driver.kinds == kinds
    if "read" not in kinds:
        assert len({str(request) for _, request in driver.sent}) == 1


def test_the_last_try_of_a_wait_is_sent_again_when_it_is_throttled(driver):
    driver.at = [(0.98, elsewhere(driver)), (0.99, throttling(driver, "claim", 3))]
    driver.wait("first", seconds=30)
    driver.acquire(wait_until=driver.now + 1.0)
    assert driver.kinds[-4:] == ["claim"] * 4


def test_who_is_throttled_naps_no_longer_than_between_two_looks_while_there_is_room_in_the_queue(driver):
    driver.troubles = {"claim": [THROTTLED] * 4, "read": [THROTTLED] * 4}
    driver.acquire(wait_until=60.0)
    assert max(naps(driver.times)) <= LONGEST_NAP + 0.01


def test_who_is_throttled_with_a_place_naps_no_longer_than_others_have_patience(driver):
    driver.at = [(0.3, throttling(driver, "read", 9)), (15.0, elsewhere(driver))]
    driver.acquire(wait_until=60.0)
    assert driver.kinds.count("append") == 1
    assert max(naps(driver.times)) <= LONGEST_NAP + 0.01


def test_who_was_throttled_outside_a_full_queue_leaves_room_for_those_in_it(driver):
    elsewhere(driver, lease_ms=200_000)
    driver.wait(*crowd(MOST_WAITERS), seconds=30)
    driver.troubles["claim"] = [THROTTLED]
    driver.times.clear()
    driver.times_out(driver.now + 25.0)
    assert min(naps(driver.times[2:-1])) >= 4.0


def naps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


# -- a full list ------------------------------------------------------------------------------------------------------


def test_a_full_queue_is_looked_at_until_there_is_room(driver, held):
    driver.wait(*crowd(MOST_WAITERS), seconds=20)
    driver.at = [(2.0, lambda: driver.wait("other-0", seconds=20))]
    driver.times_out(4.0)
    assert driver.kinds.count("append") == 1
    assert 2 <= driver.kinds[: driver.kinds.index("append")].count("read") <= 12
    assert driver.names == ["other-0"]


def test_in_a_full_queue_the_first_of_the_dead_at_its_end_is_written_over(driver, held):
    alive, dead = crowd(MOST_WAITERS)[:60], crowd(MOST_WAITERS)[60:]
    waiting = [*driver.others(*alive, seconds=20), *driver.others(*dead, seconds=-2)]
    driver.put([waiting[-1], *waiting[:-1]])  # one of the dead is first
    shown: list[str] = []
    driver.after["renew"] = [lambda: shown.extend(driver.names)]
    driver.times_out(2.0)
    assert "append" not in driver.kinds
    assert shown[:61] == [dead[-1], *alive]
    assert shown[62:] == list(dead[1:-1])
    assert driver.names == [dead[-1], *alive, *dead[1:-1]]


@pytest.mark.parametrize(
    "waiters",
    [
        {"S": "x"}, {"N": "1"}, {"NULL": True}, {"L": [{"N": "1"}]}, {"L": [{"S": "x" * 2000}]},
        {"L": [{"S": "x"}] * 3000},
    ],
)  # fmt: skip
def test_waiters_that_cannot_be_read_are_told_and_do_not_keep_a_free_lock_from_anybody(driver, held, waiters):
    held()
    driver.damage(waiters=waiters)
    told: list[str] = []
    driver.acquire(queue=lambda acquisition: Queue(acquisition, lambda place: told.append(place.key)))
    assert driver.now < 0.2
    assert "append" not in driver.kinds
    assert told == ["k"]


def test_looks_from_outside_are_sent_once_and_ever_less_often_while_they_are_throttled(driver, held):
    expired = make_ticket("expired-", int(NOW) - 10)
    driver.damage(waiters=places(*[expired] * (MOST_WAITERS - 1), make_ticket("for-ever", int(NOW) + 30)))
    driver.at = [(28.0, lambda: driver.damage(waiters=places("", *driver.places)))]  # not readable: without the queue
    times: list[float] = []
    driver.before["read"] = [lambda: times.append(driver.now)] * 20
    driver.troubles["read"] = [driver.apply, *[THROTTLED] * 19]
    driver.acquire(wait_until=300.0)  # once DynamoDB answers: the holder is dead
    assert min(naps(times[2:-1])) > 0.2  # sent again at once, it would come within 50 ms
    assert 5 < max(naps(times[2:-1])) <= 8.1


def test_a_ticket_that_is_gone_is_taken_again_once_and_then_the_wait_goes_on_without(driver, held):
    drop = lambda: driver.damage(waiters=None)  # noqa: E731
    driver.at = [(1.0, drop), (3.0, drop)]
    driver.times_out()
    assert driver.kinds.count("append") == 2
    assert driver.kinds.count("leave") == 0


def test_an_append_that_dynamodb_calls_invalid_ends_the_queueing_and_not_the_wait(driver):
    driver.at = [(1.0, elsewhere(driver))]
    driver.troubles["append"] = [ServiceError("ValidationException", "an operand has an incorrect data type")]
    driver.acquire()
    assert driver.kinds.count("append") == 1


def test_refusals_of_what_the_row_allows_do_not_make_a_busy_loop(driver, held):
    row = dict(driver.row)
    driver.troubles["append"] = [ConditionFailed(row, int(NOW)) for _ in range(400)]
    driver.times_out(20.0)
    assert len(driver.kinds) < 120


def test_an_error_is_not_slept_off_for_longer_than_others_have_patience(driver, held):

    def outage() -> None:
        driver.troubles["read"] = [UNKNOWN] * 200
        driver.after["read"] = [lambda: driver.pass_time(5)] * 200  # no time is left to send it again

    driver.at = [(1.0, outage)]
    with pytest.raises((LockTimeoutError, TransportError)):
        driver.acquire(wait_until=300.0, refresh_period=60.0)
    assert len(driver.times) > 40
    assert max(naps(driver.times)) < 5 + LONGEST_NAP + 0.1


def test_a_correction_does_not_ask_who_waits(driver):
    driver.at = [(0.5, elsewhere(driver))]

    def late() -> None:
        driver.now += 30  # the validity is over when the grant arrives
        driver.wait("another1", seconds=20)

    driver.after["append"] = [lambda: driver.after.update(claim=[late])]
    assert driver.acquire(wait_until=60.0).is_held(driver.now)
    assert driver.kinds[-2:] == ["claim", "claim"]
    assert driver.names == ["another1"]


def test_a_copy_of_a_claim_that_lands_while_the_ticket_is_given_up_is_released(driver, held):

    def copy_lands() -> None:
        first = driver.sent[-len(driver.kinds) - 1]  # the claim that was refused
        held()
        driver.damage(waiters=None)
        driver.apply(*first)

    driver.before["leave"] = [copy_lands]
    driver.times_out(1.0)
    assert driver.kinds[-2:] == ["leave", "release"]
    assert "isReleased" in driver.row


@pytest.mark.parametrize(("held_ms", "estimate"), [("500", 0.55), ("86400001", 20.0), ("-5", 20.0), ("1e60", 20.0)])
def test_who_is_refused_is_told_when_to_come_back_by_how_long_the_last_one_held(driver, held, held_ms, estimate):
    driver.damage(heldMs={"N": held_ms})
    refused = driver.refused()
    assert refused.retry_after == pytest.approx(estimate, rel=0.2)
    assert refused.ahead == 0


def test_the_end_of_a_dead_holder_s_lease_is_the_earliest_turn(driver, held):
    driver.now += 15
    driver.damage(heldMs={"N": "60000"})
    assert 0 < (driver.refused().retry_after or 0) < 10


def test_a_grant_whose_validity_ended_while_its_ticket_was_removed_is_corrected(driver):
    released_with(driver, "waiting1", seconds=20)

    def copied(operation: str, request: dict[str, Any]) -> Reply:
        reply = driver.apply(operation, request)
        driver.damage(waiters=places(*driver.asked_for))  # a late copy of the append
        return Reply(driver.row, reply.date)

    driver.after["append"] = [lambda: driver.troubles.update(claim=[copied])]
    driver.before["leave"] = [lambda: driver.pass_time(30)]
    hold = driver.acquire(wait_until=driver.now + 60)
    assert hold.is_held(driver.now)
    assert driver.kinds[-2:] == ["leave", "claim"]
