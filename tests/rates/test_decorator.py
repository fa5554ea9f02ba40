"""@rate_limit: keys, answers, errors when decorating, outages, and the switch that disables all locks."""

import functools
import inspect
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest

from lambda_lock import (
    LockArgumentError,
    LockClient,
    RateLimitedError,
    TransportError,
    deduplicate,
    rate_limit,
    with_lock,
)
from lambda_lock.batch import kafka_batch, sqs_batch
from lambda_lock.testing import in_memory

pytestmark = pytest.mark.usefixtures("memory")


@pytest.fixture
def memory() -> Any:
    with in_memory() as found:
        yield found


class Api:
    @rate_limit("api#{account}#{region}", 1, per=60, wait=0)
    def call(self, account: str, region: str = "eu") -> str:
        """Calls it."""
        return f"{account} in {region}"


def test_each_key_has_a_limit_of_its_own_also_for_methods():
    api = Api()
    assert api.call("a") == "a in eu"
    assert api.call("a", region="us") == "a in us"
    with pytest.raises(RateLimitedError) as refused:
        api.call("a")
    assert refused.value.key == "api#a#eu"
    assert Api.call.__doc__ == "Calls it."
    assert list(inspect.signature(Api.call).parameters) == ["self", "account", "region"]


def test_a_function_answers_with_the_calls_own_arguments():
    def later(account: str, error: RateLimitedError) -> str:
        return f"{account}: {error.retry_after:.0f}"

    call = rate_limit(lambda account: f"f#{account}", 1, per=60, wait=0, on_limited=later)(lambda account: account)
    assert call("a") == "a"
    assert call("a") in ("a: 60", "a: 59")


def test_n_may_depend_on_the_call():
    send = rate_limit("tokens", 100, per=60, burst=50, n=lambda text: len(text), wait=0, on_limited="skip")(
        lambda text: len(text)
    )
    assert send("x" * 50) == 50
    assert send("x" * 50) is None
    with pytest.raises(LockArgumentError, match="n=51 is more than burst=50"):
        send("x" * 51)


@pytest.mark.parametrize("outer", [with_lock("lock"), deduplicate("event")])
def test_rate_limit_is_the_innermost_decorator(outer):
    with pytest.raises(TypeError, match="write @rate_limit below @with_lock and @deduplicate"):
        rate_limit("a", 1)(outer(lambda: None))
    assert outer(rate_limit("a", 10)(lambda: 1))() == 1


@pytest.mark.parametrize("batch", [sqs_batch, kafka_batch])
def test_above_a_batch_it_would_limit_whole_batches(batch):
    def handler(record: Any) -> None: ...

    def logged(function: Any) -> Any:
        return functools.wraps(function)(lambda event, context: function(event, context))

    words = rf"@rate_limit above @{batch.__name__} would limit whole batches.*rate=\('a', 10, 60\)"
    for above in (batch()(handler), logged(batch()(handler)), functools.partial(batch()(handler))):
        with pytest.raises(TypeError, match=words):
            rate_limit("a", 10, per=60)(above)
    assert callable(rate_limit("a", 10)(MagicMock()))
    assert batch()(rate_limit("a", 10)(handler))
    assert batch(rate=("a", 10, 1))(handler)


def test_the_switch_runs_everything_at_once(monkeypatch, caplog):
    monkeypatch.setenv("LAMBDA_LOCK_DISABLED", "1")
    call = rate_limit("a", 1, per=60, wait=0)(lambda: 1)
    assert [call() for _ in range(3)] == [1, 1, 1]
    assert "LAMBDA_LOCK_DISABLED is set" in caplog.text


def test_an_outage_is_raised_or_runs_the_function(memory, caplog):
    client = LockClient("locks", decision_time=0.25)
    limit = partial(rate_limit, "a", 1, per=60, wait=0, client=client)
    memory.fail("unreachable", times=100)
    with pytest.raises(TransportError):
        limit()(lambda: 1)()
    assert limit(on_unavailable="run")(lambda: 1)() == 1
    assert 'on_unavailable="run"' in caplog.text
