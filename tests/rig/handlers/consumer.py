"""A handler that does what the body of each message says, and records that in the file RECORD.

A body is ``{"id": …, "do": …, "receives": n}``. "do" is done at the first n receives (by default 1), and later receives
consume the message. Any other event is recorded under its id.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

RECORD = Path(os.environ["RECORD"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    print(f"handling {context.aws_request_id}")
    if "Records" not in event:
        note(event["id"], "event", event=event)
        return runtime(context)
    failed = [record["messageId"] for record in event["Records"] if not consume(record)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def consume(record: dict[str, Any]) -> bool:
    body = json.loads(record["body"])
    receives = int(record["attributes"]["ApproximateReceiveCount"])
    note(body["id"], "start", receives=receives)
    what = body.get("do") if receives <= body.get("receives", 1) else None
    if what == "raise":
        raise ValueError(body["id"])
    if what == "exit":
        os._exit(1)
    if what == "hang":
        time.sleep(600)
    if what == "linger":
        time.sleep(0.3)
    while what == "meet" and starts(body["id"]) < 2:  # the first run ends after the second has begun
        time.sleep(0.01)
    note(body["id"], "end", receives=receives)
    return what != "report"


def note(name: Any, what: str, **more: Any) -> None:
    line = json.dumps({"id": name, "what": what, "pid": os.getpid(), **more})
    with RECORD.open("a") as record:
        record.write(line + "\n")


def starts(name: str) -> int:
    notes = [json.loads(line) for line in RECORD.read_text().splitlines()]
    return sum(note["id"] == name and note["what"] == "start" for note in notes)


def runtime(context: Any) -> dict[str, Any]:
    return {
        "command": sys.orig_argv[1:],
        "file": sys.modules["awslambdaric"].__file__,
        "context": type(context).__module__,
        "function": context.function_name,
        "remaining": context.get_remaining_time_in_millis(),
        "variable": os.environ.get("SOME_VARIABLE"),
        "endpoint": os.environ["AWS_ENDPOINT_URL"],
    }
