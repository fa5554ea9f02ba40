"""Looking at locks without taking them: all of a table, those of a partition, one's own; and the prewarming read."""

import gc
import pickle
import time
from base64 import b64encode
from typing import Any

import pytest

from lambda_lock import GO, PYTHON, LockClient, LockConfigurationError
from lambda_lock.client.reads import PREWARM_KEY
from lambda_lock.errors import ClientClosedError, LockArgumentError, LockError
from lambda_lock.testing import ManualClock, in_memory
from rig.engine import Ministack
from tests.support.clocks import SkewedClock
from tests.support.rows import Rows

LARGE = {"B": b64encode(bytes(350_000)).decode()}


def held_row(**more: dict[str, Any]) -> dict[str, Any]:
    version = f"L1:{int((time.time() + 60) * 1000):013d}:{'0' * 32}"
    return {
        "ownerName": {"S": "somebody#1"},
        "leaseDuration": {"S": "20000"},
        "recordVersionNumber": {"S": version},
        "fencingToken": {"N": "7"},
        **more,
    }


# list()


def test_all_locks_are_listed_held_dead_and_released(client, rows):
    held = client.acquire("held", data=b"x", attributes={"colour": "red"})
    client.acquire("released").release()
    rows.put_held("dead", expires_at=time.time() - 10)
    rows.put_foreign("foreign", lease_seconds=20)
    records = {record.key: record for record in client.list()}
    assert set(records) == {"held", "released", "dead", "foreign"}
    read: dict[str, Any] = vars(client.get("held"))  # perhaps a second later
    assert vars(records["held"]) | {"read_at": read["read_at"]} == read
    assert (records["held"].owner, records["held"].data) == (held.owner, b"x")
    assert {key for key, record in records.items() if record.is_released} == {"released"}
    assert {key for key, record in records.items() if record.is_expired} == {"dead"}
    assert records["foreign"].expires_at is None


def test_rows_that_are_no_locks_are_passed_over_and_do_not_end_the_list(client, rows):
    rows.put("config", colour={"S": "red"})
    rows.put("marker")
    for number in range(5):
        rows.put(f"m{number}", recordVersionNumber={"N": "1"}, ownerName={"S": "another application"})
    for key in ("a", "z"):
        client.acquire(key)
    assert {record.key for record in client.list()} == {"a", "z"}


UNREADABLE: dict[str, dict[str, Any]] = {
    "leaseDuration": {"S": "0"},
    "fencingToken": {"S": "seven"},
    "completedUntil": {"N": "9" * 30},
}
DAMAGED: list[dict[str, dict[str, Any]]] = [
    *({name: value} for name, value in UNREADABLE.items()),
    *({"leaseDuration": {"S": text}} for text in ("-5", "20s", "9" * 400)),
    {"leaseDuration": {"N": "20000"}},
    {"leaseDuration": {"L": []}},
    *({"fencingToken": {"N": number}} for number in ("7.5", "9" * 38)),
    {"fencingToken": {"NULL": True}},
    {"completedUntil": {"N": "1.5"}},
    {"completedUntil": {"BOOL": True}},
]


def test_rows_that_cannot_be_read_are_listed_as_such_among_the_others(client, rows):
    for number, damage in enumerate(DAMAGED):
        rows.put(f"m{number:02}", **held_row(**damage))
    for key in ("a", "z"):
        rows.put(key, **held_row())
    records = {record.key: record for record in client.list()}
    assert records["a"].unreadable == records["z"].unreadable == ()
    assert records["a"].fencing_token == 7
    for number, damage in enumerate(DAMAGED):
        for record in (records[f"m{number:02}"], client.get(f"m{number:02}")):
            assert (record.unreadable, record.is_released) == (tuple(damage), False)


