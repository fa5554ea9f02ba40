"""A handler whose lock somebody else holds, and whose event was done before."""

from __future__ import annotations

import json
from typing import Any

from lambda_lock import deduplicate, with_lock


@with_lock("order-{id}", wait=0, on_not_granted="skip")
def locked(event: dict[str, Any], context: Any) -> None:
    raise AssertionError("somebody else holds it")


@deduplicate("{id}", scope="")
def once(event: dict[str, Any], context: Any) -> None:
    print(json.dumps({"done": event["id"]}))


def handler(event: dict[str, Any], context: Any) -> str:
    locked(event, context)
    once(event, context)
    once(event, context)
    return "answered"
