"""Mistakes that are planted in the code under proof, to see that the proof finds them: one format for all proofs.

A mistake is one or more changes. Calling a change plants it, and returns the function that takes it out again:

- `alter` writes something else in the place of one part of a function. The function has a name, so it may move, and the
  part is found by the names that it mentions, so the text around it may change.
- `put` and `wrap` give another value to an attribute of a module or class.
- `edit` writes other text in the place of some text of a function. It is for code that has no names to go by.

A change is refused if what it names is not there exactly once, if it uses a name which is not there any more, and if it
changes nothing.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any, TypeAlias

import lambda_lock

Change: TypeAlias = Callable[[], Callable[[], None]]

_PACKAGES = ("core", "waker", "client", "runtime")  # of lambda_lock, in which functions are found by name
_sources: dict[Any, tuple[str, frozenset[Any]]] = {}  # of changed functions: the text now, and the changes


def alter(function: Any, where: str, new: str) -> Change:
    """Write something else in the place of one part of a function. All references run the changed function.

    function: its qualified name, after that of its module if two modules have one of this name ("keep.release"). Or
        the function itself.
    where: the kind of the part, and names that it mentions ("-name": that it does not). A name is any word of the code
        or of a string in it. Where one such part contains another, the inner one is meant. The kinds:

        - "if": the condition of an if, a while or a conditional expression
        - "term": what an ``and`` or ``or`` connects
        - "operand": of an arithmetic operation or a comparison
        - "argument": of a call, by position; or an item of a tuple or list
        - "set": the value that is given to the first name, as a variable, an attribute or an argument by keyword
        - "call": a call of what has the first name
        - "return": the value that is returned
        - "line": a statement, found by what it says before its own block
        - "start": the beginning of the function, before its first statement
    new: an expression; for a line or the start, statements. "..." in it stands for what was there. "" leaves the part
        out.
    """

    def change(source: str) -> str:
        module = ast.parse(source)
        definition = module.body[0]
        assert isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef))
        kind, *names = where.split()
        if kind == "start":
            docstring = ast.get_docstring(definition) is not None
            definition.body[docstring:docstring] = ast.parse(new).body
        else:
            finder = _Finder(kind, names)
            finder.visit(definition)
            found = finder.innermost()
            if len(found) != 1:
                raise ValueError(f"{definition.name} has changed: {where!r} is {len(found)} times in it")
            _replace(definition, found[0], new)
        return ast.unparse(ast.fix_missing_locations(module))

    return _rewritten(function, (where, new), change)


def edit(function: Any, *texts: str) -> Change:
    """Write other text into a function, each as "old → new". All references run the new one.

    Texts have no indentation of the ``def`` itself.
    """

    def change(source: str) -> str:
        for text in texts:
            old, new = text.split(" → ")
            if source.count(old) != 1:
                raise ValueError(f"{function.__qualname__} has changed: {old!r} is {source.count(old)} times in it")
            source = source.replace(old, new)
        return source

    return _rewritten(function, texts, change)


def _rewritten(named: Any, mark: tuple[str, ...], change: Callable[[str], str]) -> Change:
    """Compile a function from its changed text. A change that is planted already is not planted again."""

    def plant() -> Callable[[], None]:
        function = _found(named) if isinstance(named, str) else named
        code: CodeType = function.__code__
        before = _sources.get(function)
        source, marks = before or (_source(function), frozenset())
        if mark not in marks:
            old, source = source, change(source)
            changed = _compiled(function, source)
            unknown = set(_globals_of(changed)) - function.__globals__.keys() - vars(builtins).keys()
            if unknown:
                raise ValueError(f"{function.__qualname__} has changed: it does not know {', '.join(sorted(unknown))}")
            if _acts(function, source) == _acts(function, old):
                raise ValueError(f"{function.__qualname__} has changed: {mark!r} changes nothing in it")
            function.__code__ = changed
            _sources[function] = source, marks | {mark}

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


def _acts(function: FunctionType, source: str) -> Any:
    """What the code of this source does, no matter how its lines are laid out."""

    def acts(code: Any) -> Any:
        if not isinstance(code, CodeType):
            return type(code), repr(code)
        return code.co_code, code.co_names, code.co_varnames, [acts(each) for each in code.co_consts]

    return acts(_compiled(function, ast.unparse(ast.parse(source))))


def _globals_of(code: CodeType) -> Iterator[str]:
    """The names that this code, and code within it, looks for in its module."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


