"""Chalice, as docs/web.md says: a middleware for requests and for events."""

from __future__ import annotations

from typing import Any

from chalice.app import Chalice

from lambda_lock import register_lambda_context
from tests.web.handlers.orders import work

app = Chalice(app_name="orders")


@app.middleware("all")
def with_context(event: Any, get_response: Any) -> Any:
    register_lambda_context(getattr(event, "lambda_context", None) or event.context)
    return get_response(event)


@app.route("/orders", methods=["POST"])
def in_a_view() -> dict[str, Any]:
    request: Any = app.current_request
    return work(request.json_body)


@app.on_sqs_message("orders")
def of_a_queue(event: Any) -> list[dict[str, Any]]:
    return [work({"id": record.body}) for record in event]
