"""Calls that cannot mean what they say: each is told with its remedy, before anything is sent.

test_options.py has the options of acquire, of clients and of decorators. test_mistakes.py has the mistakes that were
found when programs were written from the documentation.
"""

import asyncio
import math
from typing import Any

import boto3
import pytest

import lambda_lock.table
import lambda_lock.testing
import lambda_lock.web
from lambda_lock import AsyncLockClient, LockArgumentError, LockClient, LockConfigurationError, LockFormatError

from .conftest import refused

untyped: Any = lambda_lock
testing: Any = lambda_lock.testing
make: Any = LockClient
RESOURCE: Any = boto3.resource("dynamodb", region_name="eu-west-1")
S3: Any = boto3.client("s3", region_name="eu-west-1")
DYNAMODB: Any = boto3.client("dynamodb", region_name="eu-west-1")


CALLS = [
    *refused(
        LockArgumentError,
        (lambda c: c.acquire_all([]), "keys is empty: name at least one"),
        (lambda c: c.acquire_all(map(str, range(51))), "take at most 50 locks"),
        (lambda c: c.resume(key="a"), "was not given owner=, fencing_token="),
    ),
    *refused(
        LockFormatError,
        (lambda c: c.resume("x"), "string='x'", "unchanged"),
        (lambda c: c.adopt("x"), "token='x'", "Pass the string on unchang"),
        (lambda c: c.adopt(7), "takes the str that hand_over() returned"),
        (lambda c: c.release("a"), "string='a'", "by its own lock.release()"),
    ),
    *refused(TypeError, (lambda c: c.acquire_all("ab"), "write ['ab'], or use acquire")),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS)
def test_what_cannot_be_acquired_is_told_before_anything_is_sent(call, kind, words, client, memory, told):
    async def main() -> None:
        async with AsyncLockClient() as tasks:
            await call(tasks)

    said = told(kind, lambda: call(client), *words)
    assert told(kind, lambda: asyncio.run(main()), *words) == said
    assert memory.requests == ()
    assert client.held() == ()


SET_UP = [
    *refused(
        TypeError,
        (lambda: make(RESOURCE.Table("x")), "table must be a str"),
        (lambda: make("locks", boto3_client=RESOURCE).prewarm(), "boto3.client('dynamodb'"),
        (lambda: make("locks", boto3_client=S3).prewarm(), "a client for s3: pass"),
        (lambda: make("locks", boto3_session=S3).prewarm(), "boto3.Session"),
        (lambda: untyped.set_default_client("locks"), "must be a LockClient or an Async"),
        (lambda: untyped.set_default_client(AsyncLockClient), "is the class AsyncLockClient"),
        (lambda: untyped.register_lambda_context({}), "Pass the handler's second argument"),
        (lambda: untyped.release_on_sigterm("locks"), "takes lock clients, not 'locks'"),
        (lambda: untyped.web.LambdaContextMiddleware("app"), "app must be the application to call"),
    ),
    *refused(
        LockArgumentError,
        (
            lambda: make("locks", region_name="eu-west-1", boto3_client=DYNAMODB).prewarm(),
            *("region_name='eu-west-1'", "make that client with it"),
        ),
        (lambda: untyped.table.create_table("locks", read_capacity=5), "pass both, or neither"),
    ),
    *refused(
        LockConfigurationError,
        (
            lambda: make("locks", region_name="eu-west-1a").prewarm(),
            *("'eu-west-1a' is not the name of a Region", "correct region_name, AWS_REGION"),
        ),
        (
            lambda: make("locks", region_name="eu-west-1", endpoint_url="localhost:8000").prewarm(),
            *("'localhost:8000'", "must be http(s)://host"),
        ),
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), SET_UP)
def test_what_cannot_be_set_up_is_told_before_anything_is_sent(call, kind, words, told, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    told(kind, call, *words)


DELETE = {"Delete": {"TableName": "orders", "Key": {"id": {"S": "1"}}}}
FOR_TESTS = [
    *refused(
        LockArgumentError,
        (lambda memory: memory.hold(""), "key is empty"),
        (lambda memory: memory.hold("a", lease_duration=0.5), "lease_duration=0.5"),
        (lambda memory: memory.hold("a", owner=""), "owner is empty"),
        (lambda memory: memory.hold("a", sort_key="b"), "tables="),
        (lambda memory: memory.expire("a"), "key='a' is not held"),
        (lambda memory: memory.lose_reply(0), "times=0"),
        (lambda memory: memory.fail("slow"), "error='slow'"),
        (lambda memory: memory.fail("denied", operation="Update"), "operation='Update'"),
        (lambda memory: memory.put("orders", {}), "tables="),
        (lambda memory: make().acquire("a").commit([DELETE]), "there is no table 'orders'"),
        (lambda memory: testing.in_memory(tables={"orders": ()}), "partition key"),
        (lambda memory: testing.ManualClock().advance(-1), "time does not go back", "step_wall()"),
        (lambda memory: testing.ManualClock().sleep(-1), "time does not go back"),
        (lambda memory: testing.ManualClock().advance(math.inf), "finite"),
        (lambda memory: testing.ManualClock().step_wall(math.nan), "finite"),
        (lambda memory: testing.lambda_context(-1), "remaining=-1 is out of range: pass 0 to 900"),
        (lambda memory: testing.lambda_context(901), "remaining=901"),
        (lambda memory: testing.lambda_context(math.nan), "remaining=nan"),
        (lambda memory: testing.lambda_context(function_name=""), "function_name is empty"),
        (lambda memory: testing.lambda_context(tenant_id=""), "tenant_id is empty"),
    ),
    *refused(
        TypeError,
        (lambda memory: memory.hold("a", data="x"), "data must be bytes"),
        (lambda memory: memory.fail("denied", times=True), "times must be an int"),
        (lambda memory: testing.in_memory(clock=3), "ManualClock"),
        (lambda memory: testing.in_memory(schema="JAVA"), "schema must be"),
        (lambda memory: testing.in_memory(tables=["orders"]), 'a dict, as in {"orders": "order_id"}'),
        (lambda memory: testing.ManualClock("now"), "wall must be"),
        (lambda memory: testing.ManualClock().advance("1"), "number of seconds"),
        (lambda memory: testing.ManualClock().step_wall(True), "number of seconds"),
        (lambda memory: testing.lambda_context("30"), "remaining must be"),
        (lambda memory: testing.lambda_context(function_name=None), "function_name must be a str"),
        (lambda memory: testing.lambda_context(request_id=7), "request_id must be a str"),
        (lambda memory: testing.lambda_context(tenant_id=7), "tenant_id must be a str"),
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), FOR_TESTS)
def test_what_a_test_cannot_ask_of_memory_clock_or_context_is_told(call, kind, words, memory, told):
    told(kind, lambda: call(memory), *words)
