"""One API in each framework. Every front answers an event of API Gateway, as a Lambda handler does."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import flask
import serverless_wsgi
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from chalice.app import Chalice
from chalice.app import Response as ChaliceResponse
from django.conf import settings  # type: ignore[import-untyped]
from django.core.handlers.asgi import ASGIHandler  # type: ignore[import-untyped]
from django.http import HttpResponse  # type: ignore[import-untyped]
from django.urls import path as django_path  # type: ignore[import-untyped]
from fastapi import FastAPI, Request
from fastapi import Response as FastResponse
from mangum import Mangum

from lambda_lock.testing import lambda_context
from lambda_lock.web import IdempotencyMiddleware, IdempotencyWsgi, idempotent_request

from .conftest import http, rest

PATHS = ("/orders", "/refunds")
BINARY = bytes(range(256)) * 4


class Said(NamedTuple):
    status: int
    headers: dict[str, list[str]]
    body: bytes

    @property
    def replayed(self) -> bool:
        return self.headers.get("idempotent-replayed") == ["true"]


class Calls:
    """What the endpoints do: they count, and answer what the order says."""

    def __init__(self) -> None:
        self.count = 0
        self.during: Callable[[], None] | None = None

    def work(self, body: Any) -> tuple[int, dict[str, str], bytes]:
        self.count += 1
        if self.during is not None:
            self.during()
        order = json.loads(body or b"{}")
        if order.get("fail"):
            raise RuntimeError("boom")
        headers = {"Content-Type": "application/json", "X-Count": str(self.count), "Set-Cookie": f"a={self.count}"}
        if order.get("binary"):
            return 200, headers | {"Content-Type": "image/png"}, BINARY
        content = json.dumps({"n": self.count, "text": "é" * order.get("size", 1)}).encode()
        return order.get("status", 201), headers, content


Ask = Callable[[dict[str, Any]], Any]


def proxied(calls: Calls, event: dict[str, Any]) -> dict[str, Any]:
    body = event.get("body") or ""
    status, headers, content = calls.work(base64.b64decode(body) if event.get("isBase64Encoded") else body)
    answer: dict[str, Any] = {"statusCode": status, "headers": headers, "body": None, "isBase64Encoded": False}
    try:
        answer["body"] = content.decode()
    except ValueError:
        answer |= {"body": base64.b64encode(content).decode(), "isBase64Encoded": True}
    return answer


def by_mangum(app: Any) -> Ask:
    def ask(event: dict[str, Any]) -> Any:
        loop = asyncio.new_event_loop()  # for a thread that has none, Mangum makes one, and leaves it open
        asyncio.set_event_loop(loop)
        try:
            return Mangum(app, lifespan="off")(event, lambda_context(30))  # type: ignore[arg-type]
        finally:
            asyncio.set_event_loop(None)
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    return ask


def plain(calls: Calls, **options: Any) -> Ask:
    @idempotent_request("{headers[Idempotency-Key]}", **options)
    def handler(event: Any, context: Any) -> Any:
        return proxied(calls, event)

    return lambda event: handler(event, lambda_context(30))


def awaited(calls: Calls, **options: Any) -> Ask:
    @idempotent_request("{headers[idempotency-key]}", **options)
    async def handler(event: Any, context: Any) -> Any:
        return proxied(calls, event)

    return lambda event: asyncio.run(handler(event, lambda_context(30)))


def _by_powertools(calls: Calls, wrap: Callable[[Any], Any], middlewares: list[Any]) -> Ask:
    app = APIGatewayHttpResolver()

    def route() -> Response[Any]:
        status, headers, content = calls.work(app.current_event.decoded_body)
        kind = headers.pop("Content-Type")
        return Response(status, kind, content if kind == "image/png" else content.decode(), headers)

    for path in PATHS:
        app.post(path, middlewares=middlewares)(wrap(route))
    return lambda event: app.resolve(event, lambda_context(30))  # type: ignore[arg-type]


def powertools_route(calls: Calls, **options: Any) -> Ask:
    return _by_powertools(calls, idempotent_request("{headers[idempotency-key]}", **options), [])


def powertools_middleware(calls: Calls, **options: Any) -> Ask:
    @idempotent_request("{headers[idempotency-key]}", **options)
    def only_once(app: Any, next_middleware: Any) -> Any:
        return next_middleware(app)

    return _by_powertools(calls, lambda route: route, [only_once])


def _order(calls: Calls) -> Callable[[Request], Any]:
    async def order(request: Request) -> FastResponse:
        status, headers, content = calls.work(await request.body())
        return FastResponse(content, status, headers)

    return order


def fastapi(calls: Calls, **options: Any) -> Ask:
    app = FastAPI()
    app.add_middleware(IdempotencyMiddleware, **options)
    for path in PATHS:
        app.post(path)(_order(calls))
    return by_mangum(app)


def of_flask(calls: Calls, **options: Any) -> Ask:
    app = flask.Flask(__name__)
    app.wsgi_app = IdempotencyWsgi(app.wsgi_app, **options)  # type: ignore[method-assign]

    def order() -> Any:
        status, headers, content = calls.work(flask.request.get_data())
        return content, status, headers

    for path in PATHS:
        app.post(path, endpoint=path)(order)
    return lambda event: serverless_wsgi.handle_request(app, event, lambda_context(30))


def _of_django(calls: Calls) -> None:
    def order(request: Any) -> Any:
        status, headers, content = calls.work(request.body)
        return HttpResponse(content, status=status, headers=headers)

    urls = type("urls", (), {"urlpatterns": [django_path(path[1:], order) for path in PATHS]})
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="test", DEBUG=False)
    settings.ROOT_URLCONF = urls
    settings.ALLOWED_HOSTS = ["*"]
    import django  # type: ignore[import-untyped]
    from django.urls import clear_url_caches

    clear_url_caches()
    django.setup()


def django(calls: Calls, **options: Any) -> Ask:
    _of_django(calls)
    app = IdempotencyMiddleware(ASGIHandler(), **options)
    return by_mangum(app)


def chalice(calls: Calls, **options: Any) -> Ask:
    app = Chalice(app_name="orders")
    app.api.binary_types.append("image/png")

    @app.middleware("http")
    @idempotent_request("{headers[idempotency-key]}", **options)
    def only_once(request: Any, get_response: Any) -> Any:
        return get_response(request)

    def order() -> ChaliceResponse:
        request: Any = app.current_request
        status, headers, content = calls.work(request.raw_body)
        body: Any = content if headers["Content-Type"] == "image/png" else content.decode()
        return ChaliceResponse(body, headers, status)  # type: ignore[arg-type]

    for path in PATHS:
        app.route(path, methods=["POST"], name=path)(order)

    def ask(event: dict[str, Any]) -> Any:
        old = rest({}) | {"body": event["body"], "headers": {**event["headers"]}, "path": event["rawPath"]}
        old["headers"]["Accept"] = "image/png"
        old["requestContext"] |= {"resourcePath": event["rawPath"], "path": event["rawPath"]}
        old["resource"] = event["rawPath"]
        query = event.get("rawQueryString")
        old["multiValueQueryStringParameters"] = {query: [""]} if query else None
        return app(old, lambda_context(30))

    return ask


FRONTS: dict[str, Callable[..., Ask]] = {
    "a plain handler": plain,
    "an async handler": awaited,
    "a route of Powertools": powertools_route,
    "a middleware of Powertools": powertools_middleware,
    "FastAPI": fastapi,
    "Flask": of_flask,
    "Django": django,
    "Chalice": chalice,
}


def ask(front: Ask, key: str | None, order: dict[str, Any] | str, path: str = "/orders", **more: Any) -> Said:
    """Send a request. more: headers, with _ for -; ``query``."""
    query = more.pop("query", "")
    event = http({}, path, **{name.replace("_", "-"): value for name, value in more.items()})
    event["requestContext"]["http"]["method"] = "POST"
    event["rawQueryString"] = query
    event["body"] = order if isinstance(order, str) else json.dumps(order)
    event["headers"]["content-length"] = str(len(event["body"].encode()))
    event["headers"] = {"content-type": "application/json", **event["headers"]}
    if key is not None:
        event["headers"]["idempotency-key"] = key
    return said(front(event))


def said(answer: dict[str, Any]) -> Said:
    headers: dict[str, list[str]] = {}
    for place in ("headers", "multiValueHeaders"):
        for name, value in (answer.get(place) or {}).items():
            values = value if isinstance(value, list) else [value]
            if headers.get(name.lower()) != values:
                headers.setdefault(name.lower(), []).extend(values)
    if answer.get("cookies"):
        headers["set-cookie"] = answer["cookies"]
    body = (answer.get("body") or "").encode()
    return Said(int(answer["statusCode"]), headers, base64.b64decode(body) if answer.get("isBase64Encoded") else body)