def test_all_that_cannot_be_read_in_a_row_is_named_and_none(client, rows):
    rows.put("a", **held_row(**UNREADABLE))
    record = client.get("a")
    assert record.unreadable == tuple(UNREADABLE)
    assert (record.lease_duration, record.fencing_token, record.completed_until) == (None, None, None)
    assert (record.key, record.owner, record.is_released) == ("a", "somebody#1", False)
    assert pickle.loads(pickle.dumps(record)) == record


def pages(rows: Rows, number: int = 7) -> list[str]:
    """Store so many locks, of which two fill a page, or three on DynamoDB Local. Returns their keys."""
    keys = [f"a{each}" for each in range(number)]
    for key in keys:
        rows.put(key, **held_row(data=LARGE))
    return keys


def test_a_table_of_several_pages_is_read_page_by_page_as_it_is_asked_for(wire, wired, rows):
    keys = pages(rows)
    records = wired.list()
    assert wire.operations == []
    first = next(records)
    assert wire.operations == ["Scan"]
    assert sorted([first.key, *(record.key for record in records)]) == keys
    assert wire.count("Scan") >= 3
    assert all(request.body["ConsistentRead"] for request in wire.requests)


def test_a_page_without_locks_does_not_end_the_list(wire, wired, rows):
    for number in range(7):
        rows.put(f"a{number}", payload=LARGE)
    rows.put("z", **held_row())
    assert [record.key for record in wired.list()] == ["z"]
    assert wire.count("Scan") >= 3


@pytest.mark.parametrize("page", [1, 2])
def test_a_page_whose_reply_is_lost_is_asked_for_again(page, wire, wired, rows):
    keys = pages(rows, 5)
    wire.drop_reply("Scan", when=lambda request: (page == 2) == ("ExclusiveStartKey" in request.body))
    assert sorted(record.key for record in wired.list()) == keys


@pytest.fixture
def sorted_table(engine: Ministack, table: str) -> str:
    return engine.create_table(f"{table}-sorted", "key", "order")  # a word that DynamoDB reserves


def test_the_locks_of_one_partition_are_queried(sorted_table, wire, make):
    client = make(sorted_table, sort_key_name="order")
    for key, part in (("a", "one"), ("a", "two"), ("b", "one")):
        client.acquire(key, sort_key=part)
    wire.clear()
    found = [(record.key, record.sort_key) for record in client.list(key="a")]
    assert found == [("a", "one"), ("a", "two")]
    assert wire.operations == ["Query"]
    assert len(list(client.list())) == 3
    assert list(client.list(key="c")) == []


def test_a_partition_of_several_pages_is_read_whole(sorted_table, engine, wire, make):
    for number in range(7):
        item = {"key": {"S": "a"}, "order": {"S": str(number)}, **held_row(data=LARGE)}
        engine.dynamodb("PutItem", {"TableName": sorted_table, "Item": item})
    client = make(sorted_table, sort_key_name="order")
    assert [record.sort_key for record in client.list(key="a")] == list("0123456")
    assert wire.count("Query") >= 3
    assert all(request.body["ConsistentRead"] for request in wire.requests)


def test_in_a_table_without_sort_key_a_partition_is_one_lock(client):
    client.acquire("a")
    client.acquire("b")
    assert [record.key for record in client.list(key="a")] == ["a"]


def test_other_schemas_are_listed_in_their_own_words(engine, table, make):
    go = make(schema=GO)
    go.acquire("a", lease_duration=7)
    assert [record.lease_duration for record in go.list()] == [7]
    python = make(engine.create_table(f"{table}-python", "lock_key", "sort_key"), schema=PYTHON)
    python.acquire("a", lease_duration=7)
    assert [(record.key, record.sort_key, record.lease_duration) for record in python.list()] == [("a", "-", 7)]


@pytest.mark.parametrize(("key", "error"), [("", LockArgumentError), (5, TypeError), ("x" * 2049, LockArgumentError)])
def test_a_partition_that_is_no_key_is_refused(key, error, wire, wired):
    with pytest.raises(error, match="key"):
        next(wired.list(key=key))
    assert wire.operations == []


