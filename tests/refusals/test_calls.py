"""Calls that cannot mean what they say: each is told with its remedy, before anything is sent.

test_mistakes.py has the mistakes that were found when programs were written from the documentation.
"""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import boto3
import pytest

import lambda_lock.table
import lambda_lock.testing
import lambda_lock.web
from lambda_lock import (
    AsyncLockClient,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    LockFormatError,
)

from .conftest import plural

untyped: Any = lambda_lock
make: Any = LockClient
MINUTE = datetime.timedelta(minutes=1)
RESOURCE: Any = boto3.resource("dynamodb", region_name="eu-west-1")
S3: Any = boto3.client("s3", region_name="eu-west-1")
DYNAMODB: Any = boto3.client("dynamodb", region_name="eu-west-1")


# -- acquire ----------------------------------------------------------------------------------------------------------

ACQUIRES = plural(
    [
        ("a wait as a timedelta", lambda c: c.acquire("a", wait=MINUTE), TypeError, "wait must be a number of seconds"),
        ("a list of keys", lambda c: c.acquire(["a", "b"]), TypeError, "['a', 'b']", "acquire_all takes a list"),
        ("one key for several", lambda c: c.acquire_all("ab"), TypeError, "write ['ab'], or use acquire"),
        ("no key of several", lambda c: c.acquire_all([]), LockArgumentError, "keys is empty: name at least one"),
        ("too many keys", lambda c: c.acquire_all(map(str, range(51))), LockArgumentError, "take at most 50 locks"),
        ("no permits", lambda c: c.acquire("a", permits=0), LockArgumentError, "permits=0", "pass 1 to 100, or None"),
        (
            "very many permits",
            lambda c: c.acquire("a", permits=500),
            LockArgumentError,
            "divide the work among several",
        ),
        ("permits as text", lambda c: c.acquire("a", permits="5"), TypeError, "permits must be an int, not '5'"),
        (
            "a permit whose row is to go",
            lambda c: c.acquire("a", permits=2, delete_on_release=True),
            LockArgumentError,
            "delete_on_release=True is not possible with permits=2",
            "Leave delete_on_release out",
        ),
        ("a holder without a name", lambda c: c.acquire("a", holder=""), LockArgumentError, "holder is empty: pass a"),
        ("a holder that is a number", lambda c: c.acquire("a", holder=5), TypeError, "holder must be a str, not 5"),
        (
            "an attribute that is a date",
            lambda c: c.acquire("a", attributes={"when": datetime.date(2026, 1, 1)}),
            TypeError,
            "attribute 'when' is a date",
            "use str, numbers",
        ),
        ("the event as the context", lambda c: c.acquire("a", context={}), TypeError, "Pass the handler's second"),
        (
            "a danger that never comes",
            lambda c: c.acquire("a", on_danger=print),
            LockArgumentError,
            "on_danger would never be called",
            "pass safe_time= as well",
        ),
        (
            "a callback that takes nothing",
            lambda c: c.acquire("a", on_lost=lambda: None),
            TypeError,
            "on_lost must be a function that takes the Lock",
        ),
        (
            "a check that takes something",
            lambda c: c.acquire("a", cancel_check=lambda lock: False),
            TypeError,
            "cancel_check must be a function that takes nothing",
        ),
        ("a string that is no string of a hold", lambda c: c.resume("x"), LockFormatError, "string='x'", "unchanged"),
        (
            "a token that is no token",
            lambda c: c.adopt("x"),
            LockFormatError,
            "token='x'",
            "Pass the string on unchang",
        ),
        ("a token that is a number", lambda c: c.adopt(7), LockFormatError, "takes the str that hand_over() returned"),
        ("half a hold", lambda c: c.resume(key="a"), LockArgumentError, "was not given owner=, fencing_token="),
        ("a release by key", lambda c: c.release("a"), LockFormatError, "string='a'", "by its own lock.release()"),
    ]
)


