"""FastAPI, behind Mangum or as a server of its own behind the Lambda Web Adapter."""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI
from mangum import Mangum

from lambda_lock import LockConfigurationError, LockError, default_client
from lambda_lock.web import LambdaContextMiddleware
from tests.web.handlers.orders import work

app = FastAPI()
app.add_middleware(LambdaContextMiddleware, web_adapter="BEHIND_THE_ADAPTER" in os.environ)
handler = Mangum(app, lifespan="off")


@app.get("/")
def ready() -> str:
    """What the adapter asks until the server is up: before a snapshot, if the function has one."""
    try:
        with default_client().acquire("at readiness"):
            print("granted at readiness", flush=True)
    except LockConfigurationError as error:
        print(f"refused at readiness: {error}", flush=True)
    return "ready"


@app.post("/orders")
def in_a_thread(order: dict[str, Any]) -> dict[str, Any]:
    return work(order)


@app.post("/elsewhere")
def without_the_context(order: dict[str, Any]) -> str:
    """A thread that has nothing of the request, such as one that the application started long ago."""
    from tests.support.elsewhere import in_thread

    def lock() -> str:
        try:
            default_client().acquire(order["id"]).release()
        except LockError as error:
            return str(error)
        return "granted"

    said: str = in_thread(lock)()
    return said
