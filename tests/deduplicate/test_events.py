"""An event is done once: what is asked and written, who is told what, and when it may run again."""

from __future__ import annotations

import functools
import json
import threading
import time
from contextlib import nullcontext
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from lambda_lock import (
    GO,
    PYTHON,
    AsyncLock,
    DuplicateEventError,
    KeyTemplateError,
    Lock,
    LockClient,
    LockConfigurationError,
    LockFormatError,
    LockNotGrantedError,
    LockTimeoutError,
    current_dedup,
    current_lock,
    deduplicate,
    set_default_client,
    with_lock,
)
from rig.wire import Answer, Wire
from tests.support.clocks import SkewedClock
from tests.support.context import Context
from tests.support.decorated import Boom, as_async, done
from tests.support.elsewhere import in_thread
from tests.support.waiting import wait_until

from .conftest import FOREVER, Calls, Stop, counting, is_done, warnings

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}


@pytest.fixture
def dates(wire: Wire) -> list[int]:
    """The Dates of all answers that came over the wire, epoch seconds."""
    seen: list[int] = []

    def note(answer: Answer) -> Answer:
        date = next(value for name, value in answer.headers if name.lower() == "date")
        seen.append(int(parsedate_to_datetime(date).timestamp()))
        return answer

    wire.alter_reply(note, times=FOREVER)
    return seen


# Done once


def test_a_key_whose_scope_leaves_no_room_for_it_is_refused_before_anything_is_sent(once, wire):
    for scope, key in (("s" * 2000, "k" * 48), ("#" * 1024, "k"), (None, "k" * 2040)):
        with pytest.raises(KeyTemplateError, match="DynamoDB allows 2048"):
            once("{id}", scope=scope)(lambda event: pytest.fail("must not run"))({"id": key})
    assert wire.operations == []


def test_a_new_event_takes_two_requests_and_its_duplicate_one(once, wire):
    calls = Calls(by=once("{id}", scope=""))
    calls(EVENT)
    assert wire.operations == ["UpdateItem", "UpdateItem"]
    calls(EVENT)
    assert wire.operations == ["UpdateItem"] * 3
    assert calls.count == 1
    calls({"id": "e-2"})
    assert calls.count == 2


def test_the_row_says_until_when_the_event_is_done_and_its_result(once, rows, other):
    once("{id}", scope="", window=500, result="json")(lambda event: {"n": 1})(EVENT)
    row, record = rows["e-1"], other.get("e-1")
    assert row["result"] == {"S": '{"n":1}'}
    assert row["isReleased"] == {"S": "1"}
    assert int(row["ttl"]["N"]) == int(row["completedUntil"]["N"]) + 86_400
    assert int(row["fencingToken"]["N"]) > 0
    assert record.is_released
    assert (record.completed_until, record.result) == (int(row["completedUntil"]["N"]), '{"n":1}')


@pytest.mark.parametrize(
    ("options", "seconds", "off"),
    [
        ({"window": 500}, 500, 0),
        ({"window": 500}, 500, 600),
        ({"window": 500}, 500, -600),
        ({"window": 10.2}, 11, 0),
        ({}, 86_400, 0),
    ],
    ids=["window", "a clock that is fast", "a clock that is slow", "a fraction is rounded up", "a day by default"],
)
def test_an_event_counts_as_done_for_its_window_by_the_date_of_dynamodb(options, seconds, off, once, dates, rows):
    set_default_client(LockClient(clock=SkewedClock(off)))
    once("{id}", scope="", **options)(lambda event: None)(EVENT)
    assert seconds <= int(rows["e-1"]["completedUntil"]["N"]) - dates[-1] <= seconds + 2


def test_once_its_window_has_passed_an_event_runs_again(once, wire, rows, dates):
    calls = counting(once("{id}", scope="", window=1, result="json"))
    assert calls(EVENT) == 1
    until = int(rows["e-1"]["completedUntil"]["N"])
    while calls(EVENT) == 1:
        assert dates[-1] < until, "by DynamoDB's Date the window has passed, and it was not run"
        time.sleep(0.05)
    assert dates[-1] >= until
    assert calls.count == 2
    assert wire.operations[-3:] == ["UpdateItem"] * 3  # refused, with the completion that has passed; claimed; done
    assert int(rows["e-1"]["completedUntil"]["N"]) > until
    assert rows["e-1"]["result"] == {"S": "2"}


