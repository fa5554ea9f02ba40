"""The four permissions that a lock needs: LockTable grants them, errors name them, the policies in the docs list them.

Transactions (commit, transact_item) need no others: DynamoDB checks the permission for each write in a transaction.
"""

from __future__ import annotations

OPERATIONS = ("GetItem", "PutItem", "UpdateItem", "DeleteItem")
ACTIONS = tuple(f"dynamodb:{operation}" for operation in OPERATIONS)
IN_WORDS = f"dynamodb:{', '.join(OPERATIONS[:-1])} and {OPERATIONS[-1]}"
