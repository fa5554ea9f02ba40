"""What an application may do besides answering in one piece, under IdempotencyMiddleware and IdempotencyWsgi."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import flask
import pytest
from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import FileResponse, StreamingResponse
from werkzeug.test import Client, create_environ

from lambda_lock.web import IdempotencyMiddleware, IdempotencyWsgi

pytestmark = pytest.mark.usefixtures("table")


START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}


class Exchange:
    """One request to an ASGI application, whose messages are seen as they are sent."""

    def __init__(self, path: str, key: str | None = "k-1", body: bytes = b"{}", method: str = "POST") -> None:
        headers = [(b"content-type", b"application/json")]
        if key is not None:
            headers.append((b"Idempotency-Key", key.encode()))
        self.scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": headers}
        self.scope |= {"asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "server": ("test", 80)}
        self.scope["query_string"] = b""
        self.asked: list[dict[str, Any]] = [{"type": "http.request", "body": body}]
        self.sent: list[dict[str, Any]] = []
        self.on_send: Callable[[dict[str, Any]], Any] = lambda message: None

    async def receive(self) -> dict[str, Any]:
        if not self.asked:
            await asyncio.Event().wait()
        return self.asked.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self.on_send(message)

    async def by(self, app: Any) -> Exchange:
        await app(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> Any:
        return self.sent[0]["status"]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def replayed(self) -> bool:
        return (b"Idempotent-Replayed", b"true") in self.sent[0]["headers"]


def ask(app: Any, *args: Any, **options: Any) -> Exchange:
    return asyncio.run(Exchange(*args, **options).by(app))


class App:
    """An API of FastAPI, with a middleware that makes each answer come in parts."""

    def __init__(self, **options: Any) -> None:
        self.app = FastAPI()
        self.count = 0
        self.notes: list[str] = []
        self.stop = threading.Event()

        @self.app.middleware("http")
        async def inner(request: Any, call_next: Any) -> Any:
            return await call_next(request)

        self.app.add_middleware(IdempotencyMiddleware, **options)

        @self.app.post("/plain")
        async def plain() -> Any:
            self.count += 1
            return {"n": self.count}

        @self.app.post("/stream")
        async def stream() -> Any:
            self.count += 1

            async def parts() -> Any:
                for part in (b"a", b"b"):
                    self.notes.append("part")
                    yield part

            return StreamingResponse(parts())

        @self.app.post("/file")
        async def file() -> Any:
            self.count += 1
            return FileResponse(__file__)

        @self.app.post("/later")
        async def later(tasks: BackgroundTasks) -> Any:
            self.count += 1
            tasks.add_task(lambda: self.notes.append("later"))
            return {"n": self.count}


@pytest.mark.parametrize("path", ["/plain", "/file"])
def test_a_plain_answer_that_an_inner_middleware_sends_in_parts_and_a_file_are_kept(path):
    app = App()
    first, again = ask(app.app, path), ask(app.app, path)
    assert (first.status, first.replayed, app.count) == (200, False, 1)
    assert (again.status, again.body == first.body, again.replayed) == (200, True, True)


def test_a_stream_passes_part_by_part_and_is_done_and_told_once(caplog):
    app = App()
    exchange = Exchange("/stream")
    exchange.on_send = lambda message: app.notes.append("sent") if message.get("body") else None
    asyncio.run(exchange.by(app.app))
    assert (exchange.status, exchange.body) == (200, b"ab")
    assert app.notes == ["part", "sent", "part", "sent"]
    again = ask(app.app, "/stream")
    assert (again.status, json.loads(again.body)["status"], app.count) == (409, 409, 1)
    assert ask(app.app, "/stream", "k-2").body == b"ab"
    assert [record.__dict__["lock_event"] for record in caplog.records].count("answer_not_kept") == 1


def test_a_background_task_runs_after_the_answer_of_which_the_request_is_done_then():
    app = App()
    exchange = Exchange("/later")
    exchange.on_send = lambda message: app.notes.append(message["type"])
    asyncio.run(exchange.by(app.app))
    assert app.notes[-2:] == ["http.response.body", "later"]
    assert exchange.body == b'{"n":1}'
    assert ask(app.app, "/later").replayed
    assert app.notes.count("later") == 1


def test_what_has_no_key_or_another_method_passes_untouched():
    seen = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    app = IdempotencyMiddleware(inner)
    for exchange in (Exchange("/", None), Exchange("/", method="GET"), Exchange("/", method="PUT")):
        asyncio.run(exchange.by(app))
        scope, receive, _ = seen.pop()
        assert scope is exchange.scope
        assert receive == exchange.receive
    websocket = {"type": "websocket", "path": "/"}
    untouched: Any = object()
    asyncio.run(app(websocket, untouched, untouched))
    assert seen.pop() == (websocket, untouched, untouched)


def test_a_required_key_that_is_missing_or_repeated_is_400():
    app, repeated = App(required=True), Exchange("/plain")
    repeated.scope["headers"].append((b"idempotency-key", b"k-2"))
    assert asyncio.run(repeated.by(app.app)).status == ask(app.app, "/plain", None).status == 400
    assert app.count == 0


def test_a_client_that_leaves_while_it_sends_its_body_has_asked_nothing_and_one_above_10_mib_is_413():
    app, exchange = App(), Exchange("/plain")
    exchange.asked = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    assert asyncio.run(exchange.by(app.app)).sent == []
    assert ask(app.app, "/plain", body=b"x" * (10 * 1024 * 1024 + 1)).status == 413
    assert app.count == 0


def test_a_request_that_is_cancelled_gives_its_key_back(rows):
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        ask(IdempotencyMiddleware(inner, scope="s"), "/")
    assert not rows.is_held("s#POST /#k-1")
    assert "completedUntil" not in rows["s#POST /#k-1"]


@pytest.mark.parametrize(("path", "status", "replayed"), [("/plain", 200, True), ("/stream", 409, False)])
def test_a_client_that_leaves_gets_its_answer_when_it_asks_again_and_of_a_stream_that_it_is_done(
    path, status, replayed
):
    def gone(message: Any) -> None:
        if path == "/plain" or message.get("body") == b"b":
            raise OSError("the client has gone")

    app, exchange = App(), Exchange(path)
    exchange.on_send = gone
    with pytest.raises(OSError, match="the client has gone"):
        asyncio.run(exchange.by(app.app))
    again = ask(app.app, path)
    assert (again.status, again.replayed, app.count) == (status, replayed, 1)


def test_a_stream_that_fails_is_carried_out_again():
    count = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        count.append(1)
        await send(START)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        raise OSError("of the application's own")

    for _ in range(2):
        with pytest.raises(OSError, match="own"):
            ask(IdempotencyMiddleware(inner), "/")
    assert len(count) == 2


def test_middlewares_outside_see_what_the_application_notes_in_the_scope():
    app, exchange = App(), Exchange("/plain")
    assert exchange.scope.setdefault("extensions", {"http.response.pathsend": {}, "tls": {}})
    asyncio.run(exchange.by(app.app))
    assert exchange.scope["route"].path == "/plain"


def test_head_is_answered_as_the_application_does_and_refused_without_a_body():
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send(START | {"headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body"})

    app = IdempotencyMiddleware(inner, methods=("HEAD",), required=True)
    first, again = ask(app, "/", method="HEAD"), ask(app, "/", method="HEAD")
    assert (again.replayed, again.body, again.sent[0]["headers"][0]) == (True, b"", first.sent[0]["headers"][0])
    refused = ask(app, "/", None, method="HEAD")
    assert (refused.status, refused.body) == (400, b"")


@pytest.mark.parametrize("sent", [0, 1, 2])
def test_an_answer_that_never_ends_is_not_kept(sent):
    start = START | {"headers": [(b"content-length", b"2")]}
    messages = [start, {"type": "http.response.body", "body": b"a", "more_body": True}][:sent]

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    assert ask(IdempotencyMiddleware(inner), "/").sent == messages


def test_callers_may_be_named_by_a_function_of_the_scope_and_keys_never_run_together():
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": scope["user"].encode()})

    app = IdempotencyMiddleware(inner, caller=lambda scope: scope["user"])

    def asked(user: str, key: str, path: str = "/") -> bytes:
        exchange = Exchange(path, key)
        exchange.scope["user"] = user
        return asyncio.run(exchange.by(app)).body

    assert asked("a", "k") == b"a"
    assert asked("b", "k") == b"b"
    assert asked("a#k", "k") == asked("a#k", "k", "/#k") == b"a#k"
    assert asked("", "k").startswith(b'{"title": "Bad Request"')


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": "POST"}, "methods= must be a list of methods"),
        ({"methods": []}, "methods= must be a list of methods"),
        *(({"header": given}, "header= must be the name of a header") for given in ("", "a{b}")),
        ({"caller": 5}, "caller= must be a template or a plain function"),
        ({"store": 5}, "store= must be a plain function of the status"),
        ({"client": "locks"}, "client= must be a LockClient or an AsyncLockClient"),
        ({"watt": 5}, "unexpected .*'watt'"),
    ],
)
@pytest.mark.parametrize("wrap", [IdempotencyMiddleware, IdempotencyWsgi])
def test_what_cannot_be_is_told_when_the_application_is_wrapped(wrap, options, words):
    with pytest.raises(TypeError, match=words):
        wrap(lambda *args: None, **options)
    with pytest.raises(TypeError, match="app must be the application"):
        wrap("app:app")


# WSGI


def wsgi_app() -> tuple[Client, list[str]]:
    app, notes = flask.Flask(__name__), []
    app.wsgi_app = IdempotencyWsgi(app.wsgi_app)  # type: ignore[method-assign]

    @app.post("/stream")
    def stream() -> Any:
        def parts() -> Iterator[bytes]:
            for part in (b"a", b"b"):
                notes.append("part")
                yield part

        return flask.Response(parts(), 201)

    @app.post("/file")
    def file() -> Any:
        notes.append("file")
        return flask.send_file(__file__)

    return Client(app), notes


HEADERS = {"Idempotency-Key": "k-1"}


def test_a_stream_of_wsgi_passes_and_its_request_is_done(caplog):
    client, notes = wsgi_app()
    first = client.post("/stream", headers=HEADERS)
    assert (first.status_code, first.data, notes) == (201, b"ab", ["part", "part"])
    again = client.post("/stream", headers=HEADERS)
    assert (again.status_code, len(notes)) == (409, 2)
    assert client.post("/stream").data == b"ab"
    assert [record.__dict__["lock_event"] for record in caplog.records].count("answer_not_kept") == 1


def test_a_client_of_wsgi_that_leaves_a_stream_does_not_let_its_request_be_carried_out_again():
    client, notes = wsgi_app()
    app: Any = client.application

    def gone(part: bytes) -> None:
        raise BrokenPipeError

    def ask(start: Any) -> Any:
        environ = create_environ("/stream", method="POST", headers=HEADERS)
        return list(app(environ, start))

    assert ask(lambda status, headers: gone) == []
    said = []
    assert json.loads(ask(lambda status, headers: said.append(status))[0])["status"] == 409
    assert (said[0][:3], notes) == ("409", ["part"])


def test_a_stream_of_wsgi_that_fails_is_carried_out_again():
    notes = []

    def inner(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        notes.append("part")
        yield b"a"
        raise OSError("of the application's own")

    for _ in range(2):
        with pytest.raises(OSError, match="own"):
            Client(IdempotencyWsgi(inner)).post("/", headers=HEADERS)
    assert len(notes) == 2


def test_an_answer_of_wsgi_from_a_file_is_kept():
    client, notes = wsgi_app()
    first, again = client.post("/file", headers=HEADERS), client.post("/file", headers=HEADERS)
    assert (again.status, again.data) == (first.status, first.data)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(notes) == 1


def test_a_client_of_wsgi_that_leaves_while_it_sends_its_body_has_asked_nothing_and_one_above_10_mib_is_413():
    client, notes = wsgi_app()
    cut = {"input_stream": io.BytesIO(b"{"), "environ_overrides": {"CONTENT_LENGTH": "9"}}
    assert client.post("/file", headers=HEADERS, **cut).status_code == 413  # which nobody reads
    assert client.post("/file", headers=HEADERS, data=b"x" * (10 * 1024 * 1024 + 1)).status_code == 413
    assert notes == []
    followed = {"input_stream": io.BytesIO(b"{        POST /the/next"), "environ_overrides": {"CONTENT_LENGTH": "9"}}
    assert client.post("/file", headers=HEADERS, **followed).status_code == 200
    assert client.post("/file", headers=HEADERS, data=b"{        ").status_code == 200
