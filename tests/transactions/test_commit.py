"""Commit: an application's writes happen together with the lock's release, once, and only while the lock is held."""

import json
from typing import Any

import pytest

from lambda_lock import JAVA, PYTHON, Lock
from lambda_lock.errors import (
    CommitRefusedError,
    LockAlreadyReleasedError,
    LockArgumentError,
    LockConfigurationError,
    LockLostError,
    TransportError,
)
from rig.wire import Answer, Wire
from tests.support.clocks import LeapingClock
from tests.support.faults import land
from tests.support.rows import Rows

FOREVER = float("inf")
COMMIT = "TransactWriteItems"


def put(rows: Rows, key: str, value: str = "1", **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": rows.table, "Item": {"key": {"S": key}, "value": {"N": value}}, **more}}


def only_new(rows: Rows, key: str) -> dict[str, Any]:
    names = {"#key": "key"}
    return put(rows, key, ConditionExpression="attribute_not_exists(#key)", ExpressionAttributeNames=names)


@pytest.fixture
def taken(rows: Rows) -> dict[str, Any]:
    """A write that is refused, as its row is there."""
    rows.put("taken", value={"N": "7"})
    return only_new(rows, "taken")


def add(rows: Rows, key: str, amount: int = 1, **more: Any) -> dict[str, Any]:
    """Carried out twice it would show."""
    written = {"UpdateExpression": "ADD #n :amount", "ExpressionAttributeNames": {"#n": "value"}, **more}
    values = {"ExpressionAttributeValues": {":amount": {"N": str(amount)}}}
    return {"Update": {"TableName": rows.table, "Key": {"key": {"S": key}}, **written, **values}}


def value(rows: Rows, key: str) -> int | None:
    item = rows.get(key)
    return None if item is None else int(item["value"]["N"])


def client_tokens(wire: Wire) -> list[str]:
    return [request.body["ClientRequestToken"] for request in wire.requests if request.operation == COMMIT]


def has_ended(lock: Lock) -> None:
    assert not lock.is_held
    put = {"Put": {"TableName": "orders"}}
    for act in (lock.heartbeat, lock.release, lock.hand_over, lock.transact_item, lambda: lock.commit([put])):
        with pytest.raises(LockAlreadyReleasedError):
            act()


# Done


@pytest.mark.parametrize("data", [{}, {"data": b"done"}], ids=str)
def test_writes_and_release_are_one_request(data, wire, wired, rows):
    with wired.adopt(wired.acquire("a", data=b"kept").hand_over()) as lock:
        wire.clear()
        lock.commit([put(rows, "row"), add(rows, "other")], **data)
        assert not rows.is_held("a")
    assert wire.operations == [COMMIT]
    assert (value(rows, "row"), value(rows, "other")) == (1, 1)
    assert wired.get("a").data == data.get("data", b"kept")
    assert wired.held() == ()
    has_ended(lock)
    assert wired.acquire("a").fencing_token == lock.fencing_token + 1


def test_bytes_are_written_as_boto3_takes_them(client, rows):
    item = {"b": {"B": b"\x00\xff"}, "bs": {"BS": [b"1", bytearray(b"2")]}, "m": {"M": {"x": {"B": b"3"}}}}
    client.acquire("a").commit([{"Put": {"TableName": rows.table, "Item": {"key": {"S": "row"}, **item}}}])
    written = {"b": {"B": "AP8="}, "bs": {"BS": ["MQ==", "Mg=="]}, "m": {"M": {"x": {"B": "Mw=="}}}}
    assert rows["row"] == {"key": {"S": "row"}, **written}


def test_every_action_is_taken_and_99_items_fit(client, rows):
    rows.put("gone", value={"N": "1"})
    rows.put("there", value={"N": "1"})
    delete, check = ({"TableName": rows.table, "Key": {"key": {"S": key}}} for key in ("gone", "there"))
    check |= {"ConditionExpression": "attribute_exists(#v)", "ExpressionAttributeNames": {"#v": "value"}}
    lock, puts = client.acquire("a"), [put(rows, f"row-{number}") for number in range(97)]
    items = [*puts, add(rows, "sum"), {"Delete": delete}, {"ConditionCheck": check}]
    with pytest.raises(LockArgumentError, match="99"):
        lock.commit(items)
    lock.commit(items[1:])
    assert rows.get("gone") is None
    assert all(value(rows, key) == 1 for key in ("sum", *(f"row-{number}" for number in range(1, 97))))
    assert not rows.is_held("a")


# Lost replies


@pytest.mark.parametrize("lost", ["drop_reply", "drop_request", "the reply, and another has the lock since"])
def test_a_lost_reply_is_no_failure_and_writes_once(lost, wire, wired, rows):
    lock = wired.acquire("a")
    if hasattr(wire, lost):
        getattr(wire, lost)(COMMIT)
    else:
        wire.alter_reply(lambda _: rows.take_over("a"), COMMIT)
    lock.commit([add(rows, "sum")])
    assert wire.count(COMMIT) == 2
    assert len(set(client_tokens(wire))) == 1
    assert value(rows, "sum") == 1
    assert rows.is_held("a") is not hasattr(wire, lost)


def test_a_late_copy_writes_nothing_more(wire, wired, rows):
    lock = wired.acquire("a")
    late = wire.deliver_late(COMMIT, copies=2)
    lock.commit([add(rows, "sum")])
    wired.acquire("a")
    land(late)
    assert value(rows, "sum") == 1
    assert rows.is_held("a")


@pytest.mark.parametrize(("fault", "carried_out"), [("drop_reply", True), ("drop_request", False), ("throttle", False)])
def test_without_any_answer_it_is_said_to_be_unknown_and_may_be_released(fault, carried_out, wire, impatient, rows):
    lock = impatient.acquire("a")
    getattr(wire, fault)(COMMIT, times=FOREVER)
    with pytest.raises(TransportError) as caught:
        lock.commit([add(rows, "sum")])
    assert caught.value.ambiguous is ("unknown" in str(caught.value)) is (fault != "throttle")
    assert caught.value.key == "a"
    if caught.value.ambiguous:
        assert caught.value.__cause__ is not None
        assert len(set(client_tokens(wire))) == 1
    assert value(rows, "sum") == (1 if carried_out else None)
    assert not lock.is_held
    assert lock.release() is True  # whichever of the two did it
    assert not rows.is_held("a")


def test_an_answer_after_a_whole_decision_without_one_is_the_truth(wire, impatient, rows):
    lock = impatient.acquire("a")
    clock = impatient.__session__.timeline.clock
    assert isinstance(clock, LeapingClock)
    wire.drop_reply(COMMIT, times=FOREVER, when=lambda request: clock.leapt < 3.5)
    lock.commit([add(rows, "sum")])
    assert len(set(client_tokens(wire))) == 1
    assert value(rows, "sum") == 1


# Refused by the application's own conditions


def test_a_refused_condition_comes_through_and_the_lock_is_released(wire, wired, rows, taken, caplog):
    lock = wired.acquire("a")
    with pytest.raises(CommitRefusedError) as caught, lock:
        lock.commit([put(rows, "row"), taken])
    assert caught.value.reasons == ("None", "ConditionalCheckFailed")
    assert caught.value.key == "a"
    assert caught.value.__cause__ is not None
    assert "ConditionalCheckFailed" in str(caught.value)
    assert rows.get("row") is None
    assert value(rows, "taken") == 7
    assert wire.operations == ["UpdateItem", COMMIT, "UpdateItem"]
    assert not rows.is_held("a")
    assert caplog.messages == []
    has_ended(lock)


def test_a_refusal_is_told_though_the_reply_of_the_release_was_lost(wire, wired, rows, taken):
    lock = wired.acquire("a")
    wire.clear()
    wire.drop_reply("UpdateItem")
    with pytest.raises(CommitRefusedError) as caught:
        lock.commit([taken])
    assert caught.value.reasons == ("ConditionalCheckFailed",)
    assert wire.operations == [COMMIT, "UpdateItem", "UpdateItem", COMMIT]
    assert len(set(client_tokens(wire))) == 1
    assert not rows.is_held("a")


@pytest.mark.parametrize("expired", [False, True])
def test_a_refusal_is_told_though_another_has_the_lock_after_a_release_without_an_answer(
    expired, wire, impatient, rows, taken
):
    lock = impatient.acquire("a")

    def another_takes_it(answer: Answer) -> None:
        rows.take_over("a")
        if expired:
            impatient.__session__.timeline.clock.sleep(60)

    wire.alter_reply(another_takes_it, "UpdateItem")
    wire.drop_request("UpdateItem", times=FOREVER)
    with pytest.raises(CommitRefusedError) as caught:
        lock.commit([taken])
    assert caught.value.reasons == ("ConditionalCheckFailed",)
    assert rows["a"]["ownerName"] == {"S": "another#1"}
    assert lock.lost == expired


def test_a_lock_that_another_took_between_the_refusal_and_the_release_is_told_as_lost(wire, wired, rows, taken, caplog):
    lost: list[Lock] = []
    lock = wired.acquire("a", on_lost=lost.append)

    def another_takes_it(answer: Answer) -> Answer:
        rows.take_over("a")
        return answer

    wire.alter_reply(another_takes_it, COMMIT)
    caplog.set_level("DEBUG", "lambda_lock")
    with pytest.raises(CommitRefusedError):
        lock.commit([taken])
    assert lock.lost
    assert lost == [lock]
    assert "lock 'a' was released" not in caplog.messages


def test_a_late_copy_of_a_refused_commit_is_refused_though_the_condition_holds_by_then(wire, wired, rows, taken):
    lock = wired.acquire("a")
    late = wire.deliver_late(COMMIT)
    with pytest.raises(CommitRefusedError):
        lock.commit([taken, put(rows, "row")])
    rows.delete("taken")
    land(late)
    assert rows.get("taken") is None
    assert rows.get("row") is None


@pytest.mark.parametrize("first", ["answered", "late"])
def test_refused_while_the_release_gets_no_answer_is_unknown_since_a_late_copy_might_find_the_lock_ours(
    first, wire, impatient, rows, taken
):
    lock = impatient.acquire("a")
    late = wire.deliver_late(COMMIT) if first == "late" else None
    wire.drop_request("UpdateItem", times=FOREVER)
    with pytest.raises(TransportError, match="unknown") as caught:
        lock.commit([taken, add(rows, "sum")])
    assert caught.value.ambiguous
    rows.delete("taken")
    assert rows.is_held("a")
    if late is not None:
        land(late)
        assert value(rows, "sum") == 1  # it did


def test_a_missing_table_may_be_that_of_an_item(client, rows):
    with pytest.raises(LockConfigurationError, match="a table of the transaction was not found") as caught:
        client.acquire("a").commit([{"Put": {"TableName": "no-such-table", "Item": {"key": {"S": "1"}}}}])
    assert "Check TableName in each item" in str(caught.value)
    assert f"the lock itself is in table {rows.table!r}" in str(caught.value)
    assert "LAMBDA_LOCK_TABLE" not in str(caught.value)
    assert not rows.is_held("a")


# The lock was not ours any more


def test_a_paused_holder_that_writes_late_is_refused(make, rows, wire):
    clock = LeapingClock()
    holder, other = make(clock=clock, heartbeat_period=0), make()
    rows.put("balance", value={"N": "100"})
    lock = holder.acquire("a", lease_duration=1)
    # The holder is frozen here: it renews nothing, and another takes over.
    taken = other.acquire("a", wait=20)
    taken.commit([put(rows, "balance", "70")])
    wire.clear()
    with pytest.raises(LockLostError) as caught:
        lock.commit([put(rows, "balance", "130")])
    assert caught.value.key == "a"
    assert wire.count(COMMIT) > 0  # it was DynamoDB that refused it
    assert value(rows, "balance") == 70
    assert not lock.is_held


@pytest.mark.parametrize("how", ["taken over", "released", "deleted"])
def test_a_lock_that_another_has_or_nobody_is_lost_whatever_else_would_have_been_refused(how, client, rows, taken):
    lock = client.acquire("a")
    if how == "taken over":
        rows.take_over("a")
    elif how == "released":
        rows.change("a", isReleased={"S": "1"})
    else:
        rows.delete("a")
    before = rows.get("a")
    with pytest.raises(LockLostError) as caught:
        lock.commit([put(rows, "row"), taken])
    assert caught.value.holder == ("another#1" if how == "taken over" else None)
    assert caught.value.__cause__ is not None
    assert rows.get("row") is None
    assert rows.get("a") == before
    has_ended(lock)


def test_a_lease_that_ended_unnoticed_does_no_harm_as_long_as_nobody_took_the_lock(make, rows):
    clock = LeapingClock()
    lock = make(clock=clock, heartbeat_period=0).acquire("a", lease_duration=1)
    clock.sleep(60)
    assert lock.lost
    lock.commit([put(rows, "row")])
    assert value(rows, "row") == 1


# Conflicts, and a DynamoDB that will not serve


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((400, f"{reason}Exception") for reason in ("TransactionInProgress", "ProvisionedThroughputExceeded")),
        (400, "ThrottlingException"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
    ],
)
def test_what_passes_is_waited_for(status, code, wire, impatient, rows):
    lock = impatient.acquire("a")
    wire.answer(status, code, COMMIT, times=3)
    lock.commit([add(rows, "sum")])
    assert wire.count(COMMIT) == 4
    assert len(set(client_tokens(wire))) == 1
    assert value(rows, "sum") == 1


