"""A result that is made once and shared: for how long, whether it counts, with whom, and what a bad key is answered."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from lambda_lock import (
    DuplicateEventError,
    KeyTemplateError,
    LockNotGrantedError,
    current_dedup,
    current_lock,
    deduplicate,
    register_lambda_context,
    with_lock,
)
from lambda_lock.batch import process_sqs
from lambda_lock.testing import lambda_context
from rig import events
from tests.support.decorated import Boom
from tests.support.elsewhere import in_thread
from tests.support.rows import Rows

from .conftest import Calls, commit, counting, is_done, put, warnings

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}
DAY = 86_400


def seconds_done(rows: Rows, key: str = "e-1") -> float:
    """For how long the event counts as done from now on."""
    return int(rows[key]["completedUntil"]["N"]) - time.time()


# window= as a function of the result


@pytest.mark.parametrize(("expires_in", "seconds"), [(3600, 3540), (61.2, 2), (61, 1), (10 * 365 * DAY + 60, 3.1536e8)])
def test_a_token_is_kept_for_as_long_as_its_result_says(once, rows, expires_in, seconds):
    handler = once("{id}", scope="", window=lambda token: token["expires_in"] - 60)(
        lambda event: {"expires_in": expires_in}
    )
    handler(EVENT)
    assert seconds - 5 <= seconds_done(rows) <= seconds + 2
    assert int(rows["e-1"]["ttl"]["N"]) >= int(rows["e-1"]["completedUntil"]["N"]) + DAY


def test_the_window_is_asked_for_the_result_that_is_not_stored(once, rows):
    once("{id}", scope="", window=len)(lambda event: "x" * 500)(EVENT)
    assert 495 <= seconds_done(rows) <= 502
    assert "result" not in rows["e-1"]


def test_a_commit_asks_for_the_window_of_its_own_result(once, rows):
    def body(event: object) -> int:
        commit([put(rows, "receipt")], result={"seconds": 500})
        return 7

    once("{id}", scope="", window=lambda result: result["seconds"])(body)(EVENT)
    assert 495 <= seconds_done(rows) <= 502


@pytest.mark.parametrize("wrong", [0, 0.5, -5, float("nan"), float("inf"), 11 * 365 * DAY, "60", None, True, Boom()])
def test_a_window_that_is_none_is_told_and_the_event_is_done_for_a_day(rows, wrong, caplog):
    window = Calls(**{"error" if isinstance(wrong, Exception) else "result": wrong})
    handler = deduplicate("{id}", scope="", window=lambda result: window.handler(result))(lambda event: "made")
    assert handler(EVENT) == "made"
    assert DAY - 5 <= seconds_done(rows) <= DAY + 2
    assert warnings(caplog) == ["result_not_judged"]
    assert "window= gave no answer" in caplog.text


def test_an_inner_call_of_the_same_event_leaves_the_window_to_the_outer_one(rows):
    inner = deduplicate("{id}", scope="", reentrant=True, window=lambda result: 5000)(lambda event: 2)
    outer = deduplicate("{id}", scope="", reentrant=True, window=lambda result: 1000)(lambda event: inner(event))
    assert outer(EVENT) == 2
    assert 995 <= seconds_done(rows) <= 1002


async def awaited(result: object) -> float:
    return 1.0


class Called:
    async def __call__(self, result: object) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [(name, wrong) for name in ("window", "done_if") for wrong in (awaited, lambda: 1, lambda one, two: 1, Called())]
    + [("done_if", wrong) for wrong in (5, "ok", True)],
)
def test_what_is_no_plain_function_of_the_result_is_refused_when_decorating(name, wrong):
    with pytest.raises(TypeError, match=f"{name}= must be a plain function that takes the result"):
        deduplicate("{id}", **{name: wrong})


@pytest.mark.parametrize("name", ["window", "done_if"])
def test_an_answer_that_would_have_to_be_awaited_is_told_and_the_event_is_done(name, once, rows, caplog, recwarn):
    """A coroutine is true: with a lambda that makes one, every result would be done, and nobody would hear of it."""
    options: dict[str, Any] = {name: lambda result: awaited(result)}
    once("{id}", scope="", **options)(lambda event: None)(EVENT)
    assert warnings(caplog) == ["result_not_judged"]
    assert f"{name}= returned coroutine, which nothing awaits" in caplog.text
    assert seconds_done(rows) == pytest.approx(DAY, abs=30)
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


# done_if=


def test_a_5xx_is_returned_and_not_stored_and_the_next_delivery_runs_again(once, rows, wire):
    answers = [{"statusCode": 503}, {"statusCode": 404}]
    calls = Calls()
    calls.result = lambda: answers[calls.count - 1]
    handler = once("{id}", scope="", result="json", done_if=lambda answer: answer["statusCode"] < 500)(calls.handler)
    assert handler(EVENT) == {"statusCode": 503}
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    assert not rows.is_held("e-1")
    assert not is_done(rows, "e-1")
    assert [handler(EVENT), handler(EVENT)] == [{"statusCode": 404}] * 2
    assert calls.count == 2


def test_a_commit_completes_whatever_the_predicate_says(once, rows):
    once("{id}", scope="", done_if=lambda result: False)(lambda event: commit([put(rows, "receipt")]))(EVENT)
    assert is_done(rows, "e-1")


@pytest.mark.parametrize("answer", [Boom(), None, 0, 1, "", "no", [], {"ok": False}])
def test_a_predicate_that_answers_neither_true_nor_false_is_told_and_the_event_is_done(answer, rows, caplog):
    """A forgotten return would otherwise turn protection off: each delivery would run."""
    calls = Calls(result="made")
    judge = Calls(**{"error" if isinstance(answer, Boom) else "result": answer})
    handler = deduplicate("{id}", scope="", result="json", done_if=lambda result: judge.handler(result))(calls.handler)
    assert [handler(EVENT) for _ in range(3)] == ["made"] * 3
    assert calls.count == 1
    assert warnings(caplog) == ["result_not_judged"]
    assert "done_if= gave no answer" in caplog.text
    why = "Boom" if isinstance(answer, Boom) else f"must return True or False, but returned {type(answer).__name__}"
    assert why in caplog.text


@pytest.mark.parametrize("answer", [True, False])
def test_a_predicate_may_answer_with_a_bool_of_numpy(answer, once, rows):
    class bool_:  # noqa: N801 - numpy is not among what the tests need
        __module__ = "numpy"

        def item(self) -> bool:
            return answer

    once("{id}", scope="", done_if=lambda result: bool_())(lambda event: 1)(EVENT)
    assert is_done(rows, "e-1") is answer


def test_what_was_lost_and_is_not_done_is_told_to_be_lost(once, rows, caplog):
    def body(event: object) -> int:
        rows.put("e-1", ownerName={"S": "another#1"})
        return 0

    once("{id}", scope="", done_if=bool)(body)(EVENT)
    assert "finished_lost" in warnings(caplog)


def test_waiters_on_a_failing_dependency_run_one_after_another_and_each_gets_an_answer_of_its_own(rows):
    running = threading.Lock()

    def answer() -> int:
        assert running.acquire(blocking=False), "two run at once"
        time.sleep(0.05)
        running.release()
        return 503

    options: dict[str, Any] = {"wait": 30, "refresh_period": 0.02, "done_if": lambda status: status < 500}
    calls = Calls(answer, by=deduplicate("{id}", scope="", **options))
    waiting = [in_thread(lambda: calls(EVENT)) for _ in range(4)]
    assert [one() for one in waiting] == [503] * 4
    assert calls.count == 4


def test_a_window_of_a_moment_shares_a_failure_with_those_who_wait(rows):
    calls, go_on = Calls(), threading.Event()
    calls.result = lambda: (go_on.wait(30), calls.count)[1]
    handler = deduplicate("{id}", scope="", result="json", wait=30, window=lambda result: 30)(calls.handler)
    waiting = [in_thread(lambda: handler(EVENT)) for _ in range(4)]
    go_on.set()
    assert [one() for one in waiting] == [1] * 4


# on_bad_key=


def test_a_missing_header_is_answered_and_nothing_is_sent(once, wire):
    def bad(event: Any, *, error: KeyTemplateError) -> dict[str, Any]:
        return {"statusCode": 400, "body": error.field}

    handler = once("{headers[Idempotency-Key]}", on_bad_key=bad)(lambda event: {"statusCode": 201})
    assert handler({"headers": {}}) == {"statusCode": 400, "body": "headers[Idempotency-Key]"}
    assert handler({"headers": {"Idempotency-Key": ""}})["statusCode"] == 400
    assert wire.operations == []
    assert handler({"headers": {"Idempotency-Key": "k"}})["statusCode"] == 201


def test_a_missing_field_to_validate_is_a_bad_key_too(once):
    handler = once("{id}", validate=["amount"], on_bad_key=lambda event, error: "bad")(lambda event: "made")
    assert handler(EVENT) == "bad"
    assert handler({**EVENT, "amount": 5}) == "made"


@pytest.mark.parametrize("error", [KeyTemplateError("of the body"), LockNotGrantedError("of the body")])
def test_an_error_of_the_function_or_of_its_key_function_is_no_bad_key(once, error):
    handler = once("{id}", on_bad_key=lambda event, error: "bad")(Calls(error=error).handler)
    with pytest.raises(type(error), match="of the body"):
        handler(EVENT)

    def key(event: object) -> str:
        raise LockNotGrantedError("of the key function")

    with pytest.raises(LockNotGrantedError, match="of the key function"):
        once(key, on_not_granted="skip", on_bad_key=lambda event, error: "bad")(lambda event: None)(EVENT)


@pytest.mark.parametrize(("scope", "told"), [(None, True), ("s" * 40, True), ("", False)])
def test_a_key_that_is_too_long_only_with_its_scope_is_a_bad_key(scope, told, once):
    handler = once("{id}", scope=scope, on_bad_key=lambda event, error: str(error))(lambda event: "ran")
    answer = handler({"id": "k" * 2047})
    assert ("the scope and key of " in answer and "but DynamoDB allows 2048" in answer) is told


# Tenants


def of_tenant(tenant: str | None) -> Any:
    return lambda_context(tenant_id=tenant)


def test_a_result_is_never_given_to_another_tenant_by_default(once):
    calls = counting(once("{id}", result="json"))
    assert [calls(EVENT, of_tenant(tenant)) for tenant in ("blue", "green", "blue", None, "green", None)] == [
        1, 2, 1, 3, 2, 3,
    ]  # fmt: skip


def test_the_default_scope_of_a_function_without_tenants_stays_what_it_was(rows):
    handler: Any = deduplicate("{id}")(lambda event, context: current_dedup().key)
    key = handler(EVENT, of_tenant(None))
    assert key.endswith("#e-1")
    assert handler(EVENT, of_tenant("a@b c")) == key.replace("#e-1", "@a@b c#e-1")


def test_the_tenant_is_found_without_an_argument_that_is_the_context(monkeypatch):
    helper: Any = deduplicate("{id}", scope=None)(lambda event: current_dedup().key)
    outer = with_lock("outer")(lambda event, context: helper(event))
    assert "@blue#" in outer(EVENT, of_tenant("blue"))
    register_lambda_context(of_tenant("green"))
    assert "@green#" in str(helper(EVENT))
    register_lambda_context(None)
    assert "@" not in str(helper(EVENT))  # outside of Lambda no invocation is found
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    in_thread(lambda: outer({"id": "e-2"}, of_tenant("red")))()
    assert "@red#" in str(in_thread(lambda: helper({"id": "e-3"}))())  # a thread without the ContextVar


def test_forget_forgets_the_event_of_its_tenant(rows):
    handler = deduplicate("{id}")(lambda event, context: None)
    for tenant in ("blue", "green"):
        handler(EVENT, of_tenant(tenant))
    assert handler.forget(EVENT, of_tenant("blue")) is True
    assert handler.forget(EVENT, of_tenant("blue")) is False
    assert handler.forget(EVENT, of_tenant("green")) is True


@pytest.mark.parametrize("scope", ["", "prices"])
def test_a_scope_without_the_tenant_is_told_once(scope, once, caplog, rows):
    handler = once("{id}", scope=scope)(lambda event, context: None)
    handler(EVENT, of_tenant(None))
    assert warnings(caplog) == []
    for number in range(3):
        handler({"id": str(number)}, of_tenant("blue"))
    assert warnings(caplog) == ["tenant_not_named"]
    assert "{context[tenant_id]}" in caplog.text


@pytest.mark.parametrize("options", [{"scope": "prices@blue"}, {"scope": "", "key": "{context[tenant_id]}#{id}"}, {}])
def test_a_scope_or_key_that_names_the_tenant_is_not_told_of(options, once, caplog):
    def handler(event: object, context: object) -> None: ...

    once(**{"key": "{id}", **options})(handler)(EVENT, of_tenant("blue"))
    assert warnings(caplog) == []


# {context[...]} in templates


def key_of_context(field: str, event: Any, context: Any) -> str:
    """The key that a template makes of this field of what is named context."""
    handler = with_lock(f"{{context[{field}]}}/{{id}}", wait=0)(lambda event, context: current_lock().key)
    key: str = handler(event, context)
    return key


def test_a_key_may_name_what_the_context_says():
    context = lambda_context(request_id="r-1", tenant_id="blue")
    for field, value in {
        "tenant_id": "blue",
        "function_name": "function",
        "function_version": "$LATEST",
        "invoked_function_arn": "arn:aws:lambda:us-east-1:123456789012:function:function",
        "aws_request_id": "r-1",
    }.items():
        assert key_of_context(field, EVENT, context) == f"{value}/e-1"


@pytest.mark.parametrize(
    ("field", "match"),
    [
        ("tenant_id", "the value is None"),
        ("memory_limit_in_mb", r"context has no \[memory_limit_in_mb\]; it has tenant_id, function_name"),
        ("get_remaining_time_in_millis", "has no"),
        ("__class__", "has no"),
    ],
)
def test_what_a_context_does_not_say_is_no_key(field, match):
    with pytest.raises(KeyTemplateError, match=match):
        key_of_context(field, EVENT, lambda_context())


def test_a_field_of_the_event_that_is_named_context_stays_what_it_is():
    of_event = with_lock("{context[tenant_id]}", wait=0)(lambda event, _: current_lock().key)
    of_argument = with_lock("{context[a]}", wait=0)(lambda context: current_lock().key)
    assert of_event({"context": {"tenant_id": "of the event"}}, of_tenant("blue")) == "of the event"
    assert of_argument({"a": "of the argument"}) == "of the argument"


# What a duplicate gets without result=


@pytest.mark.parametrize(
    "options",
    [{"result": "json"}, {"on_duplicate": lambda event, error: 5}, {"done_if": None}, {"on_duplicate": "raise"}],
)
def test_a_duplicate_that_is_given_what_is_wanted_is_not_told_of(options, once, caplog):
    handler = once("{id}", **options)(Calls(None if "done_if" in options else "something").handler)
    for _ in range(3):
        with suppress(DuplicateEventError):
            handler(EVENT)
    assert warnings(caplog) == []


def test_a_batch_whose_handler_returns_something_is_not_told_of(caplog):
    batch = events.sqs([{"n": 1}])
    for _ in range(2):
        process_sqs(batch, lambda record: "something", context=lambda_context())
    assert warnings(caplog) == []