@pytest.mark.parametrize("options", [{"partition_key_name": "pk"}, {"sort_key_name": "order"}])
def test_a_list_by_other_key_names_than_the_tables_is_an_error_with_the_remedy(options, make, client):
    client.acquire("a")
    with pytest.raises(LockConfigurationError, match="partition_key_name"):
        list(make(**options).list())


@pytest.mark.parametrize("act", [lambda client: next(client.list()), lambda client: client.prewarm()])
def test_a_closed_client_reads_nothing_and_no_table_is_told(act, make, wire, wired):
    with pytest.raises(LockConfigurationError, match="'no-such-table' was not found"):
        act(make("no-such-table"))
    wire.clear()
    wired.close()
    with pytest.raises(ClientClosedError):
        act(wired)
    assert wire.operations == []


@pytest.mark.parametrize("failure", ["denied", "throttled", "unreachable"])
@pytest.mark.parametrize(("operation", "key"), [("Scan", None), ("Query", "a")])
def test_an_error_of_a_list_is_about_the_key_that_was_asked_for_and_names_the_permission(failure, operation, key):
    clock = ManualClock()
    with in_memory(clock=clock) as memory:
        memory.fail(failure, times=99)
        says = f"permission dynamodb:{operation} " if failure == "denied" else ""
        with pytest.raises(LockError, match=f".*{says}") as raised:
            list(LockClient("locks", clock=clock).list(key=key))
    assert raised.value.key == key


# held()


@pytest.mark.plain
def test_held_are_the_locks_of_this_client_that_somebody_still_has(make):
    client = make(keeping=False)
    first = client.acquire("a", reentrant=True)
    again = client.acquire("a", reentrant=True)
    second = client.acquire("b")
    make().acquire("c")
    assert set(client.held()) == {first, second}
    assert len(client.held()) == 2
    again.release()
    assert first in client.held()
    first.release()
    assert client.held() == (second,)
    with pytest.warns(ResourceWarning, match="'b' was dropped"):
        del second
    gc.collect()
    assert client.held() == ()  # forgotten: it is not renewed either


# prewarm()


def test_prewarm_opens_the_connection_that_the_first_lock_uses(wire, wired, rows):
    wired.prewarm()
    assert wire.operations == ["GetItem"]
    assert wire.connections == 1
    with wired.acquire("a"):
        pass
    assert wire.operations == ["GetItem", "UpdateItem", "UpdateItem"]
    assert wire.connections == 1
    assert [item["key"]["S"] for item in rows.engine.scan(rows.table)] == ["a"]


@pytest.mark.parametrize("off", [-600, 600])
def test_after_prewarm_a_wrong_clock_costs_the_first_lock_nothing(off, wire, make):
    client = make(clock=SkewedClock(off))
    client.prewarm()
    with client.acquire("a") as lock:
        assert wire.operations == ["GetItem", "UpdateItem"]
        assert lock.remaining > 19


def test_prewarm_fits_every_table(engine, table, sorted_table, wire, make):
    make(sorted_table, sort_key_name="order").prewarm()
    make(engine.create_table(f"{table}-python", "lock_key", "sort_key"), schema=PYTHON).prewarm()
    assert wire.operations == ["GetItem", "GetItem"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"recordVersionNumber": {"N": "1"}},
        {"ownerName": {"BOOL": True}},
        {"recordVersionNumber": {"S": "L1:damaged"}, "leaseDuration": {"L": []}, "ownerName": {"S": "x"}},
        {"permits": {"S": "many"}, "recordVersionNumber": {"S": "P1:"}},
        {"recordVersionNumber": {"S": "x" * 390_000}},
    ],
    ids=["another type", "no text", "damaged", "a semaphore's", "large"],
)
def test_prewarm_does_not_look_at_what_is_in_its_row(attributes, wired, wire, rows):
    rows.put(PREWARM_KEY, **attributes)
    wired.prewarm()
    assert wire.operations == ["GetItem"]
