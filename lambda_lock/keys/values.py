"""What a value becomes in a key, and what may be a key.

The one danger here is a key that does not tell apart what it should (one lock for everybody), or tells apart what it
should not (two locks for one customer). Hence: a value that is missing, None, empty, a bool, a container or an object
with no text of its own is refused, and equal numbers are written alike, whatever their type: 1, 1.0 and Decimal("1.00")
give "1".
"""

from __future__ import annotations

from collections.abc import Mapping  # loaded by every interpreter's start
from enum import Enum  # loaded by the Lambda runtime

from ..errors import KeyTemplateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from decimal import Decimal

MAX_KEY_BYTES = 2048  # DynamoDB's limit for a partition key
_EXACT_FLOAT = 2**53  # from here on a float stands for several whole numbers: two ids would share a key
_MAX_DIGITS = 2048  # a number longer than a key may be is not written out


class Unusable(Exception):
    """Why a value cannot be part of a key."""


def check_key(key: object, made_by: str) -> str:
    """``key`` itself if it can be a partition key: a str of 1 to 2048 bytes of UTF-8. Raises KeyTemplateError."""
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
    """The text of a value in a key: equal text for what is equal, and never text that many values share.

    Raises Unusable.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str) and value:
        return str.__str__(value)  # of a subclass too: what it holds, not what it shows
    if isinstance(value, int) and not isinstance(value, bool):
        return _int_text(value)
    if isinstance(value, float):
        return _float_text(value)
    return _rare_text(value)


def _rare_text(value: object) -> str:
    from decimal import Decimal  # here: most keys are made of strs

    if isinstance(value, Decimal):
        return _decimal_text(value)
    if type(value).__module__ == "uuid":
        return str(value)
    raise Unusable(
        f"the value is {found_text(value)}: a key can contain non-empty strs, numbers, UUIDs and Enum members"
    )


def _int_text(value: int) -> str:
    if value.bit_length() > 4 * _MAX_DIGITS:
        raise Unusable("the value is an int with too many digits")
    return int.__repr__(value)


def _float_text(value: float) -> str:
    if not abs(value) < _EXACT_FLOAT:
        raise Unusable("the value is a float that is not finite or too large to be exact: pass the number as a str")
    from decimal import Decimal

    return _decimal_text(Decimal(repr(value)))


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
        raise Unusable("the value is a Decimal that is not finite or has too many digits")
    if not value:
        return "0"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def raw_event(value: object) -> object:
    """The mapping within a Powertools event class that is not a mapping itself."""
    raw = None if isinstance(value, Mapping) else getattr(value, "raw_event", None)
    return raw if isinstance(raw, Mapping) else value


def declared_fields(value: object) -> Mapping[str, object] | None:
    """The fields of a dataclass instance or pydantic model (2 or 1), None for anything else.

    Those that a model with extra="allow" was given beyond the declared ones are among them: events that differ in
    nothing else are not one.
    """
    for name in ("__dataclass_fields__", "model_fields", "__fields__"):
        fields = getattr(type(value), name, None)
        if isinstance(fields, Mapping):
            return {**fields, **(getattr(value, "__pydantic_extra__", None) or {})}
    return None


# --- words for messages -------------------------------------------------------------------------------------------


def found_text(value: object) -> str:
    """What a value is, without showing it: events carry secrets, and messages are logged."""
    if value is None:
        return "None"
    return "an empty str" if isinstance(value, str) and not value else f"of type {type(value).__name__}"


def shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
