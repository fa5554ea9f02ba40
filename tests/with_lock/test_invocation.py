from __future__ import annotations

import contextvars
import logging
import os
from typing import Any
from unittest.mock import MagicMock

import pytest

from lambda_lock.runtime import invocation, timeline
from lambda_lock.runtime.invocation import (
    Invocation,
    find,
    owner_prefix,
    register_lambda_context,
    snapstart_initializing,
)
from tests.support.elsewhere import in_thread


class Context:
    """What Lambda hands to a handler, as far as it matters; counts how often its time is asked for."""

    def __init__(self, remaining: float = 30.0, request_id: str = "request-1") -> None:
        self.function_name = "orders"
        self.aws_request_id = request_id
        self.milliseconds = int(remaining * 1000)
        self.reads = 0

    def get_remaining_time_in_millis(self) -> int:
        self.reads += 1
        return self.milliseconds


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")


def context_of(found: Invocation | None) -> object:
    assert found is not None
    return found.context


def left(found: Invocation | None) -> float | None:
    """The seconds that an invocation has left."""
    assert found is not None
    return found.remaining()


@pytest.mark.parametrize("name", ["context", "lambda_context", "anything"])
def test_the_context_is_recognised_by_what_it_can_do_and_not_by_its_name_or_place(name):
    context = Context()
    assert find(({"id": 1}, None), {}) is None
    assert context_of(find(({}, context), {})) is context
    assert context_of(find(({},), {name: context})) is context


def test_what_is_given_beats_an_argument_which_beats_the_enclosing_decorator_which_beats_the_registered_context():
    registered, enclosing, argument, given = (Context() for _ in range(4))
    register_lambda_context(registered)
    assert context_of(find((), {})) is registered
    assert in_thread(lambda: context_of(find((), {})))() is registered
    token = invocation.enter(find((), {}, enclosing))
    assert context_of(find((), {})) is enclosing
    assert context_of(find((argument,), {})) is argument
    assert context_of(find((argument,), {}, given)) is given
    invocation.leave(token)
    assert context_of(find((), {})) is registered


def test_entering_without_an_invocation_leaves_the_outer_one_in_force():
    context = Context()
    outer = invocation.enter(find((context,), {}))
    inner = invocation.enter(None)
    assert context_of(find((), {})) is context
    invocation.leave(inner)
    invocation.leave(outer)
    assert find((), {}) is None


def test_the_time_left_is_read_once_and_then_counted_also_for_nested_decorators():
    context = Context(remaining=30)
    outer = find((context,), {})
    first, second = left(outer), left(outer)
    assert first is not None
    assert second is not None
    assert 0 < second <= first <= 30
    token = invocation.enter(outer)
    assert find((context,), {}) is outer
    assert find((), {}, context) is outer
    invocation.leave(token)
    assert context.reads == 1


@pytest.mark.usefixtures("in_lambda")
def test_each_invocation_is_read_once():
    first, second = Context(remaining=30), Context(remaining=60)
    assert find((), {}, first) is find((first,), {})
    assert context_of(find((second,), {})) is second
    assert (first.reads, second.reads) == (1, 1)


def test_a_stand_in_that_a_test_uses_again_and_again_does_not_run_out():
    context = Context()
    find((context,), {})
    find((context,), {})
    assert context.reads == 2


@pytest.mark.parametrize("remaining", [0.0, -5.0, float("-inf")])
def test_a_context_that_says_zero_or_less_has_no_time_left(remaining):
    class Late(Context):
        def get_remaining_time_in_millis(self) -> Any:
            return remaining * 1000

    register_lambda_context(Late())
    for found in (find((Late(),), {}), find((), {}, Late()), find((), {})):
        assert left(found) == 0


@pytest.mark.parametrize("remaining", [float("inf"), float("nan")])
def test_a_context_that_says_no_number_of_seconds_has_no_deadline(remaining):
    class Unending(Context):
        def get_remaining_time_in_millis(self) -> Any:
            return remaining

    assert left(find((Unending(),), {})) is None


