"""The life of a waiter, request by request, against a table in memory and virtual clocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from lambda_lock.core.outcome import ConditionFailed, ServiceError, TransportError
from lambda_lock.core.protocol import Wish
from lambda_lock.core.queue import LONGEST_NAP, PATIENCE, Queue
from lambda_lock.core.row import MOST_WAITERS
from lambda_lock.errors import LockNotGrantedError, LockTimeoutError

from .driver import NOW, OnTable


class Waiting(OnTable):
    """A process that queues. ``at`` says what happens before the first request that is sent at or after a time."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[tuple[float, Any]] = []
        self.troubles: dict[str, list[Exception]] = {}  # by kind of request: what answers instead of the table
        self.kinds: list[str] = []
        self.answer = self.watched

    def watched(self, operation: str, request: dict[str, Any]) -> Any:
        while self.at and self.at[0][0] <= self.now:
            self.at.pop(0)[1]()
        kind = kind_of(operation, request)
        self.kinds.append(kind)
        if self.troubles.get(kind):
            return self.troubles[kind].pop(0)
        return self.apply(operation, request)

    def wish(self, **changes: Any) -> Wish:
        defaults = {"patient": True, "wait_until": self.now + 10.0, "queue": Queue}
        return super().wish(**{**defaults, **changes})

    @property
    def asked_for(self) -> set[str]:
        """The places that were asked for."""
        appends = [request for operation, request in self.sent if kind_of(operation, request) == "append"]
        return {request["ExpressionAttributeValues"][":v1"]["L"][0]["S"] for request in appends}

    @property
    def places(self) -> list[str]:
        return [place["S"] for place in self.row.get("waiters", {"L": []})["L"]]

    def seconds_waited(self) -> float:
        before = self.now
        self.acquire()
        return self.now - before


def kind_of(operation: str, request: dict[str, Any]) -> str:
    update = request.get("UpdateExpression", "")
    if operation == "GetItem":
        return "read"
    if "list_append" in update:
        return "append"
    if update.startswith("REMOVE"):
        return "leave"
    return "claim" if "ReturnValues" in request else "release"


def places(*names: str) -> dict[str, Any]:
    return {"L": [{"S": name} for name in names]}


def held(driver: Waiting) -> Any:
    """Let another process take the lock. Return what releases it."""
    driver.kinds.clear()
    other = driver.acquire(queue=None)
    driver.kinds.clear()

    def release() -> None:
        answer, driver.answer, before = driver.answer, driver.apply, driver.now
        driver.release(other)
        driver.answer, driver.now = answer, before

    return release


def test_an_uncontended_acquire_is_one_request() -> None:
    driver = Waiting()
    driver.acquire()
    assert driver.kinds == ["claim"]


def test_a_waiter_looks_takes_a_place_claims_from_it_and_leaves_none() -> None:
    driver = Waiting()
    driver.at = [(0.5, held(driver))]
    hold = driver.acquire()
    assert driver.kinds[:3] == ["claim", "read", "append"]
    assert driver.kinds[3:] == ["read"] * len(driver.kinds[3:-1]) + ["claim"]
    assert driver.places == []
    assert hold.token > 0


def test_a_dead_holder_s_row_takes_a_second_request_and_no_place() -> None:
    driver = Waiting()
    held(driver)
    driver.now += 100
    driver.acquire()
    assert driver.kinds == ["claim", "claim"]


def test_a_clock_a_minute_fast_costs_one_correction_and_no_look() -> None:
    driver = Waiting()
    look = driver.look
    driver.look = lambda: fast(look())  # type: ignore[method-assign]
    driver.acquire()
    assert driver.kinds == ["claim", "claim"]


def fast(look: Any) -> Any:
    return type(look)(look.elapsed, look.monotonic, look.wall + 60)


