"""A rate limit: what is asked and written for each row that may be there, and when its starts are due."""

from typing import Any

import pytest

from lambda_lock.core import rate
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError
from lambda_lock.core.protocol import DECISION, STEPS
from lambda_lock.errors import LockConfigurationError, RateLimitedError, TransportError

from .driver import NOW, OnTable, left_alone

TEN = rate.Limit(10, 1.0, 1, 1)


class Pacing(OnTable):
    """A process that starts things."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[str] = []

    def start(self, limit: rate.Limit = TEN, wait: float = 0.0) -> float:
        wanted = self.wanted(wait_until=self.now + wait, waits=wait > 0)
        steps = rate.Start(wanted, limit, self.talk(), self.others.append)
        return self.run(steps.steps())

    def ahead(self) -> float:
        """How far nextAt is ahead of now, in seconds."""
        return round(int(self.row["nextAt"]["N"]) / 1e6 - NOW - self.now, 3)


@pytest.fixture
def process() -> Pacing:
    return Pacing()


def test_the_first_start_reads_dynamodbs_time_and_each_later_one_is_one_write(process):
    assert process.start() < 0.01
    process.now += 1
    assert process.start() < 0.01
    assert process.operations == ["GetItem", "UpdateItem", "UpdateItem"]
    assert (
        process.row["recordVersionNumber"] == process.row["ownerName"] == process.row["leaseDuration"] == {"S": "rate"}
    )
    assert process.row["rate"] == {"S": "10/1/1"}


def test_starts_are_one_interval_apart_and_take_one_write_each(process):
    process.start()
    begun = process.now
    for number in range(1, 21):
        process.start(wait=5)
        assert process.now - begun == pytest.approx(number / 10, abs=0.01)
    assert len(process.sent) == 22


def test_a_burst_starts_at_once_and_then_one_interval_apart(process):
    limit = rate.Limit(10, 1.0, 5, 1)
    waits = [process.start(limit, wait=5) for _ in range(8)]
    assert max(waits[:5]) < 0.02
    assert process.now == pytest.approx(0.3, abs=0.03)


def test_n_starts_take_n_intervals(process):
    process.start(rate.Limit(10, 1.0, 5, 5))
    assert process.ahead() == pytest.approx(0.5, abs=0.01)


def test_each_take_is_rounded_up_and_not_each_start():
    assert rate.Limit(50_000_000, 60.0, 1_000_000, 1_000_000).cost == 1_200_000
    assert rate.Limit(7, 3600.0, 1, 1).cost == 514_285_715


def test_what_has_no_start_within_the_wait_is_refused_at_once_and_takes_nothing(process):
    process.start(rate.Limit(1, 60.0, 1, 1))
    before, at = process.row, process.now
    with pytest.raises(
        RateLimitedError, match=r"one every 1 min\).* in 1 min\. Wait longer, or try again then$"
    ) as refused:
        process.start(rate.Limit(1, 60.0, 1, 1), wait=30)
    assert process.row == before
    assert process.now == at, "the nextAt that was just written refuses without a request"
    assert refused.value.retry_after == 60


def test_who_does_not_wait_is_refused_a_start_that_is_a_tenth_of_a_second_away(process):
    process.start()
    with pytest.raises(RateLimitedError):
        process.start(wait=0)


def test_after_five_seconds_dynamodb_is_asked_again(process):
    minute = rate.Limit(1, 60.0, 1, 1)
    process.start(minute)
    process.now += 5.1
    process.table.store(("k",), None)  # somebody reset it
    process.start(minute)
    assert process.ahead() == pytest.approx(60, abs=0.1)


def test_a_lost_reply_to_a_take_that_is_still_the_last_counts_as_its_grant(process):
    day = rate.Limit(1, 86_400.0, 1, 1)
    process.troubles["UpdateItem"] = [process.lost_reply]
    assert process.start(day) < 2
    assert process.ahead() == pytest.approx(86_400, abs=3)


def test_who_is_late_gives_the_slot_back_and_takes_another(process):
    process.after["UpdateItem"] = [lambda: process.pass_time(0.9)]
    process.start()
    assert process.operations == ["GetItem", "UpdateItem", "UpdateItem", "UpdateItem"]
    assert "- :cost" in process.sent[2][1]["UpdateExpression"]
    assert process.ahead() == pytest.approx(0.1, abs=0.01)


def test_who_was_stopped_in_the_first_read_does_not_start_in_a_slot_of_the_time_before(process):
    process.after["GetItem"] = [lambda: process.pass_time(30)]
    slow = rate.Limit(1, 20.0, 1, 1)
    process.start(slow, wait=60.0)
    assert process.operations == ["GetItem", "UpdateItem", "UpdateItem", "UpdateItem"]
    assert "- :cost" in process.sent[2][1]["UpdateExpression"]
    assert process.ahead() == pytest.approx(20, abs=0.1)
    with pytest.raises(RateLimitedError):
        process.start(slow)


def test_who_is_interrupted_gives_the_slot_back_once(process):
    process.start()
    process.thrown[len(process.sent) + 2] = KeyboardInterrupt()  # in the pause after the take
    with pytest.raises(KeyboardInterrupt):
        process.start(wait=5)
    assert "lastTake" not in process.row
    assert process.ahead() <= 0.1
    assert len([1 for _, request in process.sent if "- :cost" in request.get("UpdateExpression", "")]) == 1


def test_a_give_back_leaves_a_later_take_alone(process):
    process.start()
    slot = dict(process.row)
    process.start(wait=5)
    wanted = process.wanted()
    late = rate.Start(wanted, TEN, process.talk(), process.others.append)
    late.sent = {slot["lastTake"]["S"]: (0, process.reading(), process.now)}
    before = process.row
    process.run(late.give_back())
    assert process.row == before


def test_no_answer_ends_with_a_give_back_after_one_decision(process):
    process.start()
    process.now += 10
    process.answer = lambda operation, request: TransportError(True)
    begun = process.now
    with pytest.raises(TransportError):
        process.start()
    assert process.now - begun <= DECISION + 1
    assert "- :cost" in process.sent[-1][1]["UpdateExpression"]


def test_a_denied_permission_is_raised_at_once(process):
    process.start()
    process.troubles["UpdateItem"] = [ServiceError("AccessDeniedException", "", False)]
    process.now += 10
    count = len(process.sent)
    with pytest.raises(ServiceError):
        process.start()
    assert len(process.sent) == count + 1


def test_refusals_that_go_on_end_with_the_decision(process):
    process.start()

    def refuse(operation: str, request: dict[str, Any]) -> Any:
        if operation == "GetItem":
            return process.apply(operation, request)
        return ConditionFailed(
            {**process.row, "nextAt": {"N": str(int((NOW + process.now) * 1e6))}}, int(NOW + process.now)
        )

    process.answer = refuse
    process.now += 1
    begun, count = process.now, len(process.sent)
    with pytest.raises(RateLimitedError, match="other starts came first"):
        process.start()
    assert process.now - begun <= DECISION
    assert len(process.sent) - count <= 40 * STEPS


def test_an_answer_without_a_date_is_not_dynamodbs(process):
    process.answer = lambda operation, request: Reply(None, None)
    with pytest.raises(LockConfigurationError, match="no Date header"):
        process.start()


def test_a_wrong_wall_clock_neither_loses_nor_adds_starts(process):
    fast = Pacing()
    fast.table = process.table
    fast.clock_ahead = 600.0
    process.start()
    fast.now = process.now
    fast.start(wait=5)
    assert 0 <= process.ahead() < 2.5


def test_the_row_outlives_its_next_start_by_a_day(process):
    process.start(rate.Limit(1, 3600.0, 1, 1))
    assert int(process.row["ttl"]["N"]) >= NOW + 3600 + 86_400


def test_a_caller_is_told_of_another_rate(process):
    process.start()
    process.start(rate.Limit(5, 1.0, 1, 1), wait=5)
    assert process.others == ["10/1/1"]  # of the same process, which need not see the row
    process.now += 6
    process.memory.server.__init__()  # a new process
    process.memory.rates.clear()
    process.start(TEN, wait=5)
    assert process.others == ["10/1/1", "5/1/1"]


# A key is a lock, a semaphore or a rate limit, in every order.


def test_a_lock_is_no_rate_limit_also_when_it_is_released(process):
    hold = process.acquire()
    with left_alone(process, "is a lock, not a rate limit"):
        process.start()
    process.release(hold)
    with left_alone(process, "is a lock, not a rate limit"):
        process.start()


def test_a_rate_limit_is_no_lock_and_no_semaphore(process):
    process.start()
    for how in ({}, {"window": 60}, {"replace": True}):
        with left_alone(process, "is a rate limit, not a lock"):
            process.acquire(**how)
    with left_alone(process, "is a rate limit, not a semaphore"):
        process.acquire(permits=2)


def test_a_semaphore_is_no_rate_limit(process):
    process.acquire(permits=2)
    with left_alone(process, "is a semaphore, not a rate limit"):
        process.start()


@pytest.mark.parametrize("damage", [{"nextAt": {"S": "x"}}, {"nextAt": None}, {"isReleased": {"S": "1"}}])
def test_a_damaged_row_is_named_and_left_alone(process, damage):
    process.start()
    process.damage(**damage)
    process.now += 6
    with left_alone(process, "is a damaged rate limit"):
        process.start()


def test_a_row_without_version_becomes_a_rate_limit_and_keeps_what_else_is_there(process):
    process.damage(colour={"S": "blue"})
    process.start()
    assert process.row["colour"] == {"S": "blue"}
