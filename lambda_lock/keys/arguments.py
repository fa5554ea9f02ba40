"""Keys from a call's arguments: the text of a value, and templates made of such texts.

Errors in a template itself are raised when the function is decorated.

Two things can go wrong with the text of a value. A key may fail to distinguish what it should: then there is one lock
for everybody. Or it may distinguish what it should not: then there are two locks for one customer. So a value is
refused if it is missing, None, empty, a bool, a container, or an object without a text of its own. And equal numbers
have the same text, regardless of their type: 1, 1.0 and Decimal("1.00") become "1".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence  # already loaded when the interpreter starts
from enum import Enum  # already loaded by the Lambda runtime
from functools import partial  # the Lambda runtime has it loaded
from string import Formatter  # loaded by logging

from ..core.row import NOT_A_KEY, OF_SLEEPERS
from ..errors import KeyTemplateError
from .parameters import MISSING, Parameters, Unusable, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")
    #: A key compiled for one function. It takes a call's positional and keyword arguments, and returns the lock's key.
    KeyBuilder: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], str]
    #: The same for several keys.
    KeysBuilder: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[str, ...]]

MAX_KEY_BYTES = 2048  # DynamoDB's limit for a partition key
_EXACT_FLOAT = 2**53  # from here on a float represents several whole numbers, so two ids would share a key
_MAX_DIGITS = 2048  # a number with more digits than a key can have is refused
#: What a template can have of a Lambda context, in a parameter named context.
_OF_CONTEXT = ("tenant_id", "function_name", "function_version", "invoked_function_arn", "aws_request_id")
_OF_BATCHES = ". Of a batch, let @sqs_batch() or process_stream() call a function of one record (lambda_lock.batch)"
_BRACKETS = frozenset("[]{}")
_BETWEEN = "#"  # put between fields that are adjacent in a template


# --- the text of a value ---------------------------------------------------------------------------------------------


def builder(made_by: str, read: Callable[..., Callable[..., object]], *written: Any) -> KeyBuilder:
    """The function that ``read(*written)`` returns, as a builder of keys. Unusable becomes KeyTemplateError.

    ``read`` raises Unusable for what is written, and the function that it returns for a call's arguments.
    made_by: what makes the key, for errors.
    """
    try:
        make = read(*written)
    except Unusable as error:
        raise KeyTemplateError(f"{made_by}: {error}", field=error.field) from error.__cause__

    def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        try:
            key = make(args, kwargs)
        except Unusable as error:
            raise KeyTemplateError(f"{made_by} cannot be built: {error}", field=error.field) from error.__cause__
        return check_key(key, made_by)

    return build


def check_key(key: object, made_by: str) -> str:
    """Return ``key`` if a lock can have it: a str of 1 to 2048 bytes in UTF-8, and not the key of a row of sleepers.
    Otherwise raise KeyTemplateError.

    made_by: the source of the key, for the message.
    """
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
    if key.endswith(OF_SLEEPERS):
        raise KeyTemplateError(f"{made_by} produced a key that {NOT_A_KEY}")
    return key


def scalar_text(value: object) -> str:
    """The text of a value in a key. Equal values have equal texts.

    Raises Unusable for a value whose text would be shared by many others.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str) and value:
        return str.__str__(value)  # the content, even if a subclass displays something else
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > 4 * _MAX_DIGITS:
            raise Unusable("the value is an int with too many digits")
        return int.__repr__(value)
    from decimal import Decimal  # imported here, because most keys are made of strs

    if isinstance(value, float):
        if not abs(value) < _EXACT_FLOAT:
            raise Unusable("the value is a float that is not finite or too large to be exact: pass the number as a str")
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
            raise Unusable("the value is a Decimal that is not finite or has too many digits")
        text = format(value, "f") if value else "0"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if type(value).__module__ == "uuid":
        return str(value)
    from datetime import UTC, date, datetime

    if isinstance(value, datetime) and value.tzinfo is not None:
        try:
            value = value.astimezone(UTC)  # the same moment has the same text in all time zones
        except (OverflowError, ValueError):  # the time zone decides which of the two
            raise Unusable("the value is a datetime that UTC has no year for: pass it as a str") from None
    if isinstance(value, date):
        return value.isoformat()
    has_parts = isinstance(value, (Mapping, list, tuple, set, frozenset)) or declared_fields(value) is not None
    raise Unusable(
        f"the value is {found_text(value)}: a key can contain non-empty strs, numbers, dates, UUIDs and Enum members"
        + (". Choose a field or an element of it, or pass payload_hash() as key=" if has_parts else "")
    )


def raw_event(value: object) -> object:
    """The mapping inside a Powertools event class that is not a mapping itself. Other values stay as they are."""
    raw = None if isinstance(value, Mapping) else getattr(value, "raw_event", None)
    return raw if isinstance(raw, Mapping) else value


