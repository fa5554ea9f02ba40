"""The in-memory tables by name. Lock tables are created when they are first used, an application's are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.arn import bare_name
from ..errors import LockArgumentError
from .table import Table, transact
from .values import normalized

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..core.outcome import Item

_REMEMBERED = 600.0  # seconds for which DynamoDB remembers a client token (API reference, TransactWriteItems)


class Database:
    """All tables. `apply` is not thread-safe: threads that share a Database need a lock around it.

    tables: the tables that exist from the beginning, each with the names of its key attributes.
    """

    def __init__(self, tables: Mapping[str, tuple[str, ...]]) -> None:
        self._tables = {name: Table(*keys) for name, keys in tables.items()}
        self._done: dict[str, list[dict[str, Any]]] = {}
        self._done_at: dict[str, float] = {}

    def find(self, name: str) -> Table | None:
        """The table with this name or ARN. None if it does not exist yet."""
        return self._tables.get(bare_name(name))

    def apply(self, operation: str, request: dict[str, Any], now: float) -> Item | None:
        """Carry out one request on its table or tables. Returns what `Table.apply` returns.

        Scan and Query are supported as `LockClient.list` sends them.

        now: the time in seconds. Client tokens are forgotten by it.

        Raises LockArgumentError for a table that has to be declared and is not, and what `Table.apply` raises.
        """
        request = normalized(request)
        if operation == "TransactWriteItems":
            self._transact(request, now)
            return None
        table = self._table(request)
        if operation in ("Scan", "Query"):
            return _page(table, request)
        return table.apply(operation, request)

    def _transact(self, request: dict[str, Any], now: float) -> None:
        for old in [token for token, at in self._done_at.items() if now - at >= _REMEMBERED]:
            del self._done[old], self._done_at[old]
        transact(self._declared, self._done, **request)
        for token in self._done.keys() - self._done_at.keys():
            self._done_at[token] = now

    def _table(self, request: dict[str, Any]) -> Table:
        """The table of one request. A new table gets the keys that the request names."""
        names = tuple(request.get("Key", ()))
        if self.find(request["TableName"]) is None and 1 <= len(names) <= 2:
            self._tables[bare_name(request["TableName"])] = Table(*names)
        return self._declared(request)

    def _declared(self, request: dict[str, Any]) -> Table:
        """The table of a write within a transaction. A wrong name there must not create a table."""
        table = self.find(request["TableName"])
        if table is None:
            name = bare_name(request["TableName"])
            raise LockArgumentError(
                f"there is no table {name!r}: declare it with in_memory(tables={{{name!r}: …}}), giving the name of "
                "its partition key or the names of both its keys"
            )
        return table


def _page(table: Table, request: dict[str, Any]) -> dict[str, Any]:
    """One page with all items, of all partitions or of one."""
    items = table.items()
    if "KeyConditionExpression" in request:
        (name,), (value,) = request["ExpressionAttributeNames"].values(), request["ExpressionAttributeValues"].values()
        items = [item for item in items if item[name] == value]
    return {"Items": items}
