"""In-memory DynamoDB tables that evaluate the real requests. They are linearizable: `apply` is one step.

Items, keys and expressions are DynamoDB's JSON, as core/requests.py writes them. expressions.py reads the expressions.
A request that DynamoDB refuses raises ServiceError("ValidationException"). A request that DynamoDB accepts
but this table does not support (reads in transactions, other operations) raises NotImplementedError: the table never
guesses.

Transactions follow the API reference, TransactWriteItems. With `Table.apply` all items belong to this table. With
`Database.apply` each item belongs to the table that it names.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from ..core.outcome import ConditionFailed, ServiceError, TransactionCanceled
from ..core.requests import bare_name
from ..errors import LockArgumentError
from .expressions import expressions_of
from .operators import GONE, ORDERED, SETS, comparable, invalid, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    from ..core.outcome import Item
    from .expressions import Change, Operand
    from .operators import Value

    #: A new value, or the changes of a value's parts, by the steps to them: names and indexes.
    _Changed: TypeAlias = "tuple[Value] | dict[str | int, _Changed]"
    #: The result of one write in a transaction: the item it would leave, its cancellation code, and the row shown.
    Attempt: TypeAlias = tuple[Item | None, str, Item | None]

_WRITES = frozenset(
    {
        "TableName",
        "ConditionExpression",
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "ReturnValues",
        "ReturnValuesOnConditionCheckFailure",
    }
)
_FIELDS = {
    "GetItem": frozenset({"TableName", "Key", "ConsistentRead"}),
    "PutItem": _WRITES | {"Item"},
    "UpdateItem": _WRITES | {"Key", "UpdateExpression"},
    "DeleteItem": _WRITES | {"Key"},
}
#: What may be in TransactWriteItems, each with the operation whose fields it has.
_TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "DeleteItem"}
_MOST_TRANSACTED = 100
_ITEMS = ("Item", "Key", "ExpressionAttributeValues", "ExclusiveStartKey")  # the fields of a request with values
_REMEMBERED = 600.0  # seconds for which DynamoDB remembers a client token (API reference, TransactWriteItems)
_OTHER_KEYS = "The provided key element does not match the schema"


class Table:
    """One table. ``partition_key`` and ``sort_key`` are the names of its key attributes. A lock's keys are strings."""

    def __init__(self, partition_key: str = "key", sort_key: str | None = None) -> None:
        self.key_names = (partition_key,) if sort_key is None else (partition_key, sort_key)
        self._items: dict[tuple[Any, ...], Item] = {}
        #: Keys of items in an unfinished transaction, on which writes meet a conflict. Tests set them.
        self.busy: set[tuple[str, ...]] = set()
        #: Transactions carried out, by client token. DynamoDB forgets one after ten minutes. A caller with a clock
        #: removes old ones.
        self.done: dict[str, list[dict[str, Any]]] = {}

    def items(self) -> list[Item]:
        """All items, in the order in which they were first written."""
        return list(self._items.values())

    def get(self, *key: str) -> Item | None:
        """The item with this partition key (and sort key), given as strings. None if there is none."""
        return self._items.get(key)

    def apply(self, operation: str, request: dict[str, Any]) -> Item | None:
        """Carry out one request in one step.

        Returns the item for GetItem, and for a write the attributes that it asks for. The items returned are the
        table's own: do not change them.

        Raises ConditionFailed and TransactionCanceled, both without a Date, because a table has no clock. Raises
        ServiceError for a request that DynamoDB would refuse.
        """
        if operation == "TransactWriteItems":
            transact(lambda _: self, self.done, **request)
            return None
        fields = _FIELDS.get(operation)
        if fields is None:
            raise NotImplementedError(f"{operation}: the in-memory table supports only {', '.join(_FIELDS)}")
        if not request.keys() <= fields:
            raise NotImplementedError(f"{operation} with {', '.join(sorted(request.keys() - fields))}")
        key = self.key(request["Item"] if operation == "PutItem" else request["Key"], operation != "PutItem")
        old = self._items.get(key)
        if operation == "GetItem":
            return old
        condition, changes = expressions_of(request)
        returned = request.get("ReturnValues", "NONE")
        if returned not in ("NONE", "ALL_OLD", "ALL_NEW" if operation == "UpdateItem" else "NONE"):
            raise NotImplementedError(f"{operation} with ReturnValues={returned}")
        if key in self.busy:
            raise ServiceError("TransactionConflictException", "a transaction is under way on the item", retryable=True)
        new = self._changed(operation, request, old, condition, changes)
        self.store(key, new)
        return {"ALL_NEW": new, "ALL_OLD": old}.get(returned)

    def store(self, key: tuple[Any, ...], item: Item | None) -> None:
        """Store the item under its key. None deletes the item that is there."""
        if item is None:
            self._items.pop(key, None)
        else:
            self._items[key] = item

    def attempt(self, name: str, key: tuple[Any, ...], request: dict[str, Any]) -> Attempt:
        """The result of one write in a transaction, which is not stored yet.

        Returns the item that it would leave under ``key``, its cancellation code, and the row shown with that.
        """
        old = self._items.get(key)
        condition, changes = expressions_of(request)
        if key in self.busy:
            return old, "TransactionConflict", None
        try:
            return self._changed(name, request, old, condition, changes), "None", None
        except ConditionFailed as refused:
            return old, "ConditionalCheckFailed", refused.item
        except ServiceError:  # the update does not fit the item, or changes the key
            return old, "ValidationError", None

    def _changed(
        self, write: str, request: dict[str, Any], old: Item | None, condition: Operand, changes: list[Change]
    ) -> Item | None:
        """The item as the write leaves it. None if it leaves none. Raises ConditionFailed."""
        for path, _ in changes:
            if path[0] in self.key_names:
                raise invalid(f"the update changes {path[0]}, which is part of the key")
        before, values = old or {}, request.get("ExpressionAttributeValues", {})
        if not condition(before, values):
            shown = old if request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" else None
            raise ConditionFailed(shown, None)
        if write == "ConditionCheck":
            return old
        if write in ("Delete", "DeleteItem"):
            return None
        if write in ("Put", "PutItem"):
            return dict(request["Item"])
        return _updated(before, before or request["Key"], changes, values)

    def key(self, item: Item, exact: bool) -> tuple[Any, ...]:
        """The key of an item. With ``exact``, the item must consist of its key only."""
        try:
            key = tuple([_key_value(item[name]) for name in self.key_names])
        except KeyError as missing:  # in DynamoDB's words, here and below
            raise invalid(_OTHER_KEYS if exact else f"Missing the key {missing.args[0]} in the item") from None
        if exact and len(item) != len(key):
            raise invalid(_OTHER_KEYS)
        if "" in key:
            raise invalid("a key attribute is empty")
        return key


