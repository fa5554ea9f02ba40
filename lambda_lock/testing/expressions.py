"""Evaluates the expressions in requests, for the in-memory table. Each text is parsed once, into closures.

An expression that DynamoDB refuses raises ServiceError("ValidationException"). That includes unused placeholders. An
expression that DynamoDB accepts but this parser does not support (ADD, SET of an element of a list, size() of a set)
raises NotImplementedError: the parser never guesses.

The rules of evaluation are those of the DynamoDB Developer Guide ("Condition and filter expressions", "Update
expressions"). A comparison with an absent attribute is false, and so is one between two types. For ``<>`` both are
true. Every operand of an update sees the item as it was before the update.
"""

from __future__ import annotations

import operator
import re
from decimal import Decimal

from ..core.outcome import ServiceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..core.outcome import Item

    Value: TypeAlias = dict[str, Any]
    Names: TypeAlias = dict[str, str]
    #: The values of operands and conditions, for an item and the request's names and values.
    Operand: TypeAlias = Callable[[Item, Names, Item], Value | None]
    Condition: TypeAlias = Callable[[Item, Names, Item], bool]
    #: Where in an item: an attribute's placeholder or name, and on to a part of its map (a placeholder or name) or of
    #: its list (an index).
    Path: TypeAlias = tuple[str | int, ...]
    #: One change in an update: where, and the new value. None removes what is there.
    Change: TypeAlias = tuple[Path, Operand | None]


def invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)


class Expression:
    """A parsed expression: its closures and the placeholders that it uses."""

    __slots__ = ("evaluate", "names", "values")

    def __init__(self, evaluate: Any, names: set[str], values: set[str]) -> None:
        self.evaluate = evaluate
        self.names = names
        self.values = values


class Cache:
    __slots__ = ("expressions", "parse")

    def __init__(self, parse: Callable[[_Parser], Any]) -> None:
        self.parse = parse
        self.expressions: dict[str, Expression] = {}


def parsed(cache: Cache, text: str | None) -> Expression | None:
    if text is None:
        return None
    known = cache.expressions.get(text)
    if known is None:
        parser = _Parser(text)
        known = Expression(cache.parse(parser), parser.names, parser.values)
        cache.expressions[text] = known
    return known


def check_placeholders(condition: Expression | None, update: Expression | None, names: Names, values: Item) -> None:
    if condition is not None and update is not None:
        used_names, used_values = condition.names | update.names, condition.values | update.values
    else:
        one = condition or update
        used_names, used_values = (one.names, one.values) if one is not None else (set(), set())
    if names.keys() != used_names:
        raise invalid(f"the names defined and the names used differ: {sorted(names.keys() ^ used_names)}")
    if values.keys() != used_values:
        raise invalid(f"the values defined and the values used differ: {sorted(values.keys() ^ used_values)}")


