"""The recipes for events that come from outside: webhooks, S3, streams."""

import base64
import copy
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from rig import events
from tests.recipes.pages import program
from tests.recipes.test_jobs import Work, beside
from tests.support.context import Context

pytestmark = pytest.mark.usefixtures("table")

SECRET = "whsec-of-a-test"


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    app = program("webhook")
    app.done = []
    app.fulfil = lambda message: app.done.append(message["id"])
    return app


def _signature(body: bytes, secret: str = SECRET, age: float = 0) -> str:
    sent = str(int(time.time() - age))
    return f"t={sent},v1={hmac.new(secret.encode(), f'{sent}.'.encode() + body, hashlib.sha256).hexdigest()}"


def _delivery(number: str, signature: str | None = None, is_base64: bool = False) -> dict[str, Any]:
    body = json.dumps({"id": number, "type": "invoice.paid", "name": "Zoë"}, ensure_ascii=False).encode()
    return {
        "headers": {"Stripe-Signature": _signature(body) if signature is None else signature},
        "body": base64.b64encode(body).decode() if is_base64 else body.decode(),
        "isBase64Encoded": is_base64,
    }


def test_a_webhook_counts_once_however_often_and_in_whatever_form_it_is_delivered(webhook):
    answers = [webhook.handler(_delivery("evt_1", is_base64=form), Context()) for form in (False, True, False)]
    assert answers == [{"statusCode": 200}] * 3
    assert webhook.done == ["evt_1"]


_WRONG: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "no time": lambda: "v1=00",
    "an empty time": lambda: "t=,v1=00",
    "no digit of ASCII": lambda: "t=²,v1=00",
    "thousands of digits": lambda: f"t={'9' * 5000},v1=00",
    "no text of ASCII": lambda: _signature(b"").partition("v1=")[0] + "v1=é",
    "of another body": lambda: _signature(b"another body"),
    "of the future": lambda: "t=99999999999,v1=00",
}


@pytest.mark.parametrize("wrong", _WRONG)
def test_what_is_not_signed_is_refused_and_marks_no_event_as_done(webhook, wrong):
    assert webhook.handler(_delivery("evt_1", _WRONG[wrong]()), Context()) == {"statusCode": 400}
    assert webhook.handler({"headers": {}, "body": None}, Context()) == {"statusCode": 400}
    assert webhook.handler({"headers": None, "body": None}, Context()) == {"statusCode": 400}  # a REST API's test
    assert webhook.done == []
    assert webhook.handler(_delivery("evt_1"), Context()) == {"statusCode": 200}
    assert webhook.done == ["evt_1"]


def test_a_signature_of_another_secret_or_of_ten_minutes_ago_is_refused(webhook):
    body = webhook.body_of(_delivery("evt_1"))
    assert webhook.is_signed(body, _signature(body))
    assert webhook.is_signed(body, f"v0=aa, {_signature(body)},v1=bb")
    assert not webhook.is_signed(body, _signature(body, secret="another"))
    assert not webhook.is_signed(body, _signature(body, age=600))
    assert not webhook.is_signed(body + b" ", _signature(body))


def test_a_webhook_that_failed_is_done_at_its_next_delivery(webhook):
    good, webhook.fulfil = webhook.fulfil, lambda message: 1 / 0
    with pytest.raises(ZeroDivisionError):
        webhook.handler(_delivery("evt_1"), Context())
    webhook.fulfil = good
    webhook.handler(_delivery("evt_1"), Context())
    assert webhook.done == ["evt_1"]


def test_a_delivery_beside_the_first_one_is_told_to_come_again(webhook):
    def deliver() -> Any:
        return webhook.handler(_delivery("evt_1"), Context())

    webhook.fulfil = work = Work()
    answer = beside(deliver, deliver, work)
    assert answer["statusCode"] == 409
    assert int(answer["headers"]["Retry-After"]) >= 1
    assert (work.begun, work.ended) == (1, 1)


def _uploaded(sequencer: str, key: str = "c-42/invoice+o-1001.pdf") -> dict[str, Any]:
    event = events.load("s3")
    event["Records"][0]["s3"]["object"] |= {"sequencer": sequencer, "key": key}
    return event


def test_an_upload_is_indexed_once_and_an_older_one_that_comes_late_is_not():
    app = program("s3")
    done: list[str] = []
    app.index = lambda bucket, key: 1 / 0
    with app.client:
        with pytest.raises(ZeroDivisionError):
            app.handler(_uploaded("0055AED6DCD90281E5"), Context())
        app.index = lambda bucket, key: done.append(key)  # of the retry
        for sequencer in ("0055AED6DCD90281E5", "0055AED6DCD90281E5", "0055AED6DCD9028", "0055AED6DCD90281E6"):
            app.handler(_uploaded(sequencer), Context())
        assert done == ["c-42/invoice o-1001.pdf"] * 2
        app.handler(_uploaded("0055AED6DCD9028", "another.pdf"), Context())
    assert done[2:] == ["another.pdf"]


def test_a_sequencer_is_compared_as_s3_says():
    app = program("s3")
    app.client.close()
    assert all(app.is_newer(new, old) for new, old in (("0A", ""), ("0B", "0A"), ("0A1", "0A")))
    assert not any(app.is_newer(new, old) for new, old in (("0A", "0A0"), ("09F", "0A")))


def test_a_batch_of_kinesis_goes_on_where_it_stopped_and_does_nothing_twice():
    app = program("streams")
    batch = events.kinesis([("a", {"order_id": number}) for number in "123"])
    numbers = [record["kinesis"]["sequenceNumber"] for record in batch["Records"]]
    done: list[str] = []

    def ship(record: dict[str, Any]) -> None:
        number = record["kinesis"]["sequenceNumber"]
        if number == numbers[1] and numbers[0] in done and not failed:
            failed.append(number)
            raise OSError("the parcel service does not answer")
        done.append(number)

    failed: list[str] = []
    app.ship = ship
    assert app.handler(copy.deepcopy(batch), Context()) == {"batchItemFailures": [{"itemIdentifier": numbers[1]}]}
    assert done == numbers[:1]
    assert app.handler(batch, Context()) == {"batchItemFailures": []}  # Lambda might begin before the failure
    assert done == numbers


def test_a_change_of_a_dynamodb_stream_is_done_once():
    app = program("streams", 1)
    batch = events.load("dynamodb_stream")
    done: list[str] = []
    app.changed = lambda record: done.append(record["eventID"])
    for _ in range(2):
        assert app.handler(copy.deepcopy(batch), Context()) == {"batchItemFailures": []}
    assert done == [record["eventID"] for record in batch["Records"]]
