"""Every public operation, with recognisable secrets, through success and each kind of failure: nothing shows them.

What counts as a secret is in SECURITY.md. Keys and owners are no secrets: errors and logs name them.
"""

import asyncio
import contextlib
import gc
import itertools
import json
import logging
import os
import time
import warnings
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lambda_lock import AsyncLockClient, Lock, LockClient, deduplicate, payload_hash, with_lock
from lambda_lock.batch import process_sqs
from lambda_lock.core import handover
from lambda_lock.core.handover import write_handover
from lambda_lock.errors import LockError
from lambda_lock.table import check_table, create_table
from lambda_lock.transport import BotoTransport, HttpsTransport, answers, boto, http1, https
from rig.loopback import Handler, LoopbackServer
from rig.wire import Answer, Wire
from tests.support.clocks import LeapingClock
from tests.support.context import Context
from tests.support.fresh import fresh_process
from tests.support.sampled import sampled

from .hunt import CONTENTS, CREDENTIALS, Heap, Hook, Log, decoded, forms

__all__ = ["fresh_process"]

DATA = CONTENTS["data"].encode()
EVENT = CONTENTS["event"]
JSON = "application/x-amz-json-1.0"
Trouble = Callable[[], contextlib.AbstractContextManager[None]]


# Where credentials come from


class Container(Handler):
    """The endpoint for credentials, which answers like AWS."""

    def do_GET(self) -> None:
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        fields = {"AccessKeyId": "test", "SecretAccessKey": CREDENTIALS["fetched-key"], "Expiration": ends}
        said = json.dumps(fields | {"Token": CREDENTIALS["fetched-token"]}).encode()
        self.reply(200, said, [("Content-Type", "application/json")])


@pytest.fixture
def container() -> Iterator[LoopbackServer]:
    with LoopbackServer(Container) as server:
        yield server


SOURCES = ("environment", "container", "profile", "boto3")


