"""Results of other types than JSON's: dataclasses, pydantic models, dates and what contains them, to JSON and back.

`for_type` makes a converter from a type, `for_function` from a function's return annotation. Both refuse a type of
which some part cannot be stored, when decorating. Loaded only for results that need it: it imports typing and
dataclasses.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import functools
import inspect
import json
import sys
import types
import typing
from collections import abc
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Union
from uuid import UUID

from ..client.fits import OfType, Unfit, within
from .kinds import kind_of

#: What stands around the type of a field: Annotated[int, "cents"], Final[int].
_AROUND = (typing.Annotated, typing.Final)
_AS_IS = (None, type(None), bool, int, float, str, object, Any)
_LISTS: dict[Any, Callable[[Any], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection), list),
    **dict.fromkeys((set, abc.Set), set),
    tuple: tuple,
    frozenset: frozenset,
}
_DICTS = (dict, abc.Mapping, abc.MutableMapping)
#: ``type Receipts = list[Receipt]``, since Python 3.12. It may contain itself.
_ALIAS: Any = getattr(typing, "TypeAliasType", ())
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Unstorable(Unfit):
    """A type cannot be stored. The message says which, and where in the result."""


def _same(value: Any) -> Any:
    return value


@dataclasses.dataclass(slots=True, eq=False)
class Converter(OfType):
    """A serializer: ``dump(value)`` gives a JSON value, ``load(value)`` the value again.

    read: gives the type of the whole result; None for a part of it.
    """

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]
    read: Callable[[], Any] | None = None


_PLAIN = Converter(_same, _same)
_MOMENTS = (datetime.datetime, datetime.date, datetime.time)
#: Types that are written as a text (a timedelta as three numbers), with the functions that write and read them.
_SCALARS: dict[Any, Converter] = {
    **{kind: Converter(kind.isoformat, kind.fromisoformat) for kind in _MOMENTS},
    datetime.timedelta: Converter(
        lambda value: [value.days, value.seconds, value.microseconds], lambda parts: datetime.timedelta(*parts)
    ),
    Decimal: Converter(str, Decimal),
    UUID: Converter(str, UUID),
    bytes: Converter(lambda value: base64.b64encode(value).decode(), base64.b64decode),
}


_NAMES = (*_MOMENTS, Decimal, UUID, bytes)  # types whose text can be the name of an entry in JSON


def for_type(wanted: Any) -> Converter | None:
    """The converter for results of a type. None if JSON or `kinds` represents it as it is. Raises Unstorable."""
    return _made(lambda: wanted)


def for_function(func: Any) -> Converter | None:
    """The converter for what a function says that it returns. None: JSON as it is, or nothing is known.

    func: has annotations of its own. If a name is not defined yet, but will be by the module that is being loaded, the
    annotation is evaluated with each result. Raises Unstorable, also for a name that nothing defines any more.
    """
    return _made(lambda: _returned(func))


def _made(read: Callable[[], Any]) -> Converter | None:
    try:
        return _converter(read)
    except _Undefined as unknown:
        if not unknown.may_come():
            raise

    def later() -> Converter:
        return _converter(read) or _PLAIN

    return Converter(lambda value: later().dump(value), lambda value: later().load(value), read)


def _converter(read: Callable[[], Any]) -> Converter | None:
    wanted = read()
    if isinstance(kind := typing.get_origin(wanted) or wanted, type) and kind_of(kind) is not None:
        return None
    made = _Types().converter(wanted, "")
    return None if made is _PLAIN else Converter(made.dump, made.load, read)


class _Undefined(Unstorable):
    """An annotation has a name that its module does not define, or not yet."""

    def __init__(self, name: str, names: dict[str, Any], where: str = "") -> None:
        super().__init__(
            f"its annotation names {name!r}, which is not defined at run time. Import it outside of TYPE_CHECKING, or "
            "define it in the module, before the function or after it",
            where,
        )
        self.name = name
        self.names = names

    def may_come(self) -> bool:
        """Whether the module whose globals are ``names`` is being loaded on this thread, and still sets the name."""
        frame = inspect.currentframe()
        while frame is not None and (frame.f_globals is not self.names or frame.f_code.co_name != "<module>"):
            frame = frame.f_back
        if frame is None:
            return False
        import dis

        for step in dis.get_instructions(frame.f_code):
            sets_it = step.opname == "STORE_NAME" and step.argval == self.name
            if step.offset > frame.f_lasti and (sets_it or "IMPORT_STAR" in step.opname + step.argrepr):
                return True
        return False


def _hints(of: Any, names: dict[str, Any], where: str, **options: Any) -> dict[str, Any]:
    """The annotations of ``of``, evaluated. names: the globals in which they stand. Raises Unstorable."""
    try:
        return typing.get_type_hints(of, **options)
    except NameError as error:
        raise _Undefined(str(error.name), names, where) from error
    except Exception as error:
        raise Unstorable(f"its annotation cannot be evaluated ({error})", where) from error


def _globals_of(kind: type) -> dict[str, Any]:
    return getattr(sys.modules.get(kind.__module__), "__dict__", {})


def _returned(func: Any) -> Any:
    """The return annotation alone: those of the parameters may name what only type checkers know."""
    if sys.version_info >= (3, 14):
        import annotationlib

        annotations = annotationlib.get_annotations(func, format=annotationlib.Format.FORWARDREF)
    else:
        annotations = func.__annotations__
    holder = types.SimpleNamespace(__annotations__={"return": annotations.get("return", Any)})
    names = getattr(inspect.unwrap(func), "__globals__", {})
    return _hints(holder, names, "", globalns=names, include_extras=True)["return"]


class _Types:
    """Makes the converters of a type and of its parts. A type that contains itself is made once."""

    def __init__(self) -> None:
        self._made: dict[Any, Converter] = {}

    def converter(self, wanted: Any, where: str) -> Converter:
        """where: the way from the result to this part, such as ".lines[]"."""
        origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
        if origin in _AROUND:
            return self.converter(arguments[0], where)
        if wanted in _AS_IS or isinstance(wanted, typing.TypeVar):
            return _PLAIN
        if origin is typing.Literal:
            return self._union(tuple(dict.fromkeys(map(type, arguments))), where)
        if wanted in _SCALARS:
            return _SCALARS[wanted]
        if origin in (Union, types.UnionType):
            return self._union(arguments, where)
        if isinstance(wanted, typing.NewType):
            return self.converter(wanted.__supertype__, where)
        if isinstance(wanted, _ALIAS):
            return self._class(wanted, wanted, where)
        kind = origin or wanted
        if kind in _DICTS:
            return self._dict(arguments, where)
        if kind in _LISTS:
            return self._list(kind, arguments, where)
        if isinstance(kind, type):
            return self._class(wanted, kind, where)
        raise Unstorable(_name(wanted, where))

    def _union(self, members: tuple[Any, ...], where: str) -> Converter:
        inner = [self.converter(member, where) for member in members if member is not type(None)]
        if all(one is _PLAIN for one in inner):
            return _PLAIN
        if len(inner) > 1:
            names = " or ".join(_name(member, "") for member in members)
            raise Unstorable(f"{names}{_at(where)}, and JSON would not say which")
        (one,) = inner
        return Converter(
            lambda value: None if value is None else one.dump(value),
            lambda value: None if value is None else one.load(value),
        )

    def _list(self, kind: Any, members: tuple[Any, ...], where: str) -> Converter:
        make = _LISTS[kind]
        if kind is tuple and members and members[-1] is not Ellipsis:
            inner = [self.converter(member, f"{where}[{index}]") for index, member in enumerate(members)]
            return Converter(
                lambda value: [one.dump(part) for one, part in zip(inner, value, strict=True)],
                lambda value: tuple([one.load(part) for one, part in zip(inner, value, strict=True)]),
            )
        one = self.converter(members[0] if members else Any, f"{where}[]")
        if one is _PLAIN and make is list:
            return _PLAIN
        return Converter(_each(one, "dump", _in_order if make in (set, frozenset) else list), _each(one, "load", make))

    def _dict(self, members: tuple[Any, ...], where: str) -> Converter:
        name, value = members or (str, Any)
        name = _bare(name)
        names, values = self.converter(name, f"{where} (a key)"), self.converter(value, f"{where}[]")
        if name is int:
            names = Converter(str, int)
        elif name not in (str, Any) and name not in _NAMES and not _is_enum(name):
            raise Unstorable(f"{_name(name, '')} as a key{_at(where)}")
        if names is values is _PLAIN:
            return _PLAIN
        return Converter(
            lambda found: {names.dump(key): values.dump(part) for key, part in found.items()},
            lambda found: {names.load(key): values.load(part) for key, part in found.items()},
        )

    def _class(self, wanted: Any, kind: type, where: str) -> Converter:
        if wanted in self._made:
            return self._made[wanted]
        made = self._made[wanted] = Converter(_same, _same)
        made.dump, made.load = self._functions(wanted, kind, where)
        return made

    def _functions(self, wanted: Any, kind: type, where: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        found: Any = wanted
        if isinstance(found, _ALIAS):
            inner = self.converter(found.__value__, where)
            return inner.dump, inner.load
        if hasattr(kind, "model_validate_json"):
            return _model(found, where)
        if hasattr(kind, "parse_obj") and hasattr(kind, "__fields__"):  # pydantic 1
            return lambda value: json.loads(value.json()), found.parse_obj
        if _is_enum(kind, str, int, float):
            return lambda value: value.value, found
        if dataclasses.is_dataclass(kind):
            fields = [field.name for field in dataclasses.fields(kind) if field.init]
            for name, parameter in inspect.signature(kind).parameters.items():  # an InitVar is needed but not stored
                if parameter.default is parameter.empty and parameter.kind not in _REST and name not in fields:
                    needs = f"which needs {name!r} to be made, and that is none of its fields"
                    raise Unstorable(f"{_name(kind, where)}, {needs}")
            return self._fields(wanted, kind, fields, where, getattr)
        if typing.is_typeddict(kind):
            fields = list(_hints(kind, _globals_of(kind), where))
            return self._fields(wanted, kind, fields, where, dict.get, some=True)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._fields(wanted, kind, list(found._fields), where, getattr)
        raise Unstorable(_name(wanted, where))

    def _fields(
        self, wanted: Any, kind: type, names: list[str], where: str, get: Callable[[Any, str], Any], some: bool = False
    ) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        given = dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(wanted), strict=False))
        hints = {name: _filled(hint, given) for name, hint in _hints(kind, _globals_of(kind), where).items()}
        inner = {name: self.converter(hints.get(name, Any), f"{where}.{name}") for name in names}
        make: Any = kind

        def dump(value: Any) -> Any:
            found = {}
            for name, one in inner.items():
                if not some or name in value:
                    try:
                        found[name] = one.dump(get(value, name))
                    except Exception as error:
                        raise within(error, f".{name}") from error
            return found

        def load(value: Any) -> Any:  # fields that a later version of the type does not have any more are left out
            found = {}
            for name, one in inner.items():
                if name in value:
                    try:
                        found[name] = one.load(value[name])
                    except Exception as error:
                        raise within(error, f".{name}") from error
            return make(**found)

        return dump, load


def _in_order(parts: list[Any]) -> list[Any]:
    """The parts of a set, which gives one text in every process."""
    return sorted(parts, key=repr)


def _each(one: Converter, act: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that makes a list, set or tuple of converted parts."""

    def each(value: Any) -> Any:
        convert = getattr(one, act)  # asked late: a type that contains itself is made around this
        try:
            return make([convert(part) for part in value])
        except Exception as error:
            raise within(error, "[]") from error

    return each