def _updated(before: Item, new: Item, changes: list[Change], values: Item) -> Item:
    """An item after an update: ``new`` with changes whose operands see the item as it was ``before``."""
    tree: dict[str | int, _Changed] = {}
    for path, operand in changes:
        value = operand(before, values)
        if value is None:
            raise invalid("the expression refers to an attribute that does not exist in the item")
        inner: Any = tree
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = (value,)
    item: Item = _changed_value({"M": new}, tree)["M"]
    return item


def _changed_value(value: Value | None, change: _Changed) -> Value:
    """A value after the changes to it or to its parts. The maps and lists around them must be there.

    All parts are those of the value as it was: an index counts the elements that were there before the update.
    """
    if isinstance(change, tuple):
        return change[0]
    in_list = any(isinstance(step, int) for step in change)
    content = None if value is None else value.get("L" if in_list else "M")
    if content is None:
        raise invalid("the document path provided in the update expression is invalid for update")
    parts: dict[str | int, Value] = dict(enumerate(content) if in_list else content)
    # An element behind the last one is appended, in the order of the indexes.
    for step, inner in sorted(change.items()) if in_list else change.items():
        if (new := _changed_value(parts.get(step), inner)) is GONE:
            parts.pop(step, None)
        else:
            parts[step] = new
    return {"L": list(parts.values())} if in_list else {"M": parts}


def _key_value(value: Value) -> str | Decimal | bytes:
    """The value of a key attribute in Python. Equal numbers are the same key."""
    if not value.keys() & set(ORDERED):
        raise invalid(f"the key attribute {value} is not a string, number or binary")
    key: str | Decimal | bytes = value["S"] if "S" in value else comparable(value)[1]
    return key


def transact(
    table_of: Callable[[dict[str, Any]], Table],
    done: dict[str, list[dict[str, Any]]],
    TransactItems: list[dict[str, Any]],  # noqa: N803
    ClientRequestToken: str | None = None,  # noqa: N803
) -> None:
    """Carry out all of the writes or none, each in its own table.

    A request with the token of a transaction that was carried out is the same transaction again, and does nothing.
    """
    if not 1 <= len(TransactItems) <= _MOST_TRANSACTED:
        raise invalid(f"a transaction has 1 to {_MOST_TRANSACTED} items, not {len(TransactItems)}")
    if ClientRequestToken is not None and not 1 <= len(ClientRequestToken) <= 36:
        raise invalid("a client token has 1 to 36 characters")
    changes: dict[tuple[Table, tuple[Any, ...]], Item | None] = {}
    reasons: list[str] = []
    shown: list[Item | None] = []
    for item in TransactItems:
        if len(item) != 1 or not item.keys() <= _TRANSACTED.keys():
            raise invalid(f"an item of a transaction is one of {', '.join(_TRANSACTED)}, not {', '.join(item)}")
        ((name, request),) = item.items()
        surplus = request.keys() - (_FIELDS[_TRANSACTED[name]] - {"ReturnValues"})
        if surplus:
            raise invalid(f"{name} with {', '.join(sorted(surplus))}")
        if name == "ConditionCheck" and "ConditionExpression" not in request:
            raise invalid("the ConditionCheck has no condition")
        table, put = table_of(request), name == "Put"
        key = table.key(request["Item"] if put else request["Key"], not put)
        if (table, key) in changes:
            raise invalid("a transaction cannot include multiple operations on one item")
        changes[table, key], reason, row = table.attempt(name, key, request)
        reasons.append(reason)
        shown.append(row)
    if ClientRequestToken in done:
        if done[ClientRequestToken] != TransactItems:
            raise ServiceError("IdempotentParameterMismatchException", "the token was used for another transaction")
        return
    if any(reason != "None" for reason in reasons):
        raise TransactionCanceled(reasons, shown, None)
    for (table, key), new in changes.items():
        table.store(key, new)
    if ClientRequestToken is not None:
        done[ClientRequestToken] = TransactItems


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
        return self._tables.get(name if name in self._tables else bare_name(name))

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
    items: dict[str, Any] = {name: _value({"M": request[name]})["M"] for name in _ITEMS if name in request}
    if "TransactItems" in request:
        items["TransactItems"] = [
            {operation: _normalized(inner) for operation, inner in item.items()} for item in request["TransactItems"]
        ]
    return {**request, **items}


def _value(value: Value) -> Value:
    kind, content = next(iter(value.items()))
    if kind == "N":
        return {kind: _numeral(content)}
    if kind == "M":
        return {kind: {name: _value(element) for name, element in content.items()}}
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