def conflicts(wire: Wire, reasons: list[str], times: float = 1) -> None:
    """Cancelled as DynamoDB does where another's transaction is on an item."""
    body = {
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "message": f"Transaction cancelled, please refer cancellation reasons for specific reasons [{reasons}]",
        "CancellationReasons": [{"Code": reason} for reason in reasons],
    }
    fault = wire.answer(400, "TransactionCanceledException", COMMIT, times=times)
    answer = fault.act

    def act(fault: Any, send: Any) -> Answer:
        given = answer(fault, send)
        assert given is not None
        return Answer(given.status, given.headers, json.dumps(body).encode())

    fault.act = act


@pytest.mark.parametrize(
    "reasons", [["TransactionConflict", "None"], ["None", "TransactionConflict"], ["ThrottlingError", "None"]]
)
def test_a_conflict_with_another_s_transaction_is_tried_again_unless_a_condition_is_refused(
    reasons, wire, impatient, rows
):
    lock = impatient.acquire("a")
    conflicts(wire, reasons, times=4)
    lock.commit([add(rows, "sum")])
    assert wire.count(COMMIT) == 5
    assert value(rows, "sum") == 1
    lock = impatient.acquire("a")
    conflicts(wire, ["ConditionalCheckFailed", "TransactionConflict"])
    with pytest.raises(CommitRefusedError):
        lock.commit([add(rows, "sum")])
    assert wire.count(COMMIT) == 6


