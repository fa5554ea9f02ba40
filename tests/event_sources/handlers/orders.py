"""Handlers that do with each order what its plan says, and keep a journal of it in the engine.

An order is a dict; what it does not name is None:

- ``id``: what makes two deliveries the same one. ``customer``: whom two at once would hurt. ``seconds``: how long it
  takes; ``until``: how many notes of which kind it waits for. ``commit``: whether it has an effect through
  current_dedup().commit(), beside the plain one.
- ``plan``: what goes wrong in its first run, its second, and so on, as "what when". What: "raise", "exit", "kill" or
  "hang". When: "before" the effects, "between" the plain one and the committed one, "after" both, or "answering", when
  all orders of the batch are done and Lambda has not been told. Runs beyond the plan go well.

Effects are counted without any condition: one that happens twice is there twice. Notes are added, never overwritten.
``at`` is the machine's monotonic clock in ns, the same for all processes. ``worker`` is the thread: it does one order
after another, and completes each before it begins the next.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import threading
import time
import uuid
from typing import Any

from lambda_lock import LockNotGrantedError, current_dedup, deduplicate, with_lock
from lambda_lock.batch import process_kafka, process_sqs, sqs_batch
from rig.engine import Ministack

Record = dict[str, Any]

OPTIONS: dict[str, Any] = json.loads(os.environ["OPTIONS"])
LOOK_SECONDS = 0.05

engine = Ministack()
engine.port = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])
answering: list[str] = []  # what is to go wrong once the orders of this invocation are done
invocation = ""  # the one under way


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if not event["Records"]:
        return {}  # this only starts the process
    begin(context, event["Records"])
    return end(process_sqs(event, do_record, context=context, **OPTIONS))


def decorated(event: dict[str, Any], context: Any) -> dict[str, Any]:
    begin(context, event["Records"])
    return end(batch(event, context))


def do_record(record: Record) -> None:
    do(json.loads(record["body"]))


batch = sqs_batch(**OPTIONS)(do_record)


def of_kafka(event: dict[str, Any], context: Any) -> dict[str, Any]:
    begin(context, [])
    answer = process_kafka(event, do_record_of_kafka, context=context, dedup_key="{value[id]}", **OPTIONS)
    write(what="ended", invocation=invocation, returned=[])
    return answer


def do_record_of_kafka(record: Record) -> None:
    do(json.loads(base64.b64decode(record["value"])))


def on_event(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    try:
        return do_event(event, context)
    except LockNotGrantedError:
        write(what="refused")
        raise


@deduplicate("{id}", result="json")
@with_lock("customer#{detail[customer]}")
def do_event(event: dict[str, Any], context: Any) -> dict[str, Any]:
    do({**event["detail"], "id": event["id"]})
    return {"done_by": context.aws_request_id}


def do(order: dict[str, Any]) -> None:
    key = {"key": {"S": order["id"]}}
    run = str(count(order, "runs"))
    note("entered", order, run)
    end = time.monotonic() + order.get("seconds", 0)
    while time.monotonic() < end or not are_noted(order.get("until", {})):
        time.sleep(LOOK_SECONDS)
        note("inside", order, run)
    what, when = planned(order, int(run))
    break_off(what, when == "before", order, run)
    count(order, "effects")
    break_off(what, when == "between", order, run)
    if order.get("commit"):
        update = {"TableName": os.environ["EFFECTS"], "Key": key, "UpdateExpression": "ADD committed :one"}
        current_dedup().commit([{"Update": {**update, "ExpressionAttributeValues": {":one": {"N": "1"}}}}])
        note("committed", order, run)
    break_off(what, when == "after", order, run)
    if when == "answering":
        answering.append(what)
    note("left", order, run)


def planned(order: dict[str, Any], run: int) -> tuple[str, str]:
    plan = order.get("plan", [])
    what, when = plan[run - 1].split() if run <= len(plan) else ("", "")
    return what, when


def break_off(what: str, now: bool, order: dict[str, Any], run: str) -> None:
    if now:
        note("breaks off", order, run)
        interrupt(what)
        while what == "hang":
            time.sleep(LOOK_SECONDS)
            note("inside", order, run)


def interrupt(what: str) -> None:
    if what == "raise":
        raise RuntimeError("it was planned")
    if what == "exit":
        os._exit(1)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def count(order: dict[str, Any], what: str) -> int:
    update = {
        "TableName": os.environ["EFFECTS"],
        "Key": {"key": {"S": order["id"]}},
        "UpdateExpression": f"ADD {what} :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
        "ReturnValues": "UPDATED_NEW",
    }
    return int(engine.dynamodb("UpdateItem", update)["Attributes"][what]["N"])


def note(what: str, order: dict[str, Any], run: str) -> None:
    worker = threading.get_ident()
    write(what=what, at=time.monotonic_ns(), order=order["id"], run=run, invocation=invocation, worker=worker)


def are_noted(wanted: dict[str, int]) -> bool:
    notes = engine.scan(os.environ["JOURNAL"]) if wanted else []
    kinds = [json.loads(item["note"]["S"])["what"] for item in notes]
    return all(kinds.count(kind) >= count for kind, count in wanted.items())


def begin(context: Any, records: list[Record]) -> None:
    global invocation
    invocation = context.aws_request_id
    answering.clear()
    receives = {record["messageId"]: int(record["attributes"]["ApproximateReceiveCount"]) for record in records}
    write(what="began", invocation=invocation, pid=os.getpid(), receives=receives)


def end(answer: dict[str, Any]) -> dict[str, Any]:
    returned = [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
    write(what="ended", invocation=invocation, returned=returned)
    for what in answering:
        interrupt(what)
    return answer


def write(**entry: Any) -> None:
    item = {"key": {"S": uuid.uuid4().hex}, "note": {"S": json.dumps(entry)}}
    engine.dynamodb("PutItem", {"TableName": os.environ["JOURNAL"], "Item": item})
