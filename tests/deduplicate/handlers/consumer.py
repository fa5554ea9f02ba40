"""A consumer of events that does what its event says, once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from lambda_lock import LockClient, current_dedup, deduplicate, set_default_client

set_default_client(LockClient(lease_duration=float(os.environ.get("LEASE", "20"))))


class Unlucky(Exception):
    pass


@deduplicate("{id}", scope="", result="json")
def handler(event: dict[str, Any], context: Any) -> str:
    return work(event, context)


@deduplicate("{id}", scope="", result="json", wait=60, refresh_period=0.05)
def waiting(event: dict[str, Any], context: Any) -> str:
    return work(event, context)


def work(event: dict[str, Any], context: Any) -> str:
    request: str = context.aws_request_id
    print(f"holding {request}", flush=True)
    if "raise" in event:
        raise Unlucky(event["raise"])
    if "crash" in event:
        os._exit(1)
    while "until" in event and not Path(event["until"]).exists():
        time.sleep(0.01)
    if "commit" in event:
        current_dedup().commit([event["commit"]], result=f"committed by {request}")
    return f"done by {request}"
