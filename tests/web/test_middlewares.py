"""Where the middlewares find a context, for how long it counts, and what they do not believe."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock.runtime import invocation
from lambda_lock.runtime.invocation import Invocation, find, initializing, snapstart_initializing, tenant_id
from lambda_lock.web import LambdaContextMiddleware, LambdaContextWsgi
from tests.support.context import Context
from tests.support.elsewhere import in_thread, ran

HEADER = "x-amzn-lambda-context"
CONTEXT = Context(9)


def seen_by_asgi(scope: dict[str, Any], **options: Any) -> Invocation | None:
    """What an application finds. It never waits, so it needs no loop. scope: of a request, unless it names its type."""
    seen = []

    async def app(*_: Any) -> None:
        seen.append(find((), {}))

    given = scope if "type" in scope else {"type": "http", "headers": [], **scope}
    with contextlib.suppress(StopIteration):
        LambdaContextMiddleware(app, **options)(given, ignore, ignore).send(None)
    return seen[0]


def seen_by_wsgi(environ: dict[str, Any], **options: Any) -> Invocation | None:
    seen = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        seen.append(find((), {}))
        return [b"done"]

    assert LambdaContextWsgi(app, **options)(environ, ignore) == [b"done"]
    return seen[0]


def ignore(*_: Any, **__: Any) -> Any:
    """A start_response that nobody listens to."""


def header(left: float = 9.0, **more: Any) -> str:
    return json.dumps(
        {"request_id": "request-1", "deadline": int((time.time() + left) * 1000), "tenant_id": None} | more
    )


def seen_in_header(text: str, **options: Any) -> list[Invocation | None]:
    """What both middlewares see of a header with this text."""
    scope = {"headers": [(HEADER.encode(), text.encode())]}
    environ = {"HTTP_X_AMZN_LAMBDA_CONTEXT": text.encode().decode("latin-1")}
    return [seen_by_asgi(scope, **options), seen_by_wsgi(environ, **options)]


def tenant_of(found: Invocation) -> str | None:
    token = invocation.enter(found)
    try:
        return tenant_id()
    finally:
        invocation.leave(token)


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")


# The adapters' own objects


@pytest.mark.parametrize(
    ("seen_by", "request_"),
    [
        *((seen_by_asgi, {"type": kind, "aws.context": CONTEXT}) for kind in ("http", "websocket")),
        (seen_by_asgi, {"lambda.context": CONTEXT}),
        *((seen_by_wsgi, {f"{name}.context": CONTEXT}) for name in ("serverless", "apig_wsgi", "awsgi", "lambda")),
    ],
)
def test_the_context_that_an_adapter_puts_into_a_scope_or_an_environ_is_the_one_of_the_request(seen_by, request_):
    found = seen_by(request_)
    assert found is not None
    assert found.context is CONTEXT
    assert found.deadline is not None


@pytest.mark.parametrize("stand_in", [None, {}, object()])
def test_a_request_whose_context_is_none_or_a_stand_in_without_a_time_belongs_to_no_invocation(stand_in):
    assert seen_by_asgi({"aws.context": stand_in}) is None
    assert seen_by_wsgi({"serverless.context": stand_in}) is None


@pytest.mark.usefixtures("in_lambda")
def test_the_adapter_s_own_object_beats_a_header():
    scope = {"aws.context": CONTEXT, "headers": [(HEADER.encode(), header().encode())]}
    assert getattr(seen_by_asgi(scope, web_adapter=True), "context", None) is CONTEXT


def test_the_lifespan_of_an_application_belongs_to_no_invocation():
    lifespan = {"type": "lifespan", "asgi": {"version": "3.0"}}  # it has no headers
    assert seen_by_asgi(lifespan, web_adapter=True) is None


@pytest.fixture
def entered() -> Iterator[Invocation | None]:
    """The invocation within which this thread runs, as when uvicorn serves the next request of a connection."""
    found = invocation.read(CONTEXT)
    token = invocation.enter(found)
    yield found
    invocation.leave(token)


@pytest.mark.usefixtures("in_lambda", "entered")
@pytest.mark.parametrize("text", ["", "{}", '{"deadline":null}'])
def test_behind_the_web_adapter_a_request_without_a_context_has_none_of_an_earlier_request(text):
    assert seen_in_header(text, web_adapter=True) == [None, None]
    assert seen_by_asgi({}, web_adapter=True) is None
    assert seen_by_wsgi({}, web_adapter=True) is None


@pytest.mark.parametrize("web_adapter", [False, True])
def test_without_a_context_the_invocation_of_an_enclosing_function_counts(web_adapter, entered):
    for scope, environ in (({}, {}), ({"aws.context": None}, {"serverless.context": None})):
        assert seen_by_asgi(scope, web_adapter=web_adapter) is entered
        assert seen_by_wsgi(environ, web_adapter=web_adapter) is entered


# For how long


def test_requests_side_by_side_on_one_loop_each_have_their_own_invocation():
    contexts = [Context(left) for left in (5.0, 9.0, 30.0)]
    together = asyncio.Barrier(len(contexts))
    seen: dict[object, object] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await together.wait()
        found = find((), {})
        seen[scope["aws.context"]] = found and found.context

    async def ask() -> None:
        served = LambdaContextMiddleware(app)
        await asyncio.gather(*(served({"type": "http", "aws.context": one}, ignore, ignore) for one in contexts))

    asyncio.run(ask())
    assert seen == {context: context for context in contexts}


def test_requests_side_by_side_on_threads_each_have_their_own_invocation():
    contexts = [Context(left) for left in range(1, 9)]
    together = threading.Barrier(len(contexts))
    seen: dict[object, object] = {}

    def app(environ: Any, start_response: Any) -> list[bytes]:
        together.wait()
        found = find((), {})
        seen[environ["serverless.context"]] = found and found.context
        return []

    served = LambdaContextWsgi(app)
    for end in [in_thread(functools.partial(served, {"serverless.context": one}, ignore)) for one in contexts]:
        end()
    assert seen == {context: context for context in contexts}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_request_that_has_ended_leaves_no_invocation_behind(error):
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise error

    def failing_wsgi(environ: Any, start_response: Any) -> list[bytes]:
        raise error

    with pytest.raises(error):
        LambdaContextMiddleware(failing)({"type": "http", "aws.context": Context()}, ignore, ignore).send(None)
    assert find((), {}) is None
    with pytest.raises(error):
        LambdaContextWsgi(failing_wsgi)({"serverless.context": Context()}, ignore)
    assert find((), {}) is None


class Parts:
    """A response that notes the invocation whenever its code runs."""

    def __init__(self) -> None:
        self.seen: list[Invocation | None] = []

    def __iter__(self) -> Iterator[bytes]:
        self.seen.append(find((), {}))
        yield b"a"
        self.seen.append(find((), {}))
        yield b"b"

    def close(self) -> None:
        self.seen.append(find((), {}))


@pytest.fixture
def parts() -> Parts:
    return Parts()


@pytest.fixture
def response(parts: Parts) -> Any:
    """The parts, as the server gets them."""
    return LambdaContextWsgi(lambda environ, start_response: parts)({"serverless.context": CONTEXT}, ignore)


def test_a_response_that_is_made_while_it_is_read_is_made_within_the_invocation(parts, response):
    read = []
    for part in response:
        assert find((), {}) is None  # between two parts, the thread is the server's
        read.append(part)
    response.close()
    assert read == [b"a", b"b"]
    assert [found and found.context for found in parts.seen] == [CONTEXT] * 3


def test_a_response_may_be_read_and_closed_on_another_thread(parts, response):
    next(response)
    in_thread(lambda: list(response))()
    in_thread(response.close)()
    assert [found and found.context for found in parts.seen] == [CONTEXT] * 3


def test_a_response_without_an_end_of_its_own_can_be_closed():
    environ = {"serverless.context": CONTEXT}
    response: Any = LambdaContextWsgi(lambda environ, start_response: iter([b"a"]))(environ, ignore)
    assert list(response) == [b"a"]
    response.close()


@pytest.mark.parametrize("body", [[b"a"], (b"a",)])
def test_a_list_is_passed_on_as_it_is_because_servers_count_its_parts(body):
    assert LambdaContextWsgi(lambda environ, start_response: body)({"serverless.context": Context()}, ignore) is body


# The header


@pytest.mark.usefixtures("in_lambda")
def test_the_header_gives_the_deadline_the_request_and_the_tenant():
    for found in seen_in_header(header(9.0, tenant_id="blue", identity={"name": "ü"}), web_adapter=True):
        assert found is not None
        left = found.remaining()
        assert left is not None
        assert 0 < left <= 9
        assert (found.function_name, found.request_id) == ("orders", "request-1")
        assert tenant_of(found) == "blue"


def test_the_header_is_not_read_outside_lambda_and_unless_asked_for(monkeypatch):
    assert seen_in_header(header(), web_adapter=True) == [None, None]
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    assert seen_in_header(header()) == [None, None]


@pytest.mark.usefixtures("in_lambda")
@pytest.mark.parametrize("left", [-3600.0, -1.0, 901.0, 86_400.0, 1e15])
def test_a_deadline_that_no_invocation_has_is_unknown(left):
    for found in seen_in_header(header(left), web_adapter=True):
        assert found is not None
        assert found.deadline is None


@pytest.mark.usefixtures("in_lambda")
@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "{}", "[]", "1", '"text"', "{", "\x00", "[" * 50_000, "1" * 5_000),
        *('{"deadline":null}', '{"deadline":true}', '{"deadline":"1"}', '{"deadline":1.5}', '{"deadline":NaN}'),
        *('{"deadline_ms":9999999999999}', '{"deadline":1e400}'),
    ],
    ids=lambda text: text[:30] or "empty",
)
def test_a_header_that_the_adapter_does_not_write_counts_for_nothing(text, monkeypatch):
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    assert seen_in_header(text, web_adapter=True) == [None, None]
    assert snapstart_initializing()


@given(
    text=st.text(st.characters(codec="utf-8"), max_size=200)
    | st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner), max_leaves=5).map(
        json.dumps
    )
    | st.dictionaries(
        st.sampled_from(["deadline", "request_id", "tenant_id"]), st.none() | st.integers() | st.text(max_size=5)
    ).map(json.dumps)
)
def test_no_header_is_an_error(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
        for found in seen_in_header(text, web_adapter=True):
            assert found is None or found.request_id.isprintable()


@pytest.mark.usefixtures("in_lambda")
def test_a_header_that_an_adapter_passed_on_with_letters_that_no_header_has_is_read_all_the_same():
    environ = {"HTTP_X_AMZN_LAMBDA_CONTEXT": header(tenant_id="\N{SNOWMAN}").replace("\\u2603", "\N{SNOWMAN}")}
    assert getattr(seen_by_wsgi(environ, web_adapter=True), "request_id", None) == "request-1"


@pytest.mark.usefixtures("in_lambda")
@pytest.mark.parametrize("name", [None, 7, [], "a\nb", "\ud800"])
def test_a_name_that_could_not_be_stored_or_logged_is_left_out(name):
    for found in seen_in_header(header(request_id=name, tenant_id=name), web_adapter=True):
        assert found is not None
        assert found.request_id == ""
        assert tenant_of(found) is None


@pytest.mark.usefixtures("in_lambda")
@pytest.mark.parametrize("initialization", ["on-demand", "provisioned-concurrency", "snap-start"])
def test_the_process_of_a_server_is_initializing_until_its_first_request(initialization, monkeypatch):
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", initialization)
    seen_by_asgi({}, web_adapter=True)  # the adapter asks whether the server is ready
    assert initializing()
    assert snapstart_initializing() == (initialization == "snap-start")
    seen_in_header(header(), web_adapter=True)
    assert not initializing()
    assert not snapstart_initializing()


# Mistakes


@pytest.mark.parametrize("middleware", [LambdaContextMiddleware, LambdaContextWsgi])
def test_what_is_no_application_and_no_answer_to_whether_the_header_can_be_trusted_is_refused(middleware):
    with pytest.raises(TypeError, match=r"app must be the application to call, not 'app:app' \(str\)"):
        middleware("app:app")
    for text in ("false", "", None):  # as what a variable says
        with pytest.raises(TypeError, match=r"web_adapter must be True or False, not .*\((str|NoneType)\)"):
            middleware(ignore, web_adapter=text)


# What it costs


@pytest.mark.parametrize("name", ["LambdaContextMiddleware", "LambdaContextWsgi"])
def test_who_uses_the_context_alone_loads_nothing_but_its_module(name):
    code = "import sys, __future__, json, os, time, logging, functools; before = set(sys.modules); "
    code += f"from lambda_lock.web import {name}; print(*(set(sys.modules) - before))"
    loaded = [each for each in ran(code).split() if not re.match(r"lambda_lock\b(?!\.web|\.dec)|_?contextvars", each)]
    assert sorted(loaded) == ["lambda_lock.web", "lambda_lock.web.context"]
