"""A handler that reads a row with the function's own credentials."""

from __future__ import annotations

from typing import Any

import boto3

client = boto3.client("dynamodb")


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return {"item": client.get_item(TableName=event["table"], Key={"key": {"S": "x"}}).get("Item")}
