"""Which argument of a call a name means: the parameters of what is called, as Python binds a call to them.

1. **Names are those of what is called**: the outermost callable that names its parameters. What partial functions and
   methods have bound has its name, too.
2. **A wrapper that names none** (``*args, **kwargs``, perhaps after self) is taken to pass its calls on as they are. So
   the names are those of what it wraps, as ``__wrapped__`` says. Nobody can know this of a wrapper. Where a call does
   not fit what is wrapped, the wrapper adds or removes something, and no argument is told by its position.
3. **A name that only a function further in has is refused**, when decorating: nobody knows what it is given.
"""

from __future__ import annotations

import functools  # the Lambda runtime has it loaded
from types import CodeType, FunctionType, MethodType, WrapperDescriptorType  # loaded by functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

_VARARGS, _VARKEYWORDS = 0x04, 0x08  # flags of a code object, as inspect names them
_SELF = ("self", "cls")  # these two can be recognized only by their names
_SELVES = tuple([name] for name in _SELF)
_MOST_LAYERS = 50  # of decorators, partials and methods: a bound, in case a __wrapped__ chain is a circle
_PARTIAL_METHOD = "partialmethod._make_unbound_method.<locals>._method"  # a partialmethod, taken from its class
#: What singledispatchmethod makes: it adds self, which its __wrapped__ does not show. A function, from 3.14 on a class.
_ADDS_SELF = ("singledispatchmethod.__get__.<locals>._method", "_singledispatchmethod_get")
_OURS = __name__.partition(".")[0] + "."
MISSING = object()
_PLACEHOLDER = getattr(functools, "Placeholder", MISSING)  # since Python 3.14


class Unusable(Exception):
    """A value cannot be part of a key, or a text cannot be read. The message says why. field: of KeyTemplateError."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def name_of(func: object) -> str:
    return str(getattr(func, "__qualname__", type(func).__name__))


class Parameters:
    """The parameters of what is called, and how a call's arguments match them.

    They are read from code objects where that is possible: importing inspect costs milliseconds of a cold start.

    follow_wrapped: whether a wrapper that names no parameters has those of what it wraps. If not, they are what Python
        checks when ``func`` is called.

    Raises TypeError if ``func`` has too many decorators.
    """

    __slots__ = (
        *("_defaults", "_followed", "_given", "_more", "_named", "_options", "_positions", "_required"),
        *("_varargs", "_varkeywords", "first", "hidden", "names"),
    )

    def __init__(self, func: Callable[..., Any], *, follow_wrapped: bool = True) -> None:
        layer = _layer(func, follow_wrapped)
        self._positions = {name: index for index, name in enumerate(layer.positional)}
        self._named = frozenset(layer.by_keyword)
        self._given = layer.given
        self._more, self._options = layer.more, layer.options
        self._defaults = layer.defaults
        self._varargs, self._varkeywords = layer.varargs, layer.varkeywords
        self._required = self._named.union(layer.positional).difference(layer.defaults)
        self._followed = layer.followed
        self.names = layer.names()
        #: The names that only functions further in have, with these functions.
        self.hidden = layer.hidden
        #: The first parameter of a call after self or cls. None: there is none, or nobody can tell which it is.
        self.first = next((name for name in layer.positional if name not in _SELF), layer.varargs)
        if layer.hides_self:
            self.first = None

    def __str__(self) -> str:
        """What a call takes, such as ``(event, context, *args, tenant)``."""
        by_name = sorted(self._named.difference(self._positions))
        rest = [f"*{self._varargs}" if self._varargs else "*"] if self._varargs or by_name else []
        options = [f"**{self._varkeywords}"] if self._varkeywords else []
        return f"({', '.join([*self._positions, *rest, *by_name, *options])})"

    def argument(self, name: str | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        """The value of the parameter ``name`` in a call, or its default. MISSING if there is neither.

        name: None: the first argument after self or cls, positional or keyword.

        Raises Unusable if nobody can tell which argument it is.
        """
        is_first = name is None
        if is_first:
            name = self.first
            if name == self._varargs:
                return args[len(self._positions)] if len(args) > len(self._positions) else MISSING
        assert name is not None, "checked when the key was compiled"
        if name in self._given:
            return self._given[name]
        if name in kwargs and name in self._named:
            return kwargs[name]
        position = self._positions.get(name)
        if self._followed is not None and not (is_first and position == 0) and not self._fits(args, kwargs):
            raise Unusable(
                f"the call does not fit {name_of(self._followed)}(), so a decorator in between adds or removes "
                "arguments, and nobody can tell which one this is. Write this decorator below that one, pass the "
                "argument by its name, or use a function for key="
            )
        if name == self._varargs:
            rest = iter(args[len(self._positions) :])
            return (*(next(rest, MISSING) if value is MISSING else value for value in self._more), *rest)
        if name == self._varkeywords:
            others = {given: value for given, value in kwargs.items() if given not in self._named}
            return {**self._options, **others}
        if position is not None and position < len(args):
            return args[position]
        return self._defaults.get(name, MISSING)

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
            missing = self._required - filled - given
            if (
                other._required - passed <= other._named
                and self._named.isdisjoint(filled & given)
                and (given <= self._named or self._varkeywords is not None)
                and self._required - filled <= self._named
                and (missing <= other._named - passed or other._varkeywords is not None)
            ):
                return True
        return False

    def _first(self, count: int) -> frozenset[str]:
        """The parameters that ``count`` positional arguments fill."""
        return frozenset(name for name, position in self._positions.items() if position < count)

    def _fits(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether Python could bind the call to the parameters."""
        filled, named = self._first(len(args)), self._named & kwargs.keys()
        return (
            (len(args) <= len(self._positions) or self._varargs is not None)
            and (len(named) == len(kwargs) or self._varkeywords is not None)
            and filled.isdisjoint(named)
            and self._required <= filled | named
        )