def test_a_wait_that_ends_gives_up_its_place_and_says_how_many_were_ahead() -> None:
    driver = Waiting()
    held(driver)
    driver.damage(waiters=places("another1"), heldMs={"N": "500"})
    with pytest.raises(LockTimeoutError) as caught:
        driver.acquire(wait_until=2.0)
    assert driver.places == ["another1"]
    assert driver.kinds[-1] == "leave"
    assert caught.value.ahead == 1
    assert caught.value.retry_after == pytest.approx(1.1)
    assert driver.now < 2.1


def test_who_does_not_wait_is_told_how_many_do() -> None:
    driver = Waiting()
    held(driver)
    driver.damage(waiters=places("another1", "another2"), heldMs={"N": "950"})
    with pytest.raises(LockNotGrantedError) as caught:
        driver.acquire(patient=False, queue=None)
    assert caught.value.ahead == 2
    assert caught.value.retry_after == pytest.approx(3.0)


@pytest.mark.parametrize("carried_out", [False, True])
def test_an_append_without_an_answer_is_asked_for_again_under_one_name(carried_out: bool) -> None:
    driver = Waiting()
    release, lost = held(driver), [4]

    def answer(operation: str, request: dict[str, Any]) -> Any:
        if kind_of(operation, request) == "append" and lost[0]:
            lost[0] -= 1
            if carried_out and lost[0] == 3:
                driver.apply(operation, request)
            driver.now += 2.0
            return TransportError(True)
        return driver.watched(operation, request)

    driver.answer = answer
    driver.at = [(7.5, release)]
    driver.acquire(wait_until=20.0)
    names = {request["ExpressionAttributeValues"][":v1"]["L"][0]["S"] for operation, request in driver.sent
             if kind_of(operation, request) == "append"}  # fmt: skip
    assert len(names) == 1
    assert driver.places == []


@pytest.mark.parametrize("outcome", [TransportError(True), ServiceError("ThrottlingException", "", retryable=True)])
def test_a_place_whose_removal_fails_stays_and_the_error_is_that_of_the_wait(outcome: Exception) -> None:
    driver = Waiting()
    held(driver)
    driver.troubles["leave"] = [outcome]
    with pytest.raises(LockTimeoutError):
        driver.acquire(wait_until=1.0)
    assert len(driver.places) == 1
    assert driver.kinds.count("leave") == 1


def test_a_place_that_moved_is_given_up_where_it_is_now() -> None:
    driver = Waiting()
    held(driver)
    driver.damage(waiters=places("another1", "another2", "another3"))

    def answer(operation: str, request: dict[str, Any]) -> Any:
        if kind_of(operation, request) == "leave":  # another one leaves just before, each time
            driver.damage(
                waiters=places(*(driver.places[1:] if driver.places[0].startswith("another") else driver.places))
            )
        return driver.watched(operation, request)

    driver.answer = answer
    with pytest.raises(LockTimeoutError):
        driver.acquire(wait_until=1.0)
    assert driver.places == []


class Interrupt(BaseException):
    pass


@pytest.mark.parametrize("step", range(4, 12))
def test_an_interrupt_at_any_step_leaves_no_place(step: int) -> None:
    driver = Waiting()
    held(driver)
    driver.thrown = {driver.steps + step: Interrupt()}
    with pytest.raises(Interrupt):
        driver.acquire()
    assert driver.places == []


@pytest.mark.parametrize("step", range(5, 12))
def test_an_interrupt_while_a_place_is_given_up_gives_it_up_again(step: int) -> None:
    driver = Waiting()
    held(driver)
    driver.thrown = {driver.steps + step: Interrupt(), driver.steps + step + 1: Interrupt()}
    with pytest.raises(Interrupt):
        driver.acquire()
    assert driver.places == []


def released_with(driver: Waiting, *names: str, seconds_ago: float) -> None:
    release = held(driver)
    release()
    driver.damage(waiters=places(*names), freeSince={"N": str(int((NOW + driver.now - seconds_ago) * 1000))})