def test_conflicts_are_tried_again_no_longer_than_the_lock_is_valid(wire, impatient, rows):
    lock = impatient.acquire("a", lease_duration=10)
    conflicts(wire, ["TransactionConflict", "None"], times=FOREVER)
    with pytest.raises(CommitRefusedError) as caught:
        lock.commit([add(rows, "sum")])
    assert caught.value.reasons == ("TransactionConflict",)
    assert impatient.__session__.timeline.clock.leapt < 11
    assert wire.count(COMMIT) > 5
    assert rows.get("sum") is None
    assert not rows.is_held("a")


@pytest.mark.parametrize(
    ("code", "says", "release_conflicts"),
    [
        ("ValidationException", "ValidationException, says the wire", 0),
        ("ValidationException", "ValidationException, says the wire", 1),
        ("AccessDeniedException", "permission", 0),
    ],
)
def test_a_table_without_transactions_is_a_configuration_error_and_no_lost_lock(
    code, says, release_conflicts, wire, impatient, rows
):
    with impatient.acquire("a") as lock:
        wire.answer(400, code, COMMIT, times=FOREVER)
        wire.answer(400, "ReplicatedWriteConflictException", "UpdateItem", times=release_conflicts)
        with pytest.raises(LockConfigurationError, match=says):
            lock.commit([add(rows, "sum")])
        assert not lock.lost
        assert wire.count(COMMIT) == 1
    assert not lock.lost
    assert not rows.is_held("a")
    assert rows.get("sum") is None


# Bad input: nothing is sent, and the lock is held still


@pytest.mark.parametrize(
    "items",
    [[], [{}], [{"Get": {}}], [{"Put": {}, "Update": {}}], [None], None, {"Put": {"TableName": "a"}}, "Put", 7],
    ids=str,
)
def test_what_is_no_list_of_writes_is_refused(items, wire, wired):
    lock = wired.acquire("a")
    with pytest.raises(LockArgumentError if isinstance(items, list) else TypeError):
        lock.commit(items)
    assert wire.count() == 1
    assert lock.is_held


@pytest.mark.parametrize(
    ("schema", "options", "says"), [(JAVA, {"delete_on_release": True}, "delete_on_release"), (PYTHON, {}, "PYTHON")]
)
def test_a_lock_that_deletes_its_row_cannot_commit(schema, options, says, make, new_table, rows):
    lock = make(new_table(schema.partition_key, schema.sort_key), schema=schema).acquire("a", **options)
    for act in (lambda: lock.commit([put(rows, "row")]), lock.transact_item):
        with pytest.raises(LockConfigurationError, match=says):
            act()
    assert lock.is_held
    assert rows.get("row") is None
