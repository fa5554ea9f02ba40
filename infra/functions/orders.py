"""Posts orders from a standard queue: each order once, even if it was sent twice, and one at a time per customer."""

from __future__ import annotations

import json
from typing import Any

from lambda_lock import current_dedup, current_lock
from lambda_lock.batch import sqs_batch

from .ledger import posting


@sqs_batch(
    scope="orders",
    dedup_key="{body[order_id]}",
    lock_key="customer#{body[customer_id]}",
    wait=5,
    retry_visibility=10,
)
def handler(record: dict[str, Any]) -> None:
    order = json.loads(record["body"])
    # One transaction writes the posting, marks this event as done, and checks that the customer's lock is still ours.
    current_dedup().commit(
        [posting(order["customer_id"], f"order {order['order_id']}"), current_lock().transact_item()]
    )
