"""A handler that records each message, ``{"id": …}``, in the file RECORD when it begins and when it ends.

Any other event is answered with what there is to see of the runtime.
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
        return {"id": event["id"], **runtime(context)}
    for record in event["Records"]:
        note(json.loads(record["body"])["id"], "start")
        time.sleep(0.3)  # so that others begin meanwhile, if they may
        note(json.loads(record["body"])["id"], "end")
    return {"batchItemFailures": []}


def note(name: str, what: str) -> None:
    with RECORD.open("a") as record:
        record.write(json.dumps({"id": name, "what": what}) + "\n")


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
