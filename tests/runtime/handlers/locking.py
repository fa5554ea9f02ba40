"""Handlers that do under a lock what their event says."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from lambda_lock import LockClient, LockLostError, current_lock, set_default_client, with_lock

set_default_client(LockClient(lease_duration=float(os.environ.get("LEASE", "20"))))


class Unlucky(Exception):
    pass


def alive() -> dict[str, Any]:
    """What there is in this process."""
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    return {"pid": os.getpid(), "threads": threads, "tasks": len(os.listdir("/proc/self/task"))}


def work(event: dict[str, Any], context: Any) -> dict[str, Any]:
    lock = current_lock()
    print(f"holding {context.aws_request_id}", flush=True)
    granted_at = time.time()
    if "exit" in event:
        os._exit(event["exit"])
    if "raise" in event:
        raise Unlucky(event["raise"])
    time.sleep(event.get("sleep", 0))
    while "until" in event and not Path(event["until"]).exists():
        time.sleep(0.01)
    held = {"held": lock.is_held, "lost": lost_error(), "granted_at": granted_at}
    print(f"{context.aws_request_id} held: {held['held']}, {held['lost']}", flush=True)
    about = {"key": lock.key, "owner": lock.owner, "token": lock.fencing_token, "lease": lock.lease_duration}
    return alive() | held | about


def lost_error() -> str | None:
    try:
        current_lock().raise_if_lost()
    except LockLostError as error:
        return f"{error}, holder {error.holder}"
    return None


@with_lock("order-{id}")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return work(event, context)


@with_lock("order-{id}", wait=0)
def fail_fast(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return work(event, context)


def either(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """No lock at all, if it is to look at what is left of the invocation before, or how an error looks without."""
    if not event.get("look"):
        return handler(event, context)
    if "raise" in event:
        raise Unlucky(event["raise"])
    return alive()
