"""Posts payments from a FIFO queue: in order per customer, and never at the same time as an order of the customer."""

from __future__ import annotations

import json
from typing import Any

from lambda_lock import current_dedup, current_lock
from lambda_lock.batch import sqs_batch

from .ledger import posting


@sqs_batch(scope="payments", lock_key="customer#{attributes[MessageGroupId]}", wait=5, retry_visibility=10)
def handler(record: dict[str, Any]) -> None:
    customer, payment = record["attributes"]["MessageGroupId"], json.loads(record["body"])
    added = posting(customer, f"payment {payment['payment_id']}")
    current_dedup().commit([added, current_lock().transact_item()])