def test_a_run_after_the_window_keeps_what_the_row_says_until_it_is_done_and_only_then_forgets_the_result(once, rows):
    passed = {"N": str(int(time.time()) - 5)}
    rows.put("e-1", completedUntil=passed, result={"S": '"old"'})

    def body() -> None:
        lock: Any = current_dedup()
        done(lock.heartbeat(data=b"step 1"))
        assert rows["e-1"]["completedUntil"] == passed
        assert "isReleased" not in rows["e-1"]

    calls = Calls(body, Boom(), by=once("{id}", scope="", result="json"))
    for expected in (1, 2):
        with pytest.raises(Boom):
            calls(EVENT)
        assert calls.count == expected
    calls.error = None
    once("{id}", scope="")(calls.handler)(EVENT)
    assert "result" not in rows["e-1"]
    assert rows["e-1"]["data"] == {"B": "c3RlcCAx"}


def test_a_completion_that_is_no_number_is_an_error_that_names_the_row_and_leaves_it(once, rows):
    rows.put("e-1", completedUntil={"S": "tomorrow"})
    before = rows["e-1"]
    with pytest.raises(LockFormatError, match=r"'e-1'.*tomorrow"):
        once("{id}", scope="")(lambda event: pytest.fail("must not run"))(EVENT)
    assert rows["e-1"] == before


def test_the_event_is_in_progress_while_the_function_runs_and_current_dedup_is_its_lock(once, rows, table, other):
    def handler(event: dict[str, str]) -> str:
        lock: Any = current_dedup()
        with pytest.raises(TypeError, match="the innermost lock is of type"):
            current_dedup(Lock if isinstance(lock, AsyncLock) else AsyncLock)
        assert rows.is_held("e-1")
        assert not is_done(rows, "e-1")
        assert other.try_acquire("e-1") is None
        with pytest.raises(LookupError, match="no @with_lock function"):
            current_lock()
        key: str = lock.key
        return key

    assert once("{id}", scope="")(handler)(EVENT) == "e-1"
    with pytest.raises(LookupError, match="no @deduplicate function is running"):
        current_dedup()


# Not done: failures


@pytest.mark.parametrize(
    "error",
    [Boom("boom"), Stop(), SystemExit(3), *(kind("mine") for kind in (LockNotGrantedError, DuplicateEventError))],
)
def test_an_event_whose_function_raises_is_not_done_and_runs_again_at_once(error, once, rows, caplog):
    answers: dict[str, Any] = {
        "on_not_granted": "skip",
        "on_duplicate": lambda event, error: pytest.fail("not its own"),
    }
    calls = Calls(error=error, by=once("{id}", scope="", **answers))
    with pytest.raises(type(error)) as caught:
        calls(EVENT)
    assert caught.value is error
    assert error.__context__ is None
    assert not rows.is_held("e-1")
    assert not is_done(rows, "e-1")
    calls.error = None
    calls(EVENT)
    assert calls.count == 2
    assert is_done(rows, "e-1")
    assert warnings(caplog) == []


def test_a_function_that_releases_its_event_itself_has_not_done_it_and_is_warned_about(once, rows, caplog):
    calls = Calls(result=lambda: done(current_dedup().release()), by=once("{id}", scope=""))
    assert calls(EVENT) is True
    assert warnings(caplog) == ["not_completed"]
    assert "handler() returned, but did not complete event 'e-1'" in caplog.text
    assert not is_done(rows, "e-1")
    calls(EVENT)
    assert calls.count == 2


@pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException"])
@pytest.mark.parametrize("on_answer", [{"on_not_granted": "skip"}, {"on_duplicate": lambda event, error: "answered"}])
def test_an_outage_is_neither_contention_nor_a_duplicate_and_always_raises(code, on_answer, once, wire):
    wire.answer(400, code, times=FOREVER)
    with pytest.raises(LockConfigurationError):
        once("{id}", scope="", **on_answer)(lambda event: pytest.fail("must not run"))(EVENT)


# In progress


def test_in_progress_elsewhere_is_an_error_at_once_that_is_no_duplicate(once, other, wire):
    handler = once("{id}", scope="", on_duplicate=lambda event, error: pytest.fail("not done"))(
        lambda event: pytest.fail("must not run")
    )
    held = other.acquire("e-1")
    wire.clear()
    with pytest.raises(LockNotGrantedError) as caught:
        handler(EVENT)
    assert not isinstance(caught.value, LockTimeoutError)
    assert (caught.value.key, caught.value.holder) == ("e-1", held.owner)
    assert wire.operations == ["UpdateItem"]


