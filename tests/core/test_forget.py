"""Forgetting an event: what is asked and written for each row that may be there, and what late copies find."""

from functools import partial
from typing import Any

import pytest

from lambda_lock.core import forget, keep, requests
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError
from lambda_lock.core.protocol import DECISION, STEPS, Hold, Send
from lambda_lock.core.row import make_version
from lambda_lock.errors import (
    DuplicateEventError,
    LockConfigurationError,
    LockNotGrantedError,
    LockTimeoutError,
    TransportError,
)

from .driver import NOW, Driver, OnTable, left_alone, place, refused

WINDOW = 3600
YOURS = requests.Grant("you#1", "L1:1800000022000:" + "0" * 32, 20_000, 1_800_000_022_000, 1)


class Forgetful(OnTable):
    """A process that does events and forgets them. behind: how many seconds the Dates that it is told are behind."""

    behind = 0

    def send(self, step: Send) -> Any:
        outcome = super().send(step)
        if self.behind:
            outcome.date -= self.behind
        return outcome

    def do(self, result: str | None = '"x"', window: int = WINDOW) -> Hold:
        hold = self.begin(window)
        self.complete(hold, result)
        return hold

    def begin(self, window: int = WINDOW, **changes: Any) -> Hold:
        return self.acquire(window=window, **changes)

    def complete(self, hold: Hold, result: str | None = '"x"') -> bool:
        steps = keep.release(hold, self.talk(), complete=True, result=result)
        return self.run(steps)

    def forget(self, **changes: Any) -> bool:
        wanted = self.wanted(**changes)
        return self.run(forget.forget(wanted, self.talk()))


@pytest.fixture
def process() -> Forgetful:
    return Forgetful()


@pytest.mark.parametrize(
    "before",
    [lambda process: None, lambda process: process.release(process.begin()), lambda process: process.do()],
    ids=["never done", "without a completion", "a completion that has passed"],
)
def test_what_is_not_done_is_read_and_left_alone(before, process):
    before(process)
    process.now += WINDOW + 3
    rows = process.table.items()
    process.sent.clear()
    assert process.forget() is False
    assert process.operations == ["GetItem"]
    assert process.table.items() == rows


def test_a_done_event_takes_two_requests_and_only_its_completion_and_result_go(process):
    process.do()
    before = dict(process.row)
    assert process.forget() is True
    assert process.operations[2:] == ["GetItem", "UpdateItem"]
    del before["completedUntil"], before["result"]
    assert process.row == before
    assert process.forget() is False
    assert process.begin().completed_until is None


def test_a_run_in_progress_is_contention_and_never_nothing_done(process):
    hold = process.begin()
    with pytest.raises(LockNotGrantedError, match="is held by me#") as refused:
        process.forget()
    assert refused.value.holder == hold.owner
    assert 0 < (refused.value.retry_after or 0) <= 22
    assert process.operations[1:] == ["GetItem"]


def test_a_wait_that_ends_before_the_run_does_is_a_time_out(process):
    hold = process.begin()
    process.memory.observations.forget(place().where)
    with pytest.raises(LockTimeoutError):
        process.forget(waits=True, wait_until=process.now + 3)
    assert hold.is_held(process.now)


def test_who_waits_for_a_run_forgets_what_it_has_completed(process):
    hold = process.begin()
    process.after["GetItem"] = [lambda: None, lambda: process.complete(hold)]
    assert process.forget(waits=True, wait_until=process.now + 15) is True
    assert "completedUntil" not in process.row


def test_a_dead_holder_is_taken_over_and_its_row_released(process):
    dead = process.begin()
    process.now += 30
    assert process.forget() is False
    assert process.operations[1:] == ["GetItem", "UpdateItem", "UpdateItem", "GetItem"]
    assert process.row["isReleased"] == {"S": "1"}
    assert "completedUntil" not in process.row
    assert process.complete(dead) is False  # it comes late
    assert "completedUntil" not in process.row


def test_late_claims_that_land_expired_are_taken_over_one_after_the_other(process):
    def land(number: int) -> None:
        version = make_version(int((NOW + process.now) * 1000) - 3000, f"{number:032x}")
        process.damage(
            ownerName={"S": f"late#{number}"},
            recordVersionNumber={"S": version},
            leaseDuration={"S": "1000"},
            fencingToken={"N": str(10 + number)},
            isReleased=None,
        )

    process.before["GetItem"] = [partial(land, number) for number in range(4)]
    assert process.forget() is False
    assert process.operations == ["GetItem", "UpdateItem", "UpdateItem"] * 4 + ["GetItem"]


def test_a_dead_holder_of_another_kind_leaves_what_is_done_to_be_forgotten(process):
    process.do()
    process.acquire()  # a plain lock on the event's row
    process.now += 30
    assert process.forget() is True
    assert "result" not in process.row
    takes_over = process.sent[-4][1]
    assert "result" not in takes_over["ExpressionAttributeNames"].values()


def test_the_take_over_of_a_dead_run_is_refused_once_that_has_completed_late(process):
    dead = process.begin()
    process.now += 30

    def complete() -> None:
        dead.valid_until = process.now + 1
        assert process.complete(dead)

    process.before["UpdateItem"] = [complete]
    assert process.forget() is True
    assert "completedUntil" not in process.row


@pytest.mark.parametrize("copies", [1, 2])
def test_a_copy_that_comes_late_does_not_erase_a_later_completion(process, copies):
    first = process.do()
    assert process.forget() is True
    erasure = process.sent[-1]
    process.do('"later"', window=first.window or 0)
    until = dict(process.row["completedUntil"])
    process.damage(completedUntil={"N": str(first.completed_until)})  # to the same second, as windows may end
    for _ in range(copies):
        refused(process.table, erasure)
    process.damage(completedUntil=until)
    refused(process.table, erasure)
    assert process.row["result"] == {"S": '"later"'}


