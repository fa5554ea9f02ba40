"""Keys from templates. Errors in a template itself are raised when the function is decorated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence  # loaded by every interpreter's start
from string import Formatter  # loaded by logging

from ..errors import KeyTemplateError
from .parameters import MISSING
from .separator import joined, separated
from .values import Unusable, check_key, declared_fields, found_text, raw_event, scalar_text, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from .parameters import KeyBuilder, Parameters

    T = TypeVar("T")

_BRACKETS = frozenset("[]{}")


def from_template(template: str, parameters: Parameters, function: str) -> KeyBuilder:
    made_by = f"the key {shown(template)} of {function}()"
    try:
        parts = separated(_parse(template, parameters))
    except KeyTemplateError as error:
        raise KeyTemplateError(f"{made_by}: {error}", field=error.field) from None
    if all(isinstance(part, str) for part, _ in parts):
        check_key("".join(str(part) for part, _ in parts), made_by)

    def build(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        try:
            key = joined(parts, lambda field: field.made_of(scalar_text, args, kwargs))
        except KeyTemplateError as error:
            raise KeyTemplateError(f"{made_by} cannot be built: {error}", field=error.field) from error.__cause__
        return check_key(key, made_by)

    return build


def _parse(template: str, parameters: Parameters) -> list[str | Field]:
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise KeyTemplateError(f"{error}. Write a literal brace as {{{{ or }}}}", field=template) from error
    parts: list[str | Field] = []
    for literal, field, spec, conversion in parsed:
        parts.append(literal)
        if field is None:
            continue
        if not field:
            raise KeyTemplateError("{} is positional: name the parameter or the field", field="")
        if conversion or spec:
            raise KeyTemplateError(
                f"{{{field}}} has a conversion or format (after ! or :), which a key does not support: remove it, or "
                "use a function for key=",
                field=field,
            )
        parts.append(Field(field, parameters))
    return parts


class Field:
    """One replacement field of a template: ``detail[customer][0]``."""

    __slots__ = ("_parameters", "path", "source", "text")

    source: str | None  # the name of the parameter; None: the first argument
    path: tuple[str, ...]

    def __init__(self, text: str, parameters: Parameters) -> None:
        name, *steps = _read(text)
        if not name:
            raise KeyTemplateError(
                f"the field {{{text}}} cannot be read: write a name followed by [name] or [index], "
                "as in {detail[customer_id]}. A template cannot read attributes: use a function for key= instead",
                field=text,
            )
        if name.isdecimal():
            raise KeyTemplateError(f"the field {{{text}}} is positional: name the parameter or the field", field=text)
        if any(len(step) > 1 and step[0] == step[-1] and step[0] in "'\"" for step in steps):
            bare = "".join(f"[{step.strip(chr(39) + chr(34))}]" for step in steps)
            raise KeyTemplateError(
                f"the field {{{text}}} has quotes around a name: leave them out, write {{{name}{bare}}}",
                field=text,
            )
        if name in parameters.names:
            self.source, self.path = name, tuple(steps)
        elif parameters.first is not None:
            self.source, self.path = None, (name, *steps)
        else:
            raise KeyTemplateError(
                f"the field {{{text}}} does not name a parameter, and the function has no first argument to look it up "
                "in",
                field=text,
            )
        self.text = text
        self._parameters = parameters

    def made_of(self, make: Callable[[object], T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> T:
        """The result of ``make`` for the field's value in a call. ``make`` may raise Unusable.

        Raises KeyTemplateError, which says what was found but shows no values.
        """
        try:
            if self.source is None:
                value = self._parameters.first_argument(args, kwargs)
            else:
                value = self._parameters.argument(self.source, args, kwargs)
            if value is MISSING:
                raise Unusable("the argument is not given")
            for done, step in enumerate(self.path):
                value = _step(value, step, self._where(done))
            return make(value)
        except Unusable as error:
            raise KeyTemplateError(f"{self.text}: {error}", field=self.text) from error.__cause__

    def _where(self, done: int) -> str:
        """The part of the field that ``done`` steps have reached, for a message."""
        if self.source is not None:
            return self.source + "".join(f"[{step}]" for step in self.path[:done])
        return self.path[0] + "".join(f"[{step}]" for step in self.path[1:done]) if done else "the first argument"


def _read(text: str) -> list[str]:
    """The name and the steps of ``name[step][step]``. The name is empty if the text does not have this form.

    There is no regular expression here, because compiling one would cost 0.1 ms in each cold start.
    """
    name, *steps = text.split("[")
    path = [step.removesuffix("]") for step in steps]
    closed = all(step.endswith("]") for step in steps)
    sound = all(part and _BRACKETS.isdisjoint(part) for part in (name, *path))
    return [name, *path] if closed and sound and "." not in name and text == text.strip() else [""]


def _step(value: object, step: str, where: str) -> object:
    """``value[step]``. Raises Unusable."""
    if isinstance(value, (str, bytes, bytearray)):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Unusable(f"{where} is {found_text(value)} but not JSON, so nothing can be looked up in it") from error
    value = raw_event(value)
    if isinstance(value, Mapping):
        if step not in value:  # checked first, because looking it up in a defaultdict would add the entry
            raise Unusable(f"{where} has no [{step}]; {_has(value)}")
        return value[step]
    if isinstance(value, Sequence):
        if not step.isdecimal():
            raise Unusable(
                f"{where} is {found_text(value)}: write the index of an element, as in [0], instead of [{step}]"
            )
        if int(step) >= len(value):
            raise Unusable(f"{where} has {len(value)} elements, so [{step}] does not exist")
        return value[int(step)]
    fields = declared_fields(value)
    if fields is None:
        raise Unusable(f"{where} is {found_text(value)}, which has no fields: [{step}] cannot be looked up")
    if step not in fields:
        raise Unusable(f"{where} has no field [{step}]; {_has(fields)}")
    return getattr(value, step)


def _has(names: Iterable[object]) -> str:
    first = [str(name)[:40] for name, _ in zip(names, range(10), strict=False)]
    return f"it has {', '.join(first)}" if first else "it is empty"
