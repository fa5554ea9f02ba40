"""forget, by the function and by the client: what is asked and written, and that nothing stale is given after it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock import (
    AsyncLockClient,
    ClientClosedError,
    KeyTemplateError,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    LockTimeoutError,
    deduplicate,
    with_lock,
)
from lambda_lock.runtime.timeline import SYSTEM
from tests.support.context import Context
from tests.support.elsewhere import in_thread, ran
from tests.support.faults import held_up
from tests.support.waiting import wait_until

from .conftest import Calls, counting, is_done

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}


# By the function


def test_a_forgotten_event_runs_again(once, rows, wire):
    handler = counting(once("{id}", scope="", result="json")).decorated
    assert [handler(EVENT), handler(EVENT)] == [1, 1]
    before = len(wire.operations)
    assert handler.forget({"id": "that never was"}) is False
    assert rows.get("that never was") is None
    assert wire.operations[before:] == ["GetItem"]
    before += 1
    assert handler.forget(EVENT) is True
    assert wire.operations[before:] == ["GetItem", "UpdateItem"]
    assert not is_done(rows, "e-1")
    assert "result" not in rows["e-1"]
    assert handler.forget(EVENT) is False
    assert wire.operations[before + 2 :] == ["GetItem"]
    assert [handler(EVENT), handler(EVENT)] == [2, 2]


def test_the_key_and_the_scope_are_those_of_the_call(once, rows):
    handler = once("{tenant}#{order}", scope="a#b")(lambda tenant, order=7: None)
    handler("t", order=1)
    handler("t")
    assert is_done(rows, r"a\#b#t#1")
    assert handler.forget("t", order=1) is True
    assert not is_done(rows, r"a\#b#t#1")
    assert is_done(rows, r"a\#b#t#7")
    assert handler.forget("t", wait=None) is True


def test_a_call_whose_arguments_give_no_key_forgets_nothing(once, wire):
    with pytest.raises(KeyTemplateError, match="id"):
        once("{id}")(lambda event: None).forget({})
    assert wire.operations == []


def test_a_function_with_another_decorator_around_deduplicate_has_forget_too(rows):
    handler: Any = with_lock("outer")(deduplicate("{id}", scope="")(Calls(1).handler))
    handler(EVENT)
    assert handler.forget(EVENT) is True


def test_an_event_in_progress_is_contention_and_stays(once, rows):
    def body(event: object) -> str:
        with pytest.raises(LockNotGrantedError, match="forget it again") as refused:
            handler.forget(EVENT)
        assert not isinstance(refused.value, LockTimeoutError)
        assert refused.value.holder == rows["e-1"]["ownerName"]["S"]
        assert refused.value.retry_after
        assert handler.forget(EVENT, if_result="made", wait=30) is False  # it has no result that could be meant
        return "made"

    handler = once("{id}", scope="", result="json")(body)
    assert handler(EVENT) == "made"
    assert is_done(rows, "e-1")


@pytest.mark.parametrize(
    ("remaining", "wait", "match"), [(60, 0.3, "e-1"), (1.9, 60, r"the invocation had 1\.9 s left")]
)
def test_a_wait_ends_with_its_seconds_or_with_the_invocation(remaining, wait, match, once, other):
    handler = once("{id}", scope="")(lambda event, context: None)
    with other.acquire("e-1"), pytest.raises(LockTimeoutError, match=match):
        handler.forget(EVENT, Context(remaining=remaining), wait=wait)


def test_forget_is_sent_while_locks_are_disabled(once, rows, monkeypatch):
    handler = once("{id}", scope="")(lambda event: None)
    handler(EVENT)
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")
    assert handler.forget(EVENT) is True
    assert not is_done(rows, "e-1")


# Its local cache


def test_forget_empties_the_cache_of_its_own_function_also_if_the_request_fails(once, wire):
    handler = counting(once("{id}", scope="", result="json", cache_size=10)).decorated
    assert [handler(EVENT), handler(EVENT)] == [1, 1]
    handler.forget(EVENT)
    assert [handler(EVENT), handler(EVENT)] == [2, 2]
    before = len(wire.operations)
    assert handler(EVENT) == 2
    assert len(wire.operations) == before
    wire.answer(400, "AccessDeniedException", times=1)
    with pytest.raises(LockConfigurationError):
        handler.forget(EVENT)
    assert handler(EVENT) == 2
    assert len(wire.operations) == before + 2


def test_an_answer_that_was_under_way_does_not_enter_the_cache_again(wire):
    """A duplicate is answered "done" before the event is forgotten, and gets that answer after it."""
    handler = counting(deduplicate("{id}", scope="", result="json", cache_size=10)).decorated
    deduplicate("{id}", scope="", result="json")(lambda event: 0)(EVENT)  # done, and not in this function's cache
    answered, go_on = threading.Event(), threading.Event()

    def hold_back(answer: Any) -> Any:
        answered.set()
        assert go_on.wait(30)
        return answer

    wire.alter_reply(hold_back, operation="UpdateItem", times=1)
    duplicate = in_thread(lambda: handler(EVENT))
    assert answered.wait(30)
    assert handler.forget(EVENT) is True
    go_on.set()
    assert duplicate() == 0
    assert handler(EVENT) == 1


def test_an_event_that_is_being_forgotten_is_not_answered_from_the_cache_nor_enters_it_again(once, wire):
    handler = counting(once("{id}", scope="", result="json", cache_size=10)).decorated
    assert [handler(EVENT), handler(EVENT)] == [1, 1]
    with held_up(wire.hold("UpdateItem"), lambda: handler.forget(EVENT)) as forgotten:
        before = len(wire.operations)
        assert handler(EVENT) == 1  # this answer enters the cache
        assert len(wire.operations) == before + 1
    assert forgotten() is True
    assert handler(EVENT) == 2


class Interrupting:
    """The machine's clocks. Once, a look at them lets another thread, or a signal handler, act first."""

    def __init__(self) -> None:
        self.act: Callable[[], object] | None = None

    def monotonic(self) -> float:
        act, self.act = self.act, None
        if act is not None:
            act()
        return SYSTEM.clock.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(SYSTEM.clock, name)


