"""What @deduplicate refuses when a function is decorated, the keys it takes, and the kill switch."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_lock import current_dedup, deduplicate
from lambda_lock.batch import kafka_batch, sqs_batch
from lambda_lock.keys.compile import compile_key
from rig import events
from tests.support.decorated import done

from .conftest import COMMIT, Calls, add, commit, value

EVENT = {"id": "e-1"}


def key_function(event: Any, context: Any = None) -> str:
    return "k"


async def coroutine_function(event: Any = None) -> None: ...


# The arguments


each_answer = pytest.mark.parametrize("name", ["on_duplicate", "on_not_granted", "on_bad_key", "on_mismatch"])


@each_answer
def test_an_answer_of_a_plain_function_cannot_be_async(name):
    async def answer(event: Any = None, *, error: Exception) -> None: ...

    options: Any = {name: coroutine_function}
    with pytest.raises(TypeError, match=f"{name}= must be a plain function here"):
        deduplicate("k", **options)(key_function)
    with pytest.raises(TypeError, match=rf"{name}= is called with the arguments of coroutine_function\(\) and error="):
        deduplicate("k", **options)(coroutine_function)
    options = {name: answer}
    deduplicate("k", **options)(coroutine_function)


@each_answer
def test_an_answer_that_cannot_take_error_is_refused(name):
    options: Any = {name: lambda event, context=None: None}
    with pytest.raises(TypeError, match=rf"{name}= is called with the arguments of key_function\(\) and error=, which"):
        deduplicate("k", **options)(key_function)


@each_answer
def test_a_parameter_of_the_name_that_an_answer_gets_is_refused(name):
    def report(error: str) -> None: ...

    options: Any = {name: lambda **given: None}
    with pytest.raises(TypeError, match=f"a parameter named error, but {name}= gets"):
        deduplicate("{error}", **options)(report)
    deduplicate("{error}")(report)


# Keys


@pytest.mark.parametrize(
    ("sample", "path", "template", "expected"),
    [
        ("sqs", 0, "{messageId}", "6f9c1d5e-0c64-4f0d-9a3e-2b7d9a51c001"),
        ("sqs_fifo", 0, "{messageId}", "a3b1e8f2-6d0b-4c57-8f42-91c0de55f001"),
        ("eventbridge", None, "{id}", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"),
        ("schedule", None, "{id}", "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa"),
        ("sns", None, "{Records[0][Sns][MessageId]}", "c3f1b2a4-5d6e-5f70-8a9b-0c1d2e3f4a51"),
        ("sns", 0, "{Sns[MessageId]}", "c3f1b2a4-5d6e-5f70-8a9b-0c1d2e3f4a51"),
        ("sqs_sns", 0, "{body[MessageId]}", "c3f1b2a4-5d6e-5f70-8a9b-0c1d2e3f4a51"),
        ("sqs_eventbridge", 0, "{body[id]}", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"),
        ("kinesis", 0, "{eventID}", "shardId-000000000006:49671204458813907216537740180245213507649913627385012226"),
        ("dynamodb_stream", 0, "{eventID}", "b6af013f4c08dc2b13d34c03f8d8d6c4"),
    ],
)
def test_the_id_of_an_event_of_each_source(sample, path, template, expected):
    event = events.load(sample)
    of_call = compile_key(key_function, template, None)
    assert of_call((event if path is None else event["Records"][path],), {}) == expected


# The kill switch


@pytest.fixture
def disabled(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")


@pytest.mark.usefixtures("disabled")
def test_with_the_switch_on_each_delivery_runs_unprotected_with_a_warning(once, wire, caplog):
    calls = Calls(result=lambda: (current_dedup().key, current_dedup().is_held))
    handler = once("{id}", scope="", result="json")(calls.handler)
    assert handler(EVENT) == handler(EVENT) == ("e-1", True)
    assert calls.count == 2
    assert wire.operations == []
    assert [record.__dict__["lock_event"] for record in caplog.records] == ["disabled"] * 2
    unfit = object()
    assert once("{missing}", scope="", result="json")(lambda event: unfit)(EVENT) is unfit
    assert once("{id}", scope="")(lambda event: done(current_dedup().release()))(EVENT) is True


@pytest.mark.usefixtures("disabled")
def test_with_the_switch_on_commit_still_writes_and_nobody_is_warned_about_the_event(once, wire, rows, caplog):
    calls = Calls(result=lambda: commit([add(rows, "sum")], data=b"x", result={"n": 1}))
    handler = once("{id}", scope="", result="json")(calls.handler)
    handler(EVENT)
    handler(EVENT)
    assert wire.operations == [COMMIT, COMMIT]
    assert value(rows, "sum") == 2
    assert rows.get("e-1") is None
    assert {record.__dict__["lock_event"] for record in caplog.records} == {"disabled"}


@pytest.mark.parametrize("batch", [sqs_batch, kafka_batch])
def test_above_a_batch_it_would_count_records_that_failed_as_done(batch):
    handler: Any = batch()(lambda record: None)
    words = f"@deduplicate above @{batch.__name__} would count .*, or pass dedup_key= to {batch.__name__}"
    with pytest.raises(TypeError, match=words):
        deduplicate("{Records[0][messageId]}")(handler)
    deduplicate("{Records[0][messageId]}", done_if=lambda answer: not answer["batchItemFailures"])(handler)
