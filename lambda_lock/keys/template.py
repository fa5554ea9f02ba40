"""Keys from templates. Errors in a template itself are raised when the function is decorated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence  # loaded by every interpreter's start
from functools import partial  # the Lambda runtime has it loaded
from itertools import count  # loaded by functools
from string import Formatter  # loaded by logging

from .arguments import MAX_KEY_BYTES, MISSING, Unusable, check_key, declared_fields, found_text, raw_event, scalar_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from .arguments import Parameters

    T = TypeVar("T")

#: What a template can have of a Lambda context, in a parameter named context.
_OF_CONTEXT = ("tenant_id", "function_name", "function_version", "invoked_function_arn", "aws_request_id")
_OF_BATCHES = ". Of a batch, let @sqs_batch() or process_stream() call a function of one record (lambda_lock.batch)"
_BRACKETS = frozenset("[]{}")
_BETWEEN = "#"  # put between fields that are adjacent in a template


def from_template(template: str, parameters: Parameters, made_by: str) -> Callable[..., str]:
    """What makes the keys of a template. Raises Unusable, and KeyTemplateError for a text that never is a key."""
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
        elif parameters.first is not None:
            self.source, self.path = None, (name, *steps)
        else:
            raise Unusable(
                f"the field {{{text}}} does not name a parameter, and the function has no first argument to look it up "
                "in",
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
    """``value[step]``. Raises Unusable, whose message goes on after what ``value`` is."""
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
    """The literal after a field. It keeps the field's value apart from what follows: other values make other keys.

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
        self._escape = next(chr(code) for code in count(ord("\\")) if chr(code) not in literal)

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
