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
_TEXT, _NUMBER, _BYTES, _SET, _DURATION, _MAPPING, _JSON = "s", "n", "b", "c", "d", "m", "j"
#: Types whose str() is all that they are, apart from paths: their module, and their names; none: all.
_BY_TEXT: dict[str, tuple[str, ...]] = {
    "ipaddress": (),
    "pydantic.networks": (),
    "pydantic_core._pydantic_core": ("Url", "MultiHostUrl"),
    "yarl": ("URL",),
}
_EMPTY: tuple[object, ...] = (None, _TEXT, [], {})


def payload_hash(*paths: str) -> PayloadHash:
    """A value for ``key=``: builds the key as a SHA-256 hash (64 hex digits) of what a call contains.

        @deduplicate(payload_hash("detail[order_id]", "detail[amount]"))
        def handler(event, context):
            ...

    paths: the fields to hash, written as in a template but without braces; none: the whole first argument. Their values
        may be anything that JSON can represent, and also data classes, models, Decimals, UUIDs, Enum members, dates,
        timedeltas, bytes, sets, paths, IP addresses, URLs, and mappings with other keys than strs. The order of the
        entries in a mapping does not matter, nor does the notation of a field that is a JSON text of an object or
        array, such as a body: it is compared as JSON, unless it names an entry twice, or has NaN or Infinity. 1, 1.0
        and Decimal("1.00") are the same number. A float of 2**53 or more is refused, as in a template, because several
        numbers become the same float: 9007199254740993.0 in JSON is read as 9007199254740992.0.

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

    __slots__ = ("as_written", "may_be_empty", "paths")

    def __init__(self, paths: tuple[str, ...], *, may_be_empty: bool = False, as_written: bool = False) -> None:
        self.paths = paths
        self.may_be_empty = may_be_empty
        self.as_written = as_written  # whether JSON texts are texts, as up to version 0.2.0

    def __call__(self, payload: object, /) -> str:
        """The key for a call with ``payload`` as its first argument."""
        return self.compiled(Parameters(lambda payload: None), "payload_hash")((payload,), {})

    def compiled(self, parameters: Parameters, function: str) -> KeyBuilder:
        return builder(f"the payload hash of {function}()", self._maker, parameters)

    def _maker(self, parameters: Parameters) -> Callable[..., str]:
        fields, whole = [Field(path, parameters) for path in self.paths], _plain if self.as_written else _whole
        if parameters.first is None and not fields:
            raise Unusable("the function has no argument to hash")

        def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
            try:
                if fields:
                    chosen: Any = {field.text: field.made_of(whole, args, kwargs) for field in fields}
                else:
                    chosen = whole(parameters.argument(None, args, kwargs))
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


def _whole(value: object) -> object:
    """A chosen value as `_plain` gives it. A JSON text of an object or array is what it says, in whatever notation."""
    if isinstance(value, (str, bytes, bytearray)) and value[:64].strip()[:1] in ("{", "[", b"{", b"["):
        from decimal import Decimal

        try:
            said = json.loads(
                value, parse_float=Decimal, parse_constant=_refused, object_pairs_hook=_with_different_names
            )
            return _JSON + json.dumps(_plain(said), sort_keys=True)
        except (ValueError, Unusable, RecursionError):  # no JSON, or JSON that not all parsers read alike: as it is
            pass
    return _plain(value)


def _refused(constant: str) -> object:
    raise ValueError(constant)


def _with_different_names(entries: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(entries)
    if len(found) < len(entries):
        raise ValueError("an object names an entry twice")
    return found


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
        pairs = [(_plain(name), _plain(entry)) for name, entry in value.items()]
        if len({json.dumps(name, sort_keys=True) for name, _ in pairs}) < len(pairs):  # a date and its text
            raise Unusable("a mapping in it has two entries with one name. Choose other fields")
        entries = {name[1:]: entry for name, entry in pairs if isinstance(name, str) and name[0] == _TEXT}
        if len(entries) == len(pairs):
            return entries
        return _MAPPING + json.dumps(sorted(json.dumps(pair, sort_keys=True) for pair in pairs))
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_plain(entry) for entry in value]
    fields = declared_fields(value)
    if fields is not None:
        return {name: _plain(getattr(value, name)) for name in fields}
    from datetime import timedelta
    from decimal import Decimal

    if isinstance(value, Decimal):
        return _NUMBER + scalar_text(value)  # not as a float: DynamoDB's numbers have more digits
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _BYTES + value.hex()
    if isinstance(value, (set, frozenset)):
        return _SET + json.dumps(sorted(json.dumps(_plain(entry), sort_keys=True) for entry in value))
    if isinstance(value, timedelta):
        return f"{_DURATION}{value.days},{value.seconds},{value.microseconds}"
    if type(value).__module__ == "datetime" and hasattr(value, "isoformat"):  # scalar_text does not take times of day
        return _TEXT + (scalar_text(value) if hasattr(value, "astimezone") else str(value.isoformat()))
    if hasattr(value, "__fspath__"):
        return _plain(value.__fspath__())
    for kind in type(value).__mro__:
        names = _BY_TEXT.get(kind.__module__)
        if names is not None and (not names or kind.__name__ in names):
            return _TEXT + str(value)
    try:
        return _TEXT + scalar_text(value)
    except Unusable:
        raise Unusable(
            f"a value in it is {found_text(value)}, which cannot be hashed: choose other fields, or use a function"
        ) from None