def put_credentials(name: str, container: LoopbackServer, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Make the environment hold the credentials in one of the ways."""
    monkeypatch.setenv("HOME", str(home))
    keys = {"AWS_SECRET_ACCESS_KEY": CREDENTIALS["secret-key"], "AWS_SESSION_TOKEN": CREDENTIALS["session-token"]}
    if name in ("environment", "boto3"):
        for variable, value in keys.items():
            monkeypatch.setenv(variable, value)
        return
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    if name == "container":
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{container.url}/role")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", CREDENTIALS["container-token"])
        return
    said = "".join(f"{variable.lower()} = {value}\n" for variable, value in keys.items())
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(f"[mine]\naws_access_key_id = test\n{said}")
    monkeypatch.setenv("AWS_PROFILE", "mine")


# What goes wrong


def answering(make: Callable[[dict[str, str], str, Answer], Answer]) -> Callable[[Wire], None]:
    """Every answer is made of the headers and the body of its request, as a server saw them, and of the true answer."""

    def spoil(wire: Wire) -> None:
        def alter(answer: Answer) -> Answer:
            return make(dict(wire.requests[-1].headers.items()), wire.requests[-1].raw.decode(), answer)

        wire.alter_reply(alter, times=float("inf"))

    return spoil


def refused(code: str, form: Callable[[dict[str, str], str], str], status: int = 400) -> Callable[[Wire], None]:
    """DynamoDB's error of this name, whose message quotes the request in a form."""

    def make(headers: dict[str, str], sent: str, answer: Answer) -> Answer:
        body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": form(headers, sent)}
        date = [(name, value) for name, value in answer.headers if name.lower() == "date"]
        return Answer(status, [*date, ("Content-Type", JSON)], json.dumps(body).encode())

    return answering(make)


def page(status: int, kind: str, cut: int | None = None) -> Callable[[Wire], None]:
    """The page of a proxy, with the whole request in its body and in its headers; or its first half."""

    def make(headers: dict[str, str], sent: str, answer: Answer) -> Answer:
        more = [(f"X-Echo-{name}", value) for name, value in headers.items()]
        return Answer(status, [("Content-Type", kind), *more], (json.dumps(headers) + sent).encode()[:cut])

    return answering(make)


def lines(headers: dict[str, str], body: str) -> str:
    return "Bad request: " + "\n".join(f"{name}: {value}" for name, value in headers.items())


def canonical(headers: dict[str, str], body: str) -> str:
    """As InvalidSignatureException says it."""
    said = "".join(f"{name.lower()}:{value}\n" for name, value in headers.items() if name.lower() != "authorization")
    return f"The request signature does not match.\n\nThe Canonical String should have been\n'POST\n/\n\n{said}'"


def incomplete(headers: dict[str, str], body: str) -> str:
    return f"Authorization header requires 'Signature' parameter. Authorization={headers['Authorization']}"


def as_json(headers: dict[str, str], body: str) -> str:
    return json.dumps(headers)


def validation(headers: dict[str, str], body: str) -> str:
    return f"1 validation error detected: Value '{body}' at 'item' failed to satisfy constraint: too long"


KINDS: dict[str, Callable[[Wire], Any]] = {
    "success": lambda wire: None,
    "request cut": lambda wire: wire.drop_request(times=float("inf")),
    "reply cut": lambda wire: wire.drop_reply(times=float("inf")),
    "unavailable": lambda wire: wire.unavailable(times=float("inf")),
    "throttled": refused("ThrottlingException", lines),
    "denied": refused("AccessDeniedException", as_json, 403),
    "invalid signature": refused("InvalidSignatureException", canonical),
    "incomplete signature": refused("IncompleteSignatureException", incomplete),
    "expired": refused("ExpiredTokenException", lines),
    "invalid": refused("ValidationException", validation),
    "no table": refused("ResourceNotFoundException", lines),
    "500 with the request": page(500, JSON),
    "403 of a proxy": page(403, "text/html"),
    "a 200 that is no JSON": page(200, JSON),
    "half of an answer": page(400, JSON, 40),
}


# The operations


def items(table: str, **more: Any) -> list[dict[str, Any]]:
    return [{"Put": {"TableName": table, "Item": {"key": {"S": "item"}, "v": {"S": CONTENTS["item"]}}, **more}}]


class Operations:
    """Each method is an operation. ``trouble()`` makes its block fail, and shows the error."""

    def __init__(self, client: LockClient, table: str, heap: Heap, trouble: Trouble) -> None:
        self.client, self.table, self.heap, self.trouble = client, table, heap, trouble

    def run(self, *names: str) -> None:
        """Run these operations; none: all of them."""
        for name in names or [name for name in vars(Operations) if name.startswith("op_")]:
            with self.quietly():
                getattr(self, name)()

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is searched
            self.heap.show_error("error", error)

    def held(self, key: str, **options: Any) -> Lock:
        lock = self.client.acquire(key, data=DATA, attributes={"note": CONTENTS["attribute"]}, wait=5, **options)
        self.heap.show_object("handle", lock)
        return lock

    def troubled(self, act: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Do it in trouble, and show what it returns."""
        with self.trouble():
            self.show(act(*arguments, **options))

    def show(self, found: Any) -> None:
        if isinstance(found, str):
            self.heap.show("string", decoded(found))
        elif found is not None:
            self.heap.show_object("result", found)

    def op_acquire(self) -> None:
        with self.trouble():
            self.held("acquire").release()

    def op_contended(self) -> None:
        lock = self.held("contended")
        self.troubled(self.client.try_acquire, "contended", data=DATA)
        self.troubled(self.client.acquire, "contended", data=DATA, wait=0.5)
        lock.release()

    def op_renew(self) -> None:
        lock = self.held("renew")
        self.troubled(lock.heartbeat, data=DATA)
        self.troubled(lock.ensure, 100_000)
        self.heap.show("transact_item", lock.transact_item())
        self.troubled(lock.release, data=DATA)
        self.heap.show_object("handle", lock)

    def op_commit(self) -> None:
        self.troubled(self.held("commit").commit, items(self.table), data=DATA)

    def op_commit_that_is_refused(self) -> None:
        lock = self.held("commit-2")
        more = {"ConditionExpression": "attribute_not_exists(#key)", "ExpressionAttributeNames": {"#key": "key"}}
        refused = items(self.table, **more, ReturnValuesOnConditionCheckFailure="ALL_OLD")
        self.troubled(lock.commit, refused, data=DATA)
        self.troubled(lock.commit, [{"Put": {"TableName": self.table, "Item": {"key": CONTENTS["item"]}}}])

    def op_hand_over(self) -> None:
        self.troubled(self.held("hand-over").hand_over)
        string = self.held("hand-over-2").hand_over()
        self.show(string)
        self.troubled(self.client.adopt, string)
        self.troubled(self.client.adopt, string + "x")
        self.troubled(self.client.resume, string)
        self.troubled(self.client.release, string)

    def op_read(self) -> None:
        self.held("read")
        self.troubled(self.client.get, "read")
        with self.trouble():
            for record in self.client.list():
                self.show(record)
        self.troubled(self.client.prewarm)

    def op_several(self) -> None:
        with self.trouble():
            self.client.acquire_all(["one", "two"], wait=2).release()
        locks = self.client.acquire_all(["three", "four"], wait=2)
        self.show(locks)
        self.troubled(locks.heartbeat)
        self.troubled(locks.commit, items(self.table))
        self.troubled(locks.release)

    def op_semaphore(self) -> None:
        permit = self.client.acquire("semaphore", permits=2, data=DATA, wait=2)
        self.show(permit)
        self.troubled(permit.release)

    def op_decorators(self) -> None:
        @deduplicate("order#{id}", client=self.client, result="json", validate=["card"])
        def once(event: dict[str, Any]) -> dict[str, str]:
            return {"receipt": CONTENTS["result"]}

        locked = with_lock("{card[number]}", client=self.client)(lambda event: None)  # it has no such key
        hashed = deduplicate(payload_hash("card"), client=self.client)(lambda event: None)
        for id_, card in (("1", EVENT), ("1", EVENT), ("1", EVENT + "2")):
            with self.trouble():
                once({"id": id_, "card": card})
        for event in ({"card": EVENT}, {"card": {"number": {"n": EVENT}}}, {"card": {"number": [EVENT]}}, {"x": EVENT}):
            self.troubled(locked, event)
            self.troubled(hashed, event)

    def op_batch(self) -> None:
        def fail(record: dict[str, Any]) -> None:
            raise RuntimeError("the handler's own")

        body = json.dumps({"card": EVENT})
        queue = "arn:aws:sqs:eu-west-1:1:q"
        record = {"messageId": "1", "body": body, "eventSource": "aws:sqs", "eventSourceARN": queue}
        batch = {"Records": [record, record | {"messageId": "2", "body": EVENT}, record | {"messageId": "3"}]}
        for options in ({}, {"lock_key": "{body[id]}"}, {"lock_key": "{body[card][x]}", "dedup_key": None}):
            self.troubled(process_sqs, batch, fail, context=Context(), client=self.client, **options)

    def op_table(self) -> None:
        self.troubled(check_table, self.table)
        self.troubled(create_table, self.table, wait=1)

    def op_bad_input(self) -> None:
        for options in ({"data": EVENT}, {"attributes": EVENT}, {"attributes": {"a": {EVENT, 1}}}, {"wait": -1}):
            self.troubled(self.client.acquire, "bad", **options)

    def op_async(self) -> None:
        async def work() -> None:
            async with AsyncLockClient(clock=LeapingClock(), heartbeat_period=0) as client:
                with self.trouble():
                    lock = await client.acquire("async", data=DATA, wait=2)
                    self.show(lock)
                    await lock.commit(items(self.table), data=DATA)

        asyncio.run(work())


# The tests


@contextlib.contextmanager
def listening(heap: Heap, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Collect logs at every level, traces, warnings and metrics while the block runs."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setenv("LAMBDA_LOCK_METRICS", "canaries")
    monkeypatch.setenv("LAMBDA_LOCK_METRICS_TIMES", "1")
    root, log = logging.getLogger(), Log(heap)
    levels = {logger: logger.level for logger in (root, logging.getLogger("lambda_lock"))}
    root.addHandler(log)
    try:
        for logger in levels:
            logger.setLevel(1)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(log)
        for logger, level in levels.items():
            logger.setLevel(level)
    heap.show("warnings", *(one.message for one in warned))
    heap.show("traces", *(span.to_json() for span in exporter.get_finished_spans()))
    provider.shutdown()


def signatures(wire: Wire) -> set[str]:
    """The signatures that were sent."""
    found = {request.headers.get("Authorization", "").partition("Signature=")[2] for request in wire.requests}
    return found - {""}


def session_tokens(wire: Wire) -> set[str]:
    """The session tokens that were sent; "" for none."""
    return {request.headers.get("X-Amz-Security-Token", "") for request in wire.requests}


def sent_beside(wire: Wire) -> Iterator[str]:
    """What was sent, but for the two headers that are there for credentials."""
    for request in wire.requests:
        for name, value in request.headers.items():
            if name.lower() not in ("authorization", "x-amz-security-token"):
                yield f"{name}: {value}"
        yield request.raw.decode()


Sweep = Callable[..., list[str]]


@pytest.fixture
def sweep(wire: Wire, table: str, container: LoopbackServer, tmp_path: Path, request: pytest.FixtureRequest) -> Sweep:
    """Runs operations, all or those named, with one kind of trouble, and returns where secrets were found."""

    monkeypatch, capfd = request.getfixturevalue("monkeypatch"), request.getfixturevalue("capfd")

    def run(source: str, kind: str, *operations: str) -> list[str]:
        heap, sent, tokens = Heap(), set[str](), set[str]()

        @contextlib.contextmanager
        def trouble() -> Iterator[None]:
            KINDS[kind](wire)
            try:
                yield
            except Exception as error:  # noqa: BLE001 - whatever it is, it is searched
                heap.show_error(f"{kind}, {source}", error)
            finally:
                sent.update(signatures(wire))
                tokens.update(session_tokens(wire))
                heap.values += [("a request", text) for text in sent_beside(wire)]  # the row has contents by design
                wire.clear()

        put_credentials(source, container, monkeypatch, tmp_path)
        options: dict[str, Any] = {}
        if source == "boto3":  # boto3's default session would have the credentials of an earlier test
            options["boto3_client"] = boto3.Session().client("dynamodb")
        with listening(heap, monkeypatch):
            client = LockClient(clock=LeapingClock(), heartbeat_period=0, hooks=[Hook(heap)], **options)
            Operations(client, table, heap, trouble).run(*operations)
            for shown in (client, client.transport):
                heap.show_object("client", shown)
                heap.show("attributes", repr(vars(shown)))
            with contextlib.suppress(LockError):
                client.close()
            gc.collect()  # handles that were not released warn
        heap.show("output", *capfd.readouterr())
        assert isinstance(client.transport, HttpsTransport if source in SOURCES[:2] else BotoTransport)
        assert tokens == {CREDENTIALS["fetched-token" if source == "container" else "session-token"]}
        assert operations or (len(sent) > 20 and len(heap.shown) > 200)
        return heap.leaks([*CREDENTIALS.values(), *sent], CONTENTS.values())

    return run


# The usual transport shows the most of its own. The others take minutes all together: once a week.
_QUICK = [("environment", kind) for kind in ("success", "invalid signature")]
_QUICK += [("container", "invalid"), ("profile", "denied"), ("boto3", "invalid signature")]
_OTHERS = [each for each in itertools.product(SOURCES, KINDS) if each not in _QUICK]


@pytest.mark.parametrize(
    ("source", "kind"), [*sampled(5, _QUICK), *(pytest.param(*each, marks=pytest.mark.prove) for each in _OTHERS)]
)
def test_no_operation_shows_a_secret(source, kind, sweep):
    assert sweep(source, kind) == []


# Leaks that are planted: each must be found, or the search shows nothing


_USUAL = ("environment", "success")


def _token() -> str:
    return os.environ["AWS_SESSION_TOKEN"]


def _logs_elsewhere(self: Lock) -> str:
    logging.getLogger("elsewhere").debug(os.environ["AWS_SECRET_ACCESS_KEY"])
    return "Lock()"


def _warns_in_upper_hex(self: Lock) -> str:
    warnings.warn(os.environ["AWS_SECRET_ACCESS_KEY"].encode().hex().upper(), stacklevel=1)
    return "Lock()"


def _with_a_token(hold: Any) -> str:
    string = write_handover(hold)
    added = b2a_base64(f" {_token()}".encode(), newline=False).decode()
    head, content, checksum = string.split(".")
    return ".".join((head, content + added, checksum))


@pytest.mark.parametrize(
    ("where", "name", "planted", "source", "kind", "found"),
    [
        (answers, "without_values", lambda message: message, "environment", "invalid signature", "session-token"),
        (boto, "cause", lambda error: error, "boto3", "request cut", "session-token"),
        (Lock, "__repr__", lambda self: repr(self.data), *_USUAL, "data"),
        (Lock, "__repr__", lambda self: _token()[:12], *_USUAL, "session-token"),
        (Lock, "__repr__", lambda self: f"//a/?token={quote(_token(), safe='')}", *_USUAL, "session-token"),
        (Lock, "__repr__", _logs_elsewhere, *_USUAL, "secret-key"),
        (Lock, "__repr__", _warns_in_upper_hex, *_USUAL, "secret-key"),
        (https, "__version__", CREDENTIALS["secret-key"], *_USUAL, "secret-key"),
        (handover, "write_handover", _with_a_token, *_USUAL, "session-token"),
        (http1, "_why", lambda error: os.environ["AWS_SECRET_ACCESS_KEY"], "environment", "reply cut", "secret-key"),
    ],
)
def test_a_leak_is_found(where, name, planted, source, kind, found, sweep, monkeypatch):
    monkeypatch.setattr(where, name, planted)
    leaks = sweep(source, kind, "op_hand_over" if where is handover else "op_acquire")
    assert any(form in leak for leak in leaks for form in forms((CREDENTIALS | CONTENTS)[found]))