@pytest.mark.parametrize("on_not_granted", ["skip", lambda event, error: ("answered", event["id"], error.key)])
def test_in_progress_elsewhere_may_be_answered_and_a_duplicate_is_not_answered_so(on_not_granted, once, other):
    handler = once("{id}", scope="", result="json", on_not_granted=on_not_granted)(lambda event: "ran")
    with other.acquire("e-1"):
        assert handler(EVENT) == (None if on_not_granted == "skip" else ("answered", "e-1", "e-1"))
    assert handler(EVENT) == handler(EVENT) == "ran"


@pytest.mark.parametrize("fails", [False, True])
def test_who_waits_while_the_event_is_in_progress_is_given_its_result_or_runs_it(fails, once, wire):
    began, go_on = threading.Event(), threading.Event()

    def work(event: object) -> dict[str, int]:
        if began.is_set():
            assert fails, "it runs a second time"
            return {"n": 2}
        began.set()
        assert go_on.wait(30)
        if fails:
            raise Boom
        return {"n": 1}

    handler = once("{id}", scope="", wait=30, refresh_period=0.05, result="json")(work)
    first = in_thread(lambda: handler(EVENT))
    assert began.wait(30)
    second = in_thread(lambda: handler(EVENT))
    wait_until(lambda: wire.count("GetItem") > 0)
    go_on.set()
    with pytest.raises(Boom) if fails else nullcontext():
        assert first() == {"n": 1}
    assert second() == {"n": 2 if fails else 1}


# What a duplicate is given


@pytest.mark.parametrize(
    "result", [None, True, 0, 1.5, "text", "\u00fc\U0001f600\ud800", [], {}, {"a": [1, {"b": None}]}, 10**30]
)
def test_a_stored_result_is_given_to_duplicates_whoever_holds_a_lock_on_the_row(result, rows, other):
    calls = Calls(result=result, by=deduplicate("{id}", scope="", result="json"))
    assert calls(EVENT) == calls(EVENT) == result
    assert rows["e-1"].get("result", {"S": "null"}) == {"S": json.dumps(result, separators=(",", ":"))}

    def is_kept() -> bool:  # as long as without that lock
        return int(rows["e-1"]["ttl"]["N"]) >= int(rows["e-1"]["completedUntil"]["N"]) + 86_400

    with other.acquire("e-1") as lock:
        lock.heartbeat()
        assert calls(EVENT) == result
        assert is_kept()
    assert calls(EVENT) == result
    assert is_kept()
    assert calls.count == 1


def test_a_duplicate_is_given_nothing_unless_asked_for(once, rows):
    handler = once("{id}", scope="")(lambda event: "result")
    assert handler(EVENT) == "result"
    assert handler(EVENT) is None
    assert "result" not in rows["e-1"]
    other = {"id": "e-2"}
    once("{id}", scope="", result="json")(lambda event: "result")(other)  # another consumer, who stores it
    assert handler(other) is None
    with pytest.raises(DuplicateEventError) as caught:
        once("{id}", scope="", on_duplicate="raise")(lambda event: None)(other)
    assert caught.value.result is None


def test_a_duplicate_may_be_an_error_with_the_result(once, rows):
    handler = once("{id}", scope="", result="json", on_duplicate="raise")(lambda event: {"n": 1})
    assert handler(EVENT) == {"n": 1}
    with pytest.raises(DuplicateEventError, match="'e-1' was completed before") as caught:
        handler(EVENT)
    assert caught.value.key == "e-1"
    assert caught.value.result == {"n": 1}
    assert caught.value.completed_until == int(rows["e-1"]["completedUntil"]["N"])
    assert not isinstance(caught.value, LockNotGrantedError)


def test_a_duplicate_is_answered_with_its_own_arguments_and_the_error(once):
    def answer(event: dict[str, str], context: object, *, error: DuplicateEventError) -> tuple[Any, ...]:
        with pytest.raises(LookupError):
            current_dedup()
        return event["id"], isinstance(context, Context), error.result

    handler = once("{id}", scope="", result="json", on_duplicate=answer)(lambda event, context: "result")
    assert handler(EVENT, Context()) == "result"
    assert handler(EVENT, context=Context()) == ("e-1", True, "result")


def test_an_answer_to_a_duplicate_of_an_async_function_is_awaited():
    async def answer(event: dict[str, str], *, error: DuplicateEventError) -> tuple[str, object]:
        return event["id"], error.result

    for on_duplicate in (answer, lambda event, error: answer(event, error=error)):
        options: Any = {"scope": str(id(on_duplicate)), "result": "json", "on_duplicate": on_duplicate}
        handler = as_async(deduplicate)("{id}", **options)(lambda event: "result")
        assert [handler(EVENT), handler(EVENT)] == ["result", ("e-1", "result")]


