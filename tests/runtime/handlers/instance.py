"""A handler that works under a lock until a file is there, and then says whether it still has the lock."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from lambda_lock import current_lock, with_lock


@with_lock("order-{id}")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    lock = current_lock()
    granted_at = time.time()
    print(f"holding {context.aws_request_id}", flush=True)
    if "exit" in event:
        os._exit(event["exit"])
    while "until" in event and not Path(event["until"]).exists():
        time.sleep(0.01)
    print(f"{context.aws_request_id} held: {lock.is_held}", flush=True)
    lock.raise_if_lost()
    return {"pid": os.getpid(), "owner": lock.owner, "lease": lock.lease_duration, "granted_at": granted_at}
