"""Turns values into the text of a key, and checks keys.

Two things can go wrong here. A key may fail to distinguish what it should: then there is one lock for everybody. Or it
may distinguish what it should not: then there are two locks for one customer. So a value is refused if it is missing,
None, empty, a bool, a container, or an object without a text of its own. And equal numbers have the same text,
regardless of their type: 1, 1.0 and Decimal("1.00") become "1".
"""

from __future__ import annotations

from collections.abc import Mapping  # already loaded when the interpreter starts
from enum import Enum  # already loaded by the Lambda runtime

from ..errors import KeyTemplateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .parameters import KeyBuilder

MAX_KEY_BYTES = 2048  # DynamoDB's limit for a partition key
_EXACT_FLOAT = 2**53  # from here on a float represents several whole numbers, so two ids would share a key
_MAX_DIGITS = 2048  # a number with more digits than a key can have is refused


class Unusable(Exception):
    """A value cannot be part of a key, or a text cannot be read. The message says why. field: what was written."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def builder(made_by: str, read: Callable[..., Callable[..., object]], *written: Any) -> KeyBuilder:
    """The builder of keys that ``read(*written)`` returns, with its errors as KeyTemplateErrors.

    Both may raise Unusable: ``read`` for what is written, and what it returns for a call's arguments.
    made_by: what makes the key, for errors.
    """
    try:
        make = read(*written)
    except Unusable as error:
        raise KeyTemplateError(f"{made_by}: {error}", field=error.field) from error.__cause__

    def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        try:
            key = make(args, kwargs)
        except Unusable as error:
            raise KeyTemplateError(f"{made_by} cannot be built: {error}", field=error.field) from error.__cause__
        return check_key(key, made_by)

    return build


def check_key(key: object, made_by: str) -> str:
    """Return ``key`` if it can be a partition key: a str of 1 to 2048 bytes in UTF-8. Otherwise raise KeyTemplateError.

    made_by: the source of the key, for the message.
    """
    if not isinstance(key, str):
        raise KeyTemplateError(f"{made_by} returned a value that is {found_text(key)}: a key must be a non-empty str")
    if not key:
        raise KeyTemplateError(f"{made_by} produced an empty key: a key must be a non-empty str")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise KeyTemplateError(f"{made_by} produced a key that is not valid Unicode ({error.reason})") from error
    if size > MAX_KEY_BYTES:
        raise KeyTemplateError(
            f"{made_by} produced a key of {size} bytes, but DynamoDB allows {MAX_KEY_BYTES}: use a shorter field or a "
            "hash"
        )
    return key


def scalar_text(value: object) -> str:
    """The text of a value in a key. Equal values have equal texts.

    Raises Unusable for a value whose text would be shared by many others.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str) and value:
        return str.__str__(value)  # the content, even if a subclass displays something else
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > 4 * _MAX_DIGITS:
            raise Unusable("the value is an int with too many digits")
        return int.__repr__(value)
    from decimal import Decimal  # imported here, because most keys are made of strs

    if isinstance(value, float):
        if not abs(value) < _EXACT_FLOAT:
            raise Unusable("the value is a float that is not finite or too large to be exact: pass the number as a str")
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
            raise Unusable("the value is a Decimal that is not finite or has too many digits")
        text = format(value, "f") if value else "0"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if type(value).__module__ == "uuid":
        return str(value)
    from datetime import UTC, date, datetime

    if isinstance(value, datetime) and value.tzinfo is not None:
        try:
            value = value.astimezone(UTC)  # the same moment has the same text in all time zones
        except (OverflowError, ValueError):  # which of them, the time zone decides
            raise Unusable("the value is a datetime that UTC has no year for: pass it as a str") from None
    if isinstance(value, date):
        return value.isoformat()
    raise Unusable(
        f"the value is {found_text(value)}: a key can contain non-empty strs, numbers, dates, UUIDs and Enum members"
    )


def raw_event(value: object) -> object:
    """The mapping inside a Powertools event class that is not a mapping itself. Other values stay as they are."""
    raw = None if isinstance(value, Mapping) else getattr(value, "raw_event", None)
    return raw if isinstance(raw, Mapping) else value


def declared_fields(value: object) -> Mapping[str, object] | None:
    """The fields of a dataclass instance or a pydantic model (version 2 or 1). None for anything else.

    They include the undeclared fields of a model with extra="allow". Two events that differ only in such a field are
    different events. What is declared but not there is none: an InitVar, or a field that was not set.
    """
    for name in ("__dataclass_fields__", "model_fields", "__fields__"):
        fields = getattr(type(value), name, None)
        if isinstance(fields, Mapping):
            declared = {**fields, **(getattr(value, "__pydantic_extra__", None) or {})}
            return {name: field for name, field in declared.items() if hasattr(value, name)}
    return None


# --- words for messages -------------------------------------------------------------------------------------------


def found_text(value: object) -> str:
    """A description of a value that does not show it: events contain secrets, and messages are logged."""
    if value is None:
        return "None"
    return "an empty str" if isinstance(value, str) and not value else f"of type {type(value).__name__}"


def shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
