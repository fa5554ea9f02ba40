"""The behaviour is the same in memory and on a real engine, so the test double cannot drift from the real thing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lambda_lock import (
    CommitRefusedError,
    LockClient,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    LockRecord,
    current_dedup,
    current_lock,
    deduplicate,
    default_client,
    with_lock,
)
from lambda_lock.batch import process_sqs
from lambda_lock.testing import in_memory, lambda_context
from rig import events
from rig.engine import Engine


@dataclass
class Where:
    """One place where the suite runs. The environment names its lock table. ``orders`` is the application's table."""

    orders: str
    read: Callable[[], list[Any]]

    def put(self, number: str, **more: Any) -> dict[str, Any]:
        item = {"id": {"N": number}, "b": {"B": b"\x00\xff"}}
        return {"Put": {"TableName": self.orders, "Item": item, **more}}


@pytest.fixture(params=["memory", "engine"])
def where(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Where]:
    if request.param == "memory":
        with in_memory(tables={"orders": "id"}) as memory:
            yield Where("orders", lambda: list(memory.items("orders")))
        return
    orders = request.getfixturevalue("table") + "-orders"
    engine.create_table(orders, "id", kind="N")
    yield Where(orders, lambda: list(engine.scan(orders)))
    default_client().close()
    engine.delete_table(orders)


@pytest.fixture
def other(where: Where) -> Iterator[LockClient]:
    with LockClient(owner_prefix="other") as client:
        yield client


def _row(key: str) -> LockRecord:
    record = default_client().get(key)
    assert record is not None
    return record


@with_lock("k-{id}", lease_duration=20)
def locked(event: Any, context: Any) -> int:
    assert not _row(f"k-{event['id']}").is_released
    return current_lock().fencing_token


def test_a_lock_is_held_inside_released_after_its_tokens_rise_and_who_is_held_up_hears_by_whom(other):
    first = locked({"id": 1}, lambda_context())
    assert _row("k-1").is_released
    with other.acquire("k-1") as held, pytest.raises(LockNotGrantedError) as refused:
        locked({"id": 1}, lambda_context(1.5))
    assert refused.value.holder == held.owner
    assert [held.fencing_token, locked({"id": 1}, lambda_context())] == [first + 1, first + 2]


def test_a_semaphore_admits_n_hears_who_holds_and_a_commit_under_a_permit_writes_with_its_release(where, other):
    held = [other.acquire("api", permits=2) for _ in range(2)]
    with pytest.raises(LockNotGrantedError) as refused:
        default_client().acquire("api", permits=2, wait=0)
    assert [holder.owner for holder in refused.value.holders] == [lock.owner for lock in held]
    assert [holder.owner for holder in _row("api").holders] == [lock.owner for lock in held]
    held[0].heartbeat(data=b"x")
    held[0].release()
    lock = default_client().acquire("api", permits=2, wait=5)
    assert (lock.permits, lock.data, lock.fencing_token) == (2, b"x", held[1].fencing_token + 1)
    lock.commit([where.put("1")])
    assert len(where.read()) == 1
    assert [holder.owner for holder in _row("api").holders] == [held[1].owner]
    other.acquire("lock").release()
    for key, permits in (("api", None), ("lock", 2)):
        with pytest.raises(LockFormatError):
            default_client().acquire(key, permits=permits)


def test_data_attributes_and_a_deleted_row_are_read_back(other):
    lock = other.acquire("a", data=b"\x00\xff", attributes={"n": 7, "who": ["x"]})
    record = _row("a")
    assert (record.data, record.attributes, record.lease_duration) == (b"\x00\xff", {"n": 7, "who": ["x"]}, 20.0)
    lock.heartbeat(delete_data=True)
    assert _row("a").data is None
    lock.release()
    with other.acquire("a", replace=True) as replaced:
        assert _row("a").attributes == {}
        assert [record.key for record in other.list()] == ["a"]
        replaced.release(delete=True)
    assert default_client().get("a") is None
    assert list(other.list()) == []


def test_an_event_is_done_once_after_it_was_contended_and_failed_and_its_result_given_again(other):
    @deduplicate("{id}", scope="", result="json")
    def once(event: Any, context: Any) -> dict[str, float]:
        calls.append(1)
        return {"n": 1 / (len(calls) - 1)}

    calls: list[int] = []
    with other.acquire("1"), pytest.raises(LockNotGrantedError):
        once({"id": "1"}, lambda_context())
    with pytest.raises(ZeroDivisionError):
        once({"id": "1"}, lambda_context())
    assert [once({"id": "1"}, lambda_context()) for _ in range(2)] == [{"n": 1.0}, {"n": 1.0}]
    record = _row("1")
    assert record.is_released
    assert (record.result, record.completed_until is not None) == ('{"n":1.0}', True)


def test_a_commit_writes_with_the_release_and_completes_its_event(where):
    @deduplicate("{id}", scope="")
    def pay(event: Any, context: Any) -> str:
        current_dedup().commit([where.put("1")])
        return "paid"

    assert [pay({"id": "1"}, lambda_context()) for _ in range(2)] == ["paid", None]
    assert where.read() == [{"id": {"N": "1"}, "b": {"B": "AP8="}}]


def test_a_commit_under_conditions_that_do_not_hold_writes_nothing(where, other):
    other.acquire("a").commit([where.put("1")])
    with pytest.raises(CommitRefusedError) as refused:
        other.acquire("a").commit([where.put("2"), where.put("1", ConditionExpression="attribute_not_exists(id)")])
    assert refused.value.reasons == ("None", "ConditionalCheckFailed")
    assert len(where.read()) == 1
    assert _row("a").is_released


def test_a_batch_does_each_message_once_and_returns_what_is_contended(where, other):
    event = events.load("sqs")
    first = event["Records"][0]["messageId"]

    def record(message: Any) -> None:
        done.append(message["messageId"])

    done: list[str] = []
    options: Any = {"context": lambda_context(), "lock_key": "{messageId}"}
    with other.acquire(first):
        returned = process_sqs(event, record, **options)
    assert returned == {"batchItemFailures": [{"itemIdentifier": first}]}
    assert process_sqs(event, record, **options) == {"batchItemFailures": []}
    assert sorted(done) == sorted(message["messageId"] for message in event["Records"])


def test_a_table_with_other_keys_than_the_client_thinks_is_named(where):
    default_client().acquire("a").release()
    with LockClient(partition_key_name="pk") as client, pytest.raises(Exception, match="does not have the key"):
        client.acquire("a")


def test_a_hold_goes_from_attempt_to_attempt_until_its_string_releases_it(where):
    client = default_client()
    first = client.acquire("a", holder="execution")
    again = client.acquire("a", holder="execution")
    string = again.hand_over()
    resumed = client.resume(string)
    assert first.fencing_token == again.fencing_token == resumed.fencing_token
    assert not first.release()
    handed = resumed.hand_over()
    adopted = client.adopt(handed)
    with pytest.raises(LockLostError):
        client.adopt(handed)
    assert adopted.fencing_token == first.fencing_token + 1
    assert not client.release(string)
    new = adopted.hand_over()
    assert [client.release(new), client.release(new)] == [True, True]
    with pytest.raises(LockLostError):
        client.resume(new)
