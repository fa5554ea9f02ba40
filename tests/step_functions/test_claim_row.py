"""What the claim of docs/step-functions.md asks of DynamoDB, with each expression of ASL replaced by a value."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from rig.engine import Engine, EngineError
from tests.support.rows import rows

from . import page

__all__ = ["rows"]

OWNER = f"arn:aws:states:us-east-1:000000000000:execution:m:e#{'0' * 32}"


def claim(engine: Engine, table: str, key: str) -> dict[str, Any]:
    """Send the UpdateItem of the page, and return the row that it wrote."""
    names = dict.fromkeys(page.HANDLERS_OF_PARTS, "") | {"locks": table}
    arguments = page.definition('"Claim":', names)["States"]["Claim"]["Arguments"]
    now = int(time.time() * 1000)
    version = f"L1:{now + 600_000:013d}:{'0' * 32}"
    values = {":owner": {"S": OWNER}, ":version": {"S": version}, ":now": {"N": str(now)}}
    arguments["ExpressionAttributeValues"] |= values
    arguments["Key"] = {"key": {"S": key}}
    written: dict[str, Any] = engine.dynamodb("UpdateItem", arguments)["Attributes"]
    return written


def test_the_expression_of_a_version_has_its_expiry_in_ms_and_32_hex_digits():
    names = dict.fromkeys((*page.HANDLERS_OF_PARTS, "locks"), "")
    state = page.definition('"Claim":', names)["States"]["Claim"]
    values, lease = state["Arguments"]["ExpressionAttributeValues"], state["Assign"]["hold"]["lease_duration"]
    assert values[":lease"] == {"S": str(lease * 1000)}
    assert f"$millis() + {lease * 1000})" in values[":version"]["S"]
    assert re.search(r"LEASE = (\d+)", page.code("def acquire_parts"))[1] == str(lease)  # type: ignore[index]


HELD = {"ownerName": {"S": "java"}, "leaseDuration": {"S": "1000"}}


@pytest.mark.parametrize(
    "row",
    [
        HELD | {"recordVersionNumber": {"S": "3b1f-java"}},
        HELD | {"recordVersionNumber": {"S": f"L1:{1:013d}:{'0' * 32}"}},
        {"record_version_number": {"S": "python"}},
        HELD | {"recordVersionNumber": {"S": "semaphore"}},
        HELD | {"recordVersionNumber": {"S": "x"}, "isReleased": {"S": "1"}, "waiters": {"L": [{"S": "w"}]}},
    ],
    ids=["of a Java client", "expired long ago", "of a Python client", "a semaphore", "others wait"],
)
def test_what_is_not_free_is_left_alone(engine, table, rows, row):
    rows.put("a", **row)
    before = rows["a"]
    with pytest.raises(EngineError) as refused:
        claim(engine, table, "a")
    assert refused.value.code == "ConditionalCheckFailedException"
    assert rows["a"] == before
