"""The lock table and the library's layer for a CDK app. Needs the extra ``cdk``.

``LockTable(self, "Locks").connect(function)`` is the table, ``LockLayer(self, "Library", runtimes=[…])`` the layer.
"""

from __future__ import annotations

from .lock_layer import LockLayer
from .lock_table import LockTable

__all__ = ["LockLayer", "LockTable"]
