"""Posts invoices that an EventBridge rule requests: once per event, no matter how often the event is delivered."""

from __future__ import annotations

from typing import Any

from lambda_lock import current_dedup, deduplicate

from .ledger import posting


@deduplicate("{id}", scope="invoices")
def handler(event: dict[str, Any], context: object) -> None:
    detail = event["detail"]
    # One transaction writes the posting and marks this event as done: both happen, or neither.
    current_dedup().commit([posting(detail["customer_id"], f"invoice {detail['invoice_id']}")])