def test_an_error_of_the_answer_comes_through_with_the_duplicate_as_its_context(once):
    handler = once("{id}", scope="", on_duplicate=lambda event, error: 1 / 0)(lambda event: None)
    handler(EVENT)
    with pytest.raises(ZeroDivisionError) as caught:
        handler(EVENT)
    assert isinstance(caught.value.__context__, DuplicateEventError)


def test_a_result_too_large_for_the_row_is_returned_and_the_event_is_done_with_a_warning(once, rows, caplog):
    calls = Calls(result="x" * 410_000, by=once("{id}", scope="", result="json"))
    assert len(calls(EVENT)) == 410_000
    assert warnings(caplog) == ["result_not_stored"]
    assert "'e-1' take about 41" in caplog.text
    assert is_done(rows, "e-1")
    assert calls(EVENT) is None
    assert calls.count == 1


def test_a_stored_result_that_is_no_json_is_a_clear_error(once, rows):
    rows.put("e-1", completedUntil={"N": str(int(time.time()) + 60)}, result={"S": "{broken"})
    with pytest.raises(LockFormatError, match=r"'e-1' is not JSON.*another scope"):
        once("{id}", scope="", result="json")(lambda event: None)(EVENT)
    assert once("{id}", scope="")(lambda event: pytest.fail("must not run"))(EVENT) is None


# Scope


def test_the_scope_is_the_function_s_name_on_lambda_its_module_and_its_own(once, rows, engine, monkeypatch):
    calls = Calls()
    handler = once("{id}")(calls.handler)
    own = f"{__name__.rpartition('.')[0]}.conftest.Calls.handler" if "." in __name__ else ""
    handler(EVENT)
    [outside] = [item["key"]["S"] for item in engine.scan(rows.table)]
    assert outside.endswith("conftest.Calls.handler#e-1")
    assert outside == f"{own}#e-1" or not own
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")  # read at each call
    handler(EVENT)
    assert {item["key"]["S"] for item in engine.scan(rows.table)} == {outside, f"orders.{outside}"}
    assert calls.count == 2
    once("{id}", scope="billing")(calls.handler)(EVENT)  # all that precedes the key
    assert is_done(rows, "billing#e-1")


class Consumer:
    def __call__(self, event: object) -> str:
        return current_dedup().key.removesuffix("#e-1")


def consume(event: object, more: int = 0) -> str:
    return Consumer()(event)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (consume, "consume"), (functools.partial(consume, more=1), "consume"),
        (functools.partial(functools.partial(consume), more=1), "consume"),
        (with_lock("k")(functools.partial(consume)), "consume"), (Consumer(), "Consumer"),
        (functools.partial(Consumer()), "Consumer"), (with_lock("k")(Consumer()), "Consumer"),
        (Consumer().__call__, "Consumer.__call__"), (functools.lru_cache(consume), "consume"),
    ],
)  # fmt: skip
def test_partials_and_objects_have_the_scope_of_what_they_call(function, name):
    assert deduplicate("e-1")(function)(None) == f"{__name__}.{name}"


# Tables and schemas


def test_a_table_with_a_sort_key(once, engine, table, monkeypatch):
    name = engine.create_table(f"{table}-sorted", "pk", "sk")
    for variable, value in (("TABLE", name), ("PARTITION_KEY", "pk"), ("SORT_KEY", "sk")):
        monkeypatch.setenv(f"LAMBDA_LOCK_{variable}", value)
    calls = Calls()
    for sort_key in ("a", "b", "a"):
        once("{id}", scope="", sort_key=sort_key)(calls.handler)(EVENT)
    assert calls.count == 2
    assert {(item["pk"]["S"], item["sk"]["S"]) for item in engine.scan(name)} == {("e-1", "a"), ("e-1", "b")}


def test_the_go_schema_remembers_events(once, rows):
    set_default_client(LockClient(schema=GO, ttl=None))
    calls = Calls(result="done", by=once("{id}", scope="", result="json"))
    assert calls(EVENT) == calls(EVENT) == "done"
    assert calls.count == 1
    assert rows["e-1"]["leaseDuration"]["S"].endswith("s")
    assert "ttl" not in rows["e-1"]


