"""The result that an event stores for its duplicates, as JSON text in the event's row."""

from __future__ import annotations

import json  # the Lambda runtime has it loaded

from ..errors import LockArgumentError
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocol import Hold


def encode(result: object, hold: Hold, data: str | None = None) -> str:
    """Return ``result`` as JSON text.

    data: what the row stores along with it, as base64 text; None: what the row holds now.

    Raises LockArgumentError if JSON cannot represent ``result``, or if it is too large for the row.
    """
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
    """Return the result from a stored text, or None if none was stored. Raises LockFormatError if it is not JSON."""
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
