"""Reads and writes the rows of the table directly, without a client."""

import time
import uuid
from typing import Any

import pytest

from rig.engine import Item, Ministack


class Rows:
    """The table as it is stored in the engine. Its requests use no client and no wire."""

    def __init__(self, engine: Ministack, table: str) -> None:
        self.engine = engine
        self.table = table

    def item_key(self, key: str) -> Item:
        return {"key": {"S": key}}

    def get(self, key: str) -> Item | None:
        request = {"TableName": self.table, "Key": self.item_key(key), "ConsistentRead": True}
        item: Item | None = self.engine.dynamodb("GetItem", request).get("Item")
        return item

    def __getitem__(self, key: str) -> Item:
        item = self.get(key)
        assert item is not None, f"there is no row {key!r}"
        return item

    def put(self, key: str, **attributes: dict[str, Any]) -> None:
        self.engine.dynamodb("PutItem", {"TableName": self.table, "Item": {**self.item_key(key), **attributes}})

    def change(self, key: str, **attributes: dict[str, Any] | None) -> None:
        """Change attributes of a row that is there. None: it has the attribute no more."""
        item = self[key] | attributes
        self.put(key, **{name: value for name, value in item.items() if name != "key" and value is not None})

    def delete(self, key: str) -> None:
        self.engine.dynamodb("DeleteItem", {"TableName": self.table, "Key": self.item_key(key)})

    def put_foreign(self, key: str, *, lease_seconds: float) -> None:
        """Store a lock held by an older client. Only its lease is known."""
        self.put(
            key,
            ownerName={"S": "an-older-client"},
            leaseDuration={"S": str(int(lease_seconds * 1000))},
            recordVersionNumber={"S": str(uuid.uuid4())},
        )

    def put_held(self, key: str, *, expires_at: float, owner: str = "somebody#1", lease_seconds: float = 20) -> None:
        """Store a lock held by a client of ours. ``expires_at`` is its stored expiry in epoch seconds."""
        self.put(
            key,
            ownerName={"S": owner},
            leaseDuration={"S": str(int(lease_seconds * 1000))},
            recordVersionNumber={"S": f"L1:{int(expires_at * 1000):013d}:{uuid.uuid4().hex}"},
            fencingToken={"N": "7"},
        )

    def take_over(self, key: str) -> None:
        """Store a lock of another client. Its lease outlasts a test, also where the test's clock is moved."""
        self.put_held(key, expires_at=time.time() + 3600, lease_seconds=3600, owner="another#1")

    def is_held(self, key: str) -> bool:
        item = self.get(key)
        return item is not None and "recordVersionNumber" in item and "isReleased" not in item

    def version(self, key: str) -> str:
        version: str = self[key]["recordVersionNumber"]["S"]
        return version

    def expiry(self, key: str) -> float:
        """The stored expiry in epoch seconds."""
        return int(self.version(key).split(":")[1]) / 1000


@pytest.fixture
def rows(engine: Ministack, table: str) -> Rows:
    return Rows(engine, table)
