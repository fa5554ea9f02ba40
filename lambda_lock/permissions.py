"""The four permissions of a lock: what LockTable grants, what the errors name, and what the docs' policies give.

Transactions (commit, transact_item) need no further one: DynamoDB asks for the permission of each of their writes.
"""

from __future__ import annotations

OPERATIONS = ("GetItem", "PutItem", "UpdateItem", "DeleteItem")
ACTIONS = tuple(f"dynamodb:{operation}" for operation in OPERATIONS)
IN_WORDS = f"dynamodb:{', '.join(OPERATIONS[:-1])} and {OPERATIONS[-1]}"
