"""From a call's arguments to the lock's key.

The one danger here is a key that does not tell apart what it should (one lock for everybody), or tells apart what it
should not (two locks for one customer). Hence: a value that is missing, None, empty, a bool, a container or an object
with no text of its own is refused, and equal numbers are written alike, whatever their type: 1, 1.0 and Decimal("1.00")
give "1". Values that share a key are kept apart by what stands between them, see Separator.

Templates are compiled when a function is decorated; what can be wrong in the template itself is said there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence  # loaded by every interpreter's start
from enum import Enum  # loaded by re
from itertools import count  # loaded by functools
from string import Formatter  # loaded by logging

from ..errors import KeyTemplateError
from .parameters import MISSING, Parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from decimal import Decimal
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")
    #: What ``key=`` may be: a template, or a function of the call's own arguments.
    Key: TypeAlias = "str | Callable[..., str] | Compiled"
    #: A key compiled for one function: from a call's positional and keyword arguments to the lock's key.
    KeyBuilder: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], str]

MAX_KEY_BYTES = 2048  # DynamoDB's limit for a partition key
_EXACT_FLOAT = 2**53  # from here on a float stands for several whole numbers: two ids would share a key
_MAX_DIGITS = 2048  # a number longer than a key may be is not written out
_BETWEEN = "#"  # stands between fields that a template has side by side
_FIELD = re.compile(r"(?P<name>[^\[\].{}]+)(?P<path>(?:\[[^\[\]{}]+\])*)")


class Compiled:
    """A key function that wants to know the function's parameters first: payload_hash()."""

    __slots__ = ()

    def compiled(self, parameters: Parameters, function: str) -> KeyBuilder:
        """The builder of the keys of ``function``. Raises KeyTemplateError."""
        raise NotImplementedError


def compile_key(func: Callable[..., Any], key: Key | None, key_jmespath: str | None) -> KeyBuilder:
    """The builder of ``func``'s keys, from exactly one of ``key`` and ``key_jmespath``.

    The builder raises KeyTemplateError where a call's arguments do not give a key.

    Raises TypeError where not exactly one is given, or one of the wrong type; KeyTemplateError for an error in the
    template or expression; LockConfigurationError where a package that key_jmespath needs is not installed.
    """
    if (key is None) == (key_jmespath is None):
        raise TypeError("give exactly one of key= (a template or a function) and key_jmespath=")
    function = _name(func)
    if key_jmespath is not None:
        if not isinstance(key_jmespath, str):
            raise TypeError(f"key_jmespath= must be a str, got {type(key_jmespath).__name__}")
        from .jmespath import from_jmespath

        return from_jmespath(key_jmespath, Parameters.of(func), function)
    if isinstance(key, str):
        return _from_template(key, Parameters.of(func), function)
    if isinstance(key, Compiled):
        return key.compiled(Parameters.of(func), function)
    if callable(key):
        return _from_callable(key, function)
    raise TypeError(f"key= must be a str or a function that returns one, got {type(key).__name__}")


def check_key(key: object, made_by: str) -> str:
    """``key`` itself if it can be a partition key: a str of 1 to 2048 bytes of UTF-8. Raises KeyTemplateError."""
    if not isinstance(key, str):
        raise KeyTemplateError(f"{made_by} gave a value that is {found_text(key)}; a key must be a non-empty str")
    if not key:
        raise KeyTemplateError(f"{made_by} gave an empty key; a key must be a non-empty str")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise KeyTemplateError(f"{made_by} gave a key that is not valid Unicode ({error.reason})") from error
    if size > MAX_KEY_BYTES:
        raise KeyTemplateError(
            f"{made_by} gave a key of {size} bytes, at most {MAX_KEY_BYTES} are possible: use a shorter field or a hash"
        )
    return key


# --- templates ----------------------------------------------------------------------------------------------------


