"""`payload_hash`: a key for events that have no id of their own, from what they say."""

from __future__ import annotations

import hashlib  # the signature has it loaded
import json
from collections.abc import Mapping, Sequence
from enum import Enum

from ..errors import KeyTemplateError
from .compile import Compiled
from .parameters import Parameters
from .template import Field
from .values import Unusable, declared_fields, found_text, raw_event, scalar_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .parameters import KeyBuilder

# What the text of a value that JSON has no type for, and of any other, begins with: "1" is not 1, nor b"1".
_TEXT, _NUMBER, _BYTES, _SET = "s", "n", "b", "c"
_EMPTY: tuple[object, ...] = (None, _TEXT, [], {})


def payload_hash(*paths: str) -> PayloadHash:
    """A ``key=``: the SHA-256 (64 hex digits) of the fields ``paths`` of a call, or of its whole first argument.

    paths: fields as a template has them, without braces: ``payload_hash("detail[order_id]", "detail[amount]")``. Their
    values may be anything that JSON can write, and also data classes, models, Decimals, UUIDs, Enum members, dates,
    bytes and sets.
    Mappings are hashed whatever the order of their entries; 1, 1.0 and Decimal("1.00") are the same number. A float of
    2**53 or more is refused, as in a template: JSON's 9007199254740993.0 and 9007199254740992.0 are one float.

    Choose the fields that make two deliveries the same event: a whole SQS record has another receiptHandle with each
    delivery, and is never the same twice.

    When decorating, raises KeyTemplateError for a path that cannot be read, and TypeError for one that is no str. A
    call raises KeyTemplateError for a field that is missing or cannot be hashed, and where all that is hashed is empty:
    such events would be one.
    """
    for path in paths:
        if not isinstance(path, str):
            raise TypeError(
                f"payload_hash() takes the paths of fields, as in payload_hash('body[order_id]'), but got {path!r}. To "
                "decorate a function, write @deduplicate(payload_hash(...))"
            )
    return PayloadHash(paths)


class PayloadHash(Compiled):
    """What payload_hash() gives."""

    __slots__ = ("paths",)

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __call__(self, payload: object, /) -> str:
        """The key for a first argument ``payload``."""
        parameters = Parameters(("payload",), (), {}, None, None)
        return self.compiled(parameters, "payload_hash")((payload,), {})

    def compiled(self, parameters: Parameters, function: str) -> KeyBuilder:
        made_by = f"the payload hash of {function}()"
        try:
            fields = [Field(path, parameters) for path in self.paths]
        except KeyTemplateError as error:
            raise KeyTemplateError(f"{made_by}: {error}", field=error.field) from None
        if parameters.first is None and not fields:
            raise KeyTemplateError(f"{made_by}: the function has no argument to hash")

        def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
            try:
                if fields:
                    chosen: Any = {field.text: field.made_of(_plain, parameters, args, kwargs) for field in fields}
                    values = list(chosen.values())
                else:
                    chosen = _plain(parameters.first_argument(args, kwargs))
                    values = [chosen]
            except Unusable as error:
                raise KeyTemplateError(f"{made_by} cannot be built: {error}") from error.__cause__
            except RecursionError:
                raise KeyTemplateError(
                    f"{made_by} cannot be built: the payload is nested too deeply. Choose the fields to hash"
                ) from None
            except KeyTemplateError as error:
                raise KeyTemplateError(f"{made_by} cannot be built: {error}", field=error.field) from error.__cause__
            if all(value in _EMPTY for value in values):
                raise KeyTemplateError(
                    f"{made_by} cannot be built: everything that it hashes is empty, so all such events would be taken "
                    "for the same one. Choose other fields",
                    field=self.paths[0] if self.paths else None,
                )
            text = json.dumps(chosen, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
            return hashlib.sha256(text.encode()).hexdigest()

        return build


def _plain(value: object) -> object:
    """``value`` in JSON's types, equal for what is equal. Raises Unusable."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _TEXT + value
    if isinstance(value, (int, float)):
        return _NUMBER + scalar_text(value)
    value = raw_event(value)
    if isinstance(value, Mapping):
        return {_name(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_plain(entry) for entry in value]
    fields = declared_fields(value)
    if fields is not None:
        return {name: _plain(getattr(value, name)) for name in fields}
    return _rare(value)


def _rare(value: object) -> object:
    from decimal import Decimal

    if isinstance(value, Decimal):
        return _NUMBER + scalar_text(value)  # as it is: DynamoDB's numbers have more digits than a float
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _BYTES + value.hex()
    if isinstance(value, (set, frozenset)):
        return _SET + json.dumps(sorted(json.dumps(_plain(entry), sort_keys=True) for entry in value))
    if type(value).__module__ == "datetime" and hasattr(value, "isoformat"):
        return _TEXT + _date_text(value)
    try:
        return _TEXT + scalar_text(value)
    except Unusable:
        raise Unusable(
            f"a value in it is {found_text(value)}, which cannot be hashed: choose other fields, or use a function"
        ) from None


def _date_text(value: Any) -> str:
    """ISO 8601; a moment has one text, whatever the time zone that it is given in."""
    if getattr(value, "tzinfo", None) is None or not hasattr(value, "astimezone"):
        return str(value.isoformat())
    from datetime import UTC

    return str(value.astimezone(UTC).isoformat())


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise Unusable(f"a mapping in it has an entry whose name is {found_text(name)}, not a str")
    return name
