"""Web applications in Lambda: behind adapters in the runtime's process, and as servers of their own."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig import events
from rig.engine import Ministack
from rig.lambda_runtime import LambdaEnvironment
from tests.support.decorated import once, other
from tests.support.fresh import fresh_process
from tests.support.loop import loop
from tests.support.rows import rows

__all__ = ["fresh_process", "loop", "once", "other", "rows"]

HANDLERS = Path(__file__).parent / "handlers"
LONG = 60.0  # a timeout that no test reaches
Start = Callable[..., LambdaEnvironment]

# Servers of their own, started by the stand-in for the Lambda Web Adapter.
_ADAPTER = (sys.executable, "-m", "rig.web_adapter", sys.executable, "-m")
UVICORN = (*_ADAPTER, "uvicorn", "fastapi_app:app", "--port", "{port}", "--log-level", "warning")
FLASK = (*_ADAPTER, "flask", "--app", "flask_app", "run", "--port", "{port}")
ONCE_UVICORN = (*_ADAPTER, "uvicorn", "once_app:fast", "--port", "{port}", "--log-level", "warning")


@pytest.fixture
def variables(engine: Ministack, table: str) -> dict[str, str]:
    return engine.environment() | {"LAMBDA_LOCK_TABLE": table}


@pytest.fixture
def start(variables: dict[str, str]) -> Iterator[Start]:
    """Starts environments of a function ``orders``. With a command, the server's process may trust the header."""
    with contextlib.ExitStack() as stack:

        def make(handler: str, command: tuple[str, ...] | None = None, **more: str) -> LambdaEnvironment:
            given = variables | ({} if command is None else {"BEHIND_THE_ADAPTER": "1"}) | more
            options: dict[str, Any] = {"environment": given, "command": command, "init_seconds": LONG}
            return stack.enter_context(LambdaEnvironment(handler, HANDLERS, function_name="orders", **options))

        yield make


def http(order: dict[str, Any], path: str = "/orders", **headers: str) -> dict[str, Any]:
    """A request as API Gateway sends it, in format 2.0."""
    event = events.load("api_gateway_http")
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    event["body"] = json.dumps(order)
    event["headers"] |= {"content-length": str(len(event["body"])), **headers}
    return event


def rest(order: dict[str, Any]) -> dict[str, Any]:
    """The same in format 1.0, as Chalice's applications get it."""
    context = {"resourcePath": "/orders", "path": "/orders", "httpMethod": "POST", "stage": "api", "requestId": "r"}
    event: dict[str, Any] = {"resource": "/orders", "path": "/orders", "httpMethod": "POST"}
    event |= dict.fromkeys(("multiValueQueryStringParameters", "pathParameters", "stageVariables"))
    event |= {"headers": {"content-type": "application/json"}, "body": json.dumps(order), "isBase64Encoded": False}
    return event | {"requestContext": context}


def said(answer: dict[str, Any]) -> Any:
    """What the application answered."""
    assert answer["statusCode"] == 200, answer
    return json.loads(answer["body"])
