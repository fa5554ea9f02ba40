"""What the application stores in a row, data and attributes: values as DynamoDB JSON and back, and their size.

Loaded when used. It needs no boto3 ("Supported data types and naming rules", Amazon DynamoDB Developer Guide)."""

from __future__ import annotations

from collections.abc import Mapping  # the Lambda runtime has these loaded
from contextlib import suppress

from ..core.requests import Place, decode_data, encode_data
from ..errors import LockArgumentError
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..core.outcome import Item

_INFINITY = float("inf")
_LONGEST_NUMBER = 200  # characters; DynamoDB's numbers have up to 38 digits, and exponents up to 125
_ITEM_LIMIT = 400 * 1024  # bytes: DynamoDB's limit for an item, names and values together
_LOCK_SIZE = 1500  # bytes of an item: the attributes of a lock, with 64 tickets


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
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"attribute {name!r} contains a dict with the key {key!r}: keys must be str")
        return {"M": {key: to_dynamodb(element, name) for key, element in value.items()}}
    if isinstance(value, (set, frozenset)):
        if value and all(isinstance(element, str) for element in value):
            return {"SS": sorted(value)}
        if value and all(isinstance(element, bytes) for element in value):
            return {"BS": [encode_data(element) for element in sorted(value)]}
        if value and all(_is_number(element) and not isinstance(element, bool) for element in value):
            return {"NS": [_number(element, name) for element in sorted(value)]}
        raise TypeError(
            f"attribute {name!r} is a set that DynamoDB cannot store: a set must not be empty, and must hold only str, "
            "only numbers or only bytes"
        )
    raise TypeError(
        f"attribute {name!r} is a {type(value).__name__}, which DynamoDB cannot store: "
        "use str, numbers, bool, None, bytes, lists, dicts or sets of one kind"
    )


def _is_number(value: object) -> bool:
    # Decimal is recognized by its name: importing decimal would cost 2 ms, even if no Decimal is used.
    return isinstance(value, (int, float)) or type(value).__name__ == "Decimal"


def _number(value: Any, name: str) -> str:
    if value != value or value in (_INFINITY, -_INFINITY):
        raise TypeError(f"attribute {name!r} is {value!r}: DynamoDB stores only finite numbers")
    return repr(value) if isinstance(value, float) else str(value)


def from_dynamodb(value: dict[str, Any]) -> Any:
    """Return the Python value of DynamoDB JSON. Whole numbers become int, other numbers Decimal.

    Raises ValueError for a malformed number or binary value, which DynamoDB never stores.
    """
    ((kind, content),) = value.items()
    return _READ[kind](content) if kind in _READ else content  # S, BOOL


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


_READ: dict[str, Callable[[Any], Any]] = {
    "NULL": lambda _: None,
    "N": _from_number,
    "B": decode_data,
    "L": lambda elements: [from_dynamodb(element) for element in elements],
    "M": lambda entries: {key: from_dynamodb(entry) for key, entry in entries.items()},
    "SS": set,
    "NS": lambda elements: set(map(_from_number, elements)),
    "BS": lambda elements: set(map(decode_data, elements)),
}


def item_size(item: Item) -> int:
    """Return roughly how many bytes DynamoDB counts for an item: never less than it counts for names and scalars."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def check_size(item: Item, key: str) -> None:
    """Refuse an item that DynamoDB would refuse as too large. Some bytes are reserved for the lock's own attributes."""
    total = item_size(item) + _LOCK_SIZE
    if total > _ITEM_LIMIT:
        raise LockArgumentError(
            f"data and attributes of lock {key!r} take about {total} bytes; an item may have at most {_ITEM_LIMIT}. "
            "Store the payload elsewhere, and a reference to it here",
            key=key,
        )


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
    return sum(map(len, content)) if kind in ("SS", "NS", "BS") else 1


def columns_of(values: object, place: Place) -> Item:
    """Return the application's attributes as DynamoDB JSON. Names that belong to the lock are refused."""
    if not isinstance(values, Mapping):
        raise TypeError(f"attributes must be a dict of names and values, not {type(values).__name__}")
    reserved = {*place.schema.attribute_names(), *place.key_names}
    columns: Item = {}
    for name, value in values.items():
        try:
            checks.attribute_name("the name of an attribute", name)
            columns[name] = to_dynamodb(value, name)
            item_size({name: columns[name]})
        except UnicodeEncodeError as error:
            raise LockArgumentError(
                f"attributes: {name!r} has text that is not valid Unicode and cannot be sent: remove the lone surrogate"
            ) from error
        if name in reserved:
            raise LockArgumentError(f"attributes: {name!r} belongs to the lock itself. Choose another name")
    return columns


def row_data(item: Item, place: Place) -> bytes | None:
    """Return the application's bytes in a row, or None if there are none."""
    value = item.get(place.schema.data, {}).get("B")
    if value is None:
        return None
    try:
        return decode_data(value)
    except ValueError:  # not base64: DynamoDB never stores that
        return None


def row_attributes(item: Item, place: Place) -> dict[str, Any]:
    """Return the application's additional attributes in a row, except those that cannot be read (see `unreadable`)."""
    own = {*place.schema.attribute_names(), *place.key_names}
    found = {}
    for name, value in item.items():
        if name not in own:
            with suppress(ValueError):
                found[name] = from_dynamodb(value)
    return found