def test_an_answer_of_the_cache_that_was_under_way_does_not_enter_it_again(table):
    """The event is forgotten after the cache was asked, and before it answers."""
    clock: Any = Interrupting()
    with LockClient(table, clock=clock) as client:
        handler = counting(deduplicate("{id}", scope="", result="json", cache_size=10, client=client)).decorated
        assert [handler(EVENT), handler(EVENT)] == [1, 1]
        clock.act = lambda: handler.forget(EVENT)
        handler(EVENT)  # may be given either
        assert clock.act is None
        assert handler(EVENT) == 2


@pytest.mark.parametrize(
    ("args", "options", "match"),
    [
        ((EVENT, None, 10), {}, r"f\(\) does not take 3 positional arguments: .* wait= by its name"),
        ((EVENT,), {"wiat": 10}, r"f\(\) does not take the argument wiat="),
    ],
)
def test_what_the_function_does_not_take_is_refused_before_anything_is_sent(args, options, match, wire):
    def f(event: object, context: object = None) -> None: ...

    f.__qualname__ = "f"
    forget: Any = deduplicate("{id}", scope="")(f).forget
    with pytest.raises(TypeError, match=match):
        forget(*args, **options)
    assert wire.operations == []
    assert forget(EVENT, wait=1) is False


# By the client


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_client_forgets_by_key_and_scope(kind, rows, table):
    deduplicate("{id}", scope="a#b")(lambda event: None)(EVENT)

    def forget(key: str, **options: Any) -> bool:
        if kind == "plain":
            with LockClient(table) as client:
                return client.forget(key, **options)

        async def run() -> bool:
            async with AsyncLockClient(table) as client:
                return await client.forget(key, **options)

        return asyncio.run(run())

    assert forget("e-1", scope="other") is False
    assert forget("e-1", scope="a#b") is True
    assert not is_done(rows, r"a\#b#e-1")
    assert forget(r"a\#b#e-1") is False


