"""moto's mock_aws(), which answers boto3 within the process. A test that uses it must never reach AWS.

moto answers clients of boto3 that were made after it was imported. So while it is active every lock goes through boto3,
and a client that moto cannot answer is refused (transport_to_moto in boto.py). Nothing here imports moto.
"""

from __future__ import annotations

import sys
from typing import Generic, TypeVar  # botocore has it loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocol import Hold

T = TypeVar("T")


def is_active() -> bool:
    """Whether moto's mock_aws() is active, in any of its modes: in the process, as a server or as a proxy."""
    models = sys.modules.get("moto.core.models")
    stubber = getattr(models, "botocore_stubber", None)
    modes = (getattr(models, f"{mode}ModeMockAWS", None) for mode in ("Server", "Proxy"))
    return bool(getattr(stubber, "enabled", False)) or any(getattr(mode, "_nested_count", 0) > 0 for mode in modes)


class Mocked(Generic[T]):
    """How moto answers a client.

    transport: sends to it. before: what the client held when moto began to answer. It is in other tables.
    """

    __slots__ = ("_tables", "before", "transport")

    def __init__(self, transport: T, before: frozenset[Hold]) -> None:
        self.transport = transport
        self.before = before
        self._tables = _tables()

    def has_its_tables(self) -> bool:
        """Whether moto has the tables from which it answered. It makes the first of them at a request."""
        found = _tables()
        if self._tables is None:
            self._tables = found
        return found is self._tables


def _tables() -> object:
    """What moto keeps its tables in: another object after a reset, as at the next mock_aws(). None: not known."""
    backends = getattr(sys.modules.get("moto.dynamodb.models"), "dynamodb_backends", None)
    accounts = list(backends.values()) if isinstance(backends, dict) else []
    return accounts[0] if accounts else None
