"""What the application stores in a row: its data, its attributes, and the result of an event.

Attributes are converted from plain Python values to DynamoDB JSON and back, without boto3. Source: "Supported data
types and naming rules", Amazon DynamoDB Developer Guide.
"""

from __future__ import annotations

import json  # the Lambda runtime has these loaded
from contextlib import suppress

from ..core.requests import decode_data, encode_data
from ..errors import LockArgumentError, LockFormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.outcome import Item
    from ..core.protocol import Hold
    from ..core.requests import Place

_INFINITY = float("inf")
_LONGEST_NUMBER = 200  # characters; DynamoDB's numbers have up to 38 digits, and exponents up to 125
ITEM_LIMIT = 400 * 1024  # bytes: DynamoDB's limit for an item, names and values together
_LOCK_SIZE = 1500  # bytes of an item: the attributes of a lock, with 64 places
#: Before the hash of a payload, which is before the JSON text. No JSON text begins like this.
_HASH = "sha256:"
_AFTER_HASH = len(_HASH) + 64


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


def check_size(item: Item, key: str) -> None:
    """Refuse an item that DynamoDB would refuse as too large. Some bytes are reserved for the lock's own attributes."""
    total = item_size(item) + _LOCK_SIZE
    if total > ITEM_LIMIT:
        raise LockArgumentError(
            f"data and attributes of lock {key!r} take about {total} bytes; an item may have at most {ITEM_LIMIT}. "
            "Store the payload elsewhere, and a reference to it here",
            key=key,
        )


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


class Storing:
    """How one call's result is stored.

    serializer: has ``dump(value)``, which gives a JSON value, and ``load(value)``; None: the result is a JSON value.
    payload: the hash of the fields to validate; None: nothing is validated.
    """

    __slots__ = ("payload", "serializer")

    def __init__(self, serializer: Any = None, payload: str | None = None) -> None:
        self.serializer = serializer
        self.payload = payload


_PLAIN = Storing()


def encode_result(result: object, hold: Hold, data: str | None = None, storing: Storing | None = None) -> str | None:
    """Return the text for a result and for the payload's hash. None if there is neither.

    data: what the row stores along with it, as base64 text; None: what the row holds now.

    Raises LockArgumentError if JSON cannot represent ``result``, or if it is too large for the row.
    """
    key, schema = hold.place.key, hold.place.schema
    how = storing or _PLAIN
    text = None if result is None else _result_text(result, how.serializer, key)
    if how.payload is not None:
        text = f"{_HASH}{how.payload} {text or ''}"
    if text is not None:
        stored = hold.item if data is None else {**hold.item, schema.data: {"B": data}}
        check_size({**stored, schema.result: {"S": text}}, key)
    return text


def _result_text(result: object, serializer: Any, key: str) -> str:
    try:
        value = result if serializer is None else serializer.dump(result)
        return json.dumps(value, separators=(",", ":"))
    except Exception as error:
        remedy = (
            "return dicts, lists, strs, numbers, bools or None, pass result= a type or a serializer, or pass "
            "result=None to store none"
            if serializer is None
            else "the serializer did not give a JSON value"
        )
        raise LockArgumentError(
            f"the result of event {key!r}, of type {type(result).__name__}, cannot be written as JSON ({error}): "
            f"{remedy}",
            key=key,
        ) from error


def result_parts(text: object) -> tuple[str | None, str | None]:
    """Return the JSON text of a result, and the hash of the payload. None for what was not stored."""
    if not isinstance(text, str):
        return None, None
    if not text.startswith(_HASH):
        return text, None
    return text[_AFTER_HASH + 1 :] or None, text[len(_HASH) : _AFTER_HASH]


def decode_result(text: object, key: str | None, serializer: Any = None) -> object:
    """Return the result from a stored text, or None if none was stored.

    Raises LockFormatError if the text is not JSON, or if the serializer cannot load it.
    """
    written, _ = result_parts(text)
    if written is None:
        return None
    try:
        value = json.loads(written)
    except ValueError as error:
        raise _unreadable(key, "is not JSON: something else stored it. Use another scope=") from error
    if serializer is None:
        return value
    try:
        return serializer.load(value)
    except Exception as error:
        raise _unreadable(
            key,
            f"cannot be loaded ({error}). The result's type may have changed since: let it read what older versions "
            "stored, or use another scope=",
        ) from error


def _unreadable(key: str | None, why: str) -> Exception:
    return LockFormatError(f"the result stored with event {key!r} {why}", key=key)


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
