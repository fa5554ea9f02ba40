"""A handler that answers an event with what there is to see of the runtime."""

from __future__ import annotations

import os
import sys
from typing import Any


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    print(f"handling {context.aws_request_id}")
    return {
        "id": event["id"],
        "command": sys.orig_argv[1:],
        "file": sys.modules["awslambdaric"].__file__,
        "context": type(context).__module__,
        "function": context.function_name,
        "remaining": context.get_remaining_time_in_millis(),
        "variable": os.environ.get("SOME_VARIABLE"),
        "endpoint": os.environ["AWS_ENDPOINT_URL"],
    }
