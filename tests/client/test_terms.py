"""Options are checked once: by an acquire before it sends anything, by a decorator when it decorates."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from lambda_lock import (
    AsyncLockClient,
    LockArgumentError,
    LockClient,
    current_lock,
    deduplicate,
    rate_limit,
    set_default_client,
    with_lock,
)
from lambda_lock.batch import process_sqs, sqs_batch
from lambda_lock.client.options import Terms, terms_of
from lambda_lock.decorators.functions import undecorated
from lambda_lock.errors import TransportError
from lambda_lock.testing import in_memory

untyped: Any = with_lock


@pytest.fixture
def local() -> Iterator[LockClient]:
    with in_memory(), LockClient("locks") as client:
        yield client


def handler(event: object) -> str:
    return "ran"


def on_record(record: object) -> None: ...


FLAGS = ["replace_data", "delete_on_release", "replace", "only_if_exists", "queue", "reentrant"]
CLIENT = LockClient("locks", heartbeat_period=8)


@pytest.mark.parametrize("value", ["false", 1, None])
@pytest.mark.parametrize("name", FLAGS)
def test_a_switch_is_true_or_false(name, value, wire, wired):
    options: dict[str, Any] = {name: value}
    with pytest.raises(TypeError, match=f"^{name} must be True or False, not {value!r}"):
        wired.acquire("a", **options)
    assert wire.operations == []


def decorators(**options: Any) -> dict[str, Callable[[], object]]:
    """What decorates, or runs a batch, with these options."""
    return {
        "with_lock": lambda: with_lock("a", **options)(handler),
        "with_lock of several": lambda: with_lock(["a"], **options)(handler),
        "deduplicate": lambda: deduplicate("a", **options)(handler),
    }


def batches(**options: Any) -> dict[str, Callable[[], object]]:
    return {
        "sqs_batch": lambda: sqs_batch(**options)(on_record),
        "process_sqs": lambda: process_sqs({"Records": []}, on_record, context=None, dedup_key=None, **options),
    }


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"wait": "1"}, "wait must be a number of seconds, not '1'"),
        ({"wait": -1}, "wait=-1 is out of range"),
        ({"reserve": -1}, "reserve=-1 is out of range"),
        ({"lease_duration": 0.5}, "lease_duration=0.5 is out of range"),
        ({"refresh_period": 0}, "refresh_period=0 is out of range"),
    ],
)
@pytest.mark.parametrize("act", [*decorators(), *batches()])
def test_an_option_that_is_wrong_for_every_client_is_told_when_decorating(act, option, words):
    with pytest.raises((TypeError, LockArgumentError), match=words):
        (decorators(**option) | batches(**option))[act]()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"sort_key": 5}, "sort_key must be a str, not 5"),
        ({"on_lost": "call me"}, "on_lost must be a function that takes the Lock, not 'call me'"),
        ({"safe_time": "1"}, "safe_time must be a number of seconds, not '1'"),
        ({"safe_time": 6, "lease_duration": 5}, "safe_time=6 must be between 0 and lease_duration=5"),
        ({"safe_time": 30, "client": CLIENT}, "safe_time=30 must be between 0 and lease_duration=20"),
        ({"on_danger": print, "client": CLIENT}, "on_danger would never be called: pass safe_time= as well"),
        ({"lease_duration": 10, "client": CLIENT}, "heartbeat_period=8.* is more than half of lease_duration=10"),
    ],
)
@pytest.mark.parametrize("act", decorators())
def test_an_option_of_a_decorator_that_is_wrong_is_told_when_decorating(act, option, words):
    with pytest.raises((TypeError, LockArgumentError), match=words):
        decorators(**option)[act]()


def test_an_option_of_something_else_is_refused_with_what_takes_it(local):
    options: dict[str, Any] = {"data": b"x"}
    acts: list[tuple[str, Callable[[], object]]] = [
        ("acquire_all", lambda: local.acquire_all(["a"], **options)),
        ("with_lock", lambda: untyped("a", **options)),
        ("deduplicate", lambda: deduplicate("a", **options)),
        ("sqs_batch", lambda: sqs_batch(**options)(on_record)),
        ("rate_limit", lambda: rate_limit("a", 1, **options)),
        ("rate_limit", lambda: local.rate_limit("a", 1, **options)),
    ]
    for name, act in acts:
        with pytest.raises(TypeError) as caught:
            act()
        said = f"{name}() got an unexpected keyword argument 'data': leave it out. It is an option of acquire"
        assert str(caught.value) == said


def test_errors_of_python_name_the_class_that_applications_know(local):
    for name in ("get", "rate_limit", "sleep", "acquire", "acquire_all", "forget"):
        with pytest.raises(TypeError, match=rf"^LockClient\.{name}\(\) missing [12] required"):
            getattr(local, name)()


def test_the_terms_of_a_decorator_are_made_once(local, monkeypatch):
    made: list[Terms] = []
    real = Terms.__init__

    def noted(self: Terms, *arguments: Any) -> None:
        made.append(self)
        real(self, *arguments)

    monkeypatch.setattr(Terms, "__init__", noted)
    for decorator in (with_lock("{event}", wait=0), with_lock(["{event}"], wait=0), deduplicate("{event}")):
        made.clear()
        with in_memory():
            decorated: Callable[[object], object] = decorator(handler)
            for event in ("a", "b", "c"):
                decorated(event)
        assert len(made) == 1


def test_the_terms_of_a_decorator_are_those_of_the_client_of_the_call(monkeypatch):
    lease: Callable[[], float] = with_lock("a")(lambda: current_lock().lease_duration)
    with in_memory():
        for seconds in (20.0, 40.0):
            set_default_client(LockClient("locks", lease_duration=seconds))
            assert lease() == seconds
    set_default_client(None)


def test_threads_with_different_clients_never_get_the_terms_of_each_other():
    one, other = (LockClient(table).__session__.settings for table in ("one", "other"))
    terms = terms_of({}, None)
    got: list[Terms] = []

    def between_two_lines(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            sys.settrace(None)
            frame.f_trace = None
            terms(other)
            sys.settrace(begin_of_call)
            frame.f_trace = between_two_lines
        return between_two_lines

    def begin_of_call(frame: FrameType, event: str, argument: object) -> Any:
        return between_two_lines if frame.f_code is terms.__code__ else None

    before = sys.gettrace()
    try:
        sys.settrace(begin_of_call)
        got += [terms(one), terms(one)]
    finally:
        sys.settrace(before)
    assert [found.settings for found in got] == [one, one]


class Passing:
    """Passes on the public attributes of what it wraps, as a client of an application's own does."""

    def __init__(self, wrapped: object) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        if name in ("__session__", "__runner__"):
            raise AttributeError(name)
        return getattr(self.wrapped, name)


