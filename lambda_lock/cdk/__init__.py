"""The lock table and the library's layer for a CDK app. Needs the extra ``cdk``.

``LockTable(self, "Locks").connect(function)`` is the table, ``LockLayer(self, "Library", runtimes=[…])`` the layer.
``ACTIONS`` are the four actions that a lock needs, for the policy of a VPC endpoint.
"""

from __future__ import annotations

from .. import permissions
from .lock_layer import LockLayer
from .lock_table import LockTable

ACTIONS = [*permissions.ACTIONS]  # a list, because the CDK takes no tuple

__all__ = ["ACTIONS", "LockLayer", "LockTable"]
