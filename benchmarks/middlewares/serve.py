"""An API behind one of the middlewares, as a server: ``python -m benchmarks.middlewares.serve NAME PORT FOLDER REDIS``.

Each is set up as its documentation shows for several processes. FOLDER has what the endpoint has done, a line for each,
and the file that lets a request end that waits.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

PATHS = ("/orders", "/refunds")
BINARY = bytes(range(256))
LEFT = 5.0  # seconds: of an invocation, or of a lease where there is none

Answer = tuple[int, dict[str, str], bytes]
Work = Callable[[bytes], Answer]


class Endpoint:
    """What the API does: it notes that it was asked, and answers what the order says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, body: bytes) -> Answer:
        order = json.loads(body)
        with (self._folder / "done").open("a") as done:
            done.write(f"{order['id']}\n")
        while order.get("waits") and not (self._folder / "go-on").exists():
            time.sleep(0.01)
        if order.get("fails"):
            raise RuntimeError("the endpoint fails")
        number = str(time.time_ns())
        headers = {"Content-Type": "application/json", "Location": f"/orders/{number}", "X-Number": number}
        if order.get("binary"):
            return 200, headers | {"Content-Type": "image/png"}, BINARY
        return order.get("status", 201), headers, json.dumps({"number": number, "text": "é"}).encode()


# FastAPI


def fastapi(work: Work, middleware: Any, **options: Any) -> Any:
    from fastapi import FastAPI, Request, Response
    from starlette.concurrency import run_in_threadpool

    app = FastAPI()
    app.add_middleware(middleware, **options)

    async def order(request: Request) -> Response:
        status, headers, content = await run_in_threadpool(work, await request.body())
        return Response(content, status, headers)

    order.__annotations__ = {"request": Request, "return": Response}
    for path in PATHS:
        app.post(path)(order)
    return app


def our_fastapi(work: Work, redis: str) -> Any:
    from lambda_lock.web import IdempotencyMiddleware

    return fastapi(work, IdempotencyMiddleware, lease_duration=LEFT)


def asgi_idempotency_header(work: Work, redis: str) -> Any:
    from idempotency_header_middleware import IdempotencyHeaderMiddleware
    from idempotency_header_middleware.backends import RedisBackend
    from redis.asyncio import Redis

    return fastapi(work, IdempotencyHeaderMiddleware, backend=RedisBackend(redis=Redis.from_url(redis)))


# Django


def django(work: Work, **settings: Any) -> Any:
    from django.conf import settings as of_django  # type: ignore[import-untyped]
    from django.core.wsgi import get_wsgi_application  # type: ignore[import-untyped]
    from django.http import HttpResponse  # type: ignore[import-untyped]
    from django.urls import path  # type: ignore[import-untyped]

    def order(request: Any) -> Any:
        status, headers, content = work(request.body)
        return HttpResponse(content, status=status, headers=headers)

    urls = type("urls", (), {"urlpatterns": [path(each[1:], order) for each in PATHS]})
    of_django.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="comparison", ROOT_URLCONF=urls, **settings)  # noqa: S106
    return get_wsgi_application()


def our_django(work: Work, redis: str) -> Any:
    from lambda_lock.web import IdempotencyWsgi

    return IdempotencyWsgi(django(work), lease_duration=LEFT)


def django_idempotency_key(work: Work, redis: str) -> Any:
    """With the status of the first answer, which its setting CONFLICT_STATUS_CODE keeps: 409 is its default."""
    return django(
        work,
        MIDDLEWARE=["idempotency_key.middleware.IdempotencyKeyMiddleware"],
        CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": redis}},
        IDEMPOTENCY_KEY={
            "CONFLICT_STATUS_CODE": None,
            "STORAGE": {"CLASS": "idempotency_key.storage.CacheKeyStorage"},
            "LOCK": {"CLASS": "idempotency_key.locks.redis.MultiProcessRedisLock", "LOCATION": redis},
        },
    )


# Lambda proxy handlers


class Context:
    """A Lambda context at the beginning of an invocation."""

    function_name = "orders"
    aws_request_id = "request"

    def __init__(self) -> None:
        self._end = time.monotonic() + LEFT

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._end - time.monotonic()) * 1000))


def proxied(work: Work) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        status, headers, content = work(event["body"].encode())
        is_text = headers["Content-Type"] == "application/json"
        body = content.decode() if is_text else base64.b64encode(content).decode()
        return {"statusCode": status, "headers": headers, "body": body, "isBase64Encoded": not is_text}

    return handler


def gateway(handler: Callable[[dict[str, Any], Any], dict[str, Any]]) -> Any:
    """An HTTP API in front of a handler. What it raises is a 502, as API Gateway makes it, and is named in a header."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        headers = {
            name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        event = {
            "version": "2.0",
            "rawPath": environ["PATH_INFO"],
            "rawQueryString": environ["QUERY_STRING"],
            "headers": headers | {"content-type": environ["CONTENT_TYPE"]},
            "requestContext": {"http": {"method": "POST", "path": environ["PATH_INFO"]}},
            "body": environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode(),
            "isBase64Encoded": False,
        }
        try:
            answer = handler(event, Context())
        except Exception as error:  # noqa: BLE001 - whatever it raises
            answer = {"statusCode": 502, "headers": {"X-Raised": type(error).__name__}, "body": ""}
        body = answer["body"].encode()
        content = base64.b64decode(body) if answer.get("isBase64Encoded") else body
        status = int(answer["statusCode"])
        start_response(f"{status} {HTTPStatus(status).phrase}", [*answer["headers"].items()])
        return [content]

    return app


def our_handler(work: Work, redis: str) -> Any:
    from lambda_lock.web import idempotent_request

    return gateway(idempotent_request("{headers[idempotency-key]}")(proxied(work)))


def powertools(work: Work, redis: str) -> Any:
    from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent

    config = IdempotencyConfig(
        event_key_jmespath='headers."idempotency-key"',
        payload_validation_jmespath="powertools_json(body)",
        raise_on_no_idempotency_key=True,
        expires_after_seconds=86_400,
    )
    decorate: Any = idempotent(persistence_store=DynamoDBPersistenceLayer("powertools"), config=config)
    decorated = decorate(proxied(work))

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        config.register_lambda_context(context)
        answer: dict[str, Any] = decorated(event, context)
        return answer

    return gateway(handler)


#: By what they are called in the table. Ours are three: they must answer alike.
CONTESTANTS: dict[str, dict[str, Callable[[Work, str], Any]]] = {
    "lambda_lock": {"FastAPI": our_fastapi, "Django": our_django, "a handler": our_handler},
    "Powertools": {"a handler": powertools},
    "asgi-idempotency-header": {"FastAPI": asgi_idempotency_header},
    "django-idempotency-key": {"Django": django_idempotency_key},
}
OF_REDIS = ("asgi-idempotency-header", "django-idempotency-key")  # which keep their answers there


def serve(app: Any, port: int) -> None:
    if "fastapi" in sys.modules:
        import uvicorn

        uvicorn.run(app, port=port, log_level="critical")
        return

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    make_server("127.0.0.1", port, app, Server, Quiet).serve_forever()


def main(name: str, front: str, port: str, folder: str, redis: str) -> None:
    if name == "redis":
        from fakeredis import TcpFakeServer

        TcpFakeServer(("127.0.0.1", int(port)), server_type="redis").serve_forever()
    serve(CONTESTANTS[name][front](Endpoint(Path(folder)), redis), int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
