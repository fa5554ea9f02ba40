"""Permits of more than one, and readers and a writer, on the real engine."""

import asyncio
import copy
import re
from typing import Any

import pytest

from lambda_lock import (
    JAVA,
    AsyncLockClient,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockFormatError,
    LockNotGrantedError,
    deduplicate,
    with_lock,
)
from lambda_lock.testing import in_memory
from tests.support.elsewhere import in_thread
from tests.support.waiting import wait_until

#: What is refused before anything is sent: the options, and what the error says.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"take": 2}, "take=2 needs permits=: a lock has nothing to take several of. Pass permits=N, or leave take out"),
    ({"take": 6, "permits": 5}, "take=6 is more than permits=5: pass 1 to 5, or more permits"),
    ({"take": 0, "permits": 5}, "take=0 is out of range: pass 1 to the number that permits= has"),
    ({"take": -1, "permits": 5}, "take=-1 is out of range"),
    ({"take": 101, "permits": 5}, "take=101 is out of range"),
    ({"shared": True, "permits": 5}, "permits=5 is not possible with shared=True: shared=True is permits=100, take=1"),
    ({"shared": False, "take": 2}, "take=2 is not possible with shared=False: shared=True is permits=100, take=1"),
    ({"shared": True, "delete_on_release": True}, "delete_on_release=True is not possible with permits=100"),
]
#: The same, of the wrong type.
KINDS: list[tuple[dict[str, Any], str]] = [
    ({"take": True, "permits": 5}, "take must be an int, not True"),
    ({"take": "2", "permits": 5}, "take must be an int, not '2'"),
    ({"take": lambda: 2, "permits": 5}, "take must be an int"),
    ({"shared": 1}, "shared must be"),
    ({"shared": "yes"}, "shared must be"),
]


def _named(each: object) -> str:
    return " ".join(each) if isinstance(each, dict) else ""


@pytest.mark.parametrize(("options", "said"), [*WRONG, *KINDS], ids=_named)
def test_what_does_not_fit_is_refused_before_anything_is_sent(options, said, wire, wired):
    for act in (wired.acquire, wired.try_acquire):
        with pytest.raises((LockArgumentError, TypeError), match=f"^{re.escape(said)}") as caught:
            act("a", **options)
        assert isinstance(caught.value, TypeError) is ((options, said) in KINDS)
    assert not wire.requests


@pytest.mark.parametrize(
    ("options", "said"),
    [each for each in (*WRONG, *KINDS) if "delete_on_release" not in each[0] and not callable(each[0].get("take"))],
    ids=_named,
)
def test_what_does_not_fit_is_refused_when_decorating(options, said):
    with pytest.raises((LockArgumentError, TypeError), match=f"^{re.escape(said)}"):
        with_lock("a", **options)


@pytest.mark.parametrize("options", [{"take": 2}, {"shared": True}], ids=str)
def test_what_has_no_weights_refuses_them_by_name(options):
    unexpected = pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(options))}'")
    with in_memory(), LockClient("locks") as client:
        with unexpected:
            deduplicate("{event}", **options)
        with unexpected:
            client.resume(key="a", owner="o#n", fencing_token=1, permits=5, **options)
        with unexpected:
            client.try_acquire_all(["a", "b"], **options)


@pytest.mark.parametrize("field", ["permit_takes", "permits_taken"])
def test_a_schema_without_the_attributes_of_weights_is_refused_before_anything_is_sent(field, wire, make):
    with pytest.raises(LockConfigurationError, match=rf"schema JAVA has {field}=None. Give it a name: schema.replace"):
        make(schema=JAVA.replace(**{field: None})).acquire("a", permits=5, take=2)
    assert not wire.requests


def test_holders_take_what_they_ask_for_and_never_more_than_there_is(client):
    three = client.acquire("gpus", permits=10, take=3)
    six = client.acquire("gpus", permits=10, take=6)
    assert (three.take, six.take, three.permits) == (3, 6, 10)
    with pytest.raises(LockNotGrantedError, match="has no 2 free permits: 9 of 10 are held, by") as refused:
        client.acquire("gpus", permits=10, take=2, wait=0)
    assert [holder.take for holder in refused.value.holders] == [3, 6]
    one = client.acquire("gpus", permits=10, wait=0)
    assert one.take == 1
    record = client.get("gpus")
    assert (record.taken, [holder.take for holder in record.holders]) == (10, [3, 6, 1])
    owner, expires_at, token = copy.copy(record.holders[1])  # three, as ever
    assert (owner, token, copy.copy(record.holders[1]).take) == (six.owner, six.fencing_token, 6)
    assert expires_at is not None
    six.release()
    assert client.acquire("gpus", permits=10, take=6, wait=0).take == 6


def test_a_lock_takes_one_and_who_holds_nothing_none(client):
    with client.acquire("a") as lock:
        record = client.get("a")
        assert (lock.take, record.taken, record.holders[0].take) == (1, 1, 1)
    assert client.get("a").taken == 0