@pytest.mark.parametrize(
    ("bad", "error", "match"),
    [
        ({"key": ""}, LockArgumentError, "key is empty"), ({"key": 5}, TypeError, "key must be a str"),
        ({"key": "k", "scope": 5}, TypeError, "scope must be a str"),
        ({"key": "", "scope": "s"}, LockArgumentError, "key is empty"),
        ({"key": "k" * 2040, "scope": "s" * 10}, LockArgumentError, "DynamoDB allows 2048"),
        ({"key": "k", "scope": "#" * 1024}, LockArgumentError, "DynamoDB allows 2048"),
        ({"key": "k", "wait": -1}, LockArgumentError, "wait=-1"),
        ({"key": "k", "wait": "1"}, TypeError, "wait must be a number"),
        ({"key": "k", "sort_key": "s"}, LockArgumentError, "sort_key_name"),
        ({"key": "k", "context": 5}, TypeError, "context= must be a Lambda context"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_sent(bad, error, match, wire):
    with LockClient() as client, pytest.raises(error, match=match):
        client.forget(**bad)
    assert wire.operations == []


def test_closing_the_client_ends_a_wait(table, other, wire):
    client = LockClient(table, refresh_period=0.05)
    with other.acquire("k"):
        waiting = in_thread(lambda: client.forget("k", wait=60))
        wait_until(lambda: wire.operations.count("GetItem") > 2)
        client.close()
        for late in (waiting, lambda: client.forget("k")):
            with pytest.raises(ClientClosedError):
                late()


def test_cancelling_a_wait_leaves_nothing_held(table, other, rows, wire):
    async def run() -> None:
        async with AsyncLockClient(table, refresh_period=0.05) as client:
            task = asyncio.ensure_future(client.forget("k", wait=60))
            while wire.operations.count("GetItem") < 3:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with other.acquire("k"):
        asyncio.run(run())
    assert not rows.is_held("k")


def test_who_does_not_forget_loads_nothing_of_it(monkeypatch):
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "handler")  # outside Lambda, making a client loads it
    code = """
import sys
from lambda_lock import deduplicate
from lambda_lock.testing import in_memory
with in_memory():
    deduplicate("{id}", scope="s")(lambda event: None)({"id": "a"})
print([name for name in sys.modules if "forget" in name])
"""
    assert ran(code) == "[]\n"


def test_only_the_result_that_is_meant_is_forgotten(once, rows):
    results = iter([{"b": 1, "a": [1]}, {"a": [2]}, None])
    handler = once("{id}", scope="", result="json")(lambda event: next(results))
    first = handler(EVENT)
    for other in ({"a": [1]}, None, [1], "x"):
        assert handler.forget(EVENT, if_result=other) is False
    assert handler(EVENT) == first
    assert handler.forget(EVENT, if_result={"a": [1], "b": 1}) is True
    second = handler(EVENT)
    assert handler.forget(EVENT, if_result=first) is False
    assert handler(EVENT) == second == {"a": [2]}
    assert handler.forget(EVENT, if_result=second) is True
    handler(EVENT)
    assert handler.forget(EVENT, if_result=None) is True
    assert handler.forget(EVENT, if_result=None) is False


def test_results_of_types_and_sets_are_compared_as_they_are_stored(rows):
    def body(event: Any) -> set[str]:
        return {str(number) for number in range(50)}

    handler: Any = deduplicate("{id}", scope="", result="json", validate=["n"])(body)
    found = handler({"id": "a", "n": 1})
    assert handler.forget({"id": "a"}, if_result=found - {"1"}) is False
    assert handler.forget({"id": "a"}, if_result={*list(found)[::-1]}) is True


def test_a_result_that_cannot_be_meant_is_refused_before_anything_is_sent(wire):
    client = LockClient()
    with pytest.raises(LockArgumentError, match="if_result= is a list with a value that is not JSON") as refused:
        client.forget("a", if_result=[object()])
    assert "object at" not in str(refused.value)
    with pytest.raises(TypeError, match="if_result= needs a stored result"):
        deduplicate("{id}", client=client)(lambda event: 1).forget({"id": "a"}, if_result=1)
    assert not wire.requests
