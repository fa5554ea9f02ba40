"""The public names of lambda_lock with their signatures, as text: tests/public_api.txt is what they are meant to be.

    .venv/bin/python -m tests.support.public_api     # writes that file

The text is made from the sources, not from imported modules. So it is the same on each Python, and needs neither Node
nor the SDK of durable functions.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rig.engine import ROOT

SNAPSHOT = ROOT / "tests" / "public_api.txt"
COMMAND = ".venv/bin/python -m tests.support.public_api"
PACKAGE = ROOT / "lambda_lock"
_INNER = ("batch", "cdk", "durable", "errors", "permissions", "table", "testing", "transport", "waker", "web")
_MODULES = (PACKAGE.name, *(f"{PACKAGE.name}.{name}" for name in _INNER))
_OF_USE = ("call", "enter", "exit", "aenter", "aexit", "await", "iter", "eq", "hash")  # special methods
_SPECIAL = frozenset({"__init__", "__new__", *(f"__{name}__" for name in _OF_USE)})
_MADE_BY_US = frozenset(
    {"AsyncLock", "AsyncMultiLock", "DurableLock", "InMemory", "Lock", "LockRecord", "Memory", "MultiLock"}
)
_SHOWN_DECORATORS = frozenset({"overload", "property", "classmethod", "staticmethod", "contextmanager"})
_ONLY_RAISES = "Entered"  # a base class whose methods only raise
# What makes an __init__, and the class whose __init__ it copies.
_MADE = {"init_of": ("lambda_lock.client.settings", "Settings")}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A definition: its module and its nodes. An overloaded function has several."""

    module: str
    nodes: list[ast.stmt]


def _path(module: str) -> Path:
    return PACKAGE.parent.joinpath(*module.split("."))


@functools.cache
def _names(module: str) -> dict[str, list[ast.stmt]]:
    """What a module defines or imports at its top level, also within if and try."""
    path = _path(module)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: dict[str, list[ast.stmt]] = {}
    for node in _flat(_parsed(file.read_text()).body):
        for name in _named(node):
            found.setdefault(name, []).append(node)
    return found