class Field:
    """One replacement field of a template: ``detail[customer][0]``."""

    __slots__ = ("path", "source", "text")

    def __init__(self, text: str, parameters: Parameters) -> None:
        matched = _FIELD.fullmatch(text)
        if matched is None or text != text.strip():
            raise KeyTemplateError(
                f"the field {{{text}}} cannot be read: write a name followed by [name] or [index], "
                "as in {detail[customer_id]}; attributes are not reached by a template (use a function for key=)",
                field=text,
            )
        name = matched["name"]
        if name.isdecimal():
            raise KeyTemplateError(f"the field {{{text}}} is positional: name the parameter or the field", field=text)
        steps = matched["path"][1:-1].split("][") if matched["path"] else []
        if any(len(step) > 1 and step[0] == step[-1] and step[0] in "'\"" for step in steps):
            bare = "".join(f"[{step.strip(chr(39) + chr(34))}]" for step in steps)
            raise KeyTemplateError(
                f"the field {{{text}}} has quotes around a name: a template has none, write {{{name}{bare}}}",
                field=text,
            )
        if name in parameters.names:
            self.source, self.path = name, tuple(steps)
        elif parameters.first is not None:
            self.source, self.path = None, (name, *steps)
        else:
            raise KeyTemplateError(
                f"the field {{{text}}} names no parameter, and the function has no first argument to look into",
                field=text,
            )
        self.text = text

    def value(self, parameters: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The field's text in a call. Raises KeyTemplateError, which says what was found, without values."""
        return self.made_of(scalar_text, parameters, args, kwargs)

    def made_of(
        self,
        make: Callable[[object], T],
        parameters: Parameters,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> T:
        """What ``make`` makes of the field's value in a call; it may raise Unusable. Raises KeyTemplateError."""
        try:
            if self.source is None:
                value = parameters.first_argument(args, kwargs)
            else:
                value = parameters.argument(self.source, args, kwargs)
            if value is MISSING:
                raise Unusable("the argument is not given")
            for done, step in enumerate(self.path):
                value = _step(value, step, self._where(done))
            return make(value)
        except Unusable as error:
            raise KeyTemplateError(f"{self.text}: {error}", field=self.text) from error.__cause__

    def _where(self, done: int) -> str:
        """The part of the field that was reached after ``done`` steps, for a message."""
        if self.source is not None:
            return self.source + "".join(f"[{step}]" for step in self.path[:done])
        return self.path[0] + "".join(f"[{step}]" for step in self.path[1:done]) if done else "the first argument"


class Unusable(Exception):
    """Why a value cannot be part of a key."""


def _from_template(template: str, parameters: Parameters, function: str) -> KeyBuilder:
    made_by = f"the key {shown(template)} of {function}()"
    try:
        parts = separated(_parse(template, parameters))
    except KeyTemplateError as error:
        raise KeyTemplateError(f"{made_by}: {error}", field=error.field) from None
    if all(isinstance(part, str) for part, _ in parts):
        check_key("".join(str(part) for part, _ in parts), made_by)

    def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        try:
            key = joined(parts, lambda field: field.value(parameters, args, kwargs))
        except KeyTemplateError as error:
            raise KeyTemplateError(f"{made_by} cannot be built: {error}", field=error.field) from error.__cause__
        return check_key(key, made_by)

    return build


def _parse(template: str, parameters: Parameters) -> list[str | Field]:
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise KeyTemplateError(f"{error}; a literal brace is written {{{{ or }}}}", field=template) from error
    parts: list[str | Field] = []
    for literal, field, spec, conversion in parsed:
        parts.append(literal)
        if field is None:
            continue
        if not field:
            raise KeyTemplateError("{} is positional: name the parameter or the field", field="")
        if conversion or spec:
            raise KeyTemplateError(
                f"{{{field}}} has a conversion or format (after ! or :): a key has none; use a function for key=",
                field=field,
            )
        parts.append(Field(field, parameters))
    return parts


def _step(value: object, step: str, where: str) -> object:
    """``value[step]``. Raises Unusable."""
    if isinstance(value, (str, bytes, bytearray)):
        value = _parsed_json(value, where)
    value = raw_event(value)
    if isinstance(value, Mapping):
        return _entry(value, step, where)
    if isinstance(value, Sequence):
        return _element(value, step, where)
    fields = declared_fields(value)
    if fields is None:
        raise Unusable(f"{where} is {found_text(value)}, which has no fields: [{step}] cannot be looked up")
    if step not in fields:
        raise Unusable(f"{where} has no field [{step}]; {_has(fields)}")
    return getattr(value, step)


def _parsed_json(text: str | bytes | bytearray, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{where} is {found_text(text)} that is not JSON, so nothing can be looked up in it") from error


def _entry(mapping: Mapping[Any, object], step: str, where: str) -> object:
    if step in mapping:  # asked first: looking up in a defaultdict would put the entry there
        return mapping[step]
    raise Unusable(f"{where} has no [{step}]; {_has(mapping)}")


def _element(sequence: Sequence[object], step: str, where: str) -> object:
    if not step.isdecimal():
        raise Unusable(
            f"{where} is {found_text(sequence)}: an element is reached by its index, as in [0], not by [{step}]"
        )
    if int(step) >= len(sequence):
        raise Unusable(f"{where} has {len(sequence)} elements, so there is no [{step}]")
    return sequence[int(step)]


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


def _from_callable(key: Callable[..., str], function: str) -> KeyBuilder:
    made_by = f"the key function {_name(key)}() of {function}()"

    def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return check_key(key(*args, **kwargs), made_by)

    return build


# --- several fields in one key --------------------------------------------------------------------------------------


class Separator:
    """The literal after a field. It keeps the field's values apart from what follows: other values, other keys.

    Where the literal begins within a value it gets an escape character, so the field ends at the first literal without
    one: with ``#``, the value ``a#b`` is written ``a\\#b``. "Within" includes a literal that begins in the value and
    ends beyond it: ``::`` after ``a:``. Escape characters right before such a place, or at the end of the value, are
    doubled; all others stay. So there are two facts, and a value can be read back from its key:

    - The literal has no escape character in it. A place where it begins in the written value is one where it began in
      the value, and has an odd number of escape characters before it. The end of the value has an even number.
    - Read backwards, what follows a place says whether the literal begins there, and thereby how many of the escape
      characters before it belong to the value.
    """

    __slots__ = ("_escape", "literal")

    def __init__(self, literal: str) -> None:
        self.literal = literal
        self._escape = next(chr(code) for code in count(ord("\\")) if chr(code) not in literal)

    def escaped(self, value: str) -> str:
        text = value + self.literal
        if text.find(self.literal) == len(value) and not value.endswith(self._escape):
            return value
        if len(value) > MAX_KEY_BYTES:
            return value  # too long for a key as it is
        written, escapes = [], ""  # these stand right before the place
        for place, character in enumerate(value):
            if text.startswith(self.literal, place):
                written.append(escapes + self._escape)
            written.append(character)
            escapes = escapes + character if character == self._escape else ""
        return "".join(written) + escapes


def separated(parts: Iterable[str | T]) -> list[tuple[str | T, Separator | None]]:
    """Literals and fields, each field but the last with the separator that follows it.

    The last one ends where the key ends, or where the literal after it does. Fields that nothing separates are written
    as if a ``#`` stood between them.
    """
    found: list[str | T] = []
    for part in parts:
        if part == "":
            continue
        if found and isinstance(part, str) and isinstance(found[-1], str):
            found[-1] += part
            continue
        if found and not isinstance(part, str) and not isinstance(found[-1], str):
            found.append(_BETWEEN)
        found.append(part)
    last = max((index for index, part in enumerate(found) if not isinstance(part, str)), default=0)
    return [
        (part, Separator(str(found[index + 1])) if index < last and not isinstance(part, str) else None)
        for index, part in enumerate(found)
    ]


def joined(parts: Iterable[tuple[str | T, Separator | None]], text_of: Callable[[T], str]) -> str:
    """The key of what `separated` gave, with the text of each field."""
    texts = []
    for part, separator in parts:
        text = part if isinstance(part, str) else text_of(part)
        texts.append(text if separator is None else separator.escaped(text))
    return "".join(texts)


# --- values -------------------------------------------------------------------------------------------------------


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
        f"the value is {found_text(value)}; a key is made of non-empty strs, numbers, UUIDs and Enum members"
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


# --- words for messages -------------------------------------------------------------------------------------------


def found_text(value: object) -> str:
    """What a value is, without showing it: events carry secrets, and messages are logged."""
    if value is None:
        return "None"
    return "an empty str" if isinstance(value, str) and not value else f"of type {type(value).__name__}"


def _has(names: Iterable[object]) -> str:
    first = [str(name)[:40] for name, _ in zip(names, range(10), strict=False)]
    return f"it has {', '.join(first)}" if first else "it is empty"


def shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _name(func: Callable[..., Any]) -> str:
    return str(getattr(func, "__qualname__", type(func).__name__))
