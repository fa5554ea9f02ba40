"""Effects that happen exactly once: current_dedup().commit() writes them and completes the event, or does neither."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from lambda_lock import (
    CommitRefusedError,
    LockArgumentError,
    LockLostError,
    TransportError,
    current_dedup,
)
from tests.support.decorated import Boom
from tests.support.rows import Rows

from .conftest import COMMIT, FOREVER, Calls, Once, add, commit, is_done, only_new, put, value, warnings

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}


@pytest.fixture
def charge(once: Once, rows: Rows) -> Calls:
    """An event's function that commits a sum."""
    return committing(once, rows)


def committing(once: Once, rows: Rows, **options: Any) -> Calls:
    def body() -> str:
        commit([add(rows, "sum")], **options)
        return "returned"

    return Calls(body, by=once("{id}", scope="", result="json"))


def test_items_and_completion_are_one_transaction_and_the_wrapper_sends_nothing_more(charge, wire, rows, caplog):
    assert charge(EVENT) == "returned"
    assert wire.operations == ["UpdateItem", COMMIT]
    assert value(rows, "sum") == 1
    assert is_done(rows, "e-1")
    assert rows["e-1"]["isReleased"] == {"S": "1"}
    assert int(rows["e-1"]["ttl"]["N"]) == int(rows["e-1"]["completedUntil"]["N"]) + 86_400
    assert charge(EVENT) is None
    assert (charge.count, value(rows, "sum")) == (1, 1)
    assert caplog.messages == []


def test_a_result_that_is_committed_is_given_to_duplicates(once, rows):
    charge = committing(once, rows, result={"receipt": 7}, data=b"x")
    assert charge(EVENT) == "returned"
    assert charge(EVENT) == {"receipt": 7}
    assert rows["e-1"]["data"] == {"B": "eA=="}


def test_after_the_commit_an_error_of_the_function_does_not_undo_it(once, rows):
    def body(event: object) -> None:
        commit([add(rows, "sum")])
        raise Boom

    handler = once("{id}", scope="")(body)
    with pytest.raises(Boom):
        handler(EVENT)
    assert is_done(rows, "e-1")
    assert handler(EVENT) is None
    assert value(rows, "sum") == 1


# Refused


def test_refused_by_the_applications_condition_nothing_is_done_and_the_next_delivery_runs(once, rows, caplog):
    rows.put("order")
    charge = Calls(lambda: commit([add(rows, "sum"), only_new(rows, "order")]), by=once("{id}", scope=""))
    with pytest.raises(CommitRefusedError) as caught:
        charge(EVENT)
    assert caught.value.reasons == ("None", "ConditionalCheckFailed")
    assert not is_done(rows, "e-1")
    assert not rows.is_held("e-1")
    assert warnings(caplog) == []
    rows.delete("order")
    charge(EVENT)
    assert (charge.count, value(rows, "sum")) == (2, 1)
    assert is_done(rows, "e-1")


def test_a_refusal_that_is_swallowed_is_warned_about_and_the_event_is_not_done(once, rows, wire, caplog):
    rows.put("order")

    def body(event: object) -> str:
        with pytest.raises(CommitRefusedError):
            commit([only_new(rows, "order")])
        return "swallowed"

    assert once("{id}", scope="", result="json")(body)(EVENT) == "swallowed"
    assert warnings(caplog) == ["not_completed"]
    assert "body() returned, but did not complete event 'e-1'" in caplog.text
    assert not is_done(rows, "e-1")
    assert not rows.is_held("e-1")
    assert wire.operations == ["UpdateItem", COMMIT, "UpdateItem"]


@pytest.mark.parametrize("swallowed", [True, False])
def test_under_a_lost_lock_nothing_is_written_and_the_others_row_is_left(swallowed, once, rows, caplog):
    def body(event: object) -> str:
        rows.put_held("e-1", expires_at=9e9, owner="another#1")
        with contextlib.suppress(LockLostError) if swallowed else contextlib.nullcontext():
            commit([add(rows, "sum")])
        return "swallowed"

    with contextlib.nullcontext() if swallowed else pytest.raises(LockLostError) as caught:
        assert once("{id}", scope="")(body)(EVENT) == "swallowed"
    assert ("not_completed" in warnings(caplog)) == swallowed
    assert caught is None or caught.value.holder == "another#1"
    assert value(rows, "sum") == 0
    assert rows.is_held("e-1")
    assert rows["e-1"]["ownerName"] == {"S": "another#1"}
    assert not is_done(rows, "e-1")


# No answer


@pytest.mark.parametrize("swallowed", [True, False])
@pytest.mark.parametrize("carried_out", [True, False])
def test_after_an_ambiguous_commit_the_event_is_done_if_and_only_if_its_effects_are(
    carried_out, swallowed, once, wire, rows, impatient, caplog
):
    def body(event: object) -> str:
        with contextlib.suppress(TransportError) if swallowed else contextlib.nullcontext():
            commit([add(rows, "sum")])
        return "returned"

    (wire.drop_reply if carried_out else wire.drop_request)(COMMIT, times=FOREVER)
    handler = once("{id}", scope="")(body)
    with contextlib.nullcontext() if swallowed else pytest.raises(TransportError) as caught:
        assert handler(EVENT) == "returned"
    assert caught is None or caught.value.ambiguous
    assert ("unless that commit went through" in caplog.text) == swallowed
    assert warnings(caplog) == (["not_completed"] if swallowed else [])
    assert value(rows, "sum") == carried_out
    assert is_done(rows, "e-1") == carried_out
    assert not rows.is_held("e-1")
    wire.clear()
    handler(EVENT)
    assert value(rows, "sum") == 1
    assert is_done(rows, "e-1")


# Bad input: nothing is sent, and the wrapper completes as if nothing had been tried


@pytest.mark.parametrize(
    ("items", "options", "error"),
    [
        ([], {}, LockArgumentError),
        (None, {}, TypeError),
        ([{"Put": {"TableName": "orders"}}], {"result": object()}, LockArgumentError),
        ([{"Put": {"TableName": "orders"}}], {"result": "x" * 410_000}, LockArgumentError),
        ([{"Put": {"TableName": "orders"}}], {"data": b"x" * 250_000, "result": "x" * 250_000}, LockArgumentError),
    ],
)
def test_what_cannot_be_committed_is_refused_and_the_event_goes_on(items, options, error, once, rows, wire):
    def body(event: object) -> str:
        with pytest.raises(error):
            commit(items, **options)
        assert current_dedup().is_held
        return "done otherwise"

    handler = once("{id}", scope="", result="json")(body)
    assert handler(EVENT) == handler(EVENT) == "done otherwise"
    assert wire.operations == ["UpdateItem"] * 3


def test_a_plain_lock_stores_no_result(other, rows):
    lock = other.acquire("k")
    with pytest.raises(LockArgumentError, match="does not belong to one: use data="):
        lock.commit([put(rows, "row")], result="text")
    assert lock.is_held
    lock.commit([put(rows, "row")])
    assert not is_done(rows, "k")


# transact_item


def test_transactions_of_ones_own_happen_only_while_the_event_is_ours(once, engine, rows):
    def body(event: object) -> None:
        item = current_dedup().transact_item()
        engine.dynamodb("TransactWriteItems", {"TransactItems": [item, add(rows, "sum")]})
        assert current_dedup().is_held

    handler = once("{id}", scope="")(body)
    handler(EVENT)
    handler(EVENT)
    assert value(rows, "sum") == 1
    assert is_done(rows, "e-1")
