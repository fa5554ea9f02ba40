"""The parameters of a function, and how a call's arguments match them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    #: A key compiled for one function. It takes a call's positional and keyword arguments, and returns the lock's key.
    KeyBuilder: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], str]
    #: The same for several keys.
    KeysBuilder: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[str, ...]]

_VARARGS, _VARKEYWORDS = 0x04, 0x08  # flags of a code object, as inspect names them
MISSING = object()


def name_of(func: object) -> str:
    return str(getattr(func, "__qualname__", type(func).__name__))


class Parameters:
    """The parameters of a function, and how a call's arguments match them.

    They are read from the code object, because importing inspect costs milliseconds of a cold start. Like
    inspect.signature, this follows ``__wrapped__``, so a decorator that hides the signature does not hide the names.
    """

    __slots__ = ("_defaults", "_named", "_positions", "_required", "_varargs", "_varkeywords", "first", "names")

    def __init__(
        self,
        positional: Sequence[str],
        keyword_only: Sequence[str],
        defaults: Mapping[str, object],
        varargs: str | None,
        varkeywords: str | None,
    ) -> None:
        self._positions = {name: index for index, name in enumerate(positional)}
        self._defaults = defaults
        self._varargs = varargs
        self._varkeywords = varkeywords
        self._named = frozenset((*positional, *keyword_only))
        self._required = self._named.difference(defaults)
        self.names = frozenset(name for name in (*positional, *keyword_only, varargs, varkeywords) if name)
        #: The first parameter after self or cls. These two can be recognized only by their names.
        self.first = next((name for name in positional if name not in ("self", "cls")), varargs)

    @classmethod
    def of(cls, func: Callable[..., Any], *, follow_wrapped: bool = True) -> Parameters:
        while follow_wrapped and not hasattr(func, "__signature__") and hasattr(func, "__wrapped__"):
            func = func.__wrapped__
        bound = hasattr(func, "__self__")
        function = func.__func__ if bound and hasattr(func, "__func__") else func
        code = getattr(function, "__code__", None)
        if code is None or hasattr(function, "__signature__"):
            return cls._inspected(func, follow_wrapped)
        names = code.co_varnames
        positional = names[: code.co_argcount]
        end = code.co_argcount + code.co_kwonlyargcount
        values = function.__defaults__ or ()
        defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
        varargs = names[end] if code.co_flags & _VARARGS else None
        varkeywords = names[end + bool(varargs)] if code.co_flags & _VARKEYWORDS else None
        return cls(
            positional[1:] if bound else positional,
            names[code.co_argcount : end],
            defaults | (function.__kwdefaults__ or {}),
            varargs,
            varkeywords,
        )

    @classmethod
    def _inspected(cls, func: Callable[..., Any], follow_wrapped: bool) -> Parameters:
        """For callables without a code object of their own: partial objects, callable objects, built-in functions."""
        from inspect import Parameter, signature

        try:
            found = list(signature(func, follow_wrapped=follow_wrapped).parameters.values())
        except ValueError:  # some built-in functions have no signature
            return cls((), (), {}, "args", "kwargs")
        return cls(
            [one.name for one in found if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)],
            [one.name for one in found if one.kind is Parameter.KEYWORD_ONLY],
            {one.name: one.default for one in found if one.default is not Parameter.empty},
            next((one.name for one in found if one.kind is Parameter.VAR_POSITIONAL), None),
            next((one.name for one in found if one.kind is Parameter.VAR_KEYWORD), None),
        )

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

    def take(self, count: int) -> bool:
        """Whether the parameters accept a call with exactly ``count`` positional arguments and nothing else."""
        return (count <= len(self._positions) or self._varargs is not None) and self._required <= self._first(count)

    def take_calls_of(self, other: Parameters, added: str) -> bool:
        """Whether the parameters accept some call that ``other`` accepts, with the keyword ``added`` as well."""
        most = max(len(other._positions), len(self._positions) if other._varargs else 0)
        if self._varargs is None:
            most = min(most, len(self._positions))
        for count in range(most + 1):
            filled, passed = self._first(count), other._first(count)  # by position
            given = other._required - passed | {added}  # by keyword, at least
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
