"""Decorators, templates, events and batches that are written wrongly, each told with its remedy.

A mistake in what is written is told when decorating. One that only the event can show is told before anything is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import lambda_lock
import lambda_lock.batch
from lambda_lock import (
    AsyncLockClient,
    KeyTemplateError,
    LockArgumentError,
    LockClient,
    LockConfigurationError,
    PayloadMismatchError,
)
from tests.support.context import Context

untyped: Any = lambda_lock
batch: Any = lambda_lock.batch
with_lock, deduplicate, rate_limit = untyped.with_lock, untyped.deduplicate, untyped.rate_limit
EVENT = {"id": "e1", "nothing": None, "empty": "", "flag": True, "detail": {"customer_id": "7"}}
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


def written(name: str, act: Callable[[], Any], kind: type[Exception], *words: str) -> Any:
    return pytest.param(act, kind, words, id=name)


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


def test_a_decorator_without_its_key_says_how_to_write_it(told):
    def of_lock() -> None:
        @with_lock
        def handler(event: Any, context: Any) -> None: ...

    def of_event() -> None:
        @deduplicate
        def handler(event: Any, context: Any) -> None: ...

    def of_batch() -> None:
        @batch.sqs_batch
        def handler(record: Any) -> None: ...

    told(TypeError, of_lock, "@with_lock needs a key: write @with_lock('order-{id}')")
    told(TypeError, of_event, "@deduplicate needs a key: write @deduplicate('order-{id}')")
    told(TypeError, of_batch, "write @sqs_batch()")


# -- options ----------------------------------------------------------------------------------------------------------

OPTIONS = [
    written("no key", lambda: with_lock()(handler), TypeError, "pass exactly one of key=", "and key_jmespath="),
    written("no key of an event", lambda: deduplicate()(handler), TypeError, "pass exactly one of key="),
    written("two of them", lambda: deduplicate("a", key_jmespath="id")(handler), TypeError, "exactly one of key="),
    written("two keys", lambda: with_lock("a", key_jmespath="id")(handler), TypeError, "pass exactly one of key="),
    written("a number for a key", lambda: with_lock(5)(handler), TypeError, "key= must be a str or a function", "int"),
    written("no key in a list", lambda: with_lock([])(handler), TypeError, "key=[] names no lock: write at least one"),
    written("several permits", lambda: with_lock(["a", "b"], permits=5), TypeError, "Leave permits out, or pass one"),
    written("several again", lambda: with_lock(["a", "b"], reentrant=True), TypeError, "is for a single key"),
    written("an unknown answer", lambda: with_lock("a", on_not_granted="ignore"), TypeError, "'raise', 'skip' or a f"),
    written("an answer itself", lambda: with_lock("a", on_not_granted={"statusCode": 409}), TypeError, "or a function"),
    written(
        "an answer without the error",
        lambda: with_lock("a", on_not_granted=lambda event, context: 409)(handler),
        TypeError,
        "give it the parameters of handler(), and error",
    ),
    written("skip an outage", lambda: with_lock("a", on_unavailable="skip")(handler), TypeError, "'raise' or 'run'"),
    written("a client by name", lambda: with_lock("a", client="locks")(handler), TypeError, "must be a LockClient"),
    written("a client's class", lambda: with_lock("a", client=LockClient)(handler), TypeError, "write LockClient(...)"),
    written(
        "an async client", lambda: with_lock("a", client=AsyncLockClient("locks"))(handler), TypeError, "needs a L"
    ),
    written("a sync client", lambda: with_lock("a", client=LockClient("locks"))(awaited), TypeError, "needs an Async"),
    written("a window of no time", lambda: deduplicate("{id}", window=0), LockArgumentError, "window=0", "pass 1 to"),
    written(
        "a window as a timedelta",
        lambda: deduplicate("{id}", window=datetime.timedelta(days=1)),
        TypeError,
        "window must be a number of seconds",
    ),
    written("a window as text", lambda: deduplicate("{id}", window="1d"), TypeError, "a number of seconds, not '1d'"),
    written(
        "a result by pickle", lambda: deduplicate("{id}", result="pickle"), TypeError, "None or 'json'", "dump(val"
    ),
    written(
        "skip a duplicate", lambda: deduplicate("{id}", on_duplicate="skip"), TypeError, "'return', 'raise' or a f"
    ),
    written("validate one field", lambda: deduplicate("{id}", validate="body")(handler), TypeError, "list of fields"),
    written(
        "done if text", lambda: deduplicate("{id}", done_if="ok")(handler), TypeError, "a plain function that takes"
    ),
    written("permits of an event", lambda: deduplicate("{id}", permits=5), TypeError, "argument 'permits'"),
    written("skip a bad key", lambda: deduplicate("{id}", on_bad_key="skip"), TypeError, "'raise' or a function"),
    written("a field that is a number", lambda: untyped.payload_hash(5), TypeError, "takes the paths of fields"),
    written("a limit of none", lambda: rate_limit("a", 0)(handler), LockArgumentError, "limit=0", "pass 1 or more"),
    written("half a start", lambda: rate_limit("a", 0.5)(handler), TypeError, "limit must be an int", "a longer per="),
    written("per minute", lambda: rate_limit("a", 5, per="minute")(handler), TypeError, "per must be a number of sec"),
    written("more than the burst", lambda: rate_limit("a", 5, n=3)(handler), LockArgumentError, "raise burst, or take"),
    written("an answer of a lock", lambda: rate_limit("a", 5, on_not_granted="skip"), TypeError, "mean on_limited=?"),
    written(
        "a slot above a lock", lambda: rate_limit("a", 5)(with_lock("a")(handler)), TypeError, "write @rate_limit b"
    ),
]


@pytest.mark.parametrize(("act", "kind", "words"), OPTIONS)
def test_an_option_that_cannot_be_meant_is_told_when_decorating(act, kind, words, told):
    told(kind, lambda: decorated(act()), *words)


def decorated(found: Any) -> None:
    """Decorate a handler, if the decorator itself took the mistake."""
    found(handler)


# -- keys -------------------------------------------------------------------------------------------------------------

TEMPLATES = [
    ("{id", "Write a literal brace as {{ or }}"),
    ("{}", "name the parameter or the field"),
    ("{0}", "name the parameter or the field"),
    ("{id!r}", "remove it, or use a function for key="),
    ("{total:.2f}", "remove it, or use a function for key="),
    ("{event['id']}", "leave them out, write {event[id]}"),
    ("{event.id}", "as in {event[id]}"),
    ("$.detail.id", "write fields in braces, as in {detail[id]}, or pass key_jmespath="),
    ("", "a key must be a non-empty str"),
]


@pytest.mark.parametrize(("template", "words"), TEMPLATES)
def test_a_template_that_cannot_be_read_is_told_when_decorating(template, words, told):
    for decorator in (with_lock, deduplicate, functools.partial(rate_limit, limit=1)):
        told(
            KeyTemplateError,
            lambda decorator=decorator: decorator(template)(handler),
            "handler()",
            repr(template),
            words,
        )


def test_an_expression_that_cannot_be_read_is_told_when_decorating(told):
    act = lambda: with_lock(key_jmespath="id[")(handler)  # noqa: E731
    told(KeyTemplateError, act, "key_jmespath='id['", "not a valid JMESPath expression")


FIELDS = [
    ("{detail[customer]}", "detail has no [customer]; it has customer_id"),
    ("{nothing}", "nothing: the value is None"),
    ("{empty}", "empty: the value is an empty str"),
    ("{flag}", "flag: the value is of type bool"),
    ("{detail}", "detail: the value is of type dict", "Choose a field or an element of it"),
    (lambda event, context: None, "returned a value that is None: a key must be a non-empty str"),
    (lambda event, context: 7, "returned a value that is of type int: a key must be a non-empty str"),
]


@pytest.mark.parametrize(("key", *["words"]), [(key, words) for key, *words in FIELDS])
def test_an_event_that_gives_no_key_is_told_and_nothing_runs(key, words, client, memory, told):
    for decorator in (with_lock, deduplicate, functools.partial(rate_limit, limit=1)):
        told(KeyTemplateError, lambda decorator=decorator: decorator(key)(handler)(EVENT, None), *words)
    assert memory.rows() == ()


def test_a_call_within_itself_is_told_before_it_waits_for_itself(client, told):
    inner = with_lock("a")(lambda: "ran")
    outer = with_lock("a")(lambda: inner())
    of_several = with_lock(["a", "b"])(lambda: inner())
    for act in (outer, of_several):
        told(LockConfigurationError, act, "holds the lock 'a' already", "reentrant=True")


def test_a_payload_that_changed_under_one_key_is_told(client, told):
    decorated = deduplicate("{id}", validate=["detail[customer_id]"])(handler)
    decorated(EVENT, None)
    told(PayloadMismatchError, lambda: decorated({**EVENT, "detail": {"customer_id": "8"}}, None), "e1")


# -- batches ----------------------------------------------------------------------------------------------------------

CONTEXT = Context(30)  # one of lambda_context() would run out while other tests run
BATCHES = [
    written("a handler of two", lambda: batch.sqs_batch()(handler), TypeError, "Write it as handler(record)"),
    written("a generator", lambda: batch.sqs_batch()(lambda record: (yield)), TypeError, "a generator"),
    written(
        "another source",
        lambda: batch.process_sqs(KINESIS, on_record, context=CONTEXT),
        LockArgumentError,
        "has a record of 'aws:kinesis': use process_stream, not process_sqs",
    ),
    written("a queue", lambda: batch.process_stream(SQS, on_record, context=CONTEXT), LockArgumentError, "process_sqs"),
    written("Kafka", lambda: batch.process_sqs(KAFKA, on_record, context=CONTEXT), LockArgumentError, "process_kafka"),
    written(
        "no batch", lambda: batch.process_sqs(EVENT, on_record, context=CONTEXT), LockArgumentError, "no list of Re"
    ),
    written(
        "one record", lambda: batch.process_sqs(RECORD, on_record, context=CONTEXT), LockArgumentError, "pass on the"
    ),
    written("no context", lambda: batch.process_sqs(SQS, on_record), TypeError, "argument: 'context'"),
    written("key=", lambda: batch.sqs_batch(key="{body[id]}")(on_record), TypeError, "did you mean lock_key=?"),
    written("workers=", lambda: batch.sqs_batch(workers=4)(on_record), TypeError, "did you mean max_workers=?"),
    written("no workers", lambda: batch.sqs_batch(max_workers=0)(on_record), LockArgumentError, "max_workers=0"),
    written(
        "visible in text", lambda: batch.sqs_batch(retry_visibility="10")(on_record)(SQS, CONTEXT), TypeError, "'10'"
    ),
]


@pytest.mark.parametrize(("act", "kind", "words"), BATCHES)
def test_a_batch_that_cannot_be_processed_is_told_and_no_record_is_done(act, kind, words, client, memory, told):
    told(kind, act, *words)
    assert memory.rows() == ()


def test_a_message_that_gives_no_key_comes_back_and_says_why(client, caplog):
    with caplog.at_level(logging.ERROR, logger="lambda_lock"):
        answer = batch.sqs_batch(lock_key="{body[customer]}")(on_record)(SQS, CONTEXT)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert "body has no [customer]; it has id" in caplog.text


# -- extras -----------------------------------------------------------------------------------------------------------

FORGOTTEN = [
    (
        "click",
        "import runpy; runpy.run_module('lambda_lock.cli', run_name='__main__')",
        "pip install 'lambda-lock[cli]'",
    ),
    ("aws_cdk", "import lambda_lock.cdk", "pip install 'lambda-lock[cdk]'"),
    ("aws_durable_execution_sdk_python", "import lambda_lock.durable", "pip install 'lambda-lock[durable]'"),
    ("boto3", "from lambda_lock import LockClient; LockClient('locks').acquire('a')", "install lambda-lock[boto3]"),
    (
        "jmespath",
        "from lambda_lock import with_lock; with_lock(key_jmespath='id')(lambda event, context: 1)",
        "pip install jmespath",
    ),
    (
        "aws_lambda_powertools",
        "from lambda_lock import with_lock; "
        "with_lock(key_jmespath='powertools_json(body).id')(lambda event, context: 1)",
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
    told(
        KeyTemplateError, lambda: asyncio.run(with_lock("{detail[x]}")(awaited)(EVENT, None)), "has no [x]; it has cus"
    )
    told(TypeError, lambda: batch.sqs_batch()(awaited), "write def instead of async def")
    assert memory.rows() == ()
