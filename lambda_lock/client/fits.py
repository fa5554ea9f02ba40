"""Whether a result comes back as it was: what duplicates would get, compared with what the first caller gets.

Loaded for results that have a serializer, and for those that do not come back. No message shows a value: only types,
and the names of fields and entries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from ..keys.arguments import declared_fields
from ..keys.parameters import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_NAME = 40  # characters of an entry's name that a message shows
_BY_IDENTITY: Any = object.__eq__
_FIELDS = ("__dataclass_fields__", "model_fields", "__fields__")  # of `declared_fields`
_UNREAD = ("__next__", "__anext__", "__await__")


class Unfit(Exception):
    """A result, or a type of results, cannot be stored. The message says why, and shows no value.

    where: the part of the result, such as ".lines[]".
    """

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(why + _at(where))
        self.why = why
        self.where = where


def within(error: Exception, where: str) -> Unfit:
    """The error of a part of a result, with where that part is."""
    return Unfit(error.why, where + error.where) if isinstance(error, Unfit) else Unfit(said(error), where)


class OfType:
    """A serializer that is made from a type. Each part of what it loads must be what was dumped."""


def written(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def stored(result: object, serializer: Any) -> str:
    """The text of a result, by a serializer. Raises Unfit if a duplicate would not get the result from it.

    The result is not changed: what is loaded is made of the text, and an iterator is refused before it is read.
    """
    try:
        unread = _unread(result)
    except Exception as error:  # noqa: BLE001 - it is nested too deeply, or an attribute of the application's fails
        raise Unfit(f"cannot be looked through: {said(error)}") from None
    if unread is not None:
        raise Unfit(f"has an iterator{_at(unread)}, which storing would use up. Return a list")
    step = "be written by its serializer"
    try:
        value = serializer.dump(result)
        try:
            text = written(value)
        except Exception as error:  # noqa: BLE001 - JSON's own texts name types, not values
            raise Unfit(str(error)) from None
        step = "be loaded again, as duplicates need it"
        loaded = serializer.load(json.loads(text))
        if isinstance(serializer, OfType):
            found = difference(result, loaded)
        else:
            step = "be written again after it was loaded"
            fits = written(serializer.dump(loaded)) == text or loaded == result
            found = None if fits else ": dump and load do not fit"
    except Exception as error:  # noqa: BLE001 - the application's
        raise Unfit(f"cannot {step}: {said(error)}") from None
    if found is not None:
        raise Unfit(f"does not come back as it was{found}")
    return text


@lru_cache(256)
def _is_one(kind: type) -> bool:
    """Whether a value of this type has no parts: it is neither a container nor an iterator, and has no fields."""
    has_parts = issubclass(kind, (Mapping, list, tuple, set, frozenset))
    return not has_parts and not any(hasattr(kind, name) for name in (*_FIELDS, *_UNREAD))


def difference(before: Any, after: Any, where: str = "") -> str | None:
    """Where and how ``after`` is not what ``before`` was: the rest of a sentence. None: it is the same.

    A value of a subclass is compared as what came back.
    """
    kind: Any = type(after)
    fields = None if _is_one(kind) else declared_fields(after)
    if fields is not None:
        if not isinstance(before, kind):
            return _other(before, after, where)
        return _of_attributes(before, after, fields, where)
    if not _is_one(kind) and isinstance(after, Mapping):
        if not isinstance(before, Mapping):
            return _other(before, after, where)
        for key, part in after.items():
            if key not in before:
                return f"{_at(where)}: a name of an entry is another one, or of type {type(key).__name__}"
            found = difference(before[key], part, f"{where}[{_shown(key)}]")
            if found is not None:
                return found
        lost = [key for key in before if key not in after]
        return f"{_at(where)}: [{_shown(lost[0])}] is lost" if lost else None
    for listing in (list, tuple):
        if isinstance(after, listing):
            if not isinstance(before, listing) or len(before) != len(after):
                return _other(before, after, where)
            parts = (difference(*pair, f"{where}[{at}]") for at, pair in enumerate(zip(before, after, strict=True)))
            return next(filter(None, parts), None)
    if _equal(before, after):
        return None
    is_opaque = type(before) is kind and kind.__eq__ is _BY_IDENTITY and hasattr(after, "__dict__")
    return _of_attributes(before, after, vars(after), where) if is_opaque else _other(before, after, where)


def _of_attributes(before: object, after: object, names: Mapping[str, object], where: str) -> str | None:
    for name in names:
        one, other = getattr(before, name, MISSING), getattr(after, name, MISSING)
        found = None if one is other else difference(one, other, f"{where}.{name}")
        if found is not None:
            return found
    return None


def _equal(before: Any, after: Any) -> bool:
    if before is after or before == after:
        return True
    if before != before and after != after:  # NaN
        return True
    # In the hour that a clock is set back to, a datetime of a time zone equals none of another zone (PEP 495).
    zones = getattr(before, "tzinfo", None), getattr(after, "tzinfo", None)
    return None not in zones and hasattr(after, "date") and bool(before.isoformat() == after.isoformat())


def _other(before: object, after: object, where: str) -> str:
    kinds = type(before).__name__, type(after).__name__
    how = "with another value" if kinds[0] == kinds[1] else f"as {kinds[1]}, and was {kinds[0]}"
    return f"{_at(where)}: it comes back {how}"


def _unread(value: object, where: str = "") -> str | None:
    """Where an iterator is in a result, or what nobody has awaited. None: nowhere."""
    kind: Any = type(value)
    if _is_one(kind):
        return None
    if any(hasattr(kind, name) for name in _UNREAD):
        return where
    fields = declared_fields(value)
    parts: Any = ()
    if fields is not None:
        parts = ((f"{where}.{name}", getattr(value, name, None)) for name in fields)
    elif isinstance(value, Mapping):
        parts = ((f"{where}[{_shown(key)}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = ((f"{where}[{index}]", part) for index, part in enumerate(value))
    for at, part in parts:
        found = _unread(part, at)
        if found is not None:
            return found
    return None


def said(error: Exception) -> str:
    """An error without its text, which may show values: its type, and the field that it names or the line of code."""
    if isinstance(error, Unfit):
        return str(error)
    name, trace = type(error).__name__, error.__traceback__
    try:
        first: Any = error.errors()[0]  # type: ignore[attr-defined]  # of pydantic
        return f"{name}: {first['type']} at {'.'.join(map(_shown, first['loc'])) or 'the top'}"
    except Exception:  # noqa: BLE001 - it is another error
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is None:
            return name
        code = trace.tb_frame.f_code
        return f"{name} in {code.co_name}, line {trace.tb_lineno} of {code.co_filename.rpartition('/')[2]}"


def _at(where: str) -> str:
    return f" at {where}" if where else ""


def _shown(name: object) -> str:
    return str(name)[:_LONGEST_NAME] if isinstance(name, (str, int)) else type(name).__name__
