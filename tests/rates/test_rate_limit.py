"""client.rate_limit on a real engine: what it sends, what it refuses, and what others see of it."""

import asyncio
import logging
import re
from functools import partial
from types import SimpleNamespace

import pytest

from lambda_lock import (
    GO,
    PYTHON,
    AsyncLockClient,
    ClientClosedError,
    LockArgumentError,
    LockConfigurationError,
    LockFormatError,
    LockNotGrantedError,
    RateLimitedError,
)
from lambda_lock.cli.forced import force_release
from lambda_lock.core.rate import duration
from lambda_lock.testing import lambda_context
from tests.support.elsewhere import in_thread
from tests.support.waiting import wait_until


def test_a_refusal_says_when_the_next_start_is_and_is_not_sent_again(wire, wired):
    wired.rate_limit("api", 1, per=86_400)
    wire.clear()
    with pytest.raises(RateLimitedError, match=r"1 per 1 day, one every 1 day.*the next one is in 1 day\.") as refused:
        wired.rate_limit("api", 1, per=86_400, wait=0)
    assert wire.operations == []
    assert refused.value.key == "api"
    assert 86_000 < refused.value.retry_after <= 86_400
    assert isinstance(refused.value.retry_after, int)
    assert refused.value.waited < 60


def test_a_record_shows_a_rate_limit_that_nobody_holds(client):
    client.rate_limit("api", 7, per=3600)
    record = client.get("api")
    assert (record.rate, record.is_held, record.is_released, record.holders) == ("7/3600/1", False, True, ())
    assert (record.owner, record.version, record.lease_duration, record.unreadable) == (None, None, None, ())
    assert 400 < record.next_at - record.read_at <= 520
    assert [record.key for record in client.list()] == ["api"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit=0 is out of range"),
        *(({"limit": wrong}, "limit must be an int") for wrong in (1.5, True)),
        ({"per": 0}, "per=0 is out of range"),
        ({"limit": 1_000_001}, "more than one in a microsecond"),
        ({"burst": 0}, "burst=0 is out of range"),
        ({"burst": 2, "n": 3}, r"n=3 is more than burst=2"),
        ({"per": 86_400, "burst": 4000}, "more than a year"),
        *(({"wait": wrong}, f"wait={wrong} is out of range") for wrong in (86_401, float("inf"), -1)),
        ({"key": ""}, "key is empty"),
    ],
)
def test_bad_input_is_named_before_anything_is_sent(wire, wired, options, message):
    with pytest.raises((LockArgumentError, TypeError), match=message):
        wired.rate_limit(**{"key": "api", "limit": 1, **options})
    assert not wire.requests


@pytest.mark.parametrize("schema", [GO, PYTHON])
def test_the_schemas_of_other_libraries_have_no_rate_limits(make, schema):
    client = make(schema=schema, partition_key_name="key")
    with pytest.raises(LockConfigurationError, match=f"the schema {schema.name} has no rate limits"):
        client.rate_limit("api", 1, sort_key=None)


def test_no_lock_is_taken_where_a_rate_limit_is(client):
    client.rate_limit("rate", 1)
    for act in (
        partial(client.acquire, "rate", replace=True),
        partial(client.acquire, "rate", holder="execution"),
        partial(client.acquire_all, ["another", "rate"]),
        partial(client.forget, "rate"),
    ):
        with pytest.raises(LockFormatError, match="'rate' is a rate limit, not a lock"):
            act()


def test_the_wait_ends_with_the_invocation(client):
    client.rate_limit("api", 1, per=3600)
    with pytest.raises(RateLimitedError, match=r"The wait was at most .* the invocation had"):
        client.rate_limit("api", 1, per=3600, context=lambda_context(remaining=10))
    with pytest.raises(LockNotGrantedError) as refused:
        client.rate_limit("another", 1, context=lambda_context(remaining=0.5))
    assert refused.value.too_late


def test_closing_the_client_ends_a_wait_and_gives_the_start_back(make):
    client, other = make(), make()
    client.rate_limit("api", 1, per=60)
    before = other.get("api").next_at
    waiting = in_thread(lambda: client.rate_limit("api", 1, per=60, wait=600))
    wait_until(lambda: other.get("api").next_at != before)
    client.close()
    with pytest.raises(ClientClosedError):
        waiting()
    assert other.get("api").next_at == before


def test_a_cancelled_task_gives_its_start_back(make, table):
    other = make()

    async def main() -> None:
        async with AsyncLockClient(table) as client:
            await client.rate_limit("api", 1, per=60)
            before = other.get("api").next_at
            task = asyncio.create_task(client.rate_limit("api", 1, per=60, wait=600))
            while other.get("api").next_at == before:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert other.get("api").next_at == before

    asyncio.run(main())


def test_starts_and_refusals_are_told(make, caplog, monkeypatch, capsys):
    told: list[RateLimitedError] = []
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "test")
    monkeypatch.setenv("LAMBDA_LOCK_METRICS_TIMES", "1")
    caplog.set_level(logging.DEBUG, "lambda_lock")
    client = make(hooks=[SimpleNamespace(on_rate_limited=told.append)])
    client.rate_limit("api", 1, per=60)
    with pytest.raises(RateLimitedError):
        client.rate_limit("api", 1, per=60, wait=0)
    wait_until(lambda: len(told) == 1)
    events = [vars(record)["lock_event"] for record in caplog.records if hasattr(record, "lock_event")]
    assert events == ["started", "rate_limited"]
    printed = capsys.readouterr().out
    assert '"RateLimited": 1' in printed
    assert printed.count('"RateWaited"') == 4  # once as a name and once with its value, for each


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The keys of which a client said that others limit them to another rate."""
    return [vars(each)["lock_key"] for each in caplog.records if vars(each).get("lock_event") == "rate_differs"]


def test_two_rates_of_one_client_are_warned_about_once(make, caplog):
    client = make()
    for _ in range(2):
        client.rate_limit("api", 100, burst=5)
        client.rate_limit("other", 100)
        client.rate_limit("api", 10, wait=10)
    assert warned(caplog) == ["api"]
    assert "'api' is 10 per 1 s, burst 1 here, and elsewhere or before 100 per 1 s, burst 5" in caplog.text


def test_a_start_that_is_free_in_less_than_a_second_is_tried_again_after_a_whole_one(client):
    def start_often() -> None:
        for _ in range(1000):
            client.rate_limit("api", 3, wait=0)

    with pytest.raises(RateLimitedError) as refused:
        start_often()
    assert (refused.value.retry_after, type(refused.value.retry_after)) == (1, int)
    assert "burst" not in str(refused.value)


def test_a_changed_rate_says_what_the_old_one_was_and_a_forced_release_clears_its_backlog(make, caplog):
    make().rate_limit("a key", 1, per=86_400)
    client, words = make(), "1 per 1 day, burst 1. Pass the same.*`lambda-lock release 'a key' --force` clears"
    for _ in range(2):  # the second one is refused without a request
        with pytest.raises(RateLimitedError, match=words):
            client.rate_limit("a key", 10, wait=0)
    assert re.search(words, caplog.text)
    assert force_release(client, client.get("a key"), None) is None
    assert make().rate_limit("a key", 10, wait=0) < 60


def test_durations_are_written_for_people():
    words = {0: "0 s", 1e-6: "0.000001 s", 0.09969: "0.0997 s", 59.99: "1 min", 90: "1.5 min", 3600: "1 h"}
    words |= {86_399.97: "1 day", 129_600: "1.5 days", 365 * 86_400: "365 days", 1e12: "11,600,000 days"}
    assert {seconds: duration(seconds) for seconds in words} == words
