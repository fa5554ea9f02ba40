"""What DynamoDB does to the values of a request first: it checks them, and writes each number in one way."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from .expressions import invalid, written

if TYPE_CHECKING:
    from typing import Any

    from ..core.outcome import Item
    from .expressions import Value

_ITEMS = ("Item", "Key", "ExpressionAttributeValues", "ExclusiveStartKey")
_SETS = ("NS", "SS", "BS")


def normalized(request: dict[str, Any]) -> dict[str, Any]:
    """The request with each of its numbers as DynamoDB stores it: 7.0 and 7E0 are 7.

    Raises ServiceError for a number that DynamoDB cannot store, and for a set with no element or the same twice.
    """
    items: dict[str, Any] = {name: _item(request[name]) for name in _ITEMS if name in request}
    if "TransactItems" in request:
        items["TransactItems"] = [
            {operation: normalized(inner) for operation, inner in item.items()} for item in request["TransactItems"]
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
    if kind not in _SETS:
        return value
    elements = [_numeral(text) for text in content] if kind == "NS" else content
    if not elements or len(set(elements)) < len(elements):
        raise invalid(f"a set has no element, or one twice: {value}")
    return {kind: elements}


def _numeral(text: str) -> str:
    if text.isdigit() and text.isascii() and len(text) < 38 and (text[0] != "0" or text == "0"):
        return text
    try:
        return written(Decimal(text))
    except InvalidOperation:
        raise invalid(f"{text!r} is not a number") from None
