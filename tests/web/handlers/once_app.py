"""One API that answers each request once: as a handler, and in FastAPI behind an adapter and as a server."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from mangum import Mangum

from lambda_lock.web import IdempotencyMiddleware, LambdaContextMiddleware, idempotent_request

ADAPTER = "BEHIND_THE_ADAPTER" in os.environ


def work(order: dict[str, Any]) -> dict[str, Any]:
    print(f"working on {order['id']}", flush=True)
    while not Path(order["until"]).exists():
        time.sleep(0.01)
    return {"made": order["id"], "at": time.time()}


fast = FastAPI()
fast.add_middleware(IdempotencyMiddleware, wait=30)
fast.add_middleware(LambdaContextMiddleware, web_adapter=ADAPTER)
mangum = Mangum(fast, lifespan="off")


@fast.get("/")
def ready() -> str:
    return "ready"


@fast.post("/orders", status_code=201)
def order(order: dict[str, Any], response: Response) -> dict[str, Any]:
    response.headers["Location"] = f"/orders/{order['id']}"
    return work(order)


@idempotent_request("{headers[idempotency-key]}", wait=30)
def plain(event: dict[str, Any], context: Any) -> Any:
    order = json.loads(event["body"])
    return {"statusCode": 201, "headers": {"Location": f"/orders/{order['id']}"}, "body": json.dumps(work(order))}