# -- the function with a name -----------------------------------------------------------------------------------------


def _found(name: str) -> FunctionType:
    found = _functions().get(name, [])
    if len(found) != 1:
        raise ValueError(f"{name} is {len(found)} times in lambda_lock ({', '.join(_PACKAGES)})")
    return found[0]


@functools.cache
def _functions() -> dict[str, list[FunctionType]]:
    """The functions of lambda_lock, by qualified name, with and without that of the module."""
    functions: dict[str, list[FunctionType]] = {}
    for package in _PACKAGES:
        home = importlib.import_module(f"{lambda_lock.__name__}.{package}")
        inside = (
            importlib.import_module(each.name) for each in pkgutil.iter_modules(home.__path__, f"{home.__name__}.")
        )
        for module in (home, *inside):
            for function in _functions_in(module, module.__name__):
                for name in (function.__qualname__, f"{module.__name__.rpartition('.')[2]}.{function.__qualname__}"):
                    functions.setdefault(name, []).append(function)
    return functions


def _functions_in(home: Any, module: str) -> Iterator[FunctionType]:
    inside = f"{home.__qualname__}." if isinstance(home, type) else ""
    for name, value in list(vars(home).items()):
        if isinstance(value, property):
            value = value.fget
        value = getattr(value, "__wrapped__", getattr(value, "__func__", value))
        is_own = isinstance(value, (FunctionType, type)) and value.__module__ == module
        if not is_own or value.__qualname__ != f"{inside}{name}":
            continue  # it lives elsewhere
        if isinstance(value, type):
            yield from _functions_in(value, module)
        else:
            yield value


# -- the part with these names ----------------------------------------------------------------------------------------

_BLOCKS = ("body", "orelse", "finalbody")  # of a statement: those of others
_Part: TypeAlias = "tuple[ast.AST, str, int | None]"  # its parent, the field of the parent, and the index in that


class _Finder(ast.NodeVisitor):
    """Finds the parts of a kind that mention some names."""

    def __init__(self, kind: str, names: list[str]) -> None:
        self.kind = kind
        self.subject = names[0] if kind in ("call", "set") else ""
        self.names = {name for name in names if name[0] != "-"} - ({self.subject} if kind == "set" else set())
        self.others = {name[1:] for name in names if name[0] == "-"}
        self.parts: list[_Part] = []

    def generic_visit(self, node: ast.AST) -> None:
        named = {"set": _values, "call": _calls}.get(self.kind)
        for part in named(node, self.subject) if named else _parts(node, self.kind):
            said = set(_words(_at(part)))
            if self.names <= said and not self.others & said:
                self.parts.append(part)
        super().generic_visit(node)

    def innermost(self) -> list[_Part]:
        nodes = [_at(part) for part in self.parts]
        within = [{id(inner) for inner in ast.walk(node)} - {id(node)} for node in nodes]
        return [
            part
            for part, inside in zip(self.parts, within, strict=True)
            if not any(id(node) in inside for node in nodes)
        ]


def _at(part: _Part) -> Any:
    parent, field, index = part
    value = getattr(parent, field)
    return value if index is None else value[index]


def _words(node: ast.AST) -> Iterator[str]:
    """The names that a part mentions, the words of its strings, and what a statement is called.

    A statement with a body counts without the body.
    """
    blocks = [block for field in (*_BLOCKS, "handlers") if isinstance(block := getattr(node, field, None), list)]
    body = {id(inner) for block in blocks for each in block for inner in ast.walk(each)}
    for each in ast.walk(node):
        if id(each) in body:
            continue
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.keyword) and each.arg is not None:
            yield each.arg
        elif isinstance(each, ast.Constant):
            yield from re.findall(r"\w+", each.value) if isinstance(each.value, str) else [repr(each.value)]
        elif isinstance(each, ast.stmt):
            yield type(each).__name__.lower()


