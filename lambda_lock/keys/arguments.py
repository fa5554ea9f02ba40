"""A call's arguments: which of them a name means, and the text of a value in a key.

Two things can go wrong with that text. A key may fail to distinguish what it should: then there is one lock for
everybody. Or it may distinguish what it should not: then there are two locks for one customer. So a value is refused if
it is missing, None, empty, a bool, a container, or an object without a text of its own. And equal numbers have the same
text, regardless of their type: 1, 1.0 and Decimal("1.00") become "1".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping  # already loaded when the interpreter starts
from enum import Enum  # already loaded by the Lambda runtime

from ..errors import KeyTemplateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    #: A key compiled for one function. It takes a call's positional and keyword arguments, and returns the lock's key.
    KeyBuilder: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], str]
    #: The same for several keys.
    KeysBuilder: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[str, ...]]

MAX_KEY_BYTES = 2048  # DynamoDB's limit for a partition key
_EXACT_FLOAT = 2**53  # from here on a float represents several whole numbers, so two ids would share a key
_MAX_DIGITS = 2048  # a number with more digits than a key can have is refused
_VARARGS, _VARKEYWORDS = 0x04, 0x08  # flags of a code object, as inspect names them
MISSING = object()


def name_of(func: object) -> str:
    return str(getattr(func, "__qualname__", type(func).__name__))


_CODE = type(name_of.__code__)  # a mock may have anything as its __code__


class Parameters:
    """The parameters of a function, and how a call's arguments match them.

    They are read from the code object, because importing inspect costs milliseconds of a cold start. Like
    inspect.signature, this follows ``__wrapped__``, so a decorator that hides the signature does not hide the names.
    """

    __slots__ = ("_defaults", "_named", "_positions", "_required", "_varargs", "_varkeywords", "first", "names")

    def __init__(self, func: Callable[..., Any], *, follow_wrapped: bool = True) -> None:
        while follow_wrapped and not hasattr(func, "__signature__") and hasattr(func, "__wrapped__"):
            func = func.__wrapped__
        is_bound = hasattr(func, "__self__")
        function = func.__func__ if is_bound and hasattr(func, "__func__") else func
        code = getattr(function, "__code__", None)
        if type(code) is not _CODE or hasattr(function, "__signature__"):
            positional, keyword_only, varargs, varkeywords, defaults = _inspected(func, follow_wrapped)
        else:
            end = code.co_argcount + code.co_kwonlyargcount
            positional, keyword_only = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount : end]
            varargs = code.co_varnames[end] if code.co_flags & _VARARGS else None
            varkeywords = code.co_varnames[end + bool(varargs)] if code.co_flags & _VARKEYWORDS else None
            values = function.__defaults__ or ()
            defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
            defaults |= function.__kwdefaults__ or {}
            positional = positional[1:] if is_bound else positional
        self._positions = {name: index for index, name in enumerate(positional)}
        self._defaults = defaults
        self._varargs = varargs
        self._varkeywords = varkeywords
        self._named = frozenset((*positional, *keyword_only))
        self._required = self._named.difference(defaults)
        self.names = frozenset(name for name in (*positional, *keyword_only, varargs, varkeywords) if name)
        #: The first parameter after self or cls. These two can be recognized only by their names.
        self.first = next((name for name in positional if name not in ("self", "cls")), varargs)

    def argument(self, name: str | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        """The value of the parameter ``name`` in a call, or its default. MISSING if there is neither.

        name: None: the first argument after self or cls, positional or keyword.
        """
        if name is None:
            name = self.first
            if name == self._varargs:
                return args[len(self._positions)] if len(args) > len(self._positions) else MISSING
        assert name is not None, "checked when the key was compiled"
        if name == self._varargs:
            return args[len(self._positions) :]
        if name == self._varkeywords:
            return {given: value for given, value in kwargs.items() if given not in self.names}
        position = self._positions.get(name)
        if position is not None and position < len(args):
            return args[position]
        return kwargs[name] if name in kwargs else self._defaults.get(name, MISSING)

    def check_known(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> None:
        """Raise TypeError for arguments that the function ``name`` does not take. It may be given fewer."""
        more = args[len(self._positions) :] if self._varargs is None else ()
        unknown = sorted(kwargs.keys() - self._named) if self._varkeywords is None else []
        if more or unknown:
            what = f"the argument {unknown[0]}=" if unknown else f"{len(args)} positional arguments"
            raise TypeError(f"{name}() does not take {what}: pass those of a call, and wait= by its name")

    def take(self, count: int) -> bool:
        """Whether the parameters accept a call with exactly ``count`` positional arguments and nothing else."""
        return (count <= len(self._positions) or self._varargs is not None) and self._required <= self._first(count)

    def take_calls_of(self, other: Parameters, *added: str) -> bool:
        """Whether the parameters accept some call that ``other`` accepts, with the keywords ``added`` as well."""
        most = max(len(other._positions), len(self._positions) if other._varargs else 0)
        if self._varargs is None:
            most = min(most, len(self._positions))
        for count in range(most + 1):
            filled, passed = self._first(count), other._first(count)  # by position
            given = other._required - passed | set(added)  # by keyword, at least
            if (
                filled.isdisjoint(given)
                and (given <= self._named or self._varkeywords is not None)
                and (self._required - filled - given <= other._named - passed or other._varkeywords is not None)
            ):
                return True
        return False

    def _first(self, count: int) -> frozenset[str]:
        """The parameters that ``count`` positional arguments fill."""
        return frozenset(name for name, position in self._positions.items() if position < count)


def _inspected(func: Callable[..., Any], follow_wrapped: bool) -> tuple[Any, Any, Any, Any, dict[str, object]]:
    """For callables without a code object of their own: partial objects, callable objects, built-in functions."""
    from inspect import Parameter, signature

    try:
        found = signature(func, follow_wrapped=follow_wrapped).parameters.values()
    except (TypeError, ValueError):  # some built-in functions and mocks have no signature
        return (), (), "args", "kwargs", {}
    return (
        [one.name for one in found if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)],
        [one.name for one in found if one.kind is Parameter.KEYWORD_ONLY],
        next((one.name for one in found if one.kind is Parameter.VAR_POSITIONAL), None),
        next((one.name for one in found if one.kind is Parameter.VAR_KEYWORD), None),
        {one.name: one.default for one in found if one.default is not Parameter.empty},
    )


# --- the text of a value ---------------------------------------------------------------------------------------------


class Unusable(Exception):
    """A value cannot be part of a key, or a text cannot be read. The message says why. field: what was written."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def builder(made_by: str, read: Callable[..., Callable[..., object]], *written: Any) -> KeyBuilder:
    """The builder of keys that ``read(*written)`` returns, with its errors as KeyTemplateErrors.

    Both may raise Unusable: ``read`` for what is written, and what it returns for a call's arguments.
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
    """Return ``key`` if it can be a partition key: a str of 1 to 2048 bytes in UTF-8. Otherwise raise KeyTemplateError.

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
        except (OverflowError, ValueError):  # which of them, the time zone decides
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
    different events. What is declared but not there is none: an InitVar, or a field that was not set.
    """
    for name in ("__dataclass_fields__", "model_fields", "__fields__"):
        fields = getattr(type(value), name, None)
        if isinstance(fields, Mapping):
            declared = {**fields, **(getattr(value, "__pydantic_extra__", None) or {})}
            return {name: field for name, field in declared.items() if hasattr(value, name)}
    return None


# --- words for messages -------------------------------------------------------------------------------------------


def found_text(value: object) -> str:
    """A description of a value that does not show it: events contain secrets, and messages are logged."""
    if value is None:
        return "None"
    return "an empty str" if isinstance(value, str) and not value else f"of type {type(value).__name__}"


def quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