def test_an_erasure_requires_the_token_and_the_time_that_were_seen(process):
    process.do()
    row = place().view(process.row)
    operation, request = forget.erasure(place(), row)
    for name, other in (
        ("fencingToken", {"N": str((row.token or 0) + 1)}),
        ("fencingToken", None),
        ("completedUntil", {"N": str((row.completed_until or 0) + 1)}),
        ("completedUntil", None),
    ):
        before = process.row[name]
        process.damage(**{name: other})
        with pytest.raises(ConditionFailed):
            process.table.apply(operation, request)
        process.damage(**{name: before})
    process.table.apply(operation, request)
    assert "completedUntil" not in process.row


def test_after_a_lost_reply_the_row_says_that_it_was_forgotten(process):
    process.do()
    process.troubles["UpdateItem"] = [process.lost_reply]
    assert process.forget() is True
    assert process.operations[2:] == ["GetItem", "UpdateItem", "UpdateItem"]
    assert process.sent[-1][1] is process.sent[-2][1]


def test_an_event_that_another_forgets_at_the_same_time_is_not_said_to_be_done(process):
    process.do()
    others: list[bool] = []
    process.before["UpdateItem"] = [lambda: others.append(process.forget())]
    assert process.forget() is False
    assert others == [True]


def test_an_outcome_that_stays_unknown_is_an_error_that_says_so(process):
    process.do()
    process.troubles["UpdateItem"] = [TransportError(True)] * 99
    with pytest.raises(TransportError, match="unknown whether event 'k' was forgotten") as unknown:
        process.forget()
    assert unknown.value.ambiguous


def test_a_denied_erasure_is_an_error(process):
    process.do()
    process.troubles["UpdateItem"] = [ServiceError("AccessDeniedException", "no", False, None)]
    with pytest.raises(ServiceError, match="AccessDenied"):
        process.forget()


@pytest.mark.parametrize("waits", [False, True])
def test_rows_that_allow_the_next_write_and_refuse_it_do_not_keep_it_busy(process, waits):
    process.do()
    process.troubles["UpdateItem"] = [ConditionFailed(process.row, None) for _ in range(99)]
    with pytest.raises(TransportError, match="writes in a row failed"):
        process.forget(waits=waits, wait_until=process.now + 20)
    assert len(process.sent) <= 2 + 2 * STEPS + 1
    assert process.now < DECISION


def test_an_interrupt_after_a_take_over_gives_the_row_back(process):
    process.begin()
    process.now += 30
    process.steps = 0
    process.thrown = {2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        process.forget()
    process.thrown, process.steps = {3: KeyboardInterrupt()}, 0
    with pytest.raises(KeyboardInterrupt):
        process.forget()
    assert process.row["isReleased"] == {"S": "1"}


@pytest.mark.parametrize("damaged", [{"S": "tomorrow"}, {"N": "1.5"}])
def test_a_completion_that_cannot_be_read_is_an_error_that_leaves_it(process, damaged):
    process.do()
    process.damage(completedUntil=damaged)
    with left_alone(process, "completedUntil"):
        process.forget()


def test_an_answer_without_a_date_does_not_say_whether_the_window_has_passed():
    done = {"key": {"S": "k"}, "completedUntil": {"N": str(int(NOW) + 60)}, "isReleased": {"S": "1"}}
    driver = Driver(lambda operation, request: Reply(done, None))
    with pytest.raises(LockConfigurationError, match="no Date"):
        driver.run(forget.forget(driver.wanted(), driver.talk()))


def test_a_claim_that_expects_no_completion_is_refused_by_one_and_carried_out_after_it_is_forgotten(process):
    """Rule 11: a claim in flight is refused, or lands on a row whose event is to run."""
    claim = requests.claim(place(), YOURS, requests.Content(ttl=60), event=True)
    process.do()
    refused(process.table, claim)
    process.forget()
    process.table.apply(*claim)
    with pytest.raises(LockNotGrantedError):
        process.forget()


def test_a_replacement_in_flight_does_not_bring_a_completion_back(process):
    process.do()
    row = place().view(process.row)
    replacement = requests.replace(place(), YOURS, requests.Content(ttl=60), observed=row)
    process.forget()
    refused(process.table, replacement)


@pytest.mark.parametrize("result", ['"x"', None])
def test_a_duplicate_whose_date_is_a_second_behind_is_given_the_result_also_once_the_event_is_taken_anew(
    process, result
):
    first = process.do(result, window=10)
    until = first.completed_until or 0
    process.now = until - NOW

    def ask_behind() -> None:
        process.behind = 1
        with pytest.raises(DuplicateEventError) as done:
            process.begin()
        assert done.value.result == result
        process.behind = 0

    hold = process.begin()  # by a Date of U
    ask_behind()
    process.release(hold)  # it failed
    ask_behind()
    process.now += 2
    process.begin()
    assert "result" not in process.row


def test_a_claim_that_takes_an_event_anew_removes_the_result_that_nobody_is_given_any_more(process):
    process.do('"' + "x" * 1000 + '"')
    process.now += WINDOW + 3
    hold = process.begin()
    assert "result" not in process.row
    assert process.row["completedUntil"] == {"N": str(hold.completed_until)}
    process.release(hold)
    assert process.begin().token == hold.token + 1
    plain = Forgetful()
    plain.do()
    plain.acquire()
    assert plain.row["result"] == {"S": '"x"'}
