"""What all applications here do: work under the lock of an order, until a file is there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from lambda_lock import current_lock, with_lock


@with_lock("{id}")
def work(order: dict[str, Any]) -> dict[str, Any]:
    lock = current_lock()
    print(f"holding {order['id']}", flush=True)
    while "until" in order and not Path(order["until"]).exists():
        time.sleep(0.01)
    return {"owner": lock.owner, "lease": lock.lease_duration, "pid": os.getpid()}
