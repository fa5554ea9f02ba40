"""The in-memory tables by name. Lock tables are created when they are first used, an application's are declared."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from ..core.arn import bare_name
from ..errors import LockArgumentError
from .operators import SETS, invalid, written
from .table import Table, transact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..core.outcome import Item
    from .operators import Value

_ITEMS = ("Item", "Key", "ExpressionAttributeValues", "ExclusiveStartKey")  # the fields of a request with values
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

    def apply(self, operation: str, request: dict[str, Any], now: float) -> dict[str, Any] | None:
        """Carry out one request on its table or tables. Returns what `Table.apply` returns.

        Scan and Query are supported as `LockClient.list` sends them.

        now: the time in seconds. Client tokens are forgotten by it.

        Raises LockArgumentError for a table that has to be declared and is not, and what `Table.apply` raises.
        """
        request = _normalized(request)
        if operation == "TransactWriteItems":
            for old in [token for token, at in self._done_at.items() if now - at >= _REMEMBERED]:
                del self._done[old], self._done_at[old]
            transact(self._table, self._done, **request)
            for token in self._done.keys() - self._done_at.keys():
                self._done_at[token] = now
            return None
        names = tuple(request.get("Key", ()))
        if self.find(request["TableName"]) is None and 1 <= len(names) <= 2:
            # Only here: within a transaction, a wrong name must not create a table.
            self._tables[bare_name(request["TableName"])] = Table(*names)
        table = self._table(request)
        if operation not in ("Scan", "Query"):
            return table.apply(operation, request)
        items = table.items()
        if "KeyConditionExpression" in request:  # one partition
            (name,) = request["ExpressionAttributeNames"].values()
            (value,) = request["ExpressionAttributeValues"].values()
            items = [item for item in items if item[name] == value]
        return {"Items": items}

    def _table(self, request: dict[str, Any]) -> Table:
        table = self.find(request["TableName"])
        if table is None:
            name = bare_name(request["TableName"])
            raise LockArgumentError(
                f"there is no table {name!r}: declare it with in_memory(tables={{{name!r}: …}}), giving the name of "
                "its partition key or the names of both its keys"
            )
        return table


def _normalized(request: dict[str, Any]) -> dict[str, Any]:
    """What DynamoDB does to a request first: it checks the values, and writes each number in one way.

    Returns the request with each of its numbers as DynamoDB stores it: 7.0 and 7E0 are 7.

    Raises ServiceError for a number that DynamoDB cannot store, and for a set with no element or the same twice.
    """
    items: dict[str, Any] = {name: _item(request[name]) for name in _ITEMS if name in request}
    if "TransactItems" in request:
        items["TransactItems"] = [
            {operation: _normalized(inner) for operation, inner in item.items()} for item in request["TransactItems"]
        ]
    return {**request, **items}


def _item(item: Item) -> Item:
    return {name: _value(value) for name, value in item.items()}


def _value(value: Value) -> Value:
    kind, content = next(iter(value.items()))
    if kind == "N":
        return {kind: _numeral(content)}
    if kind == "M":
        return {kind: _item(content)}
    if kind == "L":
        return {kind: [_value(element) for element in content]}
    if kind not in SETS:
        return value
    elements = [_numeral(text) for text in content] if kind == "NS" else content
    if not elements or len(set(elements)) < len(elements):
        raise invalid(f"a set has no element, or one twice: {value}")
    return {kind: elements}


def _numeral(text: str) -> str:
    try:
        return written(Decimal(text))
    except InvalidOperation:
        raise invalid(f"{text!r} is not a number") from None
