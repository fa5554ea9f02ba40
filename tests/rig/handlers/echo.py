"""A handler that does what its event says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    print(f"handling {context.aws_request_id}")
    if "child" in event:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(f"child {child.pid}")
    if "raise" in event:
        raise ValueError(event["raise"])
    if "exit" in event:
        os._exit(event["exit"])
    time.sleep(event.get("sleep", 0))
    while "until" in event and not os.path.exists(event["until"]):
        time.sleep(0.005)
    return {
        "event": event,
        "pid": os.getpid(),
        "request_id": context.aws_request_id,
        "remaining": context.get_remaining_time_in_millis(),
        "function": context.function_name,
        "arn": context.invoked_function_arn,
        "region": os.environ["AWS_REGION"],
        "variable": os.environ.get("SOME_VARIABLE"),
    }