@pytest.mark.parametrize("ghosts", [1, 63, MOST_WAITERS])
def test_ghosts_of_an_idle_lock_cost_one_more_claim(ghosts: int) -> None:
    driver = Waiting()
    released_with(driver, *(f"ghost-{number}" for number in range(ghosts)), seconds_ago=60)
    driver.acquire()
    assert driver.kinds == ["claim", "claim"]
    assert driver.places == []


@pytest.mark.parametrize(("ghosts", "patience"), [(1, PATIENCE), (2, PATIENCE + 1.25), (MOST_WAITERS, PATIENCE + 3)])
def test_a_ghost_costs_three_seconds_once_and_several_up_to_six(ghosts: int, patience: float) -> None:
    driver = Waiting()
    released_with(driver, *(f"ghost-{number}" for number in range(ghosts)), seconds_ago=0)
    waited = driver.seconds_waited()
    assert patience <= waited < patience + 0.1
    assert driver.places == []


def test_ghosts_keep_no_more_patience_if_one_of_those_behind_the_first_leaves() -> None:
    driver = Waiting()
    released_with(driver, "ghost", "leaving1", "alive", seconds_ago=0)
    driver.at = [(driver.now + 2, lambda: driver.damage(waiters=places("ghost", "alive", *driver.places[3:])))]
    assert driver.seconds_waited() < PATIENCE + 1.6


def test_short_moments_between_other_grants_do_not_make_those_ahead_ghosts() -> None:
    driver = Waiting()
    release = held(driver)
    driver.damage(waiters=places("alive"), heldMs={"N": "160000"})
    others: list[Any] = []

    def taken_again() -> None:
        others.append(held(driver))

    driver.at = [(2.0, release), (3.2, taken_again), (5.7, lambda: others[0]())]
    driver.acquire(wait_until=30.0)
    assert driver.now > 6.5  # free from 2.0 to 4.0, and from 6.0: not yet for as long as those ahead may sleep


def test_another_first_one_is_given_its_own_time() -> None:
    driver = Waiting()
    released_with(driver, "first", "second", seconds_ago=0)
    driver.at = [(driver.now + 2, lambda: driver.damage(waiters=places("second", *driver.places[2:])))]
    assert driver.seconds_waited() > 2 + PATIENCE - 1


def test_a_release_by_a_foreign_client_is_not_dated_by_the_one_before() -> None:
    driver = Waiting()
    released_with(driver, "waiting1", seconds_ago=60)
    driver.damage(recordVersionNumber={"S": "a-foreign-version"})
    assert driver.seconds_waited() >= PATIENCE


def test_a_claim_of_a_slow_clock_does_not_make_the_lock_look_idle() -> None:
    driver = Waiting()
    released_with(driver, "waiting1", seconds_ago=0)
    expiry = int((NOW + driver.now - 60) * 1000)
    driver.damage(isReleased=None, recordVersionNumber={"S": f"L1:{expiry}:{'5' * 32}"})
    assert driver.seconds_waited() >= PATIENCE


@pytest.mark.parametrize(("wait", "left"), [(1.0, ["waiting1", "waiting2"]), (LONGEST_NAP + 0.3, [])])
def test_the_last_try_ignores_who_is_ahead_and_removes_them_if_they_let_the_lock_go_by_for_a_nap(
    wait: float, left: list[str]
) -> None:
    driver = Waiting()
    released_with(driver, "waiting1", "waiting2", seconds_ago=0)
    driver.acquire(wait_until=driver.now + wait)
    assert driver.places == left


def test_a_full_queue_is_looked_at_until_there_is_room() -> None:
    driver = Waiting()
    held(driver)
    driver.damage(waiters=places(*(f"full-{number}" for number in range(MOST_WAITERS))))
    driver.at = [(2.0, lambda: driver.damage(waiters=places("full-0")))]
    with pytest.raises(LockTimeoutError):
        driver.acquire(wait_until=4.0)
    assert driver.kinds.count("append") == 1
    assert 2 <= driver.kinds[: driver.kinds.index("append")].count("read") <= 12
    assert driver.places == ["full-0"]


