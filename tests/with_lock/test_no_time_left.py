"""A context that says that no time is left: nothing is sent, and nothing runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lambda_lock import (
    AsyncLockClient,
    LockClient,
    LockNotGrantedError,
    deduplicate,
    rate_limit,
    register_lambda_context,
    with_lock,
)
from lambda_lock.testing import lambda_context
from lambda_lock.web import LambdaContextWsgi

OVER = lambda_context(0)


@pytest.mark.parametrize(
    "decorator",
    [
        with_lock("{id}"),
        with_lock("{id}", wait=0),
        with_lock("{id}", on_not_granted="skip"),
        with_lock("{id}", permits=2),
        with_lock(["{id}", "b"]),
        deduplicate("{id}"),
        deduplicate("{id}", wait=5),
        rate_limit("{id}", 10),
    ],
)
def test_a_decorated_function_is_not_run(decorator, wire):
    handler = decorator(lambda event, context: pytest.fail("ran"))
    with pytest.raises(LockNotGrantedError, match="only 0 ms are left") as told:
        handler({"id": "a"}, OVER)
    assert told.value.too_late
    assert wire.operations == []


def test_clients_acquire_nothing(wire):
    client = LockClient()
    for act in (
        lambda wait: client.acquire("a", wait=wait, context=OVER),
        lambda wait: client.try_acquire("a", wait=wait or 0, context=OVER),
        lambda wait: client.acquire_all(["a", "b"], wait=wait, context=OVER),
        lambda wait: client.acquire("a", holder="h", wait=wait, context=OVER),
        lambda wait: client.rate_limit("a", 10, wait=wait, context=OVER),
        lambda wait: client.forget("a", wait=wait, context=OVER),
    ):
        for wait in (None, 0, 5):
            with pytest.raises(LockNotGrantedError, match="only 0 ms are left"):
                act(wait)

    async def acquire() -> None:
        await AsyncLockClient().acquire("a", context=OVER)

    with pytest.raises(LockNotGrantedError, match="only 0 ms are left"):
        asyncio.run(acquire())
    assert wire.operations == []


def test_a_registered_context_and_that_of_a_web_request_count_as_well(wire):
    def app(environ: Any, start_response: Any) -> list[bytes]:
        LockClient().acquire("a")
        return []

    with pytest.raises(LockNotGrantedError, match="only 0 ms are left"):
        list(LambdaContextWsgi(app)({"serverless.context": OVER}, lambda *_: lambda _: None))
    register_lambda_context(OVER)
    with pytest.raises(LockNotGrantedError, match="only 0 ms are left"):
        LockClient().acquire("a")
    assert wire.operations == []
