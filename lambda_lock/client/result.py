"""What an event stores for its duplicates, as text in the event's row: its result, and the hash of its payload."""

from __future__ import annotations

import json  # the Lambda runtime has it loaded

from ..errors import LockArgumentError
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.protocol import Hold

#: Before the hash of a payload, which is before the JSON text. No JSON text begins like this.
_HASH = "sha256:"
_AFTER_HASH = len(_HASH) + 64


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


def encode(result: object, hold: Hold, data: str | None = None, storing: Storing | None = None) -> str | None:
    """Return the text for a result and for the payload's hash. None if there is neither.

    data: what the row stores along with it, as base64 text; None: what the row holds now.

    Raises LockArgumentError if JSON cannot represent ``result``, or if it is too large for the row.
    """
    key, schema = hold.place.key, hold.place.schema
    how = storing or _PLAIN
    text = None if result is None else _to_text(result, how.serializer, key)
    if how.payload is not None:
        text = f"{_HASH}{how.payload} {text or ''}"
    if text is not None:
        stored = hold.item if data is None else {**hold.item, schema.data: {"B": data}}
        checks.size({**stored, schema.result: {"S": text}}, key)
    return text


def _to_text(result: object, serializer: Any, key: str) -> str:
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


def parts(text: object) -> tuple[str | None, str | None]:
    """Return the JSON text of a result, and the hash of the payload. None for what was not stored."""
    if not isinstance(text, str):
        return None, None
    if not text.startswith(_HASH):
        return text, None
    return text[_AFTER_HASH + 1 :] or None, text[len(_HASH) : _AFTER_HASH]


def decode(text: object, key: str | None, serializer: Any = None) -> object:
    """Return the result from a stored text, or None if none was stored.

    Raises LockFormatError if the text is not JSON, or if the serializer cannot load it.
    """
    written, _ = parts(text)
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
    from ..errors import LockFormatError

    return LockFormatError(f"the result stored with event {key!r} {why}", key=key)