class Traced(Passing):
    """A method with all its attributes, as tracers wrap it (wrapt)."""

    def __init__(self, wrapped: object, asked: list[object]) -> None:
        super().__init__(wrapped)
        self.asked = asked

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.asked.append(arguments[-1])
        return self.wrapped(*arguments, **options)  # type: ignore[operator]


@pytest.mark.parametrize("replaced", ["function", "method"])
def test_a_client_whose_acquire_is_replaced_is_asked_by_it(replaced, local, monkeypatch):
    asked: list[object] = []
    for name in ("acquire", "acquire_all"):
        of = LockClient if replaced == "function" else local
        traced: Any = Traced(getattr(of, name), asked)
        replacement = (lambda *of, traced=traced, **options: traced(*of, **options)) if of is LockClient else traced
        monkeypatch.setattr(of, name, replacement)
    assert with_lock("a", client=local)(handler)("event") == "ran"
    assert with_lock(["b", "c"], client=local)(handler)("event") == "ran"
    assert asked == ["a", ("b", "c")]


def test_a_client_may_be_wrapped(local):
    wrapped: Any = Passing(local)
    namespace: Any = SimpleNamespace(acquire=local.acquire, acquire_all=local.acquire_all)
    for client in (wrapped, namespace):
        assert with_lock("a", client=client)(handler)("event") == "ran"
        assert with_lock(["b", "c"], client=client)(handler)("event") == "ran"


def test_a_mock_of_a_client_may_be_given_and_get_no_answer(local):
    mocked = Mock(spec=LockClient)
    assert with_lock("a", client=mocked)(handler)("event") == "ran"
    mocked.acquire.assert_called_once()
    mocked.acquire.return_value.release.assert_called_once_with()
    mocked.acquire.side_effect = TransportError(False, "no answer")
    assert with_lock("a", client=mocked, on_unavailable="run")(handler)("event") == "ran"


def test_a_decorator_of_an_async_function_checks_as_that_of_a_plain_one(local):
    client = AsyncLockClient.over(local)

    async def work(event: object) -> str:
        return "ran"

    with pytest.raises(LockArgumentError, match="safe_time=30 must be between 0 and lease_duration=20"):
        with_lock("a", client=client, safe_time=30)(work)
    assert asyncio.run(with_lock("a", client=client, safe_time=10)(work)("event")) == "ran"
    assert asyncio.run(with_lock(["a"], client=client, queue=False)(work)("event")) == "ran"


def test_a_walk_through_decorators_in_a_circle_ends():
    def first() -> None: ...
    def second() -> None: ...

    circle: Any = first
    circle.__wrapped__, second.__wrapped__ = second, first  # type: ignore[attr-defined]
    assert undecorated(circle) in (first, second)