def test_readers_share_a_key_and_a_writer_has_it_alone(make):
    client = make()
    readers = [client.acquire("config", shared=True, wait=0) for _ in range(3)]
    assert [(reader.permits, reader.take) for reader in readers] == [(100, 1)] * 3
    with pytest.raises(LockNotGrantedError, match=r"is held by 3 readers: "):
        client.acquire("config", shared=False, wait=0)
    for reader in readers:
        reader.release()
    writer = client.acquire("config", shared=False, wait=0)
    assert (writer.permits, writer.take) == (100, 100)
    for shared in (True, False):
        with pytest.raises(LockNotGrantedError, match=r"is held by a writer: "):
            client.acquire("config", shared=shared, wait=0)
    assert client.get("config").taken == 100
    writer.release()
    assert client.acquire("config", shared=True, wait=0).release()


@pytest.mark.parametrize("shared", [True, False])
def test_a_key_that_is_shared_is_no_lock_and_the_error_names_the_way_to_be_alone(shared, client):
    client.acquire("config", shared=shared).release()
    with pytest.raises(LockFormatError, match=r"acquired with take= or shared=\. Pass shared=False to acquire"):
        client.acquire("config", wait=0)


@pytest.mark.plain
def test_a_writer_that_waits_is_let_in_before_the_readers_behind_it(client):
    came: list[str] = []
    reader = client.acquire("config", shared=True)

    def write() -> None:
        with client.acquire("config", shared=False, wait=60):
            came.append("writer")

    writer = in_thread(write)
    wait_until(lambda: client.get("config").waiters)
    with pytest.raises(LockNotGrantedError):  # one permit is free, and the writer waits for it
        client.acquire("config", shared=True, wait=0)
    reader.release()
    with client.acquire("config", shared=True, wait=60):
        came.append("reader")
    writer()
    assert came == ["writer", "reader"]


@pytest.mark.plain
def test_a_reader_that_comes_again_behind_a_writer_enters_only_with_reentrant(client):
    with client.acquire("config", shared=True, reentrant=True):
        writer = in_thread(lambda: client.acquire("config", shared=False, wait=60).release())
        wait_until(lambda: client.get("config").waiters)
        with pytest.raises(LockNotGrantedError, match="1 waits before this one"):
            client.acquire("config", shared=True, wait=0)
        with client.acquire("config", shared=True, reentrant=True, wait=0) as again:
            assert again.is_held
    writer()


@pytest.mark.plain
def test_a_reader_that_enters_again_stays_a_reader(client):
    with client.acquire("config", shared=True, reentrant=True) as reader:
        with client.acquire("config", shared=True, reentrant=True) as again:
            assert again.fencing_token == reader.fencing_token
        with pytest.raises(LockConfigurationError, match=r"asks for 100 of the permits of 'config', .* has 1: a hold"):
            client.acquire("config", shared=False, reentrant=True)
        assert reader.is_held


@pytest.mark.plain
def test_a_reader_that_enters_again_stays_a_reader_in_a_task(table):
    async def enter() -> None:
        async with AsyncLockClient(table) as client, client.acquire("config", shared=True, reentrant=True) as reader:
            with pytest.raises(LockConfigurationError, match="a hold does not grow"):
                await client.acquire("config", shared=False, reentrant=True)
            assert reader.take == 1

    asyncio.run(enter())


def test_a_hold_keeps_what_it_takes_when_it_is_resumed_or_adopted_and_gives_it_back_by_its_string(client):
    string = client.acquire("gpus", permits=5, take=3, holder="work").hand_over()
    resumed = client.resume(string)
    assert (resumed.take, resumed.permits) == (3, 5)
    string = resumed.hand_over()
    assert client.get("gpus").taken == 3
    assert client.release(string)
    assert client.get("gpus").taken == 0
    adopted = client.adopt(client.acquire("gpus", permits=5, take=4).hand_over())
    assert adopted.take == 4
    adopted.release()
    assert client.get("gpus").taken == 0


def test_a_row_whose_sum_is_wrong_is_shown_as_unreadable_and_left_alone(client, rows):
    client.acquire("gpus", permits=5, take=3)
    rows.change("gpus", permitsTaken={"N": "1"})
    assert client.get("gpus").unreadable == ("permitsTaken",)
    with pytest.raises(LockFormatError, match="is damaged"):
        client.acquire("gpus", permits=5, take=1, wait=0)


@pytest.mark.plain
def test_decorated_functions_are_readers_and_a_writer(client):
    @with_lock("config", shared=False, client=client, wait=0, on_not_granted="skip")
    def write() -> str:
        return "written"

    @with_lock("config", shared=True, client=client)
    def read() -> tuple[int, object]:
        return client.get("config").taken, client.try_acquire("config", shared=False)

    assert write() == "written"
    with client.acquire("config", shared=True):
        assert read() == (2, None)
        assert write() is None


def test_in_memory_is_as_on_an_engine():
    with in_memory(), LockClient("locks") as client:
        with client.acquire("config", shared=True), client.acquire("config", shared=True):
            assert client.get("config").taken == 2  # type: ignore[union-attr]
            assert client.try_acquire("config", shared=False) is None
        with client.acquire("config", shared=False) as writer:
            assert writer.take == 100
            assert client.try_acquire("config", shared=True) is None
        with client.acquire("gpus", permits=5, take=4):
            assert client.try_acquire("gpus", permits=5, take=2) is None
            client.acquire("gpus", permits=5, take=1, wait=0).release()
