"""The handlers of docs/step-functions.md, each with a moment in which it can die: it is done, and has not answered."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from importlib import import_module
from typing import Any

# The code of the page is written beside this module as these files, when the functions are made.
steps, claim, permits, shop = map(import_module, ("steps", "claim", "permits", "shop"))
asleep, asleep_permits = map(import_module, ("asleep", "asleep_permits"))

Handler = Callable[[dict[str, Any], Any], Any]


def fragile(handler: Handler) -> Handler:
    def then_a_moment(event: dict[str, Any], context: Any) -> Any:
        answer = handler(event, context)
        shop.moment(order_of(event), f"{handler.__name__.replace('_', ' ')} answers")
        return answer

    return then_a_moment


def order_of(event: dict[str, Any]) -> str:
    if "order" in event:
        return str(event["order"])
    if "detail" in event:
        return str(json.loads(event["detail"]["input"])["order"])
    key = event["key"] if "key" in event else json.loads(b64decode(event["lock"].split(".")[1]))[1]
    return str(key.partition("#")[2])


acquire, reserve, ask, ship, release, ended = map(
    fragile, (steps.acquire, steps.reserve, steps.ask, steps.ship, steps.release, steps.ended)
)
acquire_permit, permit_ended = map(fragile, (permits.acquire_permit, permits.permit_ended))
sleep, sleep_permit = fragile(asleep.sleep), fragile(asleep_permits.sleep_permit)
acquire_parts, reserve_parts, release_parts = map(
    fragile, (claim.acquire_parts, claim.reserve_parts, claim.release_parts)
)