class _Layer:
    """What a callable takes, while its partials, methods and decorators are gone through.

    positional: the names that a call fills by position, in their order. by_keyword: those that it may give by name.
    given, defaults: the values of the names that partials and methods have bound by position, and of those that a call
    may leave out. more, options: what is bound beyond the names, for varargs and varkeywords; in more, MISSING stands
    for what a call fills. followed: the function whose names these are, if wrappers are taken to pass its calls on.
    hidden: see Parameters. hides_self: whether the function further in has a self that this one does not name.
    """

    def __init__(
        self,
        func: object,
        positional: Iterable[str],
        by_keyword: Iterable[str],
        varargs: str | None,
        varkeywords: str | None,
        defaults: dict[str, object],
    ) -> None:
        self.func = func
        self.positional = list(positional)
        self.by_keyword = set(by_keyword)
        self.varargs = varargs
        self.varkeywords = varkeywords
        self.defaults = defaults
        self.given: dict[str, object] = {}
        self.more: list[object] = []
        self.options: dict[str, object] = {}
        self.followed: object = None
        self.hidden: dict[str, object] = {}
        self.hides_self = False

    def names(self) -> frozenset[str]:
        named = (*self.positional, *self.by_keyword, *self.given, self.varargs, self.varkeywords)
        return frozenset(name for name in named if name)

    def bind(self, args: Iterable[object], keywords: Mapping[str, object]) -> _Layer:
        """Fill in what a partial function or a method has bound. In ``args``, MISSING stands for what a call fills."""
        values, positional = iter(args), self.positional
        self.positional = []
        for name in positional:
            value = next(values, MISSING)
            if value is MISSING:
                self.positional.append(name)
            else:
                self.given[name] = value
                self.by_keyword.discard(name)
        self.more = [next(values, MISSING) if value is MISSING else value for value in self.more] + list(values)
        self.hides_self = self.hides_self and not self.given and not self.more
        for name, value in keywords.items():
            (self.defaults if name in self.by_keyword else self.options)[name] = value
            if name in self.by_keyword and name in self.positional:  # it and what follows cannot be filled by position
                del self.positional[self.positional.index(name) :]
        return self

    def passes_on(self, inner: _Layer) -> bool:
        """Whether it names no parameters, so that it may pass its calls on to ``inner`` as they are."""
        first = self.positional[:1]
        leading = first if first in _SELVES and first == inner.positional[:1] else []
        return self.takes_any() and self.positional == leading and self.by_keyword <= set(leading)

    def takes_any(self) -> bool:
        return self.varargs is not None or self.varkeywords is not None

    def hide(self, inner: _Layer) -> None:
        """Note the names that only ``inner`` has, which is further in."""
        names = self.names()
        for name in inner.names():
            if name not in names:
                self.hidden[name] = inner.func
        self.hidden |= {name: func for name, func in inner.hidden.items() if name not in names}
        if inner.hides_self or inner.positional[:1] in _SELVES:
            self.hides_self = self.positional[:1] not in _SELVES and inner.names().isdisjoint(self.positional[:1])


