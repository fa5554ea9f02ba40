"""Flask, behind serverless-wsgi or as a server of its own behind the Lambda Web Adapter."""

from __future__ import annotations

import os
from typing import Any

import serverless_wsgi
from flask import Flask, request

from lambda_lock.web import LambdaContextWsgi
from tests.web.handlers.orders import work

app = Flask(__name__)
app.wsgi_app = LambdaContextWsgi(  # type: ignore[method-assign]
    app.wsgi_app, web_adapter="BEHIND_THE_ADAPTER" in os.environ
)


@app.post("/orders")
def in_a_thread() -> dict[str, Any]:
    return work(request.get_json())


def handler(event: dict[str, Any], context: Any) -> Any:
    return serverless_wsgi.handle_request(app, event, context)
