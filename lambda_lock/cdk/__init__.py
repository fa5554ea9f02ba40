"""The lock table and the library's layer for a CDK app. Needs the extra ``cdk``.

``LockTable(self, "Locks").connect(function)`` is the table, ``LockLayer(self, "Library", runtimes=[…])`` the layer.
``ACTIONS`` are the four actions that a lock needs, for the policy of a VPC endpoint.
"""

from __future__ import annotations

from .. import permissions

try:
    from .lock_layer import LockLayer
    from .lock_table import LockTable
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith(("aws_cdk", "constructs")):
        raise
    raise ImportError("lambda_lock.cdk needs the CDK: pip install 'lambda-lock[cdk]'", name=error.name) from error

ACTIONS = [*permissions.ACTIONS]  # a list, because the CDK takes no tuple

__all__ = ["ACTIONS", "LockLayer", "LockTable"]