def _layer(func: Any, follow: bool, depth: int = 0) -> _Layer:
    """What ``func`` takes. follow: as follow_wrapped of Parameters."""
    if depth > _MOST_LAYERS:
        raise TypeError(
            f"{name_of(func)}() is decorated more than {_MOST_LAYERS} times, or its __wrapped__ leads in a circle"
        )
    kind, depth = type(func), depth + 1
    if issubclass(kind, functools.partial):
        given = [MISSING if value is _PLACEHOLDER else value for value in func.args]
        return _layer(func.func, follow, depth).bind(given, func.keywords)
    if kind is MethodType:
        return _layer(func.__func__, follow, depth).bind((func.__self__,), {})
    if kind is staticmethod:
        return _layer(func.__func__, follow, depth)
    made_by, is_ours, wrapped = kind.__qualname__, False, getattr(func, "__wrapped__", None)
    if kind is FunctionType:
        made_by, is_ours = func.__code__.co_qualname, str(func.__globals__.get("__name__")).startswith(_OURS)
        if made_by == _PARTIAL_METHOD:
            made_of = getattr(func, "__partialmethod__", None) or func._partialmethod
            return _layer(made_of.func, follow, depth).bind((MISSING, *made_of.args), made_of.keywords)
        own = _of_code(func, func.__code__)
    else:
        call = _call_of(func)
        if call is not None:
            own = _layer(call, follow, depth)
        else:  # written in C: what wraps a function passes its calls on, and may show that function's code as its own
            own = _Layer(func, (), (), "args", "kwargs", {}) if callable(wrapped) else _inspected(func)
    declared = getattr(func, "__signature__", None)
    if declared is not None and declared is not getattr(wrapped, "__signature__", None):  # not what wraps() copies
        told = _inspected(func)
        if own.takes_any() and told.positional[: len(own.positional)] == own.positional:
            own = told
        else:
            own.hide(told)
    if not follow or not callable(wrapped):
        return own
    inner = _layer(wrapped, follow, depth)
    if is_ours:
        return inner
    if made_by not in _ADDS_SELF and own.passes_on(inner):
        inner.followed = inner.func
        return inner
    own.hide(inner)
    return own


def _of_code(func: Any, code: CodeType) -> _Layer:
    end = code.co_argcount + code.co_kwonlyargcount
    positional, names = code.co_varnames[: code.co_argcount], code.co_varnames
    varargs = names[end] if code.co_flags & _VARARGS else None
    varkeywords = names[end + bool(varargs)] if code.co_flags & _VARKEYWORDS else None
    values = func.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    defaults |= func.__kwdefaults__ or {}
    return _Layer(func, positional, names[code.co_posonlyargcount : end], varargs, varkeywords, defaults)


def _call_of(func: object) -> object:
    """The method ``__call__`` of an object, bound as a call binds it. None if it is not written in Python."""
    for kind in type(func).__mro__:
        if "__call__" in vars(kind):
            found: Any = vars(kind)["__call__"]
            if isinstance(found, WrapperDescriptorType):
                return None
            bound: object = found.__get__(func, type(func)) if hasattr(type(found), "__get__") else found
            return bound
    return None


def _inspected(func: Any) -> _Layer:
    """For built-in functions, classes and signatures that somebody declares."""
    from inspect import Parameter, signature

    try:
        found = signature(func, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # some built-in functions and mocks have no signature
        return _Layer(func, (), (), "args", "kwargs", {})
    by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    by_keyword = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return _Layer(
        func,
        [one.name for one in found if one.kind in by_position],
        [one.name for one in found if one.kind in by_keyword],
        next((one.name for one in found if one.kind is Parameter.VAR_POSITIONAL), None),
        next((one.name for one in found if one.kind is Parameter.VAR_KEYWORD), None),
        {one.name: one.default for one in found if one.default is not Parameter.empty},
    )