@pytest.mark.parametrize("mistake", ACQUIRES)
def test_what_cannot_be_acquired_is_told_before_anything_is_sent(mistake, client, sent, told):
    told(mistake.kind, lambda: mistake.act(client), *mistake.words)
    assert sent == []
    assert client.held() == ()


@pytest.mark.parametrize("mistake", ACQUIRES)
def test_an_async_client_tells_the_same(mistake, memory, sent, told):
    async def main() -> None:
        async with AsyncLockClient() as tasks:
            await mistake.act(tasks)

    told(mistake.kind, lambda: asyncio.run(main()), *mistake.words)
    assert sent == []


CLIENTS = plural(
    [
        ("a Table for its name", lambda: make(RESOURCE.Table("x")), TypeError, "table must be a str"),
        (
            "the ARN of a function",
            lambda: make("arn:aws:lambda:eu-west-1:123456789012:function:x"),
            LockArgumentError,
            "is not a valid table name",
        ),
        (
            "a resource",
            lambda: make("locks", boto3_client=RESOURCE).prewarm(),
            TypeError,
            "boto3.client('dynamodb'",
        ),
        ("a client of S3", lambda: make("locks", boto3_client=S3).prewarm(), TypeError, "a client for s3: pass"),
        ("a client for a session", lambda: make("locks", boto3_session=S3).prewarm(), TypeError, "boto3.Session"),
        (
            "a Region beside a client",
            lambda: make("locks", region_name="eu-west-1", boto3_client=DYNAMODB).prewarm(),
            LockArgumentError,
            "region_name='eu-west-1'",
            "make that client with it",
        ),
        (
            "an Availability Zone",
            lambda: make("locks", region_name="eu-west-1a").prewarm(),
            LockConfigurationError,
            "'eu-west-1a' is not the name of a Region",
            "correct region_name, AWS_REGION",
        ),
        (
            "an endpoint without a scheme",
            lambda: make("locks", region_name="eu-west-1", endpoint_url="localhost:8000").prewarm(),
            LockConfigurationError,
            "'localhost:8000'",
            "must be http(s)://host",
        ),
        ("a ttl of half a second", lambda: make(ttl=0.5), TypeError, "ttl must be an int, not 0.5"),
        ("a logger by name", lambda: make(logger="x"), TypeError, "logger must have", "logging.getLogger(name)"),
        ("a time for a clock", lambda: make(clock=5), TypeError, "clock must have monotonic()", "ManualClock"),
        (
            "a transport by name",
            lambda: make(transport="https"),
            TypeError,
            "Pass a boto3 client as boto3_client=",
        ),
        ("one hook", lambda: make(hooks=print).prewarm(), TypeError, "hooks must be a tuple or list"),
        (
            "a function for a hook",
            lambda: make(hooks=[print]).prewarm(),
            TypeError,
            "any of the methods on_granted",
        ),
        (
            "tables in a list",
            lambda: untyped.testing.in_memory(tables=["orders"]),
            TypeError,
            'a dict, as in {"orders": "order_id"}',
        ),
        (
            "time that goes back",
            lambda: untyped.testing.ManualClock().advance(-1),
            LockArgumentError,
            "step_wall()",
        ),
        (
            "a default by its name",
            lambda: untyped.set_default_client("locks"),
            TypeError,
            "must be a LockClient or an Async",
        ),
        (
            "the event registered",
            lambda: untyped.register_lambda_context({}),
            TypeError,
            "Pass the handler's second argument",
        ),
        (
            "a signal for a table",
            lambda: untyped.release_on_sigterm("locks"),
            TypeError,
            "takes lock clients, not 'locks'",
        ),
        (
            "no application",
            lambda: untyped.web.LambdaContextMiddleware("app"),
            TypeError,
            "app must be the application to call",
        ),
        (
            "half a capacity",
            lambda: untyped.table.create_table("locks", read_capacity=5),
            LockArgumentError,
            "pass both, or neither",
        ),
    ]
)


@pytest.mark.parametrize("mistake", CLIENTS)
def test_what_cannot_be_set_up_is_told_before_anything_is_sent(mistake, told, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    told(mistake.kind, mistake.act, *mistake.words)
