"""The result that is stored with an event for its duplicates: JSON text in the event's row."""

from __future__ import annotations

import json  # the Lambda runtime has it loaded

from ..errors import LockArgumentError
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocol import Hold


def encode(result: object, hold: Hold, data: str | None = None) -> str:
    """The text of ``result``. Raises LockArgumentError where it is not of JSON's types or too large for the row,
    in which it stands beside ``data`` (base64; None: what is stored)."""
    key, schema = hold.place.key, hold.place.schema
    try:
        text = json.dumps(result, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise LockArgumentError(
            f"the result of event {key!r}, of type {type(result).__name__}, cannot be written as JSON ({error}): "
            "return dicts, lists, strs, numbers, bools or None, or pass result=None to store none",
            key=key,
        ) from error
    stored = hold.item if data is None else {**hold.item, schema.data: {"B": data}}
    checks.size({**stored, schema.result: {"S": text}}, key)
    return text


def decode(text: object, key: str | None) -> object:
    """The result of a stored text, None where none was stored. Raises LockFormatError for what is no JSON."""
    if text is None:
        return None
    try:
        return json.loads(str(text))
    except ValueError as error:
        from ..errors import LockFormatError

        raise LockFormatError(
            f"the result stored with event {key!r} is not JSON: something else stored it. Use another scope=",
            key=key,
        ) from error
