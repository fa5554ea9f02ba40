"""The lock table for a CDK app: ``LockTable(self, "Locks").connect(function)``. Needs the extra ``cdk``."""

from __future__ import annotations

from .lock_table import LockTable

__all__ = ["LockTable"]