class Moved:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by = 0.0
        monkeypatch.setattr(invocation, "elapsed", lambda: timeline.elapsed() + self.by)


def test_a_deadline_that_passes_within_a_call_leaves_no_time(monkeypatch):
    moved, context = Moved(monkeypatch), Context(30)
    token = invocation.enter(find((context,), {}))
    moved.by = 31
    found = find((), {})
    assert (context_of(found), left(found)) == (context, 0)
    invocation.leave(token)


def test_a_deadline_that_has_passed_is_unknown_to_what_outlives_the_call(monkeypatch):
    """A thread or task that goes on in later invocations, in a copy of the context."""
    moved = Moved(monkeypatch)
    outer = invocation.enter(find((Context(30),), {}))
    inner = invocation.enter(find((), {}))
    copied = contextvars.copy_context()
    invocation.leave(inner)
    invocation.leave(outer)
    assert left(copied.run(find, (), {})) is not None
    moved.by = 31
    assert left(copied.run(find, (), {})) is None


@pytest.mark.parametrize(("trace", "expected"), [("Root=1", 0), (None, None)])
def test_a_registered_deadline_that_has_passed_leaves_no_time_where_the_invocation_is_known(
    trace, expected, monkeypatch
):
    if trace is not None:
        monkeypatch.setenv("_X_AMZN_TRACE_ID", trace)
    moved = Moved(monkeypatch)
    register_lambda_context(Context(30))
    moved.by = 31
    assert left(find((), {})) == expected


def test_a_mock_among_the_arguments_is_taken_for_a_context_only_if_it_has_a_number():
    context, mock = Context(), MagicMock()
    assert context_of(find((mock, context), {})) is context
    assert find((mock,), {}) is None
    mock.get_remaining_time_in_millis.return_value = 3000
    assert context_of(find((mock,), {})) is mock


@pytest.mark.parametrize("wrong", ["context", {}, MagicMock(), object()])
def test_what_is_given_as_context_must_be_one(wrong):
    with pytest.raises(TypeError, match=r"context= must be a Lambda context.*second argument"):
        find((), {}, wrong)
    with pytest.raises(TypeError, match=r"context= must be a Lambda context"):
        register_lambda_context(wrong)


def test_a_registered_context_ends_with_its_invocation(monkeypatch):
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1;Lineage=a")
    register_lambda_context(Context())
    assert find((), {}) is not None
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=2;Lineage=b")
    assert find((), {}) is None
    register_lambda_context(Context())
    register_lambda_context(None)
    assert find((), {}) is None


def test_in_lambda_without_any_context_one_warning_is_logged(caplog, monkeypatch):
    find((), {})
    assert not caplog.records
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    find((), {})
    find((), {})
    [record] = caplog.records
    assert (record.name, record.levelno) == ("lambda_lock", logging.WARNING)
    assert "register_lambda_context" in record.message


def test_a_snapstart_function_is_initialising_until_its_first_invocation(monkeypatch):
    assert not snapstart_initializing()
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
    assert not snapstart_initializing()
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    assert snapstart_initializing()
    with monkeypatch.context() as traced:
        traced.setenv("_X_AMZN_TRACE_ID", "Root=1")
        assert not snapstart_initializing()
    assert snapstart_initializing()
    register_lambda_context(Context())  # which proves an invocation where no trace is set
    assert not snapstart_initializing()


def test_the_owner_of_an_invocation_is_named_after_function_and_request():
    assert owner_prefix(find((Context(request_id="abc"),), {})) == "orders/abc"
    assert len(owner_prefix(find((Context(request_id="x" * 5000),), {}))) == 200


def test_an_owner_without_names_in_a_context_is_named_after_its_process_and_the_host_or_the_function(monkeypatch):
    mock = MagicMock()
    mock.get_remaining_time_in_millis.return_value = 3000
    assert owner_prefix(None) == owner_prefix(find((mock,), {})) == f"{os.uname().nodename}/{os.getpid()}"
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    assert owner_prefix(None) == f"orders/{os.getpid()}"
