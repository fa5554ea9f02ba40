"""Mistakes that are planted in the code under proof, to see that the proof finds them: one format for all proofs.

A mistake is one or more changes. Calling a change plants it, and returns the function that takes it out again:

- `edit` writes other text in the place of some text of a function. Each text must be there exactly once, so a mistake
  whose code has moved is refused, and so is one that uses a name which is not there any more.
- `put` and `wrap` give another value to an attribute of a module or class.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any, TypeAlias

Change: TypeAlias = Callable[[], Callable[[], None]]

_sources: dict[Any, tuple[str, frozenset[tuple[str, ...]]]] = {}  # of edited functions: the text now, and the edits


def edit(function: Any, *texts: str) -> Change:
    """Write other text into a function, each as "old → new". All references run the new one.

    Texts have no indentation of the ``def`` itself. An edit that is planted already is not planted again.
    """

    def plant() -> Callable[[], None]:
        code: CodeType = function.__code__
        before = _sources.get(function)
        source, edits = before or (_source(function), frozenset())
        if texts not in edits:
            for text in texts:
                old, new = text.split(" → ")
                if source.count(old) != 1:
                    raise ValueError(f"{function.__qualname__} has changed: {old!r} is {source.count(old)} times in it")
                source = source.replace(old, new)
            changed = _compiled(function, source)
            unknown = set(_globals_of(changed)) - function.__globals__.keys() - vars(builtins).keys()
            if unknown:
                raise ValueError(f"{function.__qualname__} has changed: it does not know {', '.join(sorted(unknown))}")
            function.__code__ = changed
            _sources[function] = source, edits | {texts}

        def undo() -> None:
            function.__code__ = code
            if before is None:
                _sources.pop(function, None)
            else:
                _sources[function] = before

        return undo

    return plant


@functools.cache
def _source(function: Any) -> str:
    return textwrap.dedent(inspect.getsource(function))


@functools.cache
def _compiled(function: FunctionType, source: str) -> CodeType:
    """The code of a function with this source. A method that calls super() is compiled inside a class."""
    code = function.__code__
    if code.co_freevars:
        source = f"class {function.__qualname__.split('.')[-2]}:\n{textwrap.indent(source, ' ')}"
    rest: list[Any] = [compile(source, code.co_filename, "exec", annotations.compiler_flag, dont_inherit=True)]
    while not isinstance(found := rest.pop(), CodeType) or found.co_name != code.co_name:
        rest += found.co_consts if isinstance(found, CodeType) else []
    return found


def _globals_of(code: CodeType) -> Iterator[str]:
    """The names that this code, and code within it, looks for in its module."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


def wrap(home: Any, name: str, make: Callable[[Any], Any]) -> Change:
    """Replace the value of an attribute by ``make(value)``."""

    def plant() -> Callable[[], None]:
        own = dict(vars(home))
        setattr(home, name, make(getattr(home, name)))
        return lambda: setattr(home, name, own[name]) if name in own else delattr(home, name)

    return plant


def put(home: Any, name: str, value: Any) -> Change:
    return wrap(home, name, lambda _: value)


def together(*changes: Change) -> Change:
    """One change of several, in this order."""

    def plant() -> Callable[[], None]:
        with ExitStack() as stack:
            for change in changes:
                stack.callback(change())
            return stack.pop_all().close

    return plant


@contextmanager
def planted(*changes: Change) -> Iterator[None]:
    """Plant these changes, in this order, for the block."""
    undo = together(*changes)()
    try:
        yield
    finally:
        undo()
