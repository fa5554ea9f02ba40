"""erase, by the client and by the command: what is deleted, what is refused, and that nothing newer ever goes."""

import asyncio
import time
from typing import Any

import pytest

from lambda_lock import (
    AsyncLockClient,
    LockArgumentError,
    LockClient,
    LockFormatError,
    LockNotGrantedError,
    deduplicate,
)
from lambda_lock.core.schema import ASLEEP
from rig.wire import Answer

pytestmark = pytest.mark.usefixtures("table")


def passed() -> dict[str, str]:
    return {"N": str(int((time.time() - 5) * 1e6))}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_row_of_a_done_event_goes_with_its_result_and_the_event_runs_again(kind, rows):
    runs: list[str] = []
    handler = deduplicate("{key}", scope="mails", result="json")(lambda key: runs.append(key))
    handler("anna@example.com")

    async def run(key: str, **options: Any) -> bool:
        async with AsyncLockClient() as client:
            return await client.erase(key, **options)

    def erase(key: str, **options: Any) -> bool:
        with LockClient() as client:
            return client.erase(key, **options) if kind == "plain" else asyncio.run(run(key, **options))

    assert erase("anna@example.com", scope="other") is False
    assert erase("anna@example.com", scope="mails") is True
    assert rows.get("mails#anna@example.com") is None
    assert erase("mails#anna@example.com") is False
    handler("anna@example.com")
    assert len(runs) == 2


def test_erase_costs_one_read_and_one_delete_of_the_row_as_it_was_read(wire):
    with LockClient() as client:
        client.acquire("a").release()
        wire.clear()
        assert client.erase("a")
        assert wire.operations == ["GetItem", "DeleteItem"]
        assert client.erase("a") is False
        assert wire.operations == ["GetItem", "DeleteItem", "GetItem"]


def test_what_is_held_is_refused_with_its_holder_and_the_remedy_and_force_erases_it(rows):
    with LockClient(owner_prefix="worker-7") as client:
        lock = client.acquire("a")
        with pytest.raises(
            LockNotGrantedError, match=r"'a' was not erased: it is held by worker-7#.*force=True"
        ) as found:
            client.erase("a")
        assert (found.value.key, found.value.holder) == ("a", lock.owner)
        assert rows.is_held("a")
        assert client.erase("a", force=True) is True
        assert rows.get("a") is None
        assert lock.release() is False


def test_erase_is_refused_while_the_row_names_a_holder_that_died(rows):
    rows.put_held("a", expires_at=time.time() - 10)
    with LockClient() as client, pytest.raises(LockNotGrantedError, match=r"lease of .* has ended, but"):
        client.erase("a")
    assert rows.is_held("a")


def test_a_semaphore_is_erased_once_nobody_holds_it_and_may_then_be_a_lock():
    with LockClient() as client:
        with client.acquire("s", permits=2), pytest.raises(LockNotGrantedError, match="it is held by"):
            client.erase("s")
        with pytest.raises(LockFormatError, match="semaphore"):
            client.acquire("s")
        assert client.erase("s") is True
        with client.acquire("s") as lock:
            assert lock.permits is None


def test_a_rate_limit_is_erased_once_no_start_is_taken(rows):
    with LockClient() as client:
        client.rate_limit("r", 1, per=3600)
        with pytest.raises(LockNotGrantedError, match="starts of this rate limit are taken for another"):
            client.erase("r")
        assert client.erase("r", force=True) is True
    with LockClient() as client:  # the first one remembers until when the limit was taken
        client.rate_limit("r", 1000)
        rows.change("r", nextAt=passed())
        assert client.erase("r") is True


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"recordVersionNumber": {"S": "v"}, "leaseDuration": {"S": "x"}, "ownerName": {"S": "o"}}, "leaseDuration"),
        ({"recordVersionNumber": {"S": "v"}, "isReleased": {"S": "1"}, "fencingToken": {"S": "x"}}, "fencingToken"),
        ({"recordVersionNumber": {"N": "1"}}, "not a string"),
        ({"record_version_number": {"S": "v"}}, "another schema"),
        ({"recordVersionNumber": {"S": "rate"}, "ownerName": {"S": "rate"}}, "nextAt"),
        ({"recordVersionNumber": {"S": "semaphore"}, "ownerName": {"S": "semaphore"}}, "permits"),
        ({"price": {"N": "7"}}, "never a lock's"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_judged_goes_only_by_force(row, said, rows):
    rows.put("a", **row)
    with LockClient() as client:
        with pytest.raises(LockFormatError, match=said):
            client.erase("a")
        assert rows.get("a") is not None
        assert client.erase("a", force=True) is True
    assert rows.get("a") is None


def test_a_row_that_executions_sleep_for_is_refused(rows):
    with LockClient() as client:
        client.acquire("a").release()
        rows.change("a", **{ASLEEP: {"N": "2"}})
        with pytest.raises(LockNotGrantedError, match="2 sleep until it is free"):
            client.erase("a")
        with pytest.raises(LockArgumentError, match="~sleepers"):
            client.erase("a~sleepers", force=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("before", "act"),
    [
        (lambda client: client.acquire("k").release(), lambda client: client.acquire("k")),
        (lambda client: client.acquire("k", permits=2).release(), lambda client: client.acquire("k", permits=2)),
        (
            lambda client: client.acquire("k").release(),
            lambda client: deduplicate("{k}", scope="", client=client, result="json")(lambda k: 1)("k"),
        ),
        (lambda client: client.rate_limit("k", 1000), lambda client: client.rate_limit("k", 1, per=3600)),
    ],
    ids=["lock", "semaphore", "event", "rate"],
)
def test_what_came_after_the_read_is_left_alone(before, act, force, wire, rows):
    with LockClient() as client, LockClient() as other:
        before(client)
        if "nextAt" in rows["k"]:
            rows.change("k", nextAt=passed())
        kept: list[Any] = []  # a handle that is dropped is warned of

        def taken_meanwhile(answer: Answer) -> Answer:
            kept.append(act(other))
            return answer

        wire.alter_reply(taken_meanwhile, "GetItem")
        with pytest.raises(LockNotGrantedError, match="somebody took or renewed it meanwhile"):
            client.erase("k", force=force)
    assert rows.get("k") is not None


def test_after_a_lost_reply_a_row_that_is_gone_was_erased(wire, rows):
    with LockClient() as client:
        client.acquire("a").release()
        wire.drop_reply("DeleteItem")
        assert client.erase("a") is True
    assert rows.get("a") is None


@pytest.mark.parametrize(
    ("bad", "error", "match"),
    [
        ({"key": ""}, LockArgumentError, "key is empty"),
        ({"key": 5}, TypeError, "key must be a str"),
        ({"key": "k", "scope": 5}, TypeError, "scope must be a str"),
        ({"key": "", "scope": "s"}, LockArgumentError, "key is empty"),
        ({"key": "k", "force": 1}, TypeError, "force must be True or False"),
        ({"key": "k", "sort_key": "s"}, LockArgumentError, "sort_key_name"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(bad, error, match, wire):
    with LockClient() as client, pytest.raises(error, match=match):
        client.erase(**bad)
    assert wire.operations == []
