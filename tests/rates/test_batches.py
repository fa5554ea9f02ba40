"""sqs_batch(rate=): records start at a rate, and what cannot start in the time left comes back when its turn is."""

import json
import logging
from typing import Any

import pytest

from lambda_lock import LockArgumentError, LockConfigurationError, RateLimitedError
from lambda_lock.batch import process_sqs, sqs_batch
from lambda_lock.client import rate_limit
from rig import events
from tests.batch.conftest import Done, hands, returned
from tests.support.context import Context

__all__ = ["hands"]

pytestmark = pytest.mark.plain  # batches take a LockClient

ARN = "arn:aws:sqs:us-east-1:000000000000:orders"
MINUTE = ("api", 1, 60)


def batch(*names: str) -> dict[str, Any]:
    sample = events.load("sqs")["Records"][0] | {"eventSourceARN": ARN}
    records = ({"messageId": each, "receiptHandle": each, "body": json.dumps({"account": each})} for each in names)
    return {"Records": [sample | record for record in records]}


class FakeQueue:
    """Notes which visibility a batch asks for. What a real queue makes of it is in tests/batch/test_visibility.py."""

    endpoint_url = "http://queue"

    def __init__(self) -> None:
        self.meta = self
        self.seconds: dict[str, int] = {}

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: Any) -> dict[str, Any]:  # noqa: N803
        self.seconds |= {entry["ReceiptHandle"]: entry["VisibilityTimeout"] for entry in Entries}
        return {}


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> FakeQueue:
    made = FakeQueue()
    monkeypatch.setattr("lambda_lock.batch.visibility.sqs_client", lambda region: made)
    return made


def noting(**options: Any) -> tuple[Any, list[str]]:
    """A handler of batches, and the names of the records that it has done."""
    done: list[str] = []
    return sqs_batch(**options)(lambda record: done.append(record["messageId"])), done


def test_what_cannot_start_in_the_time_left_comes_back_one_after_another(client, queue, caplog):
    caplog.set_level(logging.INFO, "lambda_lock")
    handler, done = noting(rate=MINUTE, client=client)
    answer = handler(batch("a", "b", "c", "d"), Context(20))
    assert done == ["a"]
    assert [failure["itemIdentifier"] for failure in answer["batchItemFailures"]] == ["b", "c", "d"]
    first, second, third = (queue.seconds[name] for name in "bcd")
    assert 50 <= first <= 60
    assert (second - first, third - second) == (60, 60)
    assert "3 of 4 records come back: 3 contended, 0 failed, 0 not started" in caplog.text
    assert [vars(record).get("lock_event") for record in caplog.records].count("rate_limited") == 3


def test_records_that_can_start_in_time_wait_for_it(client, queue):
    handler, done = noting(rate=("api", 20, 1), client=client, max_workers=2)
    assert handler(batch("a", "b", "c"), Context(30)) == {"batchItemFailures": []}
    assert sorted(done) == ["a", "b", "c"]
    assert not queue.seconds


def test_each_key_has_a_rate_of_its_own_and_duplicates_and_locks_take_none(client, queue):
    handler, done = noting(rate=("api#{body[account]}", 1, 60), lock_key="account#{body[account]}", client=client)
    for _ in range(2):  # duplicates take no start
        assert handler(batch("a", "b"), Context(30)) == {"batchItemFailures": []}
    assert done == ["a", "b"]


def test_other_returned_records_keep_their_own_visibility(client, queue):
    def fail(record: Any) -> None:
        raise RuntimeError("no")

    sqs_batch(rate=MINUTE, retry_visibility=7, client=client)(fail)(batch("a", "b"), Context(20))
    assert queue.seconds["a"] == 7
    assert queue.seconds["b"] > 40


def test_a_slot_beyond_what_sqs_allows_is_the_longest_that_it_allows(client, queue):
    event = batch("a", "b", "c")
    process_sqs(event, lambda record: None, context=Context(20), rate=("api", 1, 86_400), client=client)
    assert queue.seconds == {"b": 42_300, "c": 42_300}


def test_messages_of_a_stopped_group_come_back_one_after_another(client, queue):
    event, done = events.sqs_fifo([(group, {"n": number}) for number, group in enumerate("AABABA")]), Done()
    for number, record in enumerate(event["Records"]):
        record["receiptHandle"] = str(number)
    rate = ("api#{attributes[MessageGroupId]}", 1, 3600)
    answer = process_sqs(event, done.handler, context=Context(30), rate=rate, client=client)
    assert done.started == [0, 2]
    assert returned(answer, event) == [1, 3, 4, 5]
    first, third, other, fourth = (queue.seconds[number] for number in "1345")
    assert all(3500 < seconds <= 3600 for seconds in (first, other))
    assert (third - first, fourth - first) == (3600, 7200)


def test_what_a_record_waited_for_its_slot_does_not_count_as_its_duration(client, hands, monkeypatch):
    told = rate_limit.rate_limit

    def limited(*arguments: Any, **times: Any) -> Any:
        hands.leapt += 20  # the wait for the slot
        return told(*arguments, **times)

    monkeypatch.setattr(rate_limit, "rate_limit", limited)
    handler, done = noting(rate=("api", 1000, 1), dedup_key=None, client=client)
    assert handler(batch("a", "b"), Context(45)) == {"batchItemFailures": []}
    assert done == ["a", "b"]


def test_a_message_whose_slot_passed_is_not_seen_again_at_once(client, queue):
    def passed(record: Any) -> None:
        raise RateLimitedError("its slot passed", key="api", retry_after=0.0)

    process_sqs(batch("a"), passed, context=Context(), rate=("api", 1000, 1), client=client)
    assert queue.seconds == {"a": 1}


def test_a_rate_that_makes_no_sense_is_refused_when_decorating(monkeypatch):
    with pytest.raises(LockArgumentError, match="limit=0 is out of range"):
        sqs_batch(rate=("api", 0, 1))(lambda record: None)
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(LockConfigurationError, match="The same goes for rate="):
        sqs_batch(rate=MINUTE)(lambda record: None)