@pytest.mark.parametrize(
    "waiters",
    [
        {"S": "x"}, {"N": "1"}, {"NULL": True}, {"L": [{"N": "1"}]}, {"L": [{"S": "x" * 2000}]},
        {"L": [{"S": "x"}] * 3000},
    ],
)  # fmt: skip
def test_waiters_that_cannot_be_read_do_not_keep_a_free_lock_from_anybody(waiters: dict[str, Any]) -> None:
    driver = Waiting()
    held(driver)()
    driver.damage(waiters=waiters)
    assert driver.seconds_waited() < 0.2
    assert "append" not in driver.kinds


def test_looks_from_outside_are_sent_once_and_ever_less_often_while_they_are_throttled() -> None:
    driver = Waiting()
    held(driver)
    driver.damage(waiters=places(*(f"full-{number}" for number in range(MOST_WAITERS))))
    times: list[float] = []

    def answer(operation: str, request: dict[str, Any]) -> Any:
        if kind_of(operation, request) == "read" and len(times) < 20:
            times.append(driver.now)
            if len(times) > 1:
                raise ServiceError("ThrottlingException", "", retryable=True)
        return driver.watched(operation, request)

    driver.answer = answer
    driver.acquire(wait_until=300.0)  # once DynamoDB answers: the holder is dead
    naps = [later - earlier for earlier, later in pairwise(times[2:-1])]
    assert min(naps) > 0.2  # sent again at once, it would come within 50 ms
    assert 5 < max(naps) <= 8.1


def test_a_place_that_is_gone_is_taken_again_once_and_then_the_wait_goes_on_without() -> None:
    driver = Waiting()
    held(driver)
    drop = lambda: driver.damage(waiters=None)  # noqa: E731
    driver.at = [(1.0, drop), (3.0, drop)]
    with pytest.raises(LockTimeoutError):
        driver.acquire()
    assert driver.kinds.count("append") == 2
    assert driver.kinds.count("leave") == 0


def test_an_append_that_dynamodb_calls_invalid_ends_the_queueing_and_not_the_wait() -> None:
    driver = Waiting()
    driver.at = [(1.0, held(driver))]
    driver.troubles["append"] = [ServiceError("ValidationException", "an operand has an incorrect data type")]
    driver.acquire()
    assert driver.kinds.count("append") == 1


def test_refusals_of_what_the_row_allows_do_not_make_a_busy_loop() -> None:
    driver = Waiting()
    held(driver)
    row = dict(driver.row)
    driver.troubles["append"] = [ConditionFailed(row, int(NOW)) for _ in range(400)]
    with pytest.raises(LockTimeoutError):
        driver.acquire(wait_until=20.0)
    assert len(driver.kinds) < 120


def test_an_error_is_not_slept_off_for_longer_than_others_have_patience() -> None:
    driver = Waiting()
    held(driver)
    times: list[float] = []

    def answer(operation: str, request: dict[str, Any]) -> Any:
        times.append(driver.now)
        if kind_of(operation, request) == "read" and driver.now > 1:
            driver.now += 5  # no time is left to send it again
            return TransportError(True)
        return driver.watched(operation, request)

    driver.answer = answer
    with pytest.raises((LockTimeoutError, TransportError)):
        driver.acquire(wait_until=300.0, refresh_period=60.0)
    assert len(times) > 40
    assert max(later - earlier for earlier, later in pairwise(times)) < 5 + LONGEST_NAP + 0.1


