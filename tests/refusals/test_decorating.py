"""Decorators, templates, events and batches that are written wrongly, each told with its remedy.

A mistake in what is written is told when decorating. One that only the event can show is told before anything is sent.
"""

import asyncio
import contextlib
import functools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import lambda_lock
import lambda_lock.batch
from lambda_lock import (
    AsyncLockClient,
    KeyTemplateError,
    LockArgumentError,
    LockClient,
)
from tests.support.context import Context

from .conftest import refused

untyped: Any = lambda_lock
batch: Any = lambda_lock.batch
with_lock, deduplicate, rate_limit = untyped.with_lock, untyped.deduplicate, untyped.rate_limit
EVENT = {"id": "e1", "detail": {"customer_id": "7"}}
RECORD = {
    "messageId": "m1",
    "eventSource": "aws:sqs",
    "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders",
    "body": json.dumps({"id": 7}),
    "attributes": {"ApproximateReceiveCount": "1"},
}
SQS = {"Records": [RECORD]}
KINESIS = {"Records": [{"eventID": "s:1", "eventSource": "aws:kinesis", "kinesis": {"sequenceNumber": "1"}}]}
KAFKA = {"eventSource": "aws:kafka", "records": {"t-0": [{"topic": "t", "partition": 0, "offset": 1}]}}


def handler(event: Any, context: Any) -> str:
    return "ran"


def on_record(record: Any) -> None: ...


def generator(event: Any, context: Any) -> Iterator[int]:
    yield 1


async def async_generator(event: Any, context: Any) -> AsyncIterator[int]:
    yield 1


async def awaited(event: Any, context: Any) -> str:
    return "a"


# -- what is decorated ------------------------------------------------------------------------------------------------

DECORATED = [
    (generator, "a generator: its body would run"),
    (async_generator, "a generator"),
    (contextlib.contextmanager(generator), "a generator"),
    (contextlib.asynccontextmanager(async_generator), "a generator"),
    (functools.partial(generator, context=None), "a generator"),
    (type("Handler", (), {}), "decorates functions and methods, not type"),
    (staticmethod(handler), "below @staticmethod"),
    (classmethod(handler), "below @classmethod"),
    (property(lambda self: 1), "decorates functions and methods, not property"),
    (handler(None, None), "decorates functions and methods, not str"),
    (5, "decorates functions and methods, not int"),
    (None, "decorates functions and methods, not None"),
    (dict, "decorates functions and methods, not type"),
]


@pytest.mark.parametrize(("func", "words"), DECORATED)
def test_what_cannot_run_within_a_lock_is_told_when_decorating(func, words, told):
    for decorator in (with_lock("a"), deduplicate("{id}"), rate_limit("a", 1)):
        told(TypeError, lambda decorator=decorator: decorator(func), words)


@pytest.mark.parametrize(
    ("decorator", "words"),
    [
        (with_lock, "@with_lock needs a key: write @with_lock('order-{id}')"),
        (deduplicate, "@deduplicate needs a key: write @deduplicate('order-{id}')"),
        (batch.sqs_batch, "write @sqs_batch()"),
    ],
)
def test_a_decorator_without_its_key_says_how_to_write_it(decorator, words, told):
    def decorating() -> None:
        @decorator
        def handler(event: Any, context: Any) -> None: ...

    told(TypeError, decorating, words)


# -- options ----------------------------------------------------------------------------------------------------------

ONE_KEY = "pass exactly one of key="
OPTIONS = [
    *refused(
        TypeError,
        (lambda: with_lock()(handler), ONE_KEY, "and key_jmespath="),
        (lambda: deduplicate()(handler), ONE_KEY),
        (lambda: deduplicate("a", key_jmespath="id")(handler), ONE_KEY),
        (lambda: with_lock("a", key_jmespath="id")(handler), ONE_KEY),
        (lambda: with_lock(5)(handler), "key= must be a str or a function", "int"),
        (lambda: with_lock([])(handler), "key=[] names no lock: write at least one"),
        (lambda: with_lock([7])(handler), "must be a str or a function", "int"),
        (lambda: with_lock([["a"]])(handler), "must be a str or a function", "list"),
        (lambda: with_lock({"a"})(handler), "must be a str or a function", "set"),
        (lambda: with_lock(["a"], key_jmespath="id")(handler), "exactly one of key="),
        (lambda: with_lock(["a", "b"], take=lambda job: 2), "take=", "is for a single key"),
        (lambda: with_lock(["a", "b"], permits=5), "Leave permits out, or pass one"),
        (lambda: with_lock(["a", "b"], reentrant=True), "is for a single key"),
        (
            lambda: with_lock("a", on_not_granted=lambda event, context: 409)(handler),
            "give it the parameters of handler(), and error",
        ),
        (lambda: with_lock("a", on_unavailable="skip")(handler), "'raise' or 'run'"),
        (lambda: with_lock("a", client="locks")(handler), "must be a LockClient"),
        (lambda: with_lock("a", client=LockClient)(handler), "write LockClient(...)"),
        (lambda: with_lock("a", client=AsyncLockClient("locks"))(handler), "needs a L"),
        (lambda: with_lock("a", client=LockClient("locks"))(awaited), "needs an Async"),
        (
            lambda: with_lock("a", holder="execution-1"),
            "'holder': the lock ends with the call. ",
            "client.acquire(key, ",
        ),
        (lambda: deduplicate("a", holder="execution-1"), "'holder': the lock ends with the call"),
        (lambda: deduplicate("{id}", validate="body")(handler), "list of fields"),
        (lambda: deduplicate("{id}", done_if="ok")(handler), "a plain function that takes"),
        (lambda: deduplicate("{id}", permits=5), "argument 'permits'"),
        (lambda: deduplicate("{id}", on_bad_key="skip"), "'raise' or a function"),
        (lambda: deduplicate("{id}", on_mismatch=400), "on_mismatch= must be 'raise' or a function"),
        (lambda: untyped.payload_hash(5), "takes the paths of fields"),
        (lambda: rate_limit(handler), "missing 1 required positional argument: 'limit'"),
        (lambda: rate_limit("a", 1, on_limited="return"), "on_limited= must be 'raise', 'skip' or a function"),
        (lambda: rate_limit("a", 0.5)(handler), "limit must be an int", "a longer per="),
        (lambda: rate_limit("a", 5, per="minute")(handler), "per must be a number of sec"),
        (lambda: rate_limit("a", 10, 60), "takes per= by its name: write rate_limit('a', 10, per=60)"),
        (lambda: rate_limit("a", 5, on_not_granted="skip"), "mean on_limited=?"),
        (lambda: rate_limit("a", 5)(with_lock("a")(handler)), "write @rate_limit b"),
    ),
    *refused(
        LockArgumentError,
        (lambda: rate_limit("a", 0)(handler), "limit=0", "pass 1 or more"),
        (lambda: rate_limit("a", 5, n=3)(handler), "raise burst, or take"),
    ),
]