def _filled(hint: Any, given: dict[Any, Any]) -> Any:
    """The type of a field of ``Page[Receipt]``: with Receipt where Page has a type variable."""
    if hint in given:
        return given[hint]
    free = getattr(hint, "__parameters__", ()) if given and typing.get_origin(hint) is not None else ()
    return hint[tuple([given.get(variable, Any) for variable in free])] if free else hint


def _bare(wanted: Any) -> Any:
    """The type behind a NewType, an alias or an Annotated, and the one of a Literal's members."""
    if isinstance(wanted, typing.NewType):
        return _bare(wanted.__supertype__)
    if isinstance(wanted, _ALIAS):
        return _bare(wanted.__value__)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Annotated:
        return _bare(arguments[0])
    kinds = set(map(type, arguments))
    return kinds.pop() if origin is typing.Literal and len(kinds) == 1 else wanted


def _model(model: Any, where: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The functions for a pydantic model. They name fields as the class does, or by alias before pydantic 2.11.

    A model of a subclass is stored as ``model`` is: with its own fields this could not be loaded if extra="forbid".
    """
    if not getattr(model, "__pydantic_complete__", True):
        try:
            model.model_rebuild()
        except NameError as error:
            raise _Undefined(str(error.name), _globals_of(model), where) from error
    by_name = "by_name" in inspect.signature(model.model_validate_json).parameters
    names: dict[str, Any] = {"by_alias": False, "by_name": True} if by_name else {}

    def dump(value: Any) -> Any:
        write = value.model_dump
        if isinstance(value, model) and type(value) is not model:
            from pydantic import TypeAdapter

            write = functools.partial(TypeAdapter(model).dump_python, value)
        # A warning of pydantic's would show values. What does not fit is found when the text is loaded.
        return write(mode="json", by_alias=not by_name, round_trip=True, warnings=False)

    def load(value: Any) -> Any:
        return model.model_validate_json(json.dumps(value), **names)

    return dump, load


def _is_enum(kind: Any, *values: type) -> bool:
    """Whether it is an Enum whose members' values have these types. None given: str."""
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return False
    return all(isinstance(member.value, values or str) for member in kind)


def _name(wanted: Any, where: str) -> str:
    name = wanted.__qualname__ if isinstance(wanted, type) else str(wanted)
    return f"{name}{_at(where)}"


def _at(where: str) -> str:
    return f" at {where}" if where else ""
