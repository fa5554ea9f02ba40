"""@with_lock on the real client and a real engine, as `def` and as `async def` where a test asks for `locked`.

How its arguments are checked: test_decorating.py. What only asyncio has: tests/aio/test_decorated.py.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import inspect
import logging
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from lambda_lock import (
    LockClient,
    LockConfigurationError,
    LockNotGrantedError,
    TransportError,
)
from lambda_lock.decorators.guard import default_client, set_default_client
from lambda_lock.decorators.with_lock import current_lock, with_lock
from tests.support.context import Context
from tests.support.decorated import Boom, done
from tests.support.elsewhere import in_thread

from .conftest import is_free, warnings

pytestmark = pytest.mark.usefixtures("table")


# --- held while the function runs ---------------------------------------------------------------------------------


def test_the_lock_is_held_while_the_function_runs_and_free_afterwards(locked, other):
    @locked("order#{id}")
    def handler(event: dict[str, str], context: object) -> str:
        assert other.try_acquire("order#7") is None
        assert is_free(other, "order#8")
        assert current_lock().key == "order#7"
        return "done"

    assert handler({"id": "7"}, Context()) == "done"
    assert is_free(other, "order#7")


ENDS: list[BaseException] = [KeyboardInterrupt(), SystemExit(3), StopIteration("of an iterator"), GeneratorExit()]


@pytest.mark.parametrize("error", [Boom("boom"), LockNotGrantedError("mine"), *ENDS], ids=repr)
def test_an_error_of_the_function_comes_through_unchanged_and_the_lock_is_free(error, locked, other):
    if locked is not with_lock and error in ENDS:
        return  # asyncio handles what ends a plain function

    @locked("k", on_not_granted="skip")
    def handler(event: object, context: object) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        handler({}, Context())
    assert caught.value is error
    assert error.__context__ is None
    assert error.__cause__ is None
    assert is_free(other, "k")


def test_arguments_and_result_pass_through(locked):
    @locked("{a}")
    def function(a: str, /, b: int = 2, *rest: int, c: int, **more: int) -> tuple[object, ...]:
        return a, b, rest, c, more

    assert function("x", 3, 4, c=5, d=6) == ("x", 3, (4,), 5, {"d": 6})


def test_methods_lock_by_their_arguments_and_their_own_self(locked, other):
    class Service:
        def __init__(self) -> None:
            self.done: list[str] = []

        @locked("{order}")
        def charge(self, order: str) -> None:
            self.done.append(current_lock().key)

        @classmethod
        @locked("{order}")
        def refund(cls, order: str) -> str:
            return f"{cls.__name__} {current_lock().key}"

        @staticmethod
        @locked("{order}")
        def check(order: str) -> str:
            return current_lock().key

    service = Service()
    service.charge("o-1")
    service.charge(order="o-2")
    assert service.done == ["o-1", "o-2"]
    assert service.refund("o-3") == Service.refund("o-3") == "Service o-3"
    assert service.check("o-4") == "o-4"


def test_keys_come_from_functions_and_expressions_too(locked):
    by_function = locked(lambda event: f"f#{event['id']}")(lambda event: current_lock().key)
    by_expression = locked(key_jmespath="join('#', [a.b, id])")(lambda event: current_lock().key)
    assert by_function({"id": "1"}) == "f#1"
    assert by_expression({"id": "1", "a": {"b": "x"}}) == "x#1"


def plain(event: dict[str, str], context: object = None) -> str:
    """What it does."""
    return "done"


async def awaited(event: dict[str, str], context: object = None) -> str:
    """What it does."""
    return "done"


@pytest.mark.parametrize("handler", [plain, awaited])
def test_the_wrapper_looks_like_the_function(handler):
    wrapped = with_lock("k")(handler)
    assert inspect.iscoroutinefunction(wrapped) == (handler is awaited)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__module__) == (handler.__name__, "What it does.", __name__)
    assert wrapped.__qualname__ == handler.__qualname__
    assert inspect.signature(wrapped) == inspect.signature(handler)
    assert inspect.unwrap(wrapped) is handler


# --- contention ---------------------------------------------------------------------------------------------------


def test_a_held_lock_is_an_error_that_names_the_holder_or_the_call_is_skipped(locked, other):
    handler = locked("k", wait=0)(lambda: pytest.fail("must not run"))
    skipping = locked("k", wait=0, on_not_granted="skip")(lambda: "done")
    with other.acquire("k") as held:
        with pytest.raises(LockNotGrantedError) as caught:
            handler()
        assert caught.value.holder == held.owner
        assert skipping() is None
    assert skipping() == "done"


def test_a_call_that_does_not_get_the_lock_is_answered_with_its_own_arguments(locked, other):
    def answer(event: dict[str, str], context: object, *, error: LockNotGrantedError) -> tuple[int, str, str | None]:
        with pytest.raises(LookupError):
            current_lock()
        return 409, event["id"], error.key

    handler = locked("{id}", wait=0, on_not_granted=answer)(lambda event, context: 200)
    with other.acquire("k"):
        assert handler({"id": "k"}, context=Context()) == (409, "k", "k")
    assert handler({"id": "k"}, Context()) == 200


def test_an_error_of_the_answer_comes_through_with_the_refusal_as_its_context(locked, other):
    def answer(*, error: LockNotGrantedError) -> None:
        raise Boom

    with other.acquire("k"), pytest.raises(Boom) as caught:
        locked("k", wait=0, on_not_granted=answer)(lambda: None)()
    assert isinstance(caught.value.__context__, LockNotGrantedError)


def test_an_answer_finds_the_refusal_as_the_error_that_is_being_handled(other):
    handler = with_lock("k", wait=0, on_not_granted=lambda *, error: sys.exc_info()[1] is error)(lambda: False)
    with other.acquire("k"):
        assert handler() is True


def test_an_iterator_that_is_exhausted_in_key_or_answer_raises_what_it_raises(other):
    def exhausted(**_: object) -> str:
        return next(iter(()))

    with pytest.raises(StopIteration) as caught:
        with_lock(exhausted)(lambda: None)()
    assert caught.value.__context__ is None
    with other.acquire("k"), pytest.raises(StopIteration) as caught:
        with_lock("k", wait=0, on_not_granted=exhausted)(lambda: None)()
    assert isinstance(caught.value.__context__, LockNotGrantedError)


def test_an_error_is_freed_with_its_last_reference():
    @with_lock("k")
    def handler() -> None:
        raise Boom("boom")

    gc.disable()
    try:
        try:
            handler()
        except Boom as error:
            left = weakref.ref(error)
        assert left() is None, "a cycle keeps it, and what the call was about"
    finally:
        gc.enable()


@pytest.mark.parametrize("on_not_granted", ["skip", lambda error: "answered"])
def test_a_refusal_from_within_the_function_is_not_the_decorators_own(locked, on_not_granted, other):
    handler = locked("outer", on_not_granted=on_not_granted)(locked("inner", wait=0)(lambda: None))
    with other.acquire("inner"), pytest.raises(LockNotGrantedError) as caught:
        handler()
    assert caught.value.key == "inner"


@pytest.mark.parametrize("on_not_granted", ["skip", lambda context, error: "answered"])
def test_an_outage_and_too_little_time_are_not_contention_and_always_raise(locked, on_not_granted, wire):
    handler = locked("k", wait=0, on_not_granted=on_not_granted)(lambda context: pytest.fail("must not run"))
    with pytest.raises(LockNotGrantedError):
        handler(Context(remaining=0.5))
    assert wire.operations == []
    wire.answer(400, "AccessDeniedException", times=float("inf"))
    with pytest.raises(LockConfigurationError):
        handler(Context())


def test_a_waiting_call_goes_on_when_the_lock_is_released(locked, other, wire):
    held, refused = other.acquire("k"), wire.delay_reply("UpdateItem")
    result = in_thread(lambda: locked("k", refresh_period=0.05)(lambda: "done")())
    assert refused.reached.wait(30)
    refused.release()
    held.release()
    assert result() == "done"


# --- nesting ------------------------------------------------------------------------------------------------------


def test_current_lock_is_the_innermost_of_this_call(locked):
    inner = locked("inner")(lambda: current_lock().key)
    outer = locked("outer")(lambda: [current_lock().key, inner(), current_lock().key])
    assert outer() == ["outer", "inner", "outer"]
    with pytest.raises(LookupError, match="no @with_lock function is running"):
        current_lock()


def test_current_lock_reaches_threads_that_carry_the_context():
    def key() -> str:
        return current_lock().key

    def keys_in_threads() -> str:
        words = (
            r"@with_lock .* in this thread or task.*pass its lock to threads that it starts.*contextvars\.copy_context"
        )
        with pytest.raises(LookupError, match=words):
            in_thread(key)()
        return str(in_thread(functools.partial(contextvars.copy_context().run, key))())

    assert with_lock("k")(keys_in_threads)() == "k"


def test_a_nested_call_for_the_same_key_raises_at_once_and_not_as_contention(wire):
    @with_lock("{name}", on_not_granted="skip")
    def enter(name: str, then: Callable[[], object] = lambda: None) -> object:
        return then() or "entered"

    assert enter("a", lambda: enter("b")) == "entered"
    wire.clear()
    with pytest.raises(LockConfigurationError, match="reentrant=True") as caught:
        enter("a", lambda: enter("b", lambda: enter("a")))
    assert not isinstance(caught.value, LockNotGrantedError)
    assert wire.operations == ["UpdateItem"] * 4


def test_a_reentrant_call_enters_again_and_only_the_last_leaving_releases(wire, other):
    @with_lock("k", reentrant=True)
    def depth(levels: int) -> int:
        below = depth(levels - 1) if levels else 0
        assert current_lock().is_held
        return below + 1

    assert depth(3) == 4
    assert wire.operations == ["UpdateItem"] * 2
    assert is_free(other, "k")


def test_a_key_that_was_released_early_may_be_taken_again_within_the_call():
    inner = with_lock("k")(lambda: "inner")
    assert with_lock("k")(lambda: current_lock().release() and inner())() == "inner"


# --- leaving ------------------------------------------------------------------------------------------------------


def test_a_function_may_release_its_lock_itself(locked, other, caplog):
    handler = locked("k")(lambda: done(current_lock().release()) and is_free(other, "k"))
    assert handler()
    assert warnings(caplog) == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_release_that_fails_is_logged_and_hides_neither_result_nor_error(locked, fails, wire, caplog):
    error = Boom()

    @locked("k")
    def handler() -> str:
        wire.answer(400, "AccessDeniedException", times=float("inf"))
        if fails:
            raise error
        return "done"

    with pytest.raises(Boom) if fails else nullcontext() as caught:
        assert handler() == "done"
    assert caught is None or (caught.value is error and error.__context__ is None)
    [record] = warnings(caplog)
    assert record.name == "lambda_lock"
    assert record.__dict__["lock_key"] == "k"


@pytest.mark.parametrize("error", [Boom("broken"), TransportError(ambiguous=True), RuntimeError("at exit")])
def test_no_error_of_the_release_is_raised(error, caplog):
    def handler() -> str:
        def release() -> bool:  # in a way that no engine brings about
            raise error

        lock: Any = current_lock()
        lock.release = release
        return "done"

    client = LockClient()
    assert with_lock("k", client=client)(handler)() == "done"
    client.close(release=False)
    [record] = [record for record in caplog.records if record.__dict__.get("lock_event") == "release_failed"]
    assert str(error) in (record.exc_text or record.message)


def test_a_function_that_returns_a_coroutine_is_refused_before_it_runs(other):
    async def work() -> None:
        pytest.fail("must not run")

    def handler() -> Any:
        return work()

    with pytest.raises(TypeError, match="would run after the lock's release"):
        with_lock("k")(handler)()
    assert is_free(other, "k")


# --- the invocation -----------------------------------------------------------------------------------------------


# --- the client ---------------------------------------------------------------------------------------------------


def test_the_default_client_is_made_once_from_the_environment(table, engine):
    clients = [default_client(), *(made() for made in [in_thread(default_client) for _ in range(8)])]
    with_lock("k")(lambda: None)()
    assert len({id(client) for client in clients}) == 1
    assert [item["key"]["S"] for item in engine.scan(table)] == ["k"]


def test_a_client_that_is_given_beats_the_default_one_which_can_be_set_afterwards(other, monkeypatch):
    monkeypatch.delenv("LAMBDA_LOCK_TABLE")
    given, default = (with_lock("k", client=client)(lambda: current_lock().owner) for client in (other, None))
    assert given().startswith("other#")
    set_default_client(other)
    assert default_client() is other
    assert default().startswith("other#")


# --- the kill switch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["1", "true", "YES", " on "])
def test_with_the_switch_on_a_call_runs_unprotected_with_a_warning(locked, word, wire, monkeypatch, caplog):
    handler = locked("{id}")(lambda event: (current_lock().key, current_lock().is_held))
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", word)
    assert handler({"id": "a"}) == ("a", True)
    assert wire.operations == []
    [record] = caplog.records
    assert (record.levelno, record.__dict__["lock_event"]) == (logging.WARNING, "disabled")
    monkeypatch.delenv("LAMBDA_LOCK_DISABLED")
    handler({"id": "a"})
    assert wire.operations == ["UpdateItem"] * 2


@pytest.mark.parametrize(("word", "told"), [("", 0), ("0", 0), ("false", 0), ("No", 0), ("off", 0), ("maybe", 1)])
def test_with_the_switch_off_or_unreadable_the_lock_is_taken(locked, word, told, wire, monkeypatch, caplog):
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", word)
    locked("k")(lambda: None)()
    assert wire.operations == ["UpdateItem"] * 2
    assert len(warnings(caplog)) == told


def test_with_the_switch_on_nothing_about_locks_keeps_a_call_from_running(locked, monkeypatch):
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")
    monkeypatch.delenv("LAMBDA_LOCK_TABLE")
    assert "missing" in locked("{missing}")(lambda event: current_lock().key)({})
    nested: Any = locked("k")(lambda levels: 1 + nested(levels - 1) if levels else 0)
    assert nested(2) == 2