_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_0-9]+)|(<>|<=|>=|[=<>(),+\-\[\].]))")
_FUNCTIONS = ("attribute_exists", "attribute_not_exists", "begins_with", "contains")
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class _Parser:
    """A recursive-descent parser for the text of one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens(text)
        self.at = 0
        self.names: set[str] = set()
        self.values: set[str] = set()

    @staticmethod
    def _tokens(text: str) -> list[str]:
        tokens, at, text = [], 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise NotImplementedError(f"{text[at:].strip()[:20]!r} in the expression {text!r}")
            tokens.append(match.group(1) or match.group(2))
            at = match.end()
        return tokens

    # -- tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, *words: str) -> str:
        """Take the next token if it is one of these words, in upper or lower case. Otherwise return ""."""
        word = self.peek().upper()
        if word not in words:
            return ""
        self.at += 1
        return word

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise invalid(f"expected {token!r} at token {self.at} of {self.text!r}")

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise invalid(f"unexpected {self.peek()!r} in {self.text!r}")

    # -- operands

    def path(self) -> Path:
        """Take a document path: ``#name`` or a bare name, and on into maps (``.#name``) and lists (``[0]``)."""
        path: list[str | int] = [self.name()]
        while self.peek() in (".", "["):
            if self.take() == ".":
                path.append(self.name())
                continue
            number = self.take()
            if not number.isdigit():
                raise invalid(f"expected an index, not {number!r}, in {self.text!r}")
            self.expect("]")
            path.append(int(number))
        return tuple(path)

    def name(self) -> str:
        token = self.take()
        if not token or not (token[0] == "#" or token[0].isalpha() or token[0] == "_"):
            raise invalid(f"expected an attribute, not {token!r}, in {self.text!r}")
        if token[0] == "#":
            self.names.add(token)
        return token

    def operand(self) -> Operand:
        if self.peek() == "size" and self.tokens[self.at + 1 : self.at + 2] == ["("]:
            self.at += 2
            size = _size(_at(self.path()))
            self.expect(")")
            return size
        if not self.peek().startswith(":"):
            return _at(self.path())
        value = self.take()
        self.values.add(value)
        return lambda item, names, values: values.get(value)

    # -- conditions

    def condition(self) -> Condition:
        condition = self.either()
        self.end()
        return condition

    def either(self) -> Condition:
        parts = [self.every()]
        while self.accept("OR"):
            parts.append(self.every())
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def every(self) -> Condition:
        parts = [self.negated()]
        while self.accept("AND"):
            parts.append(self.negated())
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def negated(self) -> Condition:
        if not self.accept("NOT"):
            return self.single()
        inner = self.negated()
        return lambda item, names, values: not inner(item, names, values)

    def single(self) -> Condition:
        if self.accept("("):
            inner = self.either()
            self.expect(")")
            return inner
        if self.tokens[self.at + 1 : self.at + 2] == ["("] and self.peek() != "size":
            return self.function(self.take())
        left = self.operand()
        if self.accept("IN"):
            return self.among(left)
        comparator = self.take()
        if comparator == "=":
            return _equals(left, self.operand())
        if comparator == "<>":
            equal = _equals(left, self.operand())
            return lambda item, names, values: not equal(item, names, values)
        if comparator not in _ORDER:
            raise NotImplementedError(f"{comparator!r} in the condition {self.text!r}")
        return _ordered(left, self.operand(), _ORDER[comparator])

    def function(self, name: str) -> Condition:
        if name not in _FUNCTIONS:
            raise NotImplementedError(f"{name}() in the condition {self.text!r}")
        self.expect("(")
        attribute = _at(self.path())
        if name == "begins_with":
            self.expect(",")
            condition = _begins_with(attribute, self.operand())
        elif name == "contains":
            self.expect(",")
            condition = _contains(attribute, self.operand())
        elif name == "attribute_exists":
            condition = _exists(attribute)
        else:
            condition = _is_absent(attribute)
        self.expect(")")
        return condition

    def among(self, left: Operand) -> Condition:
        self.expect("(")
        parts = [_equals(left, self.operand())]
        while self.accept(","):
            parts.append(_equals(left, self.operand()))
        self.expect(")")
        return _any_of(parts)

    # -- updates

    def update(self) -> list[Change]:
        changes: list[Change] = []
        clauses = set()
        while self.peek():
            clause = self.accept("SET", "REMOVE")
            if not clause:
                raise NotImplementedError(f"{self.peek()!r} in the update {self.text!r}")
            if clause in clauses:
                raise invalid(f"{clause} occurs twice in {self.text!r}")
            clauses.add(clause)
            changes.append(self.change(clause))
            while self.accept(","):
                changes.append(self.change(clause))
        return changes

    def change(self, clause: str) -> Change:
        path = self.path()
        if clause == "REMOVE":
            return path, None
        if isinstance(path[-1], int):
            raise NotImplementedError(f"SET of an element in the update {self.text!r}")
        self.expect("=")
        left = self.term()
        sign = self.accept("+", "-")
        return path, _sum(left, self.term(), -1 if sign == "-" else 1) if sign else left

    def term(self) -> Operand:
        if self.tokens[self.at + 1 : self.at + 2] != ["("]:
            return self.operand()
        name = self.take()
        if name not in ("if_not_exists", "list_append"):
            raise NotImplementedError(f"{name}() in the update {self.text!r}")
        self.expect("(")
        if name == "list_append":
            first = self.term()
            self.expect(",")
            second = self.term()
            self.expect(")")
            return _appended(first, second)
        attribute = _at(self.path())
        self.expect(",")
        otherwise = self.term()
        self.expect(")")
        return lambda item, names, values: attribute(item, names, values) or otherwise(item, names, values)


