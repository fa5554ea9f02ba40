"""Invoices that an EventBridge rule asks for: once for each event, however often it is delivered."""

from __future__ import annotations

from typing import Any

from lambda_lock import current_dedup, deduplicate

from .ledger import posting


@deduplicate("{id}")
def handler(event: dict[str, Any], context: object) -> None:
    detail = event["detail"]
    # The posting and the end of this event in one transaction: both, or none.
    current_dedup().commit([posting(detail["customer_id"], f"invoice {detail['invoice_id']}")])
