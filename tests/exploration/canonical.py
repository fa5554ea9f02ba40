"""The canonical form of a process: equal forms have the same future.

The form contains everything that can decide what a process does next, read from the live objects themselves:

- of each generator that is under way: its code, the instruction at which it yielded, all its local variables, what is
  on its stack (the iterator of a loop, the generator that it waits for), and the exception that it handles. The garbage
  collector knows all of these (`gc.get_referents`);
- of each object that can be reached from there: its class and every attribute;
- which of the references lead to one and the same object.

Python runs the same code on the same data, and the core reads no clock and no randomness of its own. So two processes
with equal forms answer the same input with the same output, and have equal forms afterwards. Nothing is rounded and
nothing is left out, except for what cannot decide anything: the text of an error, what is to be told of a row
(`Watch`), and what never changes (classes, functions, schemas, the place of the lock).
"""

import gc
import types
from collections.abc import Iterable
from typing import Any

from lambda_lock.core.outcome import ConditionFailed, ServiceError, TransactionCanceled, TransportError
from lambda_lock.core.requests import Place
from lambda_lock.core.row import Watch
from lambda_lock.core.schema import Schema

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_FIXED = (
    types.CodeType, types.FrameType, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.ModuleType, type,
)  # fmt: skip
_ITERATORS = frozenset(map(type, (iter(range(0)), iter([]), iter(()), iter({}), iter({}.items()), reversed([]))))
_OUTCOMES = (ConditionFailed, ServiceError, TransactionCanceled, TransportError)
_CONTAINERS = (
    tuple,
    list,
    dict,
    set,
    frozenset,
    range,
    types.GeneratorType,
    types.MethodType,
    types.CellType,
    BaseException,
)
_UNSET = type  # for an attribute that is not set; nothing has this value
_WORD = tuple.__itemsize__  # bytes of a reference
_slots: dict[type, tuple[str, ...]] = {}


class Form:
    """Builds the form of one process.

    known: what stands for an object that many share and nobody changes (a row of the table), by its identity.
    """

    def __init__(self, known: dict[int, Any]) -> None:
        self._known = known
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no two objects have the same identity

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        known = self._known.get(id(value))
        if known is not None:
            return known
        if kind is tuple:
            return ("t", *self._each(value))
        if isinstance(value, _FIXED) and not getattr(value, "__closure__", None):
            return getattr(value, "__qualname__", kind.__name__)
        number = self._numbers.get(id(value))
        if number is not None:
            return "same", number
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        return self._content(kind, value)

    def _each(self, values: Iterable[Any]) -> list[Any]:
        plain, of = _PLAIN, self.of
        return [value if type(value) in plain else of(value) for value in values]

    def _content(self, kind: type, value: Any) -> Any:
        of = self.of
        if kind is list:
            return ("l", *self._each(value))
        if kind is dict:
            return ("d", *self._each(value), *self._each(value.values()))  # the order of a dict decides things
        if kind is set or kind is frozenset:
            return ("s", *sorted(map(of, value)))
        if kind is types.GeneratorType:
            return self._generator(value)
        if kind is types.MethodType:
            return "m", value.__func__.__qualname__, of(value.__self__)
        if kind is types.FunctionType:
            return "f", value.__qualname__, *map(of, value.__closure__)
        if kind is types.CellType:
            return "c", of(value.cell_contents)
        if kind in _ITERATORS:
            return "i", of(value.__reduce__()[1:])
        if kind is range:
            return "r", value.start, value.stop, value.step
        if isinstance(value, Watch):
            return "watch"  # it only tells
        if isinstance(value, Schema):
            return "schema", value.name
        if isinstance(value, Place):
            name, weights = getattr(value, "name", None), (value.take, getattr(value, "weighs", None), value.format)
            return "place", kind.__name__, value.key, name, value.permits, *weights
        if isinstance(value, BaseException):
            return "e", kind.__name__, of(vars(value)) if isinstance(value, _OUTCOMES) else None
        return self._object(kind, value)

    def _generator(self, steps: Any) -> Any:
        frame = steps.gi_frame
        if frame is None:
            return "g", steps.__qualname__, "over"
        local = frame.f_locals
        rest = self._each([one for one in gc.get_referents(steps) if one is not local])
        return ("g", steps.__qualname__, frame.f_lasti, *local, *rest)

    def _object(self, kind: type, value: Any) -> Any:
        names = _slots.get(kind)
        if names is None:
            names = _slots[kind] = _names(kind)
        form = [kind.__qualname__, *self._each([getattr(value, name, _UNSET) for name in names])]
        attributes = getattr(value, "__dict__", None)
        if attributes:
            form += [*sorted(attributes), *self._each([one for _, one in sorted(attributes.items())])]
        return tuple(form)


def _names(kind: type) -> tuple[str, ...]:
    """The slots of a class. Raises TypeError if its objects have more in them than these and a ``__dict__``."""
    slots = [name for one in kind.__mro__ for name, it in vars(one).items() if type(it) is types.MemberDescriptorType]
    places = len(slots) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    if kind is object or kind.__itemsize__ or kind.__basicsize__ > object.__basicsize__ + places * _WORD:
        known = sorted(one.__qualname__ for one in (*_PLAIN, *_FIXED, *_CONTAINERS, *_ITERATORS))
        raise TypeError(
            f"nobody knows what is in a {kind.__module__}.{kind.__qualname__}, so two states could count as one. Let "
            "the core keep a plain class in its place, or add to Form._content how to read it, or to _FIXED if it "
            f"never changes. Known are classes written in Python, and: {', '.join(known)}"
        )
    return tuple(dict.fromkeys(slots))


def form_of(value: Any, known: dict[int, Any]) -> Any:
    return Form(known).of(value)