@functools.cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _flat([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _flat([*node.body, *node.orelse, *node.finalbody])
        else:
            yield node


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def _named(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return [target.id for target in _targets(node) if isinstance(target, ast.Name)]


def _find(module: str, name: str) -> Found | None:
    """Where a name that a module uses is defined. None if that is outside the package."""
    nodes = _names(module).get(name, [])
    imported = next((node for node in nodes if isinstance(node, ast.ImportFrom)), None)
    if imported is None:
        return Found(module, nodes) if nodes else None
    if not imported.level:
        return None
    package = module if _path(module).is_dir() else module.rpartition(".")[0]
    source = importlib.util.resolve_name("." * imported.level + (imported.module or ""), package)
    (original,) = (alias.name for alias in imported.names if name == (alias.asname or alias.name))
    inner = f"{source}.{original}"
    return Found(inner, []) if _path(inner).with_suffix(".py").is_file() else _find(source, original)


def _public(module: str) -> list[str]:
    names = _names(module)
    imported = {name for name, nodes in names.items() if all(isinstance(node, ast.ImportFrom) for node in nodes)}
    if "__all__" not in names:
        return sorted(name for name in names.keys() - imported if name[0] != "_" and name != "TYPE_CHECKING")
    (listed,) = names["__all__"]
    assert isinstance(listed, ast.Assign)
    imports = [node for nodes in names.values() for node in nodes if isinstance(node, ast.ImportFrom)]
    again = {alias.name for node in imports for alias in node.names if alias.name == alias.asname}  # not in __all__
    return sorted({*ast.literal_eval(listed.value), *again} - {"__version__"})


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._options: dict[str, Found] = {}
        self._returned: dict[str, Found] = {}
        self._homes = {
            (found.module, name): module
            for module in reversed(_MODULES)  # so that the package's own name comes last, and counts
            for name in _public(module)
            if (found := _find(module, name))
        }

    def write(self) -> str:
        for module in _MODULES:
            self.lines += ["", f"[{module}]"]
            for name in _public(module):
                self._name(module, name)
        for title, noted in (("what public functions return", self._returned), ("what ** takes", self._options)):
            self.lines += ["", f"[{title}]"]
            written: set[str] = set()
            while left := sorted(noted.keys() - written):
                for name in left:
                    self._class(name, noted[name])
                written.update(left)
        return "\n".join(self.lines[1:]) + "\n"

    def _name(self, module: str, name: str) -> None:
        found = _find(module, name)
        assert found is not None, f"{module}: {name} is not defined in {PACKAGE.name}"
        home = self._homes[found.module, name]
        if home != module:
            self.lines.append(f"{name} is that of {home}")
        elif isinstance(found.nodes[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(found, "")
        else:
            self._class(name, found)

    def _class(self, name: str, found: Found) -> None:
        node = found.nodes[0]
        if not isinstance(node, ast.ClassDef):
            self.lines.append(ast.unparse(node))
            return
        bases = [ast.unparse(base) for base in [*node.bases, *node.keywords]]
        self.lines.append(f"class {name}" + (f"({', '.join(bases)})" if bases else ""))
        members = self._members(found)
        for member in sorted(members):
            if member != "__init__" or name not in _MADE_BY_US:
                self._member(member, members[member])

    def _members(self, found: Found) -> dict[str, Found]:
        """The public members of a class, with those of its private bases."""
        members: dict[str, Found] = {}
        node = found.nodes[0]
        assert isinstance(node, ast.ClassDef)
        for base in node.bases:
            inherited = _find(found.module, base.id) if isinstance(base, ast.Name) else None
            if isinstance(base, ast.Name) and base.id == _ONLY_RAISES:
                continue
            is_class = inherited and inherited.nodes and isinstance(inherited.nodes[0], ast.ClassDef)
            if inherited and is_class and (inherited.module, ast.unparse(base)) not in self._homes:
                members |= self._members(inherited)
        own: dict[str, list[ast.stmt]] = {}
        for part in _flat(node.body):
            for name in _named(part):
                if name[0] != "_" or name in _SPECIAL:
                    own.setdefault(name, []).append(part)
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                for name, written in _attributes(part):
                    own.setdefault(name, [written])
        return members | {name: Found(found.module, nodes) for name, nodes in own.items()}

    def _member(self, name: str, found: Found) -> None:
        node = found.nodes[0]
        maker = node.value.func if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(found, "    ")
        elif isinstance(maker, ast.Name) and maker.id in _MADE:
            module, original = _MADE[maker.id]
            self._member(name, self._members(Found(module, _names(module)[original]))[name])
        else:
            self.lines.append(f"    {ast.unparse(node)}")

    def _function(self, found: Found, indent: str) -> None:
        functions = [node for node in found.nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        overloads = [one for one in functions if "overload" in map(ast.unparse, one.decorator_list)]
        # The implementation of an overloaded function has the defaults.
        for one in [*overloads, *[one for one in functions if one not in overloads][:1]]:
            shown = [
                f"@{text} " for text in map(ast.unparse, one.decorator_list) if text.split(".")[-1] in _SHOWN_DECORATORS
            ]
            kind = "async def" if isinstance(one, ast.AsyncFunctionDef) else "def"
            returns = f" -> {ast.unparse(one.returns)}" if one.returns else ""
            arguments = ast.unparse(self._with_values(one.args, found.module))
            self.lines.append(f"{indent}{''.join(shown)}{kind} {one.name}({arguments}){returns}")
            self._note_options(one.args.kwarg, found.module)
            self._note_returned(one.returns, found.module)

    def _with_values(self, arguments: ast.arguments, module: str) -> ast.arguments:
        """The arguments with the values of named constants as defaults, because a changed value changes the default."""
        arguments = ast.parse(f"def f({ast.unparse(arguments)}): ...").body[0].args  # type: ignore[attr-defined]  # a copy
        arguments.defaults = [_value(default, module) for default in arguments.defaults]
        arguments.kw_defaults = [default and _value(default, module) for default in arguments.kw_defaults]
        return arguments

    def _note_options(self, argument: ast.arg | None, module: str) -> None:
        annotation = argument.annotation if argument else None
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Unpack":
            name = ast.unparse(annotation.slice)
            options = _find(module, name)
            assert options is not None
            self._options[name] = options

    def _note_returned(self, annotation: ast.expr | None, module: str) -> None:
        for node in ast.walk(annotation) if annotation else ():
            found = _find(module, node.id) if isinstance(node, ast.Name) else None
            is_type = found and found.nodes and isinstance(found.nodes[0], (ast.ClassDef, ast.AnnAssign))  # no TypeVar
            if isinstance(node, ast.Name) and found and is_type and (found.module, node.id) not in self._homes:
                self._returned[node.id] = found


def _attributes(init: ast.FunctionDef) -> Iterator[tuple[str, ast.stmt]]:
    """The public attributes that an __init__ sets."""
    for node in ast.walk(init):
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" and target.attr[0] != "_":
                typed = f"{target.attr}: {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else None
                yield target.attr, ast.parse(typed or f"self.{target.attr}").body[0]


def _value(default: ast.expr, module: str) -> ast.expr:
    found = None
    if isinstance(default, ast.Name):
        found = _find(module, default.id)
    elif isinstance(default, ast.Attribute) and isinstance(default.value, ast.Name):
        holder = _find(module, default.value.id)
        found = _find(holder.module, default.attr) if holder and not holder.nodes else None
    node = found.nodes[0] if found and found.nodes else None
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return default
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return default  # it has no value that can be written, such as a schema
    return node.value


def public_api() -> str:
    """Each public name on a line of its own, and below a class its public members."""
    _names.cache_clear()
    return _Writer().write().replace('"', "'")  # which quotes ast.unparse writes, depends on the Python


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api())
    print(SNAPSHOT.relative_to(ROOT))
