"""`payload_hash`: a key for events without an id of their own, made from their content."""

from __future__ import annotations

import hashlib  # already loaded for signing requests
import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from .arguments import Field, builder, declared_fields, found_text, raw_event, scalar_text
from .compile import Compiled
from .parameters import Parameters, Unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arguments import KeyBuilder

# Every text in the hashed JSON begins with a letter for the type of its value: "1" is neither 1 nor b"1".
_TEXT, _NUMBER, _BYTES, _SET = "s", "n", "b", "c"
_EMPTY: tuple[object, ...] = (None, _TEXT, [], {})


def payload_hash(*paths: str) -> PayloadHash:
    """A value for ``key=``: builds the key as a SHA-256 hash (64 hex digits) of what a call contains.

        @deduplicate(payload_hash("detail[order_id]", "detail[amount]"))
        def handler(event, context):
            ...

    paths: the fields to hash, written as in a template but without braces; none: the whole first argument. Their values
        may be anything that JSON can represent, and also data classes, models, Decimals, UUIDs, Enum members, dates,
        bytes and sets. The order of the entries in a mapping does not matter. 1, 1.0 and Decimal("1.00") are the same
        number. A float of 2**53 or more is refused, as in a template, because several numbers become the same float:
        9007199254740993.0 in JSON is read as 9007199254740992.0.

    Choose the fields by which two deliveries are the same event. Do not hash a whole SQS record: it has a new
    receiptHandle with each delivery, so it is never the same twice.

    Raises TypeError for a path that is not a str. When decorating, KeyTemplateError is raised for a path that cannot be
    read. A call raises KeyTemplateError for a field that is missing or cannot be hashed. It also does if everything to
    hash is empty, because all such events would be taken for the same one.
    """
    for path in paths:
        if not isinstance(path, str):
            raise TypeError(
                f"payload_hash() takes the paths of fields, as in payload_hash('body[order_id]'), but got {path!r}. To "
                "decorate a function, write @deduplicate(payload_hash(...))"
            )
    return PayloadHash(paths)


class PayloadHash(Compiled):
    """The key function that payload_hash() returns."""

    __slots__ = ("may_be_empty", "paths")

    def __init__(self, paths: tuple[str, ...], *, may_be_empty: bool = False) -> None:
        self.paths = paths
        self.may_be_empty = may_be_empty

    def __call__(self, payload: object, /) -> str:
        """The key for a call with ``payload`` as its first argument."""
        return self.compiled(Parameters(lambda payload: None), "payload_hash")((payload,), {})

    def compiled(self, parameters: Parameters, function: str) -> KeyBuilder:
        return builder(f"the payload hash of {function}()", self._maker, parameters)

    def _maker(self, parameters: Parameters) -> Callable[..., str]:
        fields = [Field(path, parameters) for path in self.paths]
        if parameters.first is None and not fields:
            raise Unusable("the function has no argument to hash")

        def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
            try:
                if fields:
                    chosen: Any = {field.text: field.made_of(_plain, args, kwargs) for field in fields}
                else:
                    chosen = _plain(parameters.argument(None, args, kwargs))
            except RecursionError:
                raise Unusable("the payload is nested too deeply. Choose the fields to hash") from None
            if not self.may_be_empty and all(value in _EMPTY for value in (chosen.values() if fields else [chosen])):
                raise Unusable(
                    "everything that it hashes is empty, so all such events would be taken for the same one. Choose "
                    "other fields",
                    self.paths[0] if self.paths else None,
                )
            text = json.dumps(chosen, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
            return hashlib.sha256(text.encode()).hexdigest()

        return make


def _plain(value: object) -> object:
    """``value`` in JSON's types. Equal values have equal results. Raises Unusable."""
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
        entries = {}
        for name, entry in value.items():
            if not isinstance(name, str):
                raise Unusable(f"a mapping in it has an entry whose name is {found_text(name)}, not a str")
            entries[name] = _plain(entry)
        return entries
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_plain(entry) for entry in value]
    fields = declared_fields(value)
    if fields is not None:
        return {name: _plain(getattr(value, name)) for name in fields}
    from decimal import Decimal

    if isinstance(value, Decimal):
        return _NUMBER + scalar_text(value)  # not as a float: DynamoDB's numbers have more digits
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _BYTES + value.hex()
    if isinstance(value, (set, frozenset)):
        return _SET + json.dumps(sorted(json.dumps(_plain(entry), sort_keys=True) for entry in value))
    if type(value).__module__ == "datetime" and hasattr(value, "isoformat"):  # scalar_text does not take times of day
        return _TEXT + (scalar_text(value) if hasattr(value, "astimezone") else str(value.isoformat()))
    try:
        return _TEXT + scalar_text(value)
    except Unusable:
        raise Unusable(
            f"a value in it is {found_text(value)}, which cannot be hashed: choose other fields, or use a function"
        ) from None
