"""The application's own table. It has one row per customer, with a list of postings."""

from __future__ import annotations

import os
from typing import Any


def posting(customer: str, text: str) -> dict[str, Any]:
    """The write that adds a text to a customer's list, as an item of a transaction."""
    return {
        "Update": {
            "TableName": os.environ["LEDGER_TABLE"],
            "Key": {"customer": {"S": customer}},
            "UpdateExpression": "SET postings = list_append(if_not_exists(postings, :none), :new)",
            "ExpressionAttributeValues": {":none": {"L": []}, ":new": {"L": [{"S": text}]}},
        }
    }
