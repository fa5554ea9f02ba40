"""The result that an event stores for its duplicates, as text with the hash of the payload. Loaded when used."""

from __future__ import annotations

import json  # the Lambda runtime has it loaded

from ..core.row import RESULT_MADE, split_result
from ..errors import LockArgumentError, LockFormatError
from .values import check_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.protocol import Hold

#: A stored text begins with this if it has the hash of a payload before its JSON. No JSON text begins like this.
_HASH = "sha256:"
_AFTER_HASH = len(_HASH) + 64


class Storing:
    """How one call's result is stored.

    serializer: has ``dump(value)``, which gives a JSON value, and ``load(value)``; None: the result is a JSON value. A
    fits.OfType: made from a type.
    payload: the hash of the fields to validate; None: nothing is validated.
    window_of: gives the seconds for which the event counts as done with a result; None: as many as it was begun with.
    made: fingerprints of the fields to validate and of the result's type, with ":" between them; None: neither.
    """

    __slots__ = ("made", "payload", "serializer", "window_of")

    def __init__(
        self, serializer: Any = None, payload: str | None = None, window_of: Any = None, made: str | None = None
    ) -> None:
        self.serializer = serializer
        self.payload = payload
        self.window_of = window_of
        self.made = made


_PLAIN = Storing()


def encode_result(result: object, hold: Hold, data: str | None = None, storing: Storing | None = None) -> str | None:
    """Return the text for a result and for the payload's hash. None if there is neither.

    data: what the row stores along with it, as base64 text; None: what the row holds now.

    Raises LockArgumentError if JSON cannot represent ``result``, if duplicates would get another value from the text,
    or if it is too large for the row.
    """
    key, schema, how = hold.place.key, hold.place.schema, storing or _PLAIN
    text = None
    if result is not None:
        text, why = _stored(result, how.serializer)
        if why is not None:
            raise LockArgumentError(f"the result of event {key!r}, of type {type(result).__name__}, {why}", key=key)
    if how.payload is not None:
        text = f"{_HASH}{how.payload} {text or ''}"
    if text is not None:
        stored = hold.item if data is None else {**hold.item, schema.data: {"B": data}}
        check_size({**stored, schema.result: {"S": text}}, key)
        if how.made is not None:
            text = f"{RESULT_MADE}{how.made} {text}"
    return text


def _stored(result: object, serializer: Any) -> tuple[str | None, str | None]:
    """The text of a result, and why it does not fit. One of them is None."""
    remedy = (
        "return dicts with str keys, lists, strs, numbers, bools or None, pass result= a type or a serializer, or pass "
        "result=None to store none"
    )
    if serializer is None:
        try:
            text = json.dumps(result, separators=(",", ":"))
            loaded = json.loads(text)
            if loaded == result:  # the usual case
                return text, None
        except Exception as error:  # noqa: BLE001 - JSON's own texts name types, not values
            return None, f"cannot be written as JSON ({error}): {remedy}"
    from . import fits

    if serializer is not None:
        try:
            return fits.stored(result, serializer), None
        except fits.Unfit as unfit:
            return None, str(unfit)
    try:
        found = fits.difference(result, loaded)
    except Exception as error:  # noqa: BLE001 - it is nested too deeply, or an application's type fails
        return None, f"cannot be compared with what comes back: {fits.said(error)}"
    return (text, None) if found is None else (None, f"does not come back from JSON as it was{found}: {remedy}")


def result_parts(text: object) -> tuple[str | None, str | None, str]:
    """Return the JSON text of a result, the hash of the payload (None for what was not stored), and `Storing.made`."""
    made, stored = split_result(text if isinstance(text, str) else None)
    if stored is None or not stored.startswith(_HASH):
        return stored, None, made or ""
    return stored[_AFTER_HASH + 1 :] or None, stored[len(_HASH) : _AFTER_HASH], made or ""


def decode_result(text: object, key: str | None, serializer: Any = None) -> object:
    """Return the result from a stored text, or None if none was stored.

    Raises LockFormatError if the text is not JSON, or if the serializer cannot load it.
    """
    written = result_parts(text)[0]
    if written is None:
        return None
    try:
        value = json.loads(written)
    except ValueError as error:
        raise LockFormatError(
            f"the result stored with event {key!r} is not JSON: something else stored it. Use another scope=", key=key
        ) from error
    try:
        return value if serializer is None else serializer.load(value)
    except Exception as error:
        from .fits import said

        raise LockFormatError(
            f"the result stored with event {key!r} cannot be loaded ({said(error)}). The result's type may have "
            "changed since: let it read what older versions stored, or use another scope=",
            key=key,
        ) from error
