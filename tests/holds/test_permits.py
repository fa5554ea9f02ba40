"""Permits outlive their handles as locks do: by string, by parts and by holder, in other processes and on asyncio."""

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import CommitRefusedError, LockClient, LockLostError
from rig.engine import ROOT
from rig.meter import Meter, size
from rig.wire import Answer
from tests.support.faults import land
from tests.support.rows import Rows

YEAR = 366 * 86_400


def attempts(rows: Rows) -> list[str]:
    return list(rows["api"]["permits"]["M"])


def put(table: str, key: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": {"key": {"S": key}}, **more}}


def test_a_permit_is_handed_over_resumed_any_number_of_times_and_released_by_its_string(client, rows):
    first, other = (client.acquire("api", permits=2) for _ in range(2))
    string = first.hand_over(lease_duration=YEAR)
    locks = [client.resume(string) for _ in range(2)]
    assert {lock.fencing_token for lock in locks} == {first.fencing_token}
    assert [lock.permits for lock in locks] == [2, 2]
    assert len(attempts(rows)) == 2
    assert client.try_acquire("api", permits=2) is None
    with pytest.raises(LockLostError):
        locks[0].heartbeat()
    assert not locks[0].release()
    assert client.release(string)
    assert client.release(string) is False
    assert attempts(rows) == [other.owner.rpartition("#")[2]]


def test_parts_do_for_the_string(client, rows):
    lock = client.acquire("api", permits=3)
    parts: dict[str, Any] = {"key": "api", "owner": lock.owner, "fencing_token": lock.fencing_token, "permits": 3}
    resumed = client.resume(**parts, lease_duration=60)
    string = resumed.hand_over()
    adopted = client.adopt(**parts)
    assert adopted.fencing_token > lock.fencing_token
    with pytest.raises(LockLostError):
        client.resume(string)
    assert client.release(**parts) is False
    parts |= {"owner": adopted.owner, "fencing_token": adopted.fencing_token}
    assert client.release(**parts) is True
    assert attempts(rows) == []


def test_an_interrupted_handover_leaves_no_permit_though_a_late_claim_lands_when_what_it_parked_was_freed(
    client, wired, wire, rows
):
    """For nobody, until the next acquire of its holder or the end of its lease."""
    client.acquire("api", permits=1).release()  # a row without maps is claimed in another way
    wired.prewarm()
    late_claim = wire.deliver_late("UpdateItem")
    lock = wired.acquire("api", permits=1, holder="execution-1", wait=0, lease_duration=600)

    def interrupt(answer: Answer) -> Answer:
        os.kill(os.getpid(), signal.SIGINT)
        return answer

    wire.alter_reply(interrupt, "UpdateItem")  # that of handing over
    freed = wire.alter_reply(
        lambda _: land(late_claim),
        "UpdateItem",
        when=lambda request: "begins_with" in request.body["ConditionExpression"],
    )
    with pytest.raises(KeyboardInterrupt):
        lock.hand_over()
    assert freed.reached.is_set()
    assert rows["api"]["fencingToken"] == {"N": str(lock.fencing_token + 1)}  # the late claim was granted
    assert attempts(rows) == []


def test_a_holder_has_one_permit_however_often_it_acquires(client, rows):
    locks = [client.acquire("api", permits=5, holder="execution-1", wait=0) for _ in range(3)]
    assert len({lock.fencing_token for lock in locks}) == 1
    assert len(attempts(rows)) == 1
    assert client.acquire("api", permits=5, holder="execution-2", wait=0).fencing_token != locks[0].fencing_token
    assert len(attempts(rows)) == 2
    assert locks[-1].release()


def test_what_is_resumed_commits_and_guards_a_transaction_and_earlier_attempts_do_not(client, rows, table, engine):
    string = client.acquire("api", permits=2).hand_over()
    zombie, lock = client.resume(string), client.resume(string)
    engine.dynamodb("TransactWriteItems", {"TransactItems": [lock.transact_item(), put(table, "one")]})
    with pytest.raises(Exception, match="ConditionalCheckFailed"):
        engine.dynamodb("TransactWriteItems", {"TransactItems": [zombie.transact_item(), put(table, "two")]})
    with pytest.raises(LockLostError):
        zombie.commit([put(table, "three")])
    lock.commit([put(table, "four")])
    assert [rows.get(key) is not None for key in ("one", "two", "three", "four")] == [True, False, False, True]
    assert attempts(rows) == []
    refused = {"ConditionExpression": "attribute_not_exists(#k)", "ExpressionAttributeNames": {"#k": "key"}}
    with pytest.raises(CommitRefusedError):
        client.resume(client.acquire("api", permits=2).hand_over()).commit([put(table, "one", **refused)])
    assert attempts(rows) == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_hold_over_k_invocations_costs_what_the_docs_say(wire, wired, kept):
    """docs/semaphores.md: the acquire is 1, each later step 1 read and 1 or 2 writes, the release 1 read, 1 write."""
    wired.acquire("api", permits=2).release()
    wire.clear()
    lock = wired.acquire("api", permits=2, holder="execution-1")
    string = lock.hand_over()
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    for _ in range(3):
        wire.clear()
        lock = wired.resume(string)
        if not kept:
            lock.hand_over()
        assert wire.operations == ["GetItem", "UpdateItem"] + ([] if kept else ["UpdateItem"])
    wire.clear()
    assert wired.release(string)
    assert wire.operations == ["GetItem", "UpdateItem"]


@pytest.mark.long
@pytest.mark.parametrize(("column", "permits"), [(2, 1), (3, 5), (4, 20), (5, 100)])
def test_a_hold_costs_the_units_that_the_docs_say(column, permits, table, engine, monkeypatch):
    text = (ROOT / "docs" / "semaphores.md").read_text()
    lines = [line.strip("|").split("|") for line in text.partition("| with all permits held")[2].splitlines()[2:7]]
    said = [[int(number) for number in re.findall(r"\d+", line[column])] for line in lines[:4]]
    arn = "arn:aws:states:us-east-1:123456789012:execution:imports:00000000-0000-0000-0000-0000000{:05}"
    with Meter(engine.url) as meter:
        monkeypatch.setenv("AWS_ENDPOINT_URL", meter.url)
        # Without renewals, which would be counted too. The lease is as long a text as the usual one.
        with LockClient(table, lease_duration=90.0, heartbeat_period=0) as client:

            def acquired(number: int) -> str:
                return client.acquire("api", permits=permits, holder=arn.format(number), wait=0).hand_over()

            def charged(act: Callable[[], Any]) -> Any:
                """What it returns. Notes the units of writes, and those of reads if there are any."""
                meter.charges.clear()
                result = act()
                units = [
                    sum(int(each.units) for each in meter.charges if each.is_read == reads) for reads in (False, True)
                ]
                measured.append([number for number in units if number])
                return result

            measured: list[list[int]] = []
            client.acquire("api", permits=permits).release()  # makes the row
            others = [client.resume(acquired(number)) for number in range(permits - 1)]
            string = charged(lambda: acquired(99_999))
            string = charged(lambda: client.resume(string).hand_over())
            lock = charged(lambda: client.resume(string))
            row = engine.dynamodb("GetItem", {"TableName": table, "Key": {"key": {"S": "api"}}})["Item"]
            assert charged(lambda: client.release(string))
            assert measured == said
            assert f"*{size(row) / 1024:.1f} KB*" == lines[4][column].strip()
            for each in [lock, *others]:
                each.release()
