"""The work of docs/step-functions.md. It does what the plan of an order says, and keeps notes of it in the engine.

The plan of an order has a list for each moment: what is done there the first time, the second, and so on. A moment is
the work of a step ("reserve"), or the end of a handler, before Step Functions knows of it ("reserve answers"). What:
"kill", "hang", "raise", or "" for nothing, as after the end of the list.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from typing import Any

from lambda_lock import Lock
from rig.engine import Ministack

SHOP = os.environ["SHOP"]

engine = Ministack()
engine.port = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])


def reserve(order: str, lock: Lock) -> None:
    work("reserve", order, lock)


def ship(order: str, lock: Lock) -> None:
    work("ship", order, lock)


def ask(order: str, task: str) -> None:
    note(order=order, what="ask", task=task)


def work(step: str, order: str, lock: Lock) -> None:
    lock.raise_if_lost()
    note(order=order, what=step, token=lock.fencing_token, owner=lock.owner)
    moment(order, step)


def moment(order: str, name: str) -> None:
    key = {"key": {"S": f"order {order}"}}
    update = {
        "TableName": SHOP, "Key": key, "UpdateExpression": "ADD #m :one", "ExpressionAttributeNames": {"#m": name},
        "ExpressionAttributeValues": {":one": {"N": "1"}}, "ReturnValues": "ALL_NEW",
    }  # fmt: skip
    row = engine.dynamodb("UpdateItem", update)["Attributes"]
    planned = json.loads(row["plan"]["S"]).get(name, []) if "plan" in row else []
    times = int(row[name]["N"])
    act = planned[times - 1] if times <= len(planned) else ""
    if act:
        note(order=order, what=f"{act} at {name}")
    if act == "raise":
        raise RuntimeError("it was planned")
    if act == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while act == "hang":
        time.sleep(0.05)


def note(**what: Any) -> None:
    text = json.dumps({"at": time.monotonic_ns(), **what})
    item = {"key": {"S": f"note {uuid.uuid4()}"}, "note": {"S": text}}
    engine.dynamodb("PutItem", {"TableName": SHOP, "Item": item})