CONDITIONS = Cache(_Parser.condition)
UPDATES = Cache(_Parser.update)


# -- closures ---------------------------------------------------------------------------------------------------------


def _at(path: Path) -> Operand:
    """The value at a path. None if there is none, also if the path leads through what is not a map or list."""
    first, rest = path[0], path[1:]
    assert isinstance(first, str)
    attribute = _attribute(first)
    if not rest:
        return attribute

    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        value = attribute(item, names, values)
        for step in rest:
            if value is None:
                return None
            value = _part(value, step, names)
        return value

    return evaluate


def _attribute(name: str) -> Operand:
    if name[0] == "#":
        return lambda item, names, values: item.get(names[name])
    return lambda item, names, values: item.get(name)


def _part(value: Value, step: str | int, names: Names) -> Value | None:
    """A part of a map or list. None if there is none."""
    if isinstance(step, int):
        elements = value.get("L", ())
        return elements[step] if step < len(elements) else None
    found: Value | None = value.get("M", {}).get(named(step, names))
    return found


def named(step: str, names: Names) -> str:
    """The name that a placeholder stands for, or the name itself."""
    return names[step] if step[0] == "#" else step


def _size(attribute: Operand) -> Operand:
    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        value = attribute(item, names, values)
        if value is None:
            return None
        kind, content = next(iter(value.items()))
        if kind in ("N", "BOOL", "NULL"):
            return None  # has no size: the comparison is false
        if kind not in ("L", "S", "M"):
            raise NotImplementedError(f"size() of {value}")
        return {"N": str(len(content.encode() if kind == "S" else content))}

    return evaluate


def _appended(left: Operand, right: Operand) -> Operand:
    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return None
        if "L" not in one or "L" not in other:
            raise invalid(f"an operand of list_append is not a list: {one}, {other}")
        return {"L": [*one["L"], *other["L"]]}

    return evaluate


def _any_of(parts: list[Condition]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        for part in parts:  # noqa: SIM110 - any() with a generator costs twice as much
            if part(item, names, values):
                return True
        return False

    return evaluate


def _all_of(parts: list[Condition]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        for part in parts:  # noqa: SIM110 - as above
            if not part(item, names, values):
                return False
        return True

    return evaluate


def _exists(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is not None


def _is_absent(attribute: Operand) -> Condition:
    return lambda item, names, values: attribute(item, names, values) is None


def _equals(left: Operand, right: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return False
        return one == other or ("N" in one and "N" in other and number(one) == number(other))

    return evaluate


def _ordered(left: Operand, right: Operand, compare: Callable[[Any, Any], bool]) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None or one.keys() != other.keys():
            return False
        if "N" in one:
            return compare(number(one), number(other))
        if "S" not in one:
            raise NotImplementedError(f"ordering {one} and {other}")
        return compare(one["S"].encode(), other["S"].encode())

    return evaluate


def _begins_with(attribute: Operand, prefix: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        whole, start = attribute(item, names, values), prefix(item, names, values)
        if start is None or "S" not in start:
            raise NotImplementedError(f"begins_with({start})")
        return whole is not None and "S" in whole and str(whole["S"]).startswith(start["S"])

    return evaluate


def _contains(attribute: Operand, operand: Operand) -> Condition:
    def evaluate(item: Item, names: Names, values: Item) -> bool:
        whole, part = attribute(item, names, values), operand(item, names, values)
        if whole is None or part is None:
            return False
        if "L" in whole:
            return part in whole["L"]
        if "S" in whole and "S" in part:
            return part["S"] in whole["S"]
        if whole.keys() & {"S", "N", "BOOL", "NULL"}:
            return False
        raise NotImplementedError(f"contains({whole}, {part})")

    return evaluate


def _sum(left: Operand, right: Operand, sign: int) -> Operand:
    def evaluate(item: Item, names: Names, values: Item) -> Value | None:
        one, other = left(item, names, values), right(item, names, values)
        if one is None or other is None:
            return None
        if "N" not in one or "N" not in other:
            raise invalid(f"an operand of the sum is not a number: {one}, {other}")
        return {"N": str(number(one) + sign * number(other))}

    return evaluate


def number(value: Value) -> int | Decimal:
    text: str = value["N"]
    return int(text) if text.isdigit() else Decimal(text)