def test_a_correction_does_not_ask_who_waits() -> None:
    driver = Waiting()
    driver.at = [(0.5, held(driver))]

    def answer(operation: str, request: dict[str, Any]) -> Any:
        reply = driver.watched(operation, request)
        if driver.kinds[-1] == "claim" and "append" in driver.kinds and driver.kinds.count("claim") == 2:
            driver.damage(waiters=places("another1"))
            driver.now += 30  # the validity is over when the grant arrives
        return reply

    driver.answer = answer
    assert driver.acquire(wait_until=60.0).is_held(driver.now)
    assert driver.kinds[-2:] == ["claim", "claim"]
    assert driver.places == ["another1"]


def test_a_copy_of_a_claim_that_lands_while_the_place_is_given_up_is_released() -> None:
    driver = Waiting()
    release = held(driver)

    def answer(operation: str, request: dict[str, Any]) -> Any:
        if kind_of(operation, request) == "leave":
            first = driver.sent[-len(driver.kinds) - 1]  # the claim that was refused
            release()
            driver.damage(waiters=None)
            driver.apply(*first)
        return driver.watched(operation, request)

    driver.answer = answer
    with pytest.raises(LockTimeoutError):
        driver.acquire(wait_until=1.0)
    assert driver.kinds[-2:] == ["leave", "release"]
    assert "isReleased" in driver.row


@pytest.mark.parametrize(("held_ms", "estimate"), [("500", 0.55), ("86400001", 20.0), ("-5", 20.0), ("1e60", 20.0)])
def test_who_is_refused_is_told_when_to_come_back_by_how_long_the_last_one_held(held_ms: str, estimate: float) -> None:
    driver = Waiting()
    held(driver)
    driver.damage(heldMs={"N": held_ms})
    with pytest.raises(LockNotGrantedError) as caught:
        driver.acquire(patient=False, queue=None)
    assert caught.value.retry_after == pytest.approx(estimate, rel=0.2)
    assert caught.value.ahead == 0


def test_the_end_of_a_dead_holder_s_lease_is_the_earliest_turn() -> None:
    driver = Waiting()
    held(driver)
    driver.now += 15
    driver.damage(heldMs={"N": "60000"})
    with pytest.raises(LockNotGrantedError) as caught:
        driver.acquire(patient=False, queue=None)
    assert caught.value.retry_after is not None
    assert caught.value.retry_after < 10


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), "is held by me#[0-9a-f]+. Try"),
        (("a",), "is held by me#[0-9a-f]+, and 1 waits before this one. Try"),
        (("a", "b"), "is held by me#[0-9a-f]+, and 2 wait before this one. Try"),
    ],
)
def test_a_refusal_names_the_holder_and_how_many_wait(names: tuple[str, ...], says: str) -> None:
    driver = Waiting()
    held(driver)
    driver.damage(waiters=places(*names))
    with pytest.raises(LockNotGrantedError, match=says):
        driver.acquire(patient=False, queue=None)


def test_waiters_that_cannot_be_read_are_told() -> None:
    driver = Waiting()
    held(driver)()
    driver.damage(waiters={"S": "x"})
    told: list[str] = []
    driver.acquire(queue=lambda acquisition: Queue(acquisition, lambda place: told.append(place.key)))
    assert told == ["k"]


def test_a_grant_whose_validity_ended_while_its_place_was_removed_is_corrected() -> None:
    driver = Waiting()
    released_with(driver, "waiting1", seconds_ago=0)

    def answer(operation: str, request: dict[str, Any]) -> Any:
        if kind_of(operation, request) == "claim" and "append" in driver.kinds and "leave" not in driver.kinds:
            reply = driver.watched(operation, request)
            (claimed,) = driver.asked_for
            driver.damage(waiters=places(claimed))  # a late copy of the append
            return type(reply)(driver.row, reply.date)
        if kind_of(operation, request) == "leave":
            driver.now += 30
        return driver.watched(operation, request)

    driver.answer = answer
    hold = driver.acquire(wait_until=driver.now + 60)
    assert hold.is_held(driver.now)
    assert driver.kinds[-2:] == ["leave", "claim"]
