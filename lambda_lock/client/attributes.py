"""The application's additional attributes: from plain Python values to DynamoDB JSON and back, without boto3.

Source: "Supported data types and naming rules", Amazon DynamoDB Developer Guide.
"""

from __future__ import annotations

from ..core.requests import decode_data, encode_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.outcome import Item

_INFINITY = float("inf")
_LONGEST_NUMBER = 200  # characters; DynamoDB's numbers have up to 38 digits, and exponents up to 125
ITEM_LIMIT = 400 * 1024  # bytes: DynamoDB's limit for an item, names and values together


def to_dynamodb(value: object, name: str) -> dict[str, Any]:
    """Return one value as DynamoDB JSON.

    value: a str, int, Decimal, finite float, bool, None, bytes, list, tuple, dict with str keys, or a non-empty set of
        only str, only numbers or only bytes.
    name: the attribute's name, for the error.

    Raises TypeError for anything else.
    """
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, (bytes, bytearray)):
        return {"B": encode_data(value)}
    if _is_number(value):
        return {"N": _number(value, name)}
    if isinstance(value, (list, tuple)):
        return {"L": [to_dynamodb(element, name) for element in value]}
    if isinstance(value, dict):
        return {"M": {_text_key(key, name): to_dynamodb(element, name) for key, element in value.items()}}
    if isinstance(value, (set, frozenset)):
        return _set(value, name)
    raise TypeError(
        f"attribute {name!r} is a {type(value).__name__}, which DynamoDB cannot store: "
        "use str, numbers, bool, None, bytes, lists, dicts or sets of one kind"
    )


def from_dynamodb(value: dict[str, Any]) -> Any:
    """Return the Python value of DynamoDB JSON. Whole numbers become int, other numbers Decimal.

    Raises ValueError for a malformed number or binary value, which DynamoDB never stores.
    """
    ((kind, content),) = value.items()
    if kind == "NULL":
        return None
    if kind == "N":
        return _from_number(content)
    if kind == "B":
        return decode_data(content)
    if kind == "L":
        return [from_dynamodb(element) for element in content]
    if kind == "M":
        return {key: from_dynamodb(element) for key, element in content.items()}
    if kind == "SS":
        return set(content)
    if kind == "NS":
        return {_from_number(element) for element in content}
    if kind == "BS":
        return {decode_data(element) for element in content}
    return content  # S, BOOL


def item_size(item: Item) -> int:
    """Return roughly how many bytes DynamoDB counts for an item: never less than it counts for names and scalars."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def _size(value: dict[str, Any]) -> int:
    ((kind, content),) = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "B":
        return len(content) * 3 // 4
    if kind == "N":
        return len(content) // 2 + 2
    if kind == "L":
        return 3 + sum(1 + _size(element) for element in content)
    if kind == "M":
        return 3 + sum(1 + len(key.encode()) + _size(element) for key, element in content.items())
    if kind in ("SS", "NS", "BS"):
        return sum(len(element) for element in content)
    return 1


def _is_number(value: object) -> bool:
    # Decimal is recognized by its name: importing decimal would cost 2 ms, even if no Decimal is used.
    return isinstance(value, (int, float)) or type(value).__name__ == "Decimal"


def _number(value: Any, name: str) -> str:
    if value != value or value in (_INFINITY, -_INFINITY):
        raise TypeError(f"attribute {name!r} is {value!r}: DynamoDB stores only finite numbers")
    return repr(value) if isinstance(value, float) else str(value)


def _from_number(text: str) -> Any:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} characters")
    if text.lstrip("-").isdecimal() and text.isascii():
        return int(text)
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number") from error


def _text_key(key: object, name: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"attribute {name!r} contains a dict with the key {key!r}: keys must be str")
    return key


def _set(values: set[Any] | frozenset[Any], name: str) -> dict[str, Any]:
    if values and all(isinstance(value, str) for value in values):
        return {"SS": sorted(values)}
    if values and all(isinstance(value, bytes) for value in values):
        return {"BS": [encode_data(value) for value in sorted(values)]}
    if values and all(_is_number(value) and not isinstance(value, bool) for value in values):
        return {"NS": [_number(value, name) for value in sorted(values)]}
    raise TypeError(
        f"attribute {name!r} is a set that DynamoDB cannot store: a set must not be empty, and must hold only str, "
        "only numbers or only bytes"
    )