def test_the_python_schema_is_refused_before_anything_is_sent(once, wire):
    set_default_client(LockClient(schema=PYTHON))
    with pytest.raises(LockConfigurationError, match="schema PYTHON are deleted on release"):
        once("{id}", scope="")(lambda event: pytest.fail("must not run"))(EVENT)
    assert wire.operations == []


# Nesting


def test_a_nested_call_for_the_same_event_raises_at_once_and_not_as_contention(once, wire):
    def work(event: dict[str, str], then: Any = None) -> str:
        return then() if then else "ran"

    handler = once("{id}", scope="", wait=30, on_not_granted="skip")(work)
    with pytest.raises(LockConfigurationError, match="outer @deduplicate") as caught:
        handler(EVENT, lambda: handler(EVENT))
    assert not isinstance(caught.value, LockNotGrantedError)
    assert wire.operations == ["UpdateItem"] * 2
    assert handler(EVENT, lambda: handler({"id": "e-2"})) == "ran"


def test_a_reentrant_call_enters_again_and_the_outermost_completes(wire, rows):
    seen: list[bool] = []

    @deduplicate("{id}", scope="", reentrant=True, result="json")
    def depth(event: dict[str, str], levels: int) -> int:
        below = depth(event, levels - 1) or 0 if levels else 0
        seen.append(is_done(rows, "e-1"))
        return below + 1

    assert depth(EVENT, 3) == 4
    assert seen == [False] * 4
    assert wire.operations == ["UpdateItem"] * 2
    assert depth(EVENT, 3) == 4  # the outermost result is stored
    assert len(seen) == 4


def test_an_inner_failure_that_is_caught_leaves_the_outermost_to_complete(rows):
    @deduplicate("{id}", scope="", reentrant=True)
    def work(event: dict[str, str], inner: bool = False) -> None:
        if inner:
            raise Boom
        with pytest.raises(Boom):
            work(event, inner=True)
        assert rows.is_held("e-1")

    work(EVENT)
    assert is_done(rows, "e-1")


@pytest.mark.parametrize("dedup_outside", [True, False])
def test_events_and_locks_nest_either_way(dedup_outside, rows, wire):
    def work(event: dict[str, str]) -> tuple[str, str]:
        return current_dedup().key, current_lock().key

    event_of, lock_of = deduplicate("{id}", scope=""), with_lock("customer#{customer}")
    handler = event_of(lock_of(work)) if dedup_outside else lock_of(event_of(work))
    event = {"id": "e-1", "customer": "c-7"}
    assert handler(event) == ("e-1", "customer#c-7")
    assert wire.operations == ["UpdateItem"] * 4
    assert is_done(rows, "e-1")
    assert not is_done(rows, "customer#c-7")
    wire.clear()
    assert handler(event) is None
    assert wire.count() == (1 if dedup_outside else 3)


@pytest.mark.parametrize(
    ("dedup_outside", "reentrant"),
    [(True, False), (False, False), (False, True)],
    ids=["a lock in an event", "an event in a lock", "a reentrant event"],
)
def test_a_lock_and_an_event_of_one_row_in_one_call_raise_at_once(dedup_outside, reentrant, wire):
    """A reentrant event could not complete in a lock: it would run again with each delivery, without any error."""
    event_of, lock_of = deduplicate("{id}", scope="", wait=0, reentrant=reentrant), with_lock("{id}", wait=0)
    work = Calls().handler
    handler = event_of(lock_of(work)) if dedup_outside else lock_of(event_of(work))
    with pytest.raises(LockConfigurationError, match="holds the lock 'e-1' already" if not reentrant else "'e-1'"):
        handler(EVENT)
    assert wire.operations == ["UpdateItem"] * 2


def test_a_reentrant_lock_enters_its_event(rows, wire):
    @deduplicate("{id}", scope="")
    @with_lock("{id}", reentrant=True)
    def handler(event: dict[str, str]) -> str:
        assert rows.is_held("e-1")
        return current_lock().owner

    owner = handler(EVENT)
    assert rows["e-1"]["ownerName"]["S"] == owner
    assert is_done(rows, "e-1")
    assert wire.operations == ["UpdateItem"] * 2


# The invocation and the client


def test_an_event_cannot_be_handed_over_and_is_done_all_the_same(once, rows):
    def handler(event: object) -> None:
        with pytest.raises(LockConfigurationError, match="'e-1' cannot be handed over"):
            done(current_dedup().hand_over())
        assert current_dedup().is_held

    once("{id}", scope="")(handler)(EVENT)
    assert is_done(rows, "e-1")
