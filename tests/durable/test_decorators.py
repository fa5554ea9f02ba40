"""@with_lock and @deduplicate in durable functions: refused around a block, right inside a step."""

import functools
from typing import Any
from unittest.mock import MagicMock

import pytest
from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.context import (
    DurableContext,
    durable_parallel_branch,
    durable_step,
    durable_wait_for_callback,
    durable_with_child_context,
)
from aws_durable_execution_sdk_python.types import StepContext

from lambda_lock import current_lock, deduplicate, rate_limit, register_lambda_context, with_lock

DECORATORS = [with_lock, deduplicate]
MINUTES_15 = 15 * 60


@pytest.mark.parametrize("decorator", [*DECORATORS, lambda key: rate_limit(key, 10)])
def test_a_decorated_handler_is_refused_when_it_is_called(deploy, wire, decorator):
    @decorator("order#{order}")
    def handler(event: Any, context: DurableContext) -> str:
        return "ran"

    kind, message = deploy(handler).fail({"order": 7})
    assert kind == "TypeError"
    assert "Instead of a lock, write `with durable_lock(context, key, lease_duration=...)`" in message
    assert "Instead of a rate limit, and for short work, decorate a function that runs inside one step" in message
    assert wire.count() == 0


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_decorated_child_context_is_refused_too(deploy, decorator):
    @durable_with_child_context
    @decorator("order#{order}")
    def child(context: DurableContext, order: int) -> str:
        return "ran"

    assert "durable_lock" in deploy(lambda event, context: context.run_in_child_context(child(7))).fail()[1]


@durable_execution
def durable(event: Any, context: DurableContext) -> None: ...


@functools.wraps(durable)
def traced(event: Any, context: Any) -> Any:
    return durable(event, context)


@pytest.mark.parametrize("function", [durable, traced, functools.partial(durable)], ids=["itself", "traced", "partial"])
@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_decorator_over_durable_execution_is_refused_when_decorating(decorator, function):
    with pytest.raises(TypeError, match="durable_lock"):
        decorator("nightly")(function)


def test_a_rate_limit_over_durable_execution_is_refused_with_what_fits_it():
    @durable_with_child_context
    def child(context: DurableContext) -> None: ...

    for function in (durable, child):
        with pytest.raises(TypeError, match=r"decorate a function that runs inside one( of its)? step") as told:
            rate_limit("api", 10)(function)
        assert "durable_lock" not in str(told.value)


@pytest.mark.parametrize(
    "made", [durable_step, durable_with_child_context, durable_wait_for_callback, durable_parallel_branch()]
)
@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_decorator_over_what_only_prepares_a_step_is_refused_when_decorating(decorator, made):
    """The lock would be held while the step is prepared, and the body would run without it."""

    @made
    def work(step: Any) -> None: ...

    with pytest.raises(TypeError, match=f"write @{decorator.__name__} below"):
        decorator("nightly")(work)


def test_a_prepared_step_is_a_function_like_any_other(deploy, client):
    @durable_step
    def work(step: StepContext, order: int) -> list[Any]:
        return [order, current_lock().key]

    decorated = with_lock("nightly", client=client)
    assert deploy(lambda event, context: context.step(decorated(work(7)))).run() == [7, "nightly"]


@pytest.mark.parametrize(
    "pass_on", [lambda context: context, lambda context: context.lambda_context, register_lambda_context]
)
@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_function_inside_a_step_finds_the_deadline_in_the_context_that_it_is_given_or_that_was_registered(
    deploy, client, decorator, pass_on
):
    leases: list[float] = []

    @decorator("order#{order}", client=client, lease_duration=3600)
    def charge(order: int, context: object) -> None:
        (lock,) = client.held()
        leases.append(lock.lease_duration)

    def handler(event: Any, context: DurableContext) -> None:
        context.step(lambda _: charge(7, pass_on(context)))

    deploy(handler).run()
    register_lambda_context(None)
    assert leases[0] <= MINUTES_15


def test_a_client_takes_the_durable_context_for_the_invocation_s(deploy, client):
    def lease(context: DurableContext) -> float:
        with client.acquire("a", lease_duration=3600, context=context) as lock:
            return lock.lease_duration

    assert deploy(lambda event, context: context.step(lambda _: lease(context))).run() <= MINUTES_15


def test_a_mock_is_not_taken_for_a_durable_context(client):
    @with_lock("order#{order}", client=client)
    def charge(event: Any, context: Any) -> str:
        return "ran"

    assert charge({"order": 7}, MagicMock()) == "ran"
