"""A nightly report. If the previous one is still running, the next one is skipped."""

from __future__ import annotations

import time
from typing import Any

from lambda_lock import current_lock, with_lock

from .ledger import posting

_WORK_SECONDS = 2.0


@with_lock("report#nightly", wait=0, on_not_granted="skip")
def handler(event: object, context: Any) -> str:
    time.sleep(_WORK_SECONDS)  # stands for the work
    current_lock().commit([posting("report#nightly", f"report {context.aws_request_id}")])
    return "reported"
