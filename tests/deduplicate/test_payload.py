"""validate=: a key that comes with another payload is a mistake, and not a duplicate."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest

from lambda_lock import (
    KeyTemplateError,
    LockNotGrantedError,
    PayloadMismatchError,
    current_dedup,
    deduplicate,
    default_client,
    payload_hash,
)
from lambda_lock.batch import process_sqs
from lambda_lock.keys.payload_hash import PayloadHash, _plain
from rig import events
from tests.support.context import Context
from tests.support.decorated import Boom

from .conftest import Calls, commit, put

pytestmark = pytest.mark.usefixtures("table")


def event(amount: Any = 100, **more: Any) -> dict[str, Any]:
    return {"id": "e-1", "detail": {"amount": amount, **more}}


FIELDS: dict[str, Any] = {"scope": "", "validate": ["detail[amount]"]}


@pytest.mark.parametrize("result", [None, "json"])
def test_a_known_id_with_another_payload_is_an_error(result, once, wire, caplog):
    calls = Calls(result="charged 100", by=once("{id}", result=result, **FIELDS))
    assert calls(event(100)) == "charged 100"
    assert calls(event(100)) == (None if result is None else "charged 100")
    with pytest.raises(PayloadMismatchError, match="'e-1' was completed with another payload") as mismatch:
        calls(event(200))
    assert mismatch.value.key == "e-1"
    assert mismatch.value.completed_until is not None
    assert mismatch.value.completed_until > time.time()
    assert "payload_mismatch" in [record.__dict__["lock_event"] for record in caplog.records]
    assert calls.count == 1
    assert wire.operations == ["UpdateItem"] * 4  # it costs no request


def test_a_payload_that_differs_only_in_its_notation_or_elsewhere_is_the_same(once):
    handler = once("{id}", result="json", **FIELDS)(lambda event: "charged")
    handler(event(100))
    assert handler(event(100.0)) == handler(event(Decimal("1e2"))) == handler(event(100, note="x")) == "charged"


@pytest.mark.parametrize(
    ("options", "body", "again"),
    [
        ({"result": "json"}, lambda event, rows: "x" * 390_000, "x" * 390_000),
        ({"result": "json"}, lambda event, rows: "x" * 410_000, None),
        ({"result": "json"}, lambda event, rows: commit([put(rows, "effect")], result={"n": 1}), {"n": 1}),
        ({}, lambda event, rows: event["detail"].update(amount=0), None),
        ({"on_duplicate": lambda event, error: "answered"}, lambda event, rows: "charged", "answered"),
    ],
    ids=["a result fills the row", "a result is too large", "a commit", "a changed event", "an answer"],
)
def test_another_payload_is_an_error_whatever_the_function_did_and_duplicates_get(options, body, again, once, rows):
    handler = once("{id}", **options, **FIELDS)(lambda event: body(event, rows))
    handler(event(100))
    assert handler(event(100)) == again
    with pytest.raises(PayloadMismatchError):
        handler(event(200))


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_fields_may_be_empty_but_not_missing(empty, once):
    handler = once("{id}", result="json", **FIELDS)(lambda event: "charged")
    assert handler(event(empty)) == handler(event(empty)) == "charged"
    with pytest.raises(PayloadMismatchError):
        handler(event(0))
    with pytest.raises(KeyTemplateError, match="amount"):
        handler({"id": "e-1", "detail": {}})


def test_a_mismatch_is_answered_by_a_function_with_the_arguments_of_the_call(once):
    def answer(event: Any, *, error: PayloadMismatchError) -> tuple[int, Any]:
        return 422, (event["detail"]["amount"], error.key)

    calls = Calls(
        error=PayloadMismatchError("of the body"), by=once("{id}", result="json", on_mismatch=answer, **FIELDS)
    )
    with pytest.raises(PayloadMismatchError, match="of the body"):  # that is not answered
        calls(event(100))
    calls.error, calls.result = None, "charged"
    assert calls(event(100)) == calls(event(100)) == "charged"
    assert calls(event(200)) == (422, (200, "e-1"))


def test_a_failed_event_may_come_back_with_another_payload(once):
    calls = Calls(error=Boom(), by=once("{id}", result="json", **FIELDS))
    with pytest.raises(Boom):
        calls(event(100))
    calls.error, calls.result = None, "charged 200"
    assert calls(event(200)) == "charged 200"
    with pytest.raises(PayloadMismatchError):
        calls(event(100))


def test_an_event_in_progress_with_another_payload_is_contention(once, other):
    elsewhere = deduplicate("{id}", client=other, **FIELDS)(lambda event: pytest.fail("must not run"))

    def body(_: Any) -> None:
        with pytest.raises(LockNotGrantedError):
            elsewhere(event(200))

    once("{id}", **FIELDS)(body)(event(100))
    with pytest.raises(PayloadMismatchError):
        elsewhere(event(200))


def test_events_that_were_completed_before_validate_was_added_or_removed_are_duplicates(once):
    without: dict[str, Any] = {"scope": "", "result": "json"}
    once("{id}", **without)(lambda event: "charged")(event(100))
    assert once("{id}", result="json", **FIELDS)(lambda event: "again")(event(200)) == "charged"
    once("{id}", result="json", **FIELDS)(lambda event: "charged")({**event(100), "id": "e-2"})
    assert once("{id}", **without)(lambda event: "again")({**event(200), "id": "e-2"}) == "charged"


def test_the_hash_is_not_part_of_a_records_result():
    deduplicate("{id}", result="json", **FIELDS)(lambda event: [1])(event(100))
    deduplicate("{id}", **FIELDS)(lambda event: [1])({**event(100), "id": "e-2"})
    records = [default_client().get(key) for key in ("e-1", "e-2")]
    assert [None if record is None else record.result for record in records] == ["[1]", None]


def test_in_a_batch_a_record_with_another_payload_comes_back():
    batch = events.sqs([{"amount": 100}, {"amount": 200}])
    first, second = batch["Records"]
    second["messageId"] = first["messageId"]
    second["receiptHandle"] = "other"
    returned = process_sqs(batch, lambda record: None, context=Context(30), validate=["body[amount]"], scope="")
    assert returned == {"batchItemFailures": [{"itemIdentifier": first["messageId"]}]}


@pytest.mark.usefixtures("rows")
def test_a_nested_step_of_the_same_event_does_not_replace_the_outer_payload():
    inner = deduplicate("{id}", scope="", reentrant=True)(lambda event: current_dedup().key)
    outer = deduplicate("{id}", **FIELDS)(lambda event: inner(event))
    assert outer(event(100)) == "e-1"
    with pytest.raises(PayloadMismatchError):
        outer(event(200))


def test_a_json_body_is_compared_as_json(once):
    handler = once("{id}", result="json", scope="", validate=["body"])(lambda event: "charged")
    for body in ('{"amount": 100, "to": "a"}', '{"to":"a","amount":100.0}'):
        assert handler({"id": "e-1", "body": body}) == "charged"
    for body in ('{"amount": 101, "to": "a"}', '{"amount": 100, "to": "a", "to": "a"}', "", "eyJ0byI6ICJhIn0="):
        with pytest.raises(PayloadMismatchError):
            handler({"id": "e-1", "body": body})


def test_a_hash_that_version_0_2_0_stored_is_that_of_the_same_text_and_of_no_other(once):
    text = '{"amount": 100, "to": "a"}'
    stored = PayloadHash(("body",), may_be_empty=True, as_written=True)({"body": text})
    assert stored == "af4381b3dc13fe38e8636b22e6c91a0fd8d20f52062d2eca87f5f776c1e6da98"
    event, decorated = {"id": "e-1", "body": text}, once("{id}", result="json", scope="", validate=["body"])
    with mock.patch("lambda_lock.keys.payload_hash._whole", _plain):
        decorated(lambda event: "charged")(event)
    handler = decorated(lambda event: "again")
    assert handler(event) == "charged"
    for body in ('{"amount": 101, "to": "a"}', '{"to": "a", "amount": 100}'):
        with pytest.raises(PayloadMismatchError):
            handler({"id": "e-1", "body": body})


@pytest.mark.parametrize("validate", [iter, tuple, set], ids=["iter", "tuple", "set"])
def test_fields_may_come_in_any_iterable(validate, once):
    """An iterator is read once: read again it would be empty, and no field is the whole event."""
    handler = once("{id}", validate=validate(["detail[amount]"]))(lambda event: "charged")
    assert (handler(event(100)), handler(event(100, note="x"))) == ("charged", None)
    with pytest.raises(PayloadMismatchError):
        handler(event(200))


NO_LISTS: list[Any] = [5, True, payload_hash("id"), []]


@pytest.mark.parametrize(
    ("validate", "match"),
    [
        *((wrong, "validate= takes a list of fields") for wrong in NO_LISTS),
        ([5], "takes the paths of fields"),
        ({"a": 1}.values(), "takes the paths of fields"),
        ([""], "cannot be read"),
    ],
)
def test_validate_is_a_list_of_fields(validate, match):
    with pytest.raises((TypeError, KeyTemplateError), match=match):
        deduplicate("{id}", validate=validate)(lambda event: None)
