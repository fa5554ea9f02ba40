"""What @with_lock refuses when a function is decorated: nothing is sent, and no call is needed to find out."""

from __future__ import annotations

import functools
import inspect
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from lambda_lock import AsyncLockClient, LockClient, deduplicate
from lambda_lock.client import checks
from lambda_lock.decorators.with_lock import with_lock


def key_function(event: Any, context: Any = None) -> str:
    return "k"


def key_function_factory() -> Callable[..., str]:
    def build(event: Any) -> str:
        return "k"

    return build


async def coroutine_function() -> None: ...


class AsyncCallable:
    async def __call__(self) -> None: ...


def bare(function: Any) -> Any:
    """What follows an @with_lock without parentheses; under another name, for the type checker knows better."""
    return with_lock(function)


# --- bare ---------------------------------------------------------------------------------------------------------


BARE = {
    "in a class": "class Service:\n    @with_lock\n    def method(self, event): ...",
    "above another": "@with_lock\n@wraps\ndef handler(event, context): ...",
}


@pytest.mark.parametrize("where", BARE)
def test_a_bare_decorator_is_refused(where):
    with pytest.raises(TypeError, match="needs a key"):
        exec(BARE[where], {"with_lock": with_lock, "wraps": wraps, "__name__": "handlers"})


@pytest.mark.parametrize("wrapped", [staticmethod(key_function), classmethod(key_function), str])
def test_a_bare_decorator_on_what_is_no_function_is_refused(wrapped):
    with pytest.raises(TypeError, match="needs a key"):
        bare(wrapped)


def test_a_bare_decorator_that_nothing_gives_away_fails_when_called():
    with pytest.raises(TypeError):
        bare(key_function)({"an": "event"}, None)
    with pytest.raises(TypeError, match="is it written with its key"):
        bare(key_function)({"an": "event"})


def test_functions_that_make_keys_are_not_mistaken_for_bare_use():
    def local(event: Any) -> str:
        return "k"

    class Keys:
        @staticmethod
        def make(event: Any) -> str:
            return "k"

        def method(self, event: Any) -> str:
            return "k"

    bound = functools.partial(key_function, context=None)
    for key in (local, key_function, key_function_factory(), lambda event: "k", Keys.make, Keys().method, bound):
        assert callable(with_lock(key)(lambda event: None))


# --- the function -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [coroutine_function, functools.partial(coroutine_function), AsyncCallable(), AsyncCallable().__call__]
)
def test_an_async_function_stays_one_and_takes_no_plain_client(function):
    assert inspect.iscoroutinefunction(with_lock("k")(function))
    assert inspect.iscoroutinefunction(with_lock("k", client=AsyncLockClient())(function))
    with pytest.raises(TypeError, match=r"client= has the type LockClient, but .*\(\) needs an AsyncLockClient"):
        with_lock("k", client=LockClient())(function)


# --- the arguments ------------------------------------------------------------------------------------------------


class Keys:
    def method(self, event: Any) -> None: ...


class Answers:
    def __call__(self, event: Any, context: Any, *, error: Exception) -> None: ...

    def method(self, event: Any, context: Any, error: Exception) -> None: ...


def wraps(function: Callable[..., Any]) -> Callable[..., Any]:
    """What looks like ``function``, and takes anything."""
    return functools.wraps(function)(lambda *args, **kwargs: None)


def busy(event: Any, context: Any, *, error: Exception) -> None: ...
def handler(event: Any, context: Any) -> None: ...


@pytest.mark.parametrize(
    "answer",
    [
        lambda: None, lambda event, context: None, lambda event, *, error: None, lambda error: None,
        lambda *, error: None, lambda event, error: None, lambda event, context, more, *, error: None,
        lambda event, context, *, more, error: None, lambda *args: None, functools.partial(busy, None, None),
        functools.partial(lambda event, context: None),
        Answers().method.__func__,  # type: ignore[attr-defined]
        Answers.__call__, print,
    ],
)  # fmt: skip
def test_an_answer_that_no_call_can_get_is_refused(answer):
    words = r"on_not_granted= is called with the arguments of .*handler\(\) and error=, which"
    with pytest.raises(TypeError, match=words):
        with_lock("k", on_not_granted=answer)(handler)


@pytest.mark.parametrize(
    "answer",
    [
        busy, lambda event, context, error: None, lambda event, context, error=None: None,
        lambda event, context, more=None, *, error, other=1: None, lambda *args, error: None,
        lambda event, *rest, error: None, lambda *args, **kwargs: None, lambda event, context, **kwargs: None,
        lambda *, event, context, error: None, lambda **kwargs: None,
        functools.partial(lambda reply, *args, error: reply, "busy"),
        functools.partial(lambda event, context, *, error, reply: reply, reply="busy"), wraps(lambda: None),
        functools.lru_cache(busy), Answers(), Answers().method, Mock(), dict,
    ],
)  # fmt: skip
def test_an_answer_that_some_call_can_get_is_taken(answer):
    with_lock("k", on_not_granted=answer)(handler)


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda event, context=None: None, lambda event, *, error: None),
        (lambda event, context=None: None, busy),
        (lambda event, *, shard: None, lambda event, *, shard, error: None),
        (lambda event, *, shard=0: None, lambda event, *, error: None),
        (lambda a, b: None, lambda a, *, b, error: None),
        (lambda *args: None, busy),
        (lambda **kwargs: None, lambda *, tenant, error: None),
        (wraps(key_function), lambda event, more, and_more, *, error: None),  # what it wraps may be given more
        (Keys.method, lambda self, event, error: None),
        (Keys().method, lambda event, error: None),
        (functools.lru_cache(key_function), busy),
    ],
)
def test_an_answer_is_compared_with_what_calls_of_the_function_can_be(function, answer):
    with_lock("k", on_not_granted=answer)(function)


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda event, *, shard: None, lambda event, *, error: None),
        (lambda a, b: None, lambda b, *, c, error: None),
        (lambda event=None: None, lambda event, context, *, error: None),
        (wraps(key_function), key_function),
    ],
)
def test_an_answer_that_cannot_have_what_all_calls_have_is_refused(function, answer):
    with pytest.raises(TypeError, match="cannot take"):
        with_lock("k", on_not_granted=answer)(function)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="logging itself loads inspect and dataclasses there")
def test_an_answer_that_is_a_plain_function_is_read_without_inspect():
    program = (
        "import sys\n"
        "from lambda_lock import with_lock\n"
        "@with_lock('k', on_not_granted=lambda event, *, error: None)\n"
        "def handler(event): ...\n"
        "assert 'inspect' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.')\n{program}"], check=True)


# --- milliseconds -------------------------------------------------------------------------------------------------


DECORATORS = [functools.partial(decorator, "k") for decorator in (with_lock, deduplicate)]


@pytest.mark.parametrize("give", [*DECORATORS, LockClient, AsyncLockClient])
def test_a_lease_of_hours_may_be_meant_in_milliseconds_which_is_said_once(give, monkeypatch, caplog):
    monkeypatch.setattr(checks, "_warned", False)
    give(lease_duration=3600)
    assert caplog.records == []
    for _ in range(3):
        give(lease_duration=20_000)
    [record] = caplog.records
    assert (record.name, record.levelno) == ("lambda_lock", logging.WARNING)
    assert "lease_duration=20000 is in seconds" in record.getMessage()
    assert "5.6 hours. If you meant milliseconds, pass 20" in record.getMessage()
