"""What the type of a stored result is made of: the names and types of its fields. Loaded for a result with such a type.

The shape is equal on each Python, and for each notation of one type.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Union


def shape_of(wanted: Any, around: tuple[Any, ...] = ()) -> list[object]:
    """What a type is made of, as JSON values. A class with fields is their names and types, whatever its name is.

    around: the types that it is a part of. One that contains itself ends there.
    """
    if isinstance(wanted, typing.NewType):
        return shape_of(wanted.__supertype__, around)
    arguments = typing.get_args(wanted)
    kind = typing.get_origin(wanted) or wanted
    if kind in (typing.Annotated, typing.Final) and arguments:
        return shape_of(arguments[0], around)
    name = "Union" if kind in (Union, types.UnionType) else getattr(kind, "__qualname__", None) or str(kind)
    found: list[object] = [name]
    fields = None if kind in around else _fields(kind)
    if fields is not None:
        found = [{one: shape_of(hint, (*around, kind)) for one, hint in sorted(fields.items())}]
    elif hasattr(kind, "__value__") and kind not in around:  # an alias made by ``type``
        found = list(shape_of(kind.__value__, (*around, kind)))
    parts = [shape_of(argument, around) for argument in arguments]
    return [*found, *(sorted(parts, key=str) if name == "Union" else parts)]


def _fields(kind: Any) -> dict[str, Any] | None:
    """The fields of a class, with the types that their annotations name. None: it has none."""
    if not isinstance(kind, type):
        return None
    models = getattr(kind, "model_fields" if hasattr(kind, "model_fields") else "__fields__", None)
    if isinstance(models, dict):  # of pydantic
        return {name: getattr(field, "annotation", None) for name, field in models.items()}
    if not (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields")):
        return None
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 - an annotation of the application's. Where it matters, decorating has refused it
        hints = dict(getattr(kind, "__annotations__", {}))
    if dataclasses.is_dataclass(kind):  # it may have annotations of what is not stored: a ClassVar, an InitVar
        return {field.name: hints.get(field.name) for field in dataclasses.fields(kind) if field.init}
    return hints
