"""What FastAPI runs for a request, on its loop and on threads, finds the request's context."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from mangum import Mangum
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.responses import Response

from lambda_lock.runtime.invocation import find
from lambda_lock.testing import lambda_context
from lambda_lock.web import LambdaContextMiddleware

from .conftest import http

seen: dict[str, object] = {}


def note(name: str) -> None:
    found = find((), {})
    seen[name] = found and found.context


class Noting(BaseHTTPMiddleware):
    def __init__(self, app: Any, *, name: str) -> None:
        super().__init__(app)
        self.name = name

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        note(self.name)
        return await call_next(request)


def dependency() -> Iterator[None]:
    note("a dependency")
    yield
    note("a dependency's end")


async def streamed() -> AsyncIterator[bytes]:
    note("the first part")
    yield b"a"
    note("the second part")
    yield b"b"


app = FastAPI()
app.add_middleware(Noting, name="a middleware that was added before")
app.add_middleware(LambdaContextMiddleware)
app.add_middleware(Noting, name="a middleware that was added after")


@app.post("/orders")
async def on_the_loop(tasks: BackgroundTasks, _: None = Depends(dependency)) -> StreamingResponse:
    tasks.add_task(note, "a background task")
    await run_in_threadpool(note, "a thread of the pool")
    return StreamingResponse(streamed())


@pytest.mark.usefixtures("loop")
def test_all_that_runs_for_a_request_finds_its_context_but_a_middleware_that_was_added_later():
    context: Any = lambda_context(9)
    assert Mangum(app, lifespan="off")(http({}), context)["statusCode"] == 200
    assert seen.pop("a middleware that was added after") is None
    assert seen == dict.fromkeys(
        [
            "a middleware that was added before",
            "a dependency",
            "a dependency's end",
            "a thread of the pool",
            "the first part",
            "the second part",
            "a background task",
        ],
        context,
    )
