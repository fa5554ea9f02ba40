"""A durable function in a process of its own: one invocation, whose payload comes in and whose answer goes out.

The event says where the process kills itself, once, and which file it waits for before it does.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python.context import DurableContext

from lambda_lock.durable import DurableLock, durable_lock
from lambda_lock.durable.holds import DurableHold

FOLDER = Path(os.environ["FUNCTION_FOLDER"])


class Context:
    """What Lambda passes to a handler."""

    function_name = "orders"
    aws_request_id = f"request-{os.getpid()}"

    def __init__(self) -> None:
        self.deadline = time.monotonic() + 60

    def get_remaining_time_in_millis(self) -> int:
        return int((self.deadline - time.monotonic()) * 1000)


def note(word: str) -> None:
    with (FOLDER / "ran").open("a") as file:
        file.write(f"{word}\n")


def die_once(point: str, event: dict[str, Any]) -> None:
    if event.get("kill") != point or (FOLDER / "killed").exists():
        return
    (FOLDER / "killed").touch()
    while event.get("until") and not (FOLDER / event["until"]).exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def die_around(method: str, event: dict[str, Any]) -> None:
    """Kill this process before ``DurableHold.method`` does anything for a key, or once it has returned: before what
    follows it is checkpointed."""
    act = getattr(DurableHold, method)

    def acting(hold: DurableHold, *arguments: Any) -> Any:
        die_once(f"before {method} {hold.key}", event)
        result = act(hold, *arguments)
        die_once(f"{method} {hold.key}", event)
        return result

    setattr(DurableHold, method, acting)


def _tokens(lock: Any) -> Any:
    return lock.fencing_token if isinstance(lock, DurableLock) else lock.fencing_tokens


@durable_execution
def handler(event: dict[str, Any], context: DurableContext) -> list[dict[str, int]]:
    for method in ("acquire", "renew_and_end", "release", "lie_down", "get_up"):
        die_around(method, event)

    def work(word: str) -> None:
        note(word)
        die_once(word, event)

    tokens = []
    block: Any = durable_lock(context, event.get("keys", ["a"]), lease_duration=3600, wait=event.get("wait"))
    if "permits" in event:
        weight: dict[str, Any] = {name: event.get(name) for name in ("permits", "take")}
        block = durable_lock(context, "a", lease_duration=3600, **weight)
    with block as lock:
        tokens.append(_tokens(lock))
        lock.step(lambda _: work("one"), name="one")
        lock.wait(Duration.from_seconds(1))
        lock.step(lambda _: work("two"), name="two")
        tokens.append(_tokens(lock))
        if event.get("for ever"):
            context.create_callback(name="never").result()
    return tokens


if __name__ == "__main__":
    context: Any = Context()
    json.dump(handler(json.load(sys.stdin), context), sys.stdout)
