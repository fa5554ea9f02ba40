"""Ways to start at most so often: ours as shipped, and three that poll. Each is a generator that ends with a start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.core import rate
from lambda_lock.core.outcome import ConditionFailed
from lambda_lock.core.protocol import AcquireRequest, Conversation, Send, Wait
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.schema import JAVA

if TYPE_CHECKING:
    from collections.abc import Generator

    from .world import Caller

    Steps = Generator[Send | Wait, Any, None]

LIMIT = 10  # a second
_PLACE = Place("locks", JAVA, "key", "api", None, None)
_TIMEOUT = 3.0


def gcra(caller: Caller) -> Steps:
    """`client.rate_limit("api", 10)`: the shipped core."""
    look = caller.look()
    wanted = AcquireRequest(_PLACE, "", 1000, Content(ttl=60), wait_until=look.elapsed + 1000, waits=True)
    limit = rate.Limit(LIMIT, 1.0, 1, 1)
    yield from rate.Start(wanted, limit, Conversation(caller.memory, caller.entropy, look), lambda _: None).steps()


def token_bucket(caller: Caller) -> Steps:
    """A bucket of 1 token in one row: read, count by the caller's clock, write if nobody else did; else try again."""
    tries = 0
    while True:
        row = (yield _read("bucket")).outcome.item or {}
        now, at = caller.now(), float(row.get("at", {"N": "0"})["N"])
        tokens = min(float(row.get("tokens", {"N": "1"})["N"]) + (now - at) * LIMIT, 1.0)
        if tokens >= 1:
            values = {":tokens": {"N": repr(tokens - 1)}, ":now": {"N": repr(now)}, ":at": {"N": repr(at)}}
            condition = "#at = :at" if row else "attribute_not_exists(#at)"
            if not row:
                del values[":at"]
            answer = yield _write("bucket", "SET #tokens = :tokens, #at = :now", condition, ("tokens", "at"), values)
            if not isinstance(answer.outcome, ConditionFailed):
                return
        yield Wait(caller.backoff(tries))
        tries += 1


def fixed_window(caller: Caller) -> Steps:
    """A counter for each second. A caller that finds it full waits for the next second."""
    while True:
        second = int(caller.now())
        answer = yield _write(
            f"window#{second}", "ADD #count :one", "attribute_not_exists(#count) OR #count < :limit", ("count",),
            {":one": {"N": "1"}, ":limit": {"N": str(LIMIT)}},
        )  # fmt: skip
        if not isinstance(answer.outcome, ConditionFailed):
            return
        yield Wait(second + 1 - caller.now() + caller.entropy.jitter() * 0.05)


def sliding_window(caller: Caller) -> Steps:
    """The algorithm of @upstash/ratelimit's slidingWindow: the last second's count, weighed, and this one's."""
    tries = 0
    while True:
        now = caller.now()
        second, part = int(now), now % 1
        before = (yield _read(f"slide#{second - 1}")).outcome.item or {}
        weighed = int(float(before.get("count", {"N": "0"})["N"]) * (1 - part))
        answer = yield _write(
            f"slide#{second}", "ADD #count :one", "attribute_not_exists(#count) OR #count < :left", ("count",),
            {":one": {"N": "1"}, ":left": {"N": str(LIMIT - weighed)}},
        )  # fmt: skip
        if not isinstance(answer.outcome, ConditionFailed) and weighed < LIMIT:
            return
        yield Wait(caller.backoff(tries))
        tries += 1


CONTESTANTS = {
    "lambda_lock": gcra,
    "polled token bucket": token_bucket,
    "fixed windows": fixed_window,
    "sliding window (upstash's algorithm)": sliding_window,
}


def _read(key: str) -> Send:
    return Send("GetItem", {"TableName": "locks", "Key": {"key": {"S": key}}, "ConsistentRead": True}, _TIMEOUT)


def _write(key: str, update: str, condition: str, names: tuple[str, ...], values: dict[str, Any]) -> Send:
    request = {
        "TableName": "locks",
        "Key": {"key": {"S": key}},
        "UpdateExpression": update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        "ExpressionAttributeValues": values,
    }
    return Send("UpdateItem", request, _TIMEOUT)
