"""@rate_limit written one above the other: the order, what is taken, and what an inner refusal gives back."""

import asyncio
import functools
from typing import Any

import pytest

from lambda_lock import (
    AsyncLockClient,
    KeyTemplateError,
    LockClient,
    LockConfigurationError,
    RateLimitedError,
    rate_limit,
    with_lock,
)
from lambda_lock.batch import kafka_batch, process_sqs, sqs_batch
from rig import events
from tests.simulation.runs import simulate
from tests.support.context import Context

pytestmark = pytest.mark.plain  # a decorator of a `def` function takes a LockClient

HOUR = 3600.0


def next_at(client: Any, *keys: str) -> list[float]:
    """Until when each limit is taken."""
    return [client.get(key).next_at for key in keys]


def is_taken(client: Any, seconds: float, within: float = 60) -> bool:
    """Whether the wide limit is taken for so many seconds from now on."""
    record = client.get("wide")
    return bool(record.next_at - record.read_at == pytest.approx(seconds, abs=within))


def two(client: LockClient, **inner: Any) -> Any:
    """A function with 5 starts in two hours at once, outside, and one in an hour."""

    @rate_limit("wide", 5, per=2 * HOUR, burst=5, wait=0, client=client)
    @rate_limit("narrow", 1, per=HOUR, wait=0, client=client, **inner)
    def call() -> str:
        return "done"

    return call


@pytest.mark.parametrize("answer", ["raise", "skip", lambda error: None])
def test_what_an_inner_refusal_leaves_is_given_back(client, answer):
    call = two(client, on_limited=answer)
    assert call() == "done"
    before = next_at(client, "wide")
    for _ in range(3):
        if answer == "raise":
            with pytest.raises(RateLimitedError) as refused:
                call()
            assert refused.value.key == "narrow"
        else:
            assert call() is None
    assert next_at(client, "wide") == before


def test_three_limits_give_back_from_the_inside_out(client):
    @rate_limit("day", 9, per=24 * HOUR, burst=9, wait=0, client=client)
    @rate_limit("hours", 9, per=2 * HOUR, burst=9, wait=0, client=client)
    @rate_limit("hour", 1, per=HOUR, wait=0, client=client)
    def call() -> None: ...

    call()
    before = next_at(client, "day", "hours")
    with pytest.raises(RateLimitedError):
        call()
    assert next_at(client, "day", "hours") == before


def test_a_start_is_used_up_if_the_function_fails(client):
    @rate_limit("wide", 2, per=2 * HOUR, burst=2, wait=0, client=client)
    @rate_limit("narrow", 1, per=0.001, client=client)
    def call() -> None:
        raise RateLimitedError("of its own")

    for _ in range(2):
        with pytest.raises(RateLimitedError, match="of its own"):
            call()
    with pytest.raises(RateLimitedError, match="'wide'"):
        call()


def test_a_start_is_given_back_for_a_call_without_a_key(client):
    @rate_limit("wide", 5, per=HOUR, burst=5, client=client)
    @rate_limit("narrow#{account}", 1, client=client)
    def call(account: str) -> None: ...

    call("a")
    before = next_at(client, "wide")
    with pytest.raises(KeyTemplateError):
        call("")
    assert next_at(client, "wide") == before


def test_a_call_that_runs_in_an_outage_of_an_inner_limit_uses_up_the_outer_ones_starts(client):
    broken = LockClient("locks", endpoint_url="http://127.0.0.1:9", region_name="eu-west-1", decision_time=0.25)

    @rate_limit("wide", 5, per=2 * HOUR, burst=5, wait=0, client=client)
    @rate_limit("narrow", 1, per=HOUR, client=broken, on_unavailable="run")
    def call() -> str:
        return "done"

    assert call() == "done"
    assert is_taken(client, 2 * HOUR / 5)


def test_an_async_function_gives_back_the_starts_that_an_inner_limit_refused(table, client):
    async def main() -> None:
        async with AsyncLockClient() as tasks:

            @rate_limit("wide", 5, per=2 * HOUR, burst=5, wait=0, client=tasks)
            @rate_limit("narrow", 1, per=HOUR, wait=0, client=tasks, on_limited="skip")
            async def call() -> str:
                return "done"

            assert await call() == "done"
            before = next_at(client, "wide")
            assert await call() is None
            assert next_at(client, "wide") == before

    asyncio.run(main())


def test_with_a_decorator_in_between_the_start_is_used_up(client):
    def logged(function: Any) -> Any:
        return functools.wraps(function)(lambda: function())

    @rate_limit("wide", 2, per=2 * HOUR, burst=2, wait=0, client=client)
    @logged
    @rate_limit("narrow", 1, per=HOUR, wait=0, client=client, on_limited="skip")
    def call() -> str:
        return "done"

    assert call() == "done"
    assert call() is None
    with pytest.raises(RateLimitedError, match="'wide'"):
        call()


def test_the_widest_window_is_outside():
    with pytest.raises(TypeError, match=r"write @rate_limit\('a', 10, per=1\) below the one with per=86400"):
        rate_limit("a", 10)(rate_limit("day", 1000, per=86_400)(lambda: None))
    assert callable(rate_limit("all", 100)(rate_limit("one#{name}", 10)(lambda name: None)))
    with pytest.raises(TypeError, match="below @with_lock"):
        rate_limit("day", 1000, per=86_400)(with_lock("lock")(rate_limit("a", 10)(lambda: None)))


def test_two_limits_with_one_key_are_refused(client, wire):
    @rate_limit("api", 1000, per=86_400, client=client)
    @rate_limit("api", 10, client=client)
    def call() -> None: ...

    with pytest.raises(LockConfigurationError, match="two rate limits of one function have the key 'api'"):
        call()


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("order", [1, -1])
def test_a_batch_takes_several_rates_in_any_order(order, client):
    done: list[Any] = []
    rates = [("second#{body[n]}", 100, 1), ("hour", 2, HOUR)][::order]
    event = events.sqs([{"n": 0}, {"n": 1}])
    process_sqs(event, lambda record: done.append(record), context=Context(4), rate=rates, client=client)
    assert len(done) == 1
    assert client.get("second#1") is None, "the hour's limit is outside"


FORMS: list[Any] = [[], [("a", 1)], ["a", 1, 1], ["abc"], ("a", 1), {"a": 1}, "a", 10]


@pytest.mark.parametrize("rate", FORMS)
def test_a_rate_of_another_form_is_refused(rate):
    for act in (lambda: sqs_batch(rate=rate)(print), lambda: kafka_batch(rate=rate)(print)):
        with pytest.raises(TypeError, match=r"rate= must be \(key, limit, per\), such as .* or a list of these"):
            act()


@pytest.mark.long
def test_a_quota_by_burst_lets_nearly_twice_its_limit_start_in_some_windows_and_never_more_than_that():
    """In the simulator, which counts in true time."""
    over = []
    for seed in range(12):
        worlds: list[Any] = []
        assert not simulate(seed, "rates-quota", observe=worlds.append).failures
        over.append(worlds[0].judge.most - 2 * worlds[0].judge.limit)
    assert max(over) in (-1, 0)
