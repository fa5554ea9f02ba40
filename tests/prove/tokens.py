"""One-token mutations of lambda_lock, and the plugin of pytest that plants one while its module is imported.

    LAMBDA_LOCK_TOKEN=transport/http1.py#41 .venv/bin/pytest -p tests.prove.tokens tests/transport

A mutation has a number in its file, in the order of the source: equal sources have equal numbers. Left alone are what
only a type checker reads, docstrings, texts, and lists of names.
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

VARIABLE = "LAMBDA_LOCK_TOKEN"
PACKAGE = Path(__file__).parents[2] / "lambda_lock"
_PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)),
    *((ast.Add, ast.Sub), (ast.And, ast.Or)),
)
_OTHER: dict[type[ast.AST], type[Any]] = dict([*_PAIRS, *(pair[::-1] for pair in _PAIRS)])
_OTHER |= {ast.Mult: ast.FloorDiv, ast.Div: ast.Mult}
_OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_REMOVABLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Delete)
_NOT_RUN = {"annotation", "returns", "decorator_list", "bases"}  # fields
_SHOWN = 80  # characters of each side of a change
_NAMING = {"__slots__", "__all__", "TYPE_CHECKING"}


@dataclass(frozen=True)
class Mutation:
    """One changed token.

    file: relative to the package. old: what is there. place: where that is in the tree, and what is written over it.
    """

    file: str
    number: int
    line: int
    old: ast.AST
    place: tuple[ast.AST, str, int | None, ast.AST]

    @property
    def name(self) -> str:
        return f"{self.file}#{self.number}"

    @property
    def change(self) -> str:
        new = self.place[-1]
        text = "nothing" if isinstance(new, ast.Pass) else ast.unparse(new)
        return f"{_shortened(ast.unparse(self.old))} → {_shortened(text)}"

    def __str__(self) -> str:
        return f"{self.name}, line {self.line}: {self.change}"

    def plant(self) -> None:
        """Change the tree in which this was found."""
        holder, field, index, new = self.place
        if index is None:
            setattr(holder, field, new)
        else:
            getattr(holder, field)[index] = new


def mutations(file: str, tree: ast.Module | None = None) -> list[Mutation]:
    """All mutations of a file of lambda_lock, in the order of the source."""
    found: list[Mutation] = []
    for holder, field, index, node in _nodes(tree or ast.parse((PACKAGE / file).read_bytes())):
        for new in _others(node, field):
            place = holder, field, index, ast.copy_location(ast.fix_missing_locations(new), node)
            found.append(Mutation(file, len(found), node.lineno, node, place))
    return found


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def files() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def _nodes(holder: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Any]]:
    """What runs: each statement and expression, with its place in what contains it."""
    for field, value in ast.iter_fields(holder):
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and field not in _NOT_RUN and not _is_for_names(node):
                if isinstance(node, (ast.stmt, ast.expr)):
                    yield holder, field, index, node
                yield from _nodes(node)


def _is_for_names(node: ast.AST) -> bool:
    """Whether a statement has no behaviour: a docstring, a list of names, or what a type checker reads."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Name) and node.targets[0].id in _NAMING
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id in _NAMING
    )


def _others(node: Any, field: str) -> Iterator[ast.AST]:
    """What one token may make of this part, which is in this field of another one."""
    match node:
        case ast.Compare(ops=operators):
            for index, operator in enumerate(operators):
                yield _with(node, ops=[*operators[:index], _OTHER[type(operator)](), *operators[index + 1 :]])
        case ast.BoolOp() | ast.BinOp() if type(node.op) in _OTHER:
            yield _with(node, op=_OTHER[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER_NAMES:
            yield _with(node, func=ast.Name(_OTHER_NAMES[name], ast.Load()))
        case ast.Name() | ast.Attribute() | ast.Call() if field == "test":
            yield ast.UnaryOp(ast.Not(), node)
        case ast.Assign(targets=[ast.Name() | ast.Tuple()]):
            pass  # what reads the name would fail
        case ast.stmt() if isinstance(node, _REMOVABLE):
            yield ast.Pass()


def _with(node: Any, **changed: Any) -> Any:
    new = copy.copy(node)
    vars(new).update(changed)
    return new


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with one mutation."""

    def __init__(self, name: str, file: str, number: int) -> None:
        super().__init__(name, str(PACKAGE / file))
        self.mutated = file, number

    def get_code(self, fullname: str) -> CodeType:
        file, number = self.mutated
        tree = ast.parse(Path(self.path).read_bytes())
        mutations(file, tree)[number].plant()
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the mutated module. All others are found as ever."""

    def __init__(self, named: str) -> None:
        file, _, number = named.partition("#")
        name = ".".join([PACKAGE.name, *Path(file).with_suffix("").parts]).removesuffix(".__init__")
        self.loader = _Loader(name, file, int(number))

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name != self.loader.name:
            return None
        return importlib.util.spec_from_file_location(name, self.loader.path, loader=self.loader)


if VARIABLE in os.environ:
    assert PACKAGE.name not in sys.modules, "lambda_lock is imported already"
    sys.meta_path.insert(0, _Finder(os.environ[VARIABLE]))