@pytest.mark.parametrize(("act", "kind", "words"), OPTIONS)
def test_an_option_that_cannot_be_meant_is_told_when_decorating(act, kind, words, told):
    told(kind, lambda: act()(handler), *words)  # if the decorator itself took the mistake


# -- keys -------------------------------------------------------------------------------------------------------------

TEMPLATES = [
    ("{id", "Write a literal brace as {{ or }}"),
    ("{}", "name the parameter or the field"),
    ("{0}", "name the parameter or the field"),
    ("{id!r}", "remove it, or use a function for key="),
    ("{total:.2f}", "remove it, or use a function for key="),
    ("{event['id']}", "leave them out, write {event[id]}"),
    ("{event.id}", "as in {event[id]}"),
    ("{detail.customer[0].id}", "as in {detail[customer][0][id]}."),
    ("$.detail.id", "write fields in braces, as in {detail[id]}, or pass key_jmespath="),
    ("", "a key must be a non-empty str"),
]


@pytest.mark.parametrize(("template", "words"), TEMPLATES)
def test_a_template_that_cannot_be_read_is_told_when_decorating(template, words, told):
    for decorator in (with_lock, deduplicate, functools.partial(rate_limit, limit=1)):
        act = functools.partial(decorator(template), handler)
        told(KeyTemplateError, act, "handler()", repr(template), words)


FIELDS = [
    ("{detail[customer]}", "detail has no [customer]; it has customer_id"),
    ("{detail}", "detail: the value is of type dict", "Choose a field or an element of it"),
    (lambda event, context: 7, "returned a value that is of type int: a key must be a non-empty str"),
]


@pytest.mark.parametrize(("key", *["words"]), [(key, words) for key, *words in FIELDS])
def test_an_event_that_gives_no_key_is_told_and_nothing_runs(key, words, client, memory, told):
    for decorator in (with_lock, deduplicate, functools.partial(rate_limit, limit=1)):
        told(KeyTemplateError, lambda decorator=decorator: decorator(key)(handler)(EVENT, None), *words)
    assert memory.rows() == ()


# -- batches ----------------------------------------------------------------------------------------------------------

CONTEXT = Context(30)  # one of lambda_context() would run out while other tests run
BATCHES = refused(
    TypeError,
    (lambda: batch.process_sqs(SQS, on_record), "argument: 'context'"),
    (lambda: batch.sqs_batch(key="{body[id]}")(on_record), "did you mean lock_key=?"),
    (lambda: batch.sqs_batch(workers=4)(on_record), "did you mean max_workers=?"),
)


@pytest.mark.parametrize(("act", "kind", "words"), BATCHES)
def test_a_batch_that_cannot_be_processed_is_told_and_no_record_is_done(act, kind, words, client, memory, told):
    told(kind, act, *words)
    assert memory.rows() == ()


# -- extras -----------------------------------------------------------------------------------------------------------

BY_AN_EXPRESSION = "from lambda_lock import with_lock; with_lock(key_jmespath={!r})(lambda event, context: 1)"
FORGOTTEN = [
    ("click", "import runpy; runpy.run_module('lambda_lock.cli', run_name='__main__')", "'lambda-lock[cli]'"),
    ("aws_cdk", "import lambda_lock.cdk", "pip install 'lambda-lock[cdk]'"),
    ("aws_durable_execution_sdk_python", "import lambda_lock.durable", "pip install 'lambda-lock[durable]'"),
    ("boto3", "from lambda_lock import LockClient; LockClient('locks').acquire('a')", "install lambda-lock[boto3]"),
    ("jmespath", BY_AN_EXPRESSION.format("id"), "pip install jmespath"),
    (
        "aws_lambda_powertools",
        BY_AN_EXPRESSION.format("powertools_json(body).id"),
        "pip install 'lambda-lock[powertools]'",
    ),
]


@pytest.mark.parametrize(("package", "program", "words"), FORGOTTEN)
def test_an_extra_that_was_forgotten_is_named(package, program, words):
    hidden = f"import os, sys; sys.modules[{package!r}] = None; os.environ['AWS_REGION'] = 'eu-west-1'; {program}"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, env={})
    assert done.returncode != 0
    assert words in done.stderr


def test_async_functions_are_told_the_same(memory, told):
    act = with_lock("{detail[x]}")(awaited)
    told(KeyTemplateError, lambda: asyncio.run(act(EVENT, None)), "has no [x]; it has cus")
    assert memory.rows() == ()
