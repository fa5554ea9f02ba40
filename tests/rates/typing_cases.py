"""What type checkers know through @rate_limit. Not run: `make check` has mypy read it, which reports unused ignores."""

from typing import Any, assert_type

from lambda_lock.client.async_client import AsyncLockClient
from lambda_lock.client.lock_client import LockClient
from lambda_lock.decorators.rate_limit import rate_limit
from lambda_lock.errors import RateLimitedError

MYPY = False  # mypy takes it for True


@rate_limit("api#{account}", 10)
def call(account: str, *, cents: int = 0) -> bytes:
    return account.encode() * cents


assert_type(call("a", cents=1), bytes)
call(1)  # type: ignore[arg-type]
call("a", euros=1)  # type: ignore[call-arg]


@rate_limit("api", 10, per=60, burst=5, n=lambda account: len(account), wait=1, reserve=1, on_limited="skip")
def skipping(account: str) -> bytes:
    return b""


def answer(account: str, *, error: RateLimitedError) -> int:
    return 429


@rate_limit("api", 10, on_limited=answer, on_unavailable="run")
def answering(account: str) -> bytes:
    return b""


assert_type(skipping("a"), bytes | None)
assert_type(answering("a"), bytes | int)


@rate_limit("api", 10, on_limited="skip")
async def awaited(account: str) -> bytes:
    return b""


async def answer_later(account: str, *, error: RateLimitedError) -> int:
    return 429


@rate_limit("api", 10, on_limited=answer_later)
async def awaited_answer(account: str) -> bytes:
    return b""


async def answer_event(event: dict[str, Any], context: Any, *, error: RateLimitedError) -> int:
    return 429


@rate_limit("api", 10, on_limited=answer_event)  # mypy asks what Any in its parameters could match
async def answering_event(event: dict[str, Any], context: Any) -> bytes:
    return b""


rate_limit("api", "10")  # type: ignore[call-overload]
rate_limit("api", 10, on_limited="return")  # type: ignore[call-overload]
rate_limit("api", 10, permits=5)  # type: ignore[call-overload]


if MYPY:

    async def uses(client: LockClient, asynchronous: AsyncLockClient) -> None:
        assert_type(client.rate_limit("api", 10), float)
        assert_type(await asynchronous.rate_limit("api", 10, wait=5), float)
        assert_type(await awaited("a"), bytes | None)
        assert_type(await awaited_answer("a"), bytes | int)
        assert_type(await answering_event({}, None), bytes | int)

        client.rate_limit("api", 10, lease_duration=5)  # type: ignore[call-arg]