def declared_fields(value: object) -> Mapping[str, object] | None:
    """The fields of a dataclass instance or a pydantic model (version 2 or 1). None for anything else.

    They include the undeclared fields of a model with extra="allow". Two events that differ only in such a field are
    different events. A declared field without a value is left out: an InitVar, or one that was not set.
    """
    for name in ("__dataclass_fields__", "model_fields", "__fields__"):
        fields = getattr(type(value), name, None)
        if isinstance(fields, Mapping):
            declared = {**fields, **(getattr(value, "__pydantic_extra__", None) or {})}
            return {name: field for name, field in declared.items() if hasattr(value, name)}
    return None


# --- templates --------------------------------------------------------------------------------------------------------


def from_template(template: str, parameters: Parameters, made_by: str) -> Callable[..., str]:
    """What makes the keys of a template. Raises Unusable, and KeyTemplateError for a text that is never a key."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise Unusable(f"{error}. Write a literal brace as {{{{ or }}}}", template) from error
    written: list[str | Field] = []
    for literal, field, spec, conversion in parsed:
        written.append(literal)
        if field is None:
            continue
        if not field:
            raise Unusable("{} is positional: name the parameter or the field", "")
        if conversion or spec:
            raise Unusable(
                f"{{{field}}} has a conversion or format (after ! or :), which a key does not support: remove it, or "
                "use a function for key=",
                field,
            )
        written.append(Field(field, parameters))
    parts = separated(written)
    if all(isinstance(part, str) for part in written):
        if template.startswith(("$.", "$[")):
            raise Unusable("a JSONPath: write fields in braces, as in {detail[id]}, or pass key_jmespath=", template)
        check_key(joined(parts, str), made_by)
    return partial(joined, parts, Field.made_of, scalar_text)


class Field:
    """One replacement field of a template: ``detail[customer][0]``."""

    __slots__ = ("_parameters", "path", "source", "text")

    source: str | None  # the name of the parameter; None: the first argument
    path: tuple[str, ...]

    def __init__(self, text: str, parameters: Parameters) -> None:
        # No regular expression: compiling one would cost 0.1 ms in each cold start.
        name, *closed = text.split("[")
        steps = [step.removesuffix("]") for step in closed]
        is_sound = all(part and _BRACKETS.isdisjoint(part) for part in (name, *steps)) and "." not in name
        if not is_sound or not all(step.endswith("]") for step in closed) or text != text.strip():
            import re

            example = re.sub(r"\.(\w+)", r"[\1]", text) if "." in text else "detail[customer_id]"
            raise Unusable(
                f"the field {{{text}}} cannot be read: write a name followed by [name] or [index], "
                f"as in {{{example}}}. A template cannot read attributes: use a function for key= instead",
                text,
            )
        if name.isdecimal():
            raise Unusable(f"the field {{{text}}} is positional: name the parameter or the field", text)
        if any(len(step) > 1 and step[0] == step[-1] and step[0] in "'\"" for step in steps):
            bare = "".join(f"[{step.strip(chr(39) + chr(34))}]" for step in steps)
            raise Unusable(
                f"the field {{{text}}} has quotes around a name: leave them out, write {{{name}{bare}}}",
                text,
            )
        if name in parameters.names:
            self.source, self.path = name, tuple(steps)
        elif name in parameters.hidden:
            first = "" if parameters.first is None else f", or a field of the first ({{{parameters.first}[{name}]}})"
            raise Unusable(
                f"the field {{{text}}} names a parameter of {name_of(parameters.hidden[name])}(), but another "
                f"decorator takes the call, as {parameters}, and nobody can tell what it passes on. Write this "
                f"decorator below that one, name an argument of the call{first}, or use a function for key=",
                text,
            )
        elif parameters.first is not None:
            self.source, self.path = None, (name, *steps)
        else:
            raise Unusable(
                f"the field {{{text}}} does not name a parameter, and the function has no first argument to look it up "
                "in, or none that is surely the first",
                text,
            )
        self.text = text
        self._parameters = parameters

    def made_of(self, make: Callable[[object], T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> T:
        """The result of ``make`` for the field's value in a call. ``make`` may raise Unusable.

        Raises Unusable, which says what was found but shows no values.
        """
        where = None
        try:
            value = self._parameters.argument(self.source, args, kwargs)
            if value is MISSING:
                raise Unusable("the argument is not given")
            if self.source == "context" and hasattr(value, "get_remaining_time_in_millis"):
                value = {name: getattr(value, name, None) for name in _OF_CONTEXT}
            for where, step in enumerate(self.path):  # noqa: B007 - for the error
                value = _step(value, step)
            where = None
            return make(value)
        except Unusable as error:
            what = str(error)
            if where is not None:  # the part of the field that was reached
                names = self.path[:where] if self.source is None else (self.source, *self.path[:where])
                reached = names[0] + "".join(f"[{step}]" for step in names[1:]) if names else "the first argument"
                what = f"{reached} {error}"
            raise Unusable(f"{self.text}: {what}", self.text) from error.__cause__


def _step(value: object, step: str) -> object:
    """``value[step]``. Raises Unusable: the rest of a sentence that begins with the path to ``value``."""
    if isinstance(value, (str, bytes, bytearray)):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Unusable(f"is {found_text(value)} but not JSON, so nothing can be looked up in it") from error
    if not isinstance(value, Mapping):
        value = raw_event(value)
    if isinstance(value, Mapping):
        if step not in value:  # checked first, because looking it up in a defaultdict would add the entry
            raise Unusable(f"has no [{step}]; {_has(value)}{_OF_BATCHES if 'Records' in value else ''}")
        return value[step]
    if isinstance(value, Sequence):
        if not step.isdecimal():
            raise Unusable(f"is {found_text(value)}: write the index of an element, as in [0], instead of [{step}]")
        if int(step) >= len(value):
            raise Unusable(f"has {len(value)} elements, so [{step}] does not exist")
        return value[int(step)]
    fields = declared_fields(value)
    if fields is None:
        raise Unusable(
            f"is {found_text(value)}, which has no fields: [{step}] cannot be looked up. To read an attribute, "
            "pass a function of the call's arguments as key="
        )
    if step not in fields:
        raise Unusable(f"has no field [{step}]; {_has(fields)}")
    return getattr(value, step)


def _has(names: Iterable[object]) -> str:
    first = [str(name)[:40] for name, _ in zip(names, range(10), strict=False)]
    return f"it has {', '.join(first)}" if first else "it is empty"


# -- several values in one key ----------------------------------------------------------------------------------------


class Separator:
    """The literal after a field. It keeps the value apart from what follows: different values give different keys.

    Where the literal begins within a value, an escape character is put before it. So the field ends at the first
    literal without one. With ``#``, the value ``a#b`` is written ``a\\#b``. "Within" includes a literal that begins in
    the value and ends after it, such as ``::`` after ``a:``. Escape characters right before such a place, or at the end
    of the value, are doubled. All others stay as they are.

    Two facts follow, and with them a value can be read back from its key:

    - The literal does not contain the escape character. So each place where the literal begins in the written value is
      a place where it began in the value, and an odd number of escape characters precedes it. An even number precedes
      the end of the value.
    - Read the written value backwards. What follows a place says whether the literal begins there. That says how many
      of the escape characters before it belong to the value.
    """

    __slots__ = ("_escape", "literal")

    def __init__(self, literal: str) -> None:
        self.literal = literal
        self._escape = next(chr(code) for code in range(ord("\\"), 0x110000) if chr(code) not in literal)

    def escaped(self, value: str) -> str:
        text = value + self.literal
        if text.find(self.literal) == len(value) and not value.endswith(self._escape):
            return value
        if len(value) > MAX_KEY_BYTES:
            return value  # too long for a key even without escapes
        written, escapes = [], ""  # escapes: the escape characters right before the place
        for place, character in enumerate(value):
            if text.startswith(self.literal, place):
                written.append(escapes + self._escape)
            written.append(character)
            escapes = escapes + character if character == self._escape else ""
        return "".join(written) + escapes


_AFTER_SCOPE = Separator(_BETWEEN)


def scoped(scope: str, key: str) -> str:
    """The key under which an event is stored: with its scope before it."""
    return _AFTER_SCOPE.escaped(scope) + _AFTER_SCOPE.literal + key


def separated(parts: Iterable[str | T]) -> list[tuple[str | T, Separator | None]]:
    """The literals and fields, each field but the last with the separator that follows it.

    The last field needs none: it ends at the end of the key, or before the final literal. Adjacent fields are written
    as if there were a ``#`` between them.
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


def joined(parts: Iterable[tuple[str | T, Separator | None]], text_of: Callable[..., str], *given: Any) -> str:
    """The key made of the parts that `separated` returned. ``text_of(field, *given)`` is the text of a field."""
    texts = []
    for part, separator in parts:
        text = part if isinstance(part, str) else text_of(part, *given)
        texts.append(text if separator is None else separator.escaped(text))
    return "".join(texts)


# --- words for messages -------------------------------------------------------------------------------------------


def found_text(value: object) -> str:
    """A description of a value that does not show it: events contain secrets, and messages are logged."""
    if value is None:
        return "None"
    return "an empty str" if isinstance(value, str) and not value else f"of type {type(value).__name__}"


def quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
