"""A wire that notes what DynamoDB charges for each request.

with Meter(engine.url) as meter:
    ...                                         # a client sends to meter.url
    assert meter.charges == [Charge("UpdateItem", refused=False, units=1)]
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from .wire import Answer, Request, Upstream, Wire

_ASK = {"ReturnConsumedCapacity": "TOTAL"}
_NOTHING = {
    "UpdateExpression": "REMOVE #absent",
    "ConditionExpression": "attribute_exists(#version)",  # every row of ours has it
    "ExpressionAttributeNames": {"#absent": "no such attribute", "#version": "recordVersionNumber"},
}


@dataclass(frozen=True)
class Charge:
    """What one request costs. refused: its condition did not hold. units: write units, or read units for a read."""

    operation: str
    refused: bool
    units: float

    @property
    def is_read(self) -> bool:
        return self.operation == "GetItem"


class Meter(Wire):
    """Asks the engine for the units of each request (ReturnConsumedCapacity).

    An update that its condition refuses is charged by the size of the row as it is, and 1 unit where there is no row
    (Developer Guide, "DynamoDB read and write operations"). The engines do not say that, so an update that changes
    nothing follows, which is charged the same. ministack says 1 unit for every read, so the units of a read follow from
    the size of its row: a consistent read is charged 1 unit for each 4 KB.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.charges: list[Charge] = []

    def _carry_out(self, request: Request, upstream: Upstream) -> Answer:
        answer = upstream.send(_with(request, request.body | _ASK))
        body = json.loads(answer.body)
        refused = answer.status == 400 and body.get("__type", "").endswith("ConditionalCheckFailedException")
        if refused:
            place = {name: request.body[name] for name in ("TableName", "Key")}
            nothing = place | _NOTHING | _ASK
            body = {"ConsumedCapacity": {"CapacityUnits": 1}} | json.loads(upstream.send(_with(request, nothing)).body)
        if request.operation == "GetItem":
            body = {"ConsumedCapacity": {"CapacityUnits": max(1, -(-size(body.get("Item", {})) // 4096))}}
        consumed = body.get("ConsumedCapacity", [])
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        self.charges.append(Charge(request.operation, refused, units))
        return answer


def size(row: dict[str, Any]) -> int:
    """Bytes of a row by DynamoDB's rules (Developer Guide, "DynamoDB item sizes and formats")."""
    return sum(len(name.encode()) + _size(value) for name, value in row.items())


def _size(value: dict[str, Any]) -> int:
    ((kind, content),) = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "N":
        return -(-len(content.lstrip("-").strip("0")) // 2) + 1
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _size(one) for name, one in content.items())
    if kind == "L":
        return 3 + sum(1 + _size(one) for one in content)
    raise ValueError(f"no row of these has an attribute of type {kind}")


def _with(request: Request, body: dict[str, Any]) -> Request:
    return dataclasses.replace(request, raw=json.dumps(body).encode())