#: Where the parts of each kind are: in which nodes, and in which fields of theirs.
_PLACES: dict[str, tuple[tuple[Any, tuple[str, ...]], ...]] = {
    "if": (((ast.If, ast.While, ast.IfExp), ("test",)),),
    "term": ((ast.BoolOp, ("values",)),),
    "operand": ((ast.BinOp, ("left", "right")), (ast.Compare, ("left", "comparators"))),
    "argument": ((ast.Call, ("args",)), ((ast.Tuple, ast.List), ("elts",))),
    "return": ((ast.Return, ("value",)),),
    "line": (((ast.stmt, ast.ExceptHandler, ast.match_case), _BLOCKS),),
}


def _parts(node: ast.AST, kind: str) -> Iterator[_Part]:
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return
    for types, fields in _PLACES[kind]:
        for field in fields if isinstance(node, types) else ():
            for index, each in _items(getattr(node, field, None)):
                is_docstring = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
                if each is not None and not is_docstring:
                    yield node, field, index


def _items(value: Any) -> Iterable[tuple[int | None, Any]]:
    """What a field has, with the index of each; None: the field is no list."""
    return enumerate(value) if isinstance(value, list) else [(None, value)]


def _values(node: ast.AST, subject: str) -> Iterator[_Part]:
    if isinstance(node, ast.keyword) and node.arg == subject:
        yield node, "value", None
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if _name_of(target) == subject:
            yield node, "value", None
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):  # type: ignore[attr-defined]
            for index, each in enumerate(target.elts):
                if _name_of(each) == subject:
                    yield node.value, "elts", index  # type: ignore[attr-defined]


def _calls(node: ast.AST, subject: str) -> Iterator[_Part]:
    for field, value in ast.iter_fields(node):
        for index, each in _items(value):
            if isinstance(each, ast.Call) and _name_of(each.func) == subject:
                yield node, field, index


def _name_of(node: ast.AST) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


class _Filler(ast.NodeTransformer):
    """Puts what was there in the place of "..."."""

    def __init__(self, old: Any) -> None:
        self.old = old

    def visit_Expr(self, node: ast.Expr) -> Any:
        is_place = isinstance(node.value, ast.Constant) and node.value.value is ...
        return self.old if is_place and isinstance(self.old, ast.stmt) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return self.old if node.value is ... else node


def _replace(definition: ast.AST, part: _Part, new: str) -> None:
    parent, field, index = part
    old = _at(part)
    if isinstance(old, ast.stmt):
        made = [_Filler(old).visit(each) for each in ast.parse(new).body]
        assert index is not None
        getattr(parent, field)[index : index + 1] = made or [ast.Pass()]
    elif new:
        made = _Filler(old).visit(ast.parse(new, mode="eval").body)
        if index is None:
            setattr(parent, field, made)
        else:
            getattr(parent, field)[index] = made
    else:
        _Without(old).visit(definition)


class _Without(ast.NodeTransformer):
    """Takes an expression out: an argument, a term, an operand, or what is given a value."""

    def __init__(self, old: Any) -> None:
        self.old = old

    def generic_visit(self, node: ast.AST) -> Any:
        for field in ("args", "elts", "values"):
            if isinstance(node, (ast.Call, ast.Tuple, ast.List, ast.BoolOp)) and self.old in getattr(node, field, ()):
                getattr(node, field).remove(self.old)
                return node
        if isinstance(node, ast.BinOp) and self.old in (node.left, node.right):
            return node.right if self.old is node.left else node.left
        if isinstance(node, (ast.keyword, ast.Assign)) and self.old is node.value:
            return ast.Pass() if isinstance(node, ast.Assign) else None
        return super().generic_visit(node)


# -- attributes -------------------------------------------------------------------------------------------------------


def wrap(home: Any, name: str, make: Callable[[Any], Any]) -> Change:
    """Replace the value of an attribute by ``make(value)``."""

    def plant() -> Callable[[], None]:
        own, now = dict(vars(home)), getattr(home, name)
        value = make(now)
        if value is now or (type(value) is type(now) and value == now):
            raise ValueError(f"{home.__name__}.{name} has changed: it is {value!r} anyway")
        setattr(home, name, value)
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
