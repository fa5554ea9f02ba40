"""Where the adapters, as they are published, put the context: they are called here as Lambda calls a handler."""

from __future__ import annotations

from typing import Any

import awsgi
import pytest
import serverless_wsgi
from apig_wsgi import make_lambda_handler
from mangum import Mangum

from lambda_lock.runtime.invocation import find
from lambda_lock.testing import lambda_context
from lambda_lock.web import LambdaContextMiddleware, LambdaContextWsgi

from .conftest import http, rest

ORDER = {"id": "o-1"}
OLD = rest(ORDER) | {
    "queryStringParameters": None,
    "headers": {"Host": "example.com", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "443"},
    "multiValueHeaders": {"Host": ["example.com"]},
}

seen: list[object] = []


def note() -> None:
    found = find((), {})
    seen.append(found and found.context)


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    note()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def wsgi(environ: Any, start_response: Any) -> list[bytes]:
    note()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"done"]


def of_serverless_wsgi(event: Any, context: Any) -> Any:
    return serverless_wsgi.handle_request(LambdaContextWsgi(wsgi), event, context)


def of_aws_wsgi(event: Any, context: Any) -> Any:
    return awsgi.response(LambdaContextWsgi(wsgi), event, context)


def of_mangum(event: Any, context: Any) -> Any:
    return Mangum(LambdaContextMiddleware(asgi), lifespan="off")(event, context)


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(
    ("handler", "event"),
    [
        pytest.param(of_mangum, http(ORDER), id="Mangum, HTTP API"),
        pytest.param(of_serverless_wsgi, http(ORDER), id="serverless-wsgi, HTTP API"),
        pytest.param(make_lambda_handler(LambdaContextWsgi(wsgi)), http(ORDER), id="apig-wsgi, HTTP API"),
        pytest.param(of_aws_wsgi, OLD, id="aws-wsgi, REST API"),
    ],
)
def test_the_application_finds_the_context_that_its_adapter_was_given(handler, event):
    context = lambda_context(9)
    assert handler(event, context)["statusCode"] in (200, "200")
    assert seen.pop() is context
